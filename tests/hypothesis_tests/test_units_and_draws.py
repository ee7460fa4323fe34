"""Units, the least rows of a block, draws of a power curve, a drawn witness, and what tells little."""

import numpy as np
import pytest

from pymc_kbr.hypothesis_tests import hsic_test, mmd_test, witness
from pymc_kbr.hypothesis_tests.witness import Witness
from pymc_kbr.kernels import Gaussian, Linear, Matern


@pytest.mark.versions
def test_a_witness_is_drawn_over_its_own_points_with_its_interval():
    pytest.importorskip("matplotlib").use("agg")
    at = np.array([[2.0], [-1.0], [0.5]])
    found = Witness(at, np.array([0.3, -0.2, 0.1]), at[:, 0] - 1, at[:, 0] + 1, np.ones(1))
    ax = found.plot()
    line, zero = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), [-1.0, 0.5, 2.0])
    np.testing.assert_array_equal(line.get_ydata(), [-0.2, 0.1, 0.3])
    np.testing.assert_array_equal(zero.get_ydata(), [0, 0])
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    for point in at[:, 0]:
        ends = corners[corners[:, 0] == point, 1]
        assert (ends.min(), ends.max()) == (point - 1, point + 1)
    both = np.hstack([at, -at])
    plane = Witness(both, found.mean, np.array([0.1, -1.0, -1.0]), np.array([1.0, -0.1, 1.0]), np.ones(2))
    (points,) = plane.plot().collections
    np.testing.assert_array_equal(points.get_offsets(), both)
    np.testing.assert_array_equal(points.get_array(), found.mean)
    assert list(points.get_sizes() > 10) == [True, True, False]
    assert points.get_clim() == (-0.3, 0.3)


def rare(rows, events):
    """Zeros, and ones in so few rows that evenly spread ones hold none."""
    x = np.zeros(rows)
    x[1 : 1 + events] = 1 + np.arange(events)
    return x


@pytest.mark.parametrize("bandwidth", ["bayesian", "aggregated"])
def test_samples_nearly_all_of_whose_rows_coincide(bandwidth, rng):
    options = {"bandwidth": bandwidth, "permutations": 19, "random_seed": 1}
    x, y = rare(3000, 3), rng.normal(size=3000)
    assert 0 < mmd_test(x, x[::-1], **options).pvalue <= 1
    assert 0 < hsic_test(x, y, form="random_features", **options).pvalue <= 1


@pytest.mark.parametrize("test", [mmd_test, hsic_test])
def test_units_in_which_squares_are_no_floats_are_refused(test, rng):
    x, y = rng.normal(size=(2, 30))
    for unit, words in ((1e150, "larger units"), (1e-200, "squares of their distances are no floats")):
        for bandwidth in ("median", "bayesian", "aggregated"):
            with pytest.raises(ValueError, match=words):
                test(unit * x, unit * y, bandwidth=bandwidth, random_seed=1)


@pytest.mark.parametrize("test", [mmd_test, hsic_test])
@pytest.mark.parametrize("form", ["exact", "random_features"])
@pytest.mark.parametrize("bandwidth", [1e-20, 1e20])
def test_kernels_that_tell_nothing_have_no_gamma_distribution(test, form, bandwidth, rng):
    x, y = rng.normal(size=(2, 30))
    options = {"bandwidth": bandwidth, "statistic": "biased", "form": form}
    if form == "exact" or bandwidth > 1:  # random features of a narrow kernel are random, and not constant
        with pytest.raises(ValueError, match="no gamma distribution approximates them"):
            test(x, y, null="gamma", **options)
    if form == "exact":
        assert test(x, y, permutations=9, random_seed=1, **options).pvalue == 1.0


@pytest.mark.parametrize("test", [mmd_test, hsic_test])
def test_random_features_of_a_sum_are_those_of_its_parts(test, rng):
    x, y = rng.normal(size=(2, 60, 2)) + 1e9
    kernel = Gaussian(1.0) + Matern(1.5, 2.0)
    exact = test(x, y, kernel=kernel, statistic="biased", permutations=1, random_seed=1).statistic
    options = {"form": "random_features", "statistic": "biased", "permutations": 1}
    found = [test(x, y, kernel=kernel, features=400, random_seed=s, **options).statistic for s in range(20)]
    # Each is an average over frequencies; the mean of 20 is within five of its standard errors. HSIC's is a
    # product of two independent ones.
    assert abs(np.mean(found) - exact) < 5 * np.std(found, ddof=1) / np.sqrt(20)
    with pytest.raises(ValueError, match=r"those of Linear\(constant=0.0\) are not known"):
        test(x, y, kernel=Linear(), form="random_features")


@pytest.mark.versions
def test_columns_of_frames_are_those_of_their_names(rng):
    pd = pytest.importorskip("pandas")
    x, y = rng.normal(size=(2, 20, 3)) * [1.0, 5.0, 20.0]
    frame, names = pd.DataFrame(x, columns=["a", "b", "c"]), ["c", "b", "a"]
    wanted = witness(x, y, x[:4], lengthscale=(1.0, 5.0, 20.0)).mean
    other = pd.DataFrame(y, columns=list("abc"))[names]
    found = witness(frame, other, frame[:4][names], lengthscale=(1.0, 5.0, 20.0)).mean
    np.testing.assert_allclose(found, wanted)
    with pytest.raises(ValueError, match=r"\['a', 'b', 'c'\] in x and \['a'\] in the points at"):
        witness(frame, other, frame[["a"]], lengthscale=1.0)
    with pytest.raises(
        ValueError, match=r"are \[0, 1, 2\] in x and \['0', '1', '2'\] in y; give both the same names"
    ):
        mmd_test(pd.DataFrame(x), pd.DataFrame(y, columns=list("012")))
