import pandas as pd

from case_studies.unchanged import compared


def test_only_figures_beyond_chance_are_said_to_have_changed():
    then = pd.DataFrame(
        {
            "estimator": ["a", "b"],
            "n": [10, 10],
            "error": [1.0, 2.0],
            "standard_error": [0.0, 0.1],
            "seconds": 1.0,
        }
    )
    now = then.assign(error=[1.02, 2.15], seconds=9.0)
    found = compared(then, now.iloc[::-1], within=0.005).set_index("line")
    assert list(found["column"]) == ["error", "error"]
    assert not found.loc[[("a", 10)], "same"].any()
    assert found.loc[[("b", 10)], "same"].all()
    assert compared(then, then, within=0.0)["same"].all()
