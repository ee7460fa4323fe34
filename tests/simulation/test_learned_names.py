"""A learned likelihood in a model, where it knows names: see `tests/test_labelled_rows.py` for arrays."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_kbr as pk
from tests.models import AS_WRITTEN

pytestmark = pytest.mark.versions

POINT = {name: np.array(value) for name, value in zip("abcd", [0.5, 0.3, 0.5, 0.3], strict=True)}
X = [0.4, 1.1]


def fitted(*names, statistics=("s", "t"), seed=1):
    """To data frames whose columns have these names."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(120, len(names)))
    # No two parameters are alike, and no two statistics.
    slopes = np.arange(1, 1 + len(names) * len(statistics)).reshape(len(names), -1) ** 2
    x = theta @ slopes / 5 + 0.3 * rng.normal(size=(120, len(statistics)))
    frames = pd.DataFrame(theta, columns=list(names)), pd.DataFrame(x, columns=list(statistics))
    return pk.KernelLikelihood("location_scale", 50).fit(*frames, random_seed=1)


@pytest.fixture(scope="module")
def likelihood():
    return fitted("a", "b")


def density(likelihood, make, observed=X, **kwargs):
    """Of what is made of the variables a, b, c and d, in this order of their values."""
    with pm.Model() as model:
        variables = [pm.Normal(name) for name in "abcd"]
        pk.LearnedSimulator("y", likelihood, *make(*variables), observed=observed, **kwargs)
    return model.compile_logp([model["y"]], mode=AS_WRITTEN)(POINT)


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b, c, d: (c, b),
        lambda a, b, c, d: (0.5, b + 0),
        lambda a, b, c, d: (pm.math.stack([a, b]),),
        lambda a, b, c, d: ({"b": d, "a": c},),
        lambda a, b, c, d: ({"b": pm.math.exp(pm.math.log(b)), "a": 0.5},),
    ],
)
def test_variables_in_their_places_and_of_other_names_are_taken(likelihood, make):
    expected = likelihood.log_likelihood([[0.5, 0.3]], X)[0]
    assert density(likelihood, make) == pytest.approx(expected)


def test_a_dict_may_give_a_name_to_another_variable(likelihood):
    expected = likelihood.log_likelihood([[0.3, 0.5]], X)[0]
    assert density(likelihood, lambda a, b, c, d: ({"a": b, "b": a},)) == pytest.approx(expected)
    assert density(likelihood, lambda a, b, c, d: (b + 0, a + 0)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda a, b, c, d: (b, a), r"\['b', 'a'\] in this order; those of its likelihood are \['a', 'b'\]"),
        (lambda a, b, c, d: (c, a), "'a' stands in another place.*a dict by the likelihood's names"),
        (lambda a, b, c, d: ({"a": a, "z": b},), r"\['a', 'z'\]; the likelihood has \['a', 'b'\]"),
        (lambda a, b, c, d: ({"a": a},), r"by the names \['a'\]; the likelihood has"),
    ],
)
def test_a_name_of_the_likelihoods_in_another_place_is_refused(likelihood, make, words):
    with pytest.raises(ValueError, match=words):
        density(likelihood, make)


def test_names_of_a_surrounding_model_are_no_part_of_a_variables_own(likelihood):
    with pm.Model(), pm.Model(name="inner"):
        a, b = pm.Normal("a"), pm.Normal("b")
        with pytest.raises(ValueError, match="stands in another place"):
            pk.LearnedSimulator("y", likelihood, b, a, observed=X)
        pk.LearnedSimulator("z", likelihood, a, b, observed=X)


def test_the_entries_of_a_vector_go_by_the_name_of_the_vector_or_by_their_own():
    likelihood = fitted("t[0]", "t[1]", "m")
    expected = likelihood.log_likelihood([[0.1, 0.2, 0.3]], X)[0]
    given = [
        lambda t, m: (t, m),
        lambda t, m: ({"m": m, "t": t},),
        lambda t, m: ({"t[1]": t[1], "m": m, "t[0]": t[0]},),
    ]
    for make in given:
        with pm.Model() as model:
            t, m = pm.Normal("t", shape=2), pm.Normal("m")
            pk.LearnedSimulator("y", likelihood, *make(t, m), observed=X)
        logp = model.compile_logp([model["y"]], mode=AS_WRITTEN)
        assert logp({"t": np.array([0.1, 0.2]), "m": np.array(0.3)}) == pytest.approx(expected)
    with pm.Model():
        t, m = pm.Normal("t", shape=2), pm.Normal("m")
        with pytest.raises(ValueError, match="'m' stands in another place"):
            pk.LearnedSimulator("y", likelihood, m, t, observed=X)
        with pytest.raises(ValueError, match=r"named \['t', 'm'\] are \[1, 2\] columns.*are \[2, 1\]"):
            pk.LearnedSimulator("y", likelihood, {"t": m, "m": t}, observed=X)


def test_labelled_observations_are_put_in_order(likelihood):
    plain = density(likelihood, lambda a, b, c, d: (a, b))
    series = pd.Series({"t": X[1], "s": X[0]})
    assert density(likelihood, lambda a, b, c, d: (a, b), series) == pytest.approx(plain)
    frame = pd.DataFrame({"t": [X[1], 0.2], "s": [X[0], 0.1]})
    found = density(likelihood, lambda a, b, c, d: (a, b), frame)
    expected = likelihood.log_likelihood([[0.5, 0.3]], [X, [0.1, 0.2]])[0]
    assert found == pytest.approx(expected)
    for wrong in (series.rename({"s": "u"}), frame.rename(columns={"s": "u"})):
        with pytest.raises(ValueError, match=r"lacks \['s'\] and has the unknown \['u'\]"):
            density(likelihood, lambda a, b, c, d: (a, b), wrong)


def test_labels_of_numbers_are_those_of_observations_where_there_is_one_statistic():
    likelihood = fitted("a", statistics=("s",))
    days = pd.Series([0.3, 0.1], index=["Mon", "Tue"])
    expected = likelihood.log_likelihood([[0.5]], [[0.3], [0.1]])[0]
    assert density(likelihood, lambda a, b, c, d: (a,), days) == pytest.approx(expected)
    frame = pd.DataFrame({"s": days})
    assert density(likelihood, lambda a, b, c, d: (a,), frame) == pytest.approx(expected)
