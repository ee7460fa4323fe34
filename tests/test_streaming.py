"""Tables that are read a part at a time give what tables in memory give."""

import warnings

import dask.array
import h5py
import numpy as np
import pytest
import zarr
from sklearn.base import clone

import pymc_kbr as pk
from pymc_kbr.arrays.chunks import Chunks
from pymc_kbr.arrays.neighbours import Merge, neighbours_of
from pymc_kbr.estimators.estimator import scan_table
from pymc_kbr.gram import IncompleteCholesky, Nystroem, RandomFeatures, RandomlyPivotedCholesky
from pymc_kbr.kernels import Gaussian, Matern

ROWS, CHUNK = 800, 64
OBSERVED = np.array([[0.5, -1.0, 0.2], [2.0, 0.0, 0.0], [-0.3, 0.4, 9.0]])


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(ROWS, 2))
    x = theta @ np.array([[1.0, 0.0, 0.5], [0.0, 2.0, -0.5]]) + 0.5 * rng.normal(size=(ROWS, 3))
    return theta, x * [1.0, 1e3, 1e-6] + [0.0, 5.0, 1.0]


@pytest.fixture(autouse=True)
def small_blocks(set_default):
    set_default(Chunks.__init__, block_rows=300)
    set_default(Merge.query, pairs=600)


def as_zarr(array):
    return zarr.create_array(zarr.storage.MemoryStore(), data=array, chunks=(CHUNK, array.shape[1]))


def as_dask(array):
    return dask.array.from_array(array, chunks=(CHUNK, array.shape[1]))


def as_hdf5(array):
    file = h5py.File.in_memory()
    return file.create_dataset("rows", data=array, chunks=(CHUNK, array.shape[1]))


def observed(arrays):
    return OBSERVED * arrays[1].std(axis=0) + arrays[1].mean(axis=0)


STREAMED = {
    "rejection": pk.Rejection(100),
    "rejection_unscaled": pk.Rejection(0.05, kernel="epanechnikov", scale=False),
    "localised_matern": pk.Localised(80, 2.0, 1e-3, kernel="matern"),
    "nadaraya_watson_compact": pk.NadarayaWatson(7.0, kernel="epanechnikov"),
    "adjusted_localised": pk.Adjusted(pk.Localised(150), "local_linear"),
    "adjusted_spread": pk.Adjusted(pk.Rejection(0.2), "heteroscedastic_kernel_ridge"),
    "nystroem": pk.ConditionalMean(solver=Nystroem(40)),
    "leverage": pk.ConditionalMean(2.0, 1e-3, solver=Nystroem(40, "leverage")),
    "random_features": pk.ConditionalMean(2.0, 1e-3, solver=RandomFeatures(300)),
    "kbr": pk.KernelBayes(2.0, 1e-6, solver=Nystroem(40)),
    "exact": pk.ConditionalMean(2.0, 1e-3),
}


@pytest.mark.parametrize(  # Zarr below, for every estimator
    ("name", "source"), [("localised_matern", as_dask), ("nystroem", as_hdf5)]
)
def test_any_source_gives_what_arrays_give(arrays, name, source):
    compare(STREAMED[name], arrays, [source(side) for side in arrays])


@pytest.mark.parametrize("name", STREAMED)
def test_streamed_weights_are_those_of_the_table_in_memory(arrays, name):
    compare(STREAMED[name], arrays, [as_zarr(side) for side in arrays])


def compare(estimator, arrays, streamed):
    x = observed(arrays)
    here = clone(estimator).fit(*arrays, random_seed=1)
    there = clone(estimator).fit(*streamed, random_seed=1)
    expected, weights = here.weights(x), there.weights(x)
    # Scales differ by rounding, and the solution of a regularised system magnifies that.
    np.testing.assert_allclose(weights, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())
    for one, two in zip(here.condition(x), there.condition(x), strict=True):
        np.testing.assert_allclose(two.mean(), one.mean(), rtol=1e-6, atol=1e-8)
        assert two.total_weight == pytest.approx(one.total_weight, rel=1e-9)
        assert two.draw(50, 1).shape == (50, 2)


