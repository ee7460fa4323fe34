"""What a choice, a calibration and a choice among models say, after a file as before it."""

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(300, 2))
    x = theta + 0.5 * rng.normal(size=(300, 2))
    frame = pd.DataFrame(np.hstack([theta, x]), columns=["a", "b", "s", "t"])
    return pk.ReferenceTable.from_dataframe(frame, parameters=["a", "b"], statistics=["s", "t"])


def test_a_chosen_estimator_with_its_choice(table, tmp_path):
    chosen = pk.select(table, candidates=["rejection", "adjusted"], work=1, random_seed=1, progressbar=False)
    loaded = pk.load(pk.save(chosen, tmp_path / "chosen.npz"))
    np.testing.assert_array_equal(
        loaded.condition([0.3, 0.4]).draw(50, 1), chosen.condition([0.3, 0.4]).draw(50, 1)
    )
    assert loaded.selection_.table() == chosen.selection_.table()
    alone = pk.load(pk.save(chosen.selection_, tmp_path / "selection.npz"))
    assert repr(alone) == repr(chosen.selection_)


@pytest.mark.parametrize("kind", [pk.ConditionalMean, pk.KernelDensity])
def test_gaps_after_a_file_as_before_it(kind, table, tmp_path):
    """The fit to what is there does not see how arrays lay in memory, which no file keeps."""
    fitted = kind().fit(table, random_seed=1)
    loaded = pk.load(pk.save(fitted, tmp_path / "fitted.npz"))
    gaps = [np.nan, 0.4]
    np.testing.assert_array_equal(loaded.condition(gaps).draw(50, 1), fitted.condition(gaps).draw(50, 1))


def test_a_calibration(table, tmp_path):
    found = pk.calibrate("rejection", table, rows=60, random_seed=1, progressbar=False)
    loaded = pk.load(pk.save(found, tmp_path / "calibration.npz"))
    assert loaded.summary() == found.summary()
    assert loaded.joint_summary() == found.joint_summary()
    np.testing.assert_array_equal(loaded.recovery.quantiles, found.recovery.quantiles)


def test_a_choice_among_models(table, tmp_path):
    other = pk.ReferenceTable.from_dataframe(
        table.to_dataframe() * [1, 1, 1.5, 1.5], parameters=["a", "b"], statistics=["s", "t"]
    )
    tables = {"one": table, "two": other}
    found = pk.compare_models(tables, [[0.1, 0.2]], method="logistic", random_seed=1)
    loaded = pk.load(pk.save(found, tmp_path / "choice.npz"))
    pd.testing.assert_frame_equal(loaded.probabilities, found.probabilities)
    pd.testing.assert_frame_equal(loaded.confusion, found.confusion)
    moved = {"one": 0.2, "two": 0.8}
    pd.testing.assert_frame_equal(
        loaded.with_prior(moved).probabilities, found.with_prior(moved).probabilities
    )
