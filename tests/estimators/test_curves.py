"""Increasing functions of a statistic, and which of them suits it."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import rankdata

from pymc_kbr.estimators.likelihood.basis import Landmarks, make_basis
from pymc_kbr.estimators.summaries import transformed as curves
from pymc_kbr.estimators.summaries.transformed import Cells, Curve, _candidates, _density, choose_curves

KINDS = ("linear", "log", "root", "asinh")


@pytest.fixture
def theta(rng):
    return rng.normal(size=(1200, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_a_curve_increases_and_its_inverse_and_slope_are_its_own(kind):
    curve = Curve(kind, 0.3, 2.5)
    x = 0.3 + np.geomspace(0.01, 100, 40)
    y = curve.forward(x)
    assert np.all(np.diff(y) > 0)
    np.testing.assert_allclose(curve.backward(y), x)
    step = 1e-5 * (x - 0.3)
    slope = (curve.forward(x + step) - curve.forward(x - step)) / (2 * step)
    np.testing.assert_allclose(curve.log_slope(x), np.log(slope), atol=1e-6)


def test_curves_are_what_they_are_called():
    x = np.array([1.0, 3.0, 9.0])
    for kind, function in zip(KINDS, (np.copy, np.log, np.sqrt, np.arcsinh), strict=True):
        np.testing.assert_allclose(Curve(kind, -1.0, 4.0).forward(x), function((x + 1) / 4))
    # Beyond where a root begins there is none, and what lies below zero comes from its beginning.
    assert not np.isfinite(Curve("root", 2.0, 1.0).forward(x[:1]))[0]
    assert not np.isfinite(Curve("log", 1.0, 1.0).forward(x[:1]))[0]
    for kind in ("root", "log"):
        with np.errstate(all="raise"):
            slopes = Curve(kind, 2.0, 1.0).log_slope(np.array([1.0, 2.0]))
        assert not np.any(np.isfinite(slopes))
    assert Curve("root", 2.0, 1.0).backward(np.array([-0.5]))[0] == 2.0


def of_one(column, theta, cells=None):
    ((curve, _),) = choose_curves(column[:, None], theta, [cells])
    return curve.kind


def test_each_statistic_has_the_curve_of_which_it_was_made(theta, rng):
    """Normal around a mean that moves with the parameters, on the scale of one curve each."""
    y = theta[:, 0] + 0.5 * rng.normal(size=len(theta))
    near_zero = np.abs(2.0 + 0.5 * theta[:, 0] + 0.6 * rng.normal(size=len(theta)))
    x = np.column_stack([y, np.exp(y), near_zero**2, np.sinh(2 * y)])
    assert [curve.kind for curve, _ in choose_curves(x, theta, [None] * 4)] == [
        "linear",
        "log",
        "root",
        "asinh",
    ]
    far = [curve for curve, _ in choose_curves(1e6 * x, theta, [None] * 4)]
    assert [curve.kind for curve in far] == ["linear", "log", "root", "asinh"]


def test_counts_have_the_root_of_their_cells(theta, rng):
    counts = rng.poisson(np.exp(1 + theta[:, 0])).astype(float)
    cells = Cells.of(counts)
    spread = counts - 0.5 + rng.random(len(counts))
    kind = of_one(spread, theta, cells)
    assert kind == "root"


def test_a_curve_that_is_hardly_better_is_not_taken(theta, monkeypatch):
    column = np.exp(theta[:, 0])
    for gain, kind in ((0.029, "linear"), (0.031, "log")):
        found = {"linear": 1.0, "asinh": 0.9, "root": 0.5, "log": 1.0 + gain}
        monkeypatch.setattr(curves, "_density", lambda curve, *_, found=found: found[curve.kind])
        assert of_one(column, theta) == kind


def test_candidates_are_defined_on_the_whole_column(rng):
    column = rng.gamma(2, 3, size=500)
    linear, asinh, root, log = _candidates(column, None)
    lower, middle, upper = np.quantile(column, [0.16, 0.5, 0.84])
    assert linear == Curve("linear", pytest.approx(column.mean()), pytest.approx(column.std()))
    assert asinh == Curve("asinh", pytest.approx(middle), pytest.approx((upper - lower) / 2))
    assert root == Curve("root", 0.0, pytest.approx(column.std()))
    assert log == Curve("log", 0.0, pytest.approx(column.std()))
    for least in (0.0, -1.0):
        assert [c.kind for c in _candidates(np.append(column, least), None)] == ["linear", "asinh"]
    # Without a middle to its values there is nothing by which to bend the tails.
    assert [c.kind for c in _candidates(np.append(np.full(90, 2.0), column[:5]), None)] == [
        "linear",
        "root",
        "log",
    ]
    (huge,) = {c.origin for c in _candidates(1e308 * np.array([0.5, 0.9, 1.1]), None) if c.kind == "linear"}
    assert huge == pytest.approx(1e308 * (2.5 / 3))


def test_candidates_of_cells_begin_at_the_first_one(rng):
    counts = np.repeat([3.0, 4.0, 6.0, 9.0], 50)
    spread = counts - 0.5 + rng.random(200)
    of = {curve.kind: curve for curve in _candidates(spread, Cells.of(counts))}
    assert of["root"].origin == 2.5
    assert of["log"].origin == 2.0
    uneven = np.repeat([3.0, 4.0, 6.5, 9.7], 50)
    cells = Cells.of(uneven)
    spread = cells.ends(uneven)[0] + rng.random(200) * np.subtract(*cells.ends(uneven)[::-1])
    of = {curve.kind: curve for curve in _candidates(spread, cells)}
    assert of["root"].origin == 2.5  # other random shares may be nearer to it than these
    # Widths of 1, 1.75, 2.85 and 3.2.
    assert of["log"].origin == pytest.approx(2.5 - (1.75 + 2.85) / 4)


def features_of(theta):
    few = theta[:80]
    basis, features = make_basis(theta, [Landmarks(few, np.ones(few.shape))])
    return features, basis.penalties


def test_densities_are_those_of_the_statistic_in_its_own_units(theta, rng):
    """Up to the constant of the normal density: minus log of the deviation, minus a half."""
    features, penalties = features_of(ndtri(rankdata(theta, axis=0) / (len(theta) + 1)))
    deviation = 0.4
    y = theta[:, 0] + deviation * rng.normal(size=len(theta))
    found = _density(Curve("linear", 0.0, 1.0), y, features, penalties)
    # A mean of 1,200 squares has the error 0.04; the regression takes some of the noise for its own.
    assert found == pytest.approx(-np.log(deviation) - 0.5, abs=3 * np.sqrt(0.5 / len(theta)) + 0.05)
    wider = _density(Curve("linear", 0.0, 1.0), 100 * y, features, penalties)
    assert wider == pytest.approx(found - np.log(100), abs=1e-6)
    moved = _density(Curve("linear", 5.0, 3.0), y, features, penalties)
    assert moved == pytest.approx(found, abs=1e-6)
    # The same statistic through its logarithm: a density of exp(y) is that of y over exp(y).
    through = _density(Curve("log", 0.0, 1.0), np.exp(y), features, penalties)
    assert through == pytest.approx(found - y.mean(), abs=1e-6)


def test_a_spread_that_moves_with_the_parameters_is_seen(theta, rng):
    features, penalties = features_of(theta)
    noise = rng.normal(size=len(theta))
    deviation = np.exp(0.8 * theta[:, 1])
    found = _density(Curve("linear", 0.0, 1.0), deviation * noise, features, penalties)
    # One deviation for all rows would give no more than minus the log of their root mean square.
    assert found > -0.5 - np.log(np.sqrt(np.mean(deviation**2))) + 0.3
    assert found == pytest.approx(-0.5 - np.log(deviation).mean(), abs=3 * np.sqrt(0.5 / len(theta)) + 0.1)


@pytest.mark.parametrize("column", [np.zeros(1200), np.append(np.ones(1199), -1.0)])
def test_what_a_curve_does_not_reach_has_no_density(theta, column):
    features, penalties = features_of(theta)
    assert _density(Curve("log", 0.0, 1.0), column, features, penalties) == -np.inf
    assert _density(Curve("linear", 0.0, 1.0), np.full(1200, 7.0), features, penalties) == -np.inf
    # A root is there at its origin, and has no slope.
    assert _density(Curve("root", 0.0, 1.0), np.arange(1200.0), features, penalties) == -np.inf