def test_a_regression_on_some_rows_moves_all(arrays, set_default):
    estimator = pk.Adjusted(pk.Rejection(200, kernel="epanechnikov"))
    x = observed(arrays)[:2]
    here = clone(estimator).fit(*arrays, random_seed=1).condition(x)
    set_default(scan_table, sampled=400)
    set_default(scan_table, for_choices=100)
    streamed = clone(estimator).fit(*map(as_zarr, arrays), random_seed=1)
    there = streamed.condition(x)
    for one, two in zip(here, there, strict=True):
        # Both regressions are on rows with noise of deviation 0.5: 400 and all of them.
        assert np.abs(one.mean() - two.mean()).max() < 4 * 0.5 * np.sqrt(3 / 400)
        np.testing.assert_allclose(two.cov(), one.cov(), rtol=4 * np.sqrt(2 / 200), atol=0.02)
    # Observations together give what they give one by one.
    np.testing.assert_allclose(streamed.condition(x[0]).atoms, there[0].atoms, rtol=1e-9)


@pytest.mark.parametrize("solver", [IncompleteCholesky(60), RandomlyPivotedCholesky(60)])
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Matern(2.0)])
def test_streamed_pivots_approximate_as_well_as_those_in_memory(arrays, solver, kernel):
    x = (arrays[1] - arrays[1].mean(axis=0)) / arrays[1].std(axis=0)
    rng = np.random.default_rng(3)
    streamed = solver.gram(kernel, Chunks(as_zarr(x)), rng, 1.0)
    assert streamed.rank == 60
    here = RandomlyPivotedCholesky(60).gram(kernel, x, rng, 1.0)
    left = ROWS - np.trace(streamed.core())
    assert -1e-8 < left < 1.3 * (ROWS - np.sum(here.features**2))
    np.testing.assert_allclose(streamed.apply(np.ones(ROWS)), kernel(x) @ np.ones(ROWS), atol=0.03 * ROWS)


@pytest.mark.parametrize("rule", ["plain", "weighted", "squared"])
def test_streamed_operators_are_those_in_memory(arrays, rule):
    x = (arrays[1] - arrays[1].mean(axis=0)) / arrays[1].std(axis=0)
    rng = np.random.default_rng(4)
    weights, b = rng.normal(size=ROWS) / ROWS, rng.normal(size=(ROWS, 2))

    def operator(points):
        gram = Nystroem(30).gram(Gaussian(1.5), points, np.random.default_rng(0), 1.0)
        gram = gram.centred(np.full(ROWS, 1 / ROWS))
        if rule == "squared":
            return gram.squared(weights, 1e-3)
        return gram.regularised(0.1, np.sqrt(np.abs(weights)) if rule == "weighted" else None)

    here, there = operator(x), operator(Chunks(as_zarr(x)))
    scale = np.abs(here.weights(x[:3])).max()
    np.testing.assert_allclose(there.weights(x[:3]), here.weights(x[:3]), atol=1e-8 * scale)
    for right in (b, b[:, 0]):
        solved = here.solve(right)
        np.testing.assert_allclose(there.solve(right), solved, atol=1e-8 * np.abs(solved).max())


def test_full_rank_is_the_exact_conditional_mean(arrays):
    theta, x = arrays[0][:200], arrays[1][:200]
    settings = {"bandwidth": 1.0, "regularisation": 1e-3}
    exact = pk.ConditionalMean(**settings, solver="exact").fit(theta, x)
    full = pk.ConditionalMean(**settings, solver=RandomlyPivotedCholesky(200, tolerance=0))
    full.fit(as_zarr(theta), as_zarr(x), random_seed=0)
    np.testing.assert_allclose(full.weights(observed(arrays)), exact.weights(observed(arrays)), atol=1e-7)


def test_ties_and_duplicates_do_not_lose_rows():
    x = np.repeat(np.arange(5.0)[:, None], 200, axis=0)
    d, rows = neighbours_of(Chunks(as_zarr(x))).query(np.array([[2.0]]), 450)
    assert len(np.unique(rows)) == 450
    np.testing.assert_array_equal(np.sort(d[0]), np.r_[np.zeros(200), np.ones(250)])


def test_what_nadaraya_watson_leaves_out_is_counted_and_warned_about(arrays, set_default):
    set_default(pk.NadarayaWatson._nearest_weights, most_atoms=400)
    streamed = [as_zarr(side) for side in arrays]
    wide = pk.NadarayaWatson(50.0).fit(*streamed)
    with pytest.warns(UserWarning, match=r"the 400 nearest rows hold all but 50\.\d% of the weight"):
        found = wide.condition(observed(arrays))
    assert found[0].settings["left_out"] == pytest.approx(1 / 2, abs=0.01)
    narrow = pk.NadarayaWatson(0.2).fit(*streamed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = narrow.condition(observed(arrays)[0])
    assert found.settings["left_out"] < 0.01


@pytest.mark.parametrize(
    ("estimator", "arguments", "error", "words"),
    [
        (
            pk.Adjusted(pk.ConditionalMean()),
            {},
            TypeError,
            r"ConditionalMean, which gives weight to all rows",
        ),
        (
            pk.Adjusted(adjustment="joint_neighbours"),
            {},
            TypeError,
            "JointNeighbours, which looks for neighbours in all rows; adjust Rejection",
        ),
        (pk.KernelDensity(), {}, TypeError, r"KernelDensity works on tables in memory"),
        (pk.Rejection(), {"ratio": np.ones(ROWS)}, ValueError, r"another prior is given.*load them"),
        (
            pk.KernelBayes(solver="nystroem", prior=np.zeros((5, 2))),
            {},
            ValueError,
            "weights of a prior need",
        ),
        (pk.ConditionalMean(solver="subsample"), {}, ValueError, "take solver='incomplete_cholesky'"),
        (pk.Localised(ROWS + 1), {}, ValueError, "neighbours is 801"),
        (pk.Rejection(), {"support": pk.Support.unbounded(3)}, ValueError, "support is one of 3 parameters"),
    ],
)
def test_what_cannot_be_streamed_is_refused_before_it_is_read(arrays, estimator, arguments, error, words):
    class Unread:
        shape, ndim = (ROWS, 2), 2

        def __getitem__(self, rows):
            raise AssertionError("read")

    streamed = [as_zarr(arrays[0]), as_zarr(arrays[1])]
    if not isinstance(estimator, pk.KernelBayes):  # its prior is looked at when settings are chosen
        streamed = [Unread(), Unread()]
    with pytest.raises(error, match=words):
        estimator.fit(*streamed, **arguments)


def test_gaps_and_shapes_in_a_streamed_table_are_refused(arrays):
    theta, x = arrays[0], arrays[1].copy()
    x[745, 1] = np.nan
    with pytest.raises(
        ValueError, match=r"1 row\(s\) of statistics hold NaN or infinity, the first of them row 745"
    ):
        pk.Rejection().fit(as_zarr(theta), as_zarr(x))
    with pytest.raises(ValueError, match="799 rows of parameters and 800 rows of statistics"):
        pk.Rejection().fit(as_zarr(theta[1:]), as_zarr(arrays[1]))
    with pytest.raises(ValueError, match=r"shape \(800,\); they must be rows"):
        pk.Rejection().fit(as_zarr(theta), dask.array.from_array(arrays[1][:, 0]))
    with pytest.warns(UserWarning, match=r"columns \[1\] are constant"):
        pk.Rejection().fit(as_zarr(theta), as_zarr(np.where([False, True, False], 3.0, arrays[1])))


def test_an_exact_solver_says_what_it_needs_before_anything_is_allocated(arrays):
    class Large:
        shape, ndim = (1_000_000, 2), 2

        def __getitem__(self, rows):
            raise AssertionError("read")

    with pytest.raises(MemoryError, match=r"1000000 rows needs 8000\.0 GB and this .* take solver="):
        pk.ConditionalMean(solver="exact").fit(Large(), Large())
    with pytest.raises(MemoryError, match=r"take solver='auto' or 'nystroem', Localised, or fewer rows"):
        pk.ConditionalMean(solver="exact").check(1_000_000)
