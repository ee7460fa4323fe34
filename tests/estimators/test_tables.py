"""Tables in memory and on the disk: the same numbers, nearest rows, and what each estimator may read."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

import pymc_kbr as pk
from pymc_kbr.arrays.chunks import Chunks
from pymc_kbr.arrays.names import Names
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.estimators import embedding
from pymc_kbr.estimators import estimator as streamed_table
from pymc_kbr.estimators.embedding import kernel_units
from pymc_kbr.estimators.estimator import StreamedTable, scan_table
from pymc_kbr.estimators.fitted_table import build_table
from pymc_kbr.gram import Nystroem
from pymc_kbr.kernels import Gaussian, Laplace, Linear

N = 160


class Source:
    """Rows that are read a slice at a time."""

    ndim = 2

    def __init__(self, rows, chunk=32):
        self._rows, self.chunks, self.shape, self.read = rows, (chunk, rows.shape[1]), rows.shape, 0

    def __getitem__(self, part):
        self.read += len(self._rows[part])
        return self._rows[part]


@pytest.fixture
def arrays(rng):
    theta = rng.normal(size=(N, 2)) * [1.0, 100.0]
    x = np.column_stack([theta[:, 0], theta[:, 1] / 50, theta[:, 0] + theta[:, 1] / 100])
    return theta, (x + 0.4 * rng.normal(size=x.shape)) * [1.0, 1e3, 1e-3] + [0, 5, 1]


@pytest.fixture(autouse=True)
def small_blocks(set_default):
    set_default(Chunks.__init__, block_rows=64)
    set_default(pk.NadarayaWatson._nearest_weights, pairs=50)


STREAMED = {
    "rejection": pk.Rejection(20, kernel="epanechnikov"),
    "unscaled": pk.Rejection(20, scale=False),
    "summary": pk.Rejection(20, scale="linear_posterior_mean"),
    "localised": pk.Localised(30),
    "laplace": pk.Localised(30, 2.0, 1e-3, kernel="laplace", centred=False),
    "nadaraya_watson": pk.NadarayaWatson(),
    "top_hat": pk.NadarayaWatson(1.3, kernel="top_hat"),
    "conditional_mean": pk.ConditionalMean(),
    "nystroem": pk.ConditionalMean(2.0, 1e-3, solver=Nystroem(25)),
    "kbr": pk.KernelBayes(2.0, solver=Nystroem(25)),
    "iw_kbr": pk.ImportanceWeightedKernelBayes(2.0, solver=Nystroem(25)),
    "parameter_bandwidth": pk.Rejection(20, parameter_bandwidth=0.7),
    "adjusted": pk.Adjusted(),
    "adjusted_signed": pk.Adjusted(pk.Localised(40, 2.0, 1e-3), "kernel_ridge"),
    "adjusted_spread": pk.Adjusted(pk.Rejection(30), "heteroscedastic_kernel_ridge"),
    "adjusted_none": pk.Adjusted(pk.NadarayaWatson(1.3, kernel="epanechnikov"), "none"),
}


@pytest.mark.parametrize("name", STREAMED)
def test_rows_on_the_disk_give_what_rows_in_memory_give(name, arrays):
    here = clone(STREAMED[name]).fit(*arrays, random_seed=1)
    there = clone(STREAMED[name]).fit(*map(Source, arrays), random_seed=1)
    observed = arrays[1][:3] * 1.001
    expected = here.weights(observed)
    np.testing.assert_allclose(there.weights(observed), expected, rtol=1e-6, atol=1e-8 * expected.max())
    together = there.condition(observed)
    for k, (one, two) in enumerate(zip(here.condition(observed), together, strict=True)):
        np.testing.assert_allclose(two.mean(), one.mean(), rtol=1e-6)
        np.testing.assert_allclose(two.cov(), one.cov(), rtol=1e-4)
        np.testing.assert_allclose(there.condition(observed[k]).mean(), one.mean(), rtol=1e-6)
        np.testing.assert_allclose(
            two.embedding.atoms.kernel.bandwidth, one.embedding.atoms.kernel.bandwidth, rtol=1e-9
        )
    for name, value in here.settings().items():
        assert there.settings()[name] == pytest.approx(value, rel=1e-6)


def test_a_regression_on_some_rows_leaves_each_of_these_out(arrays, set_default):
    theta, x = arrays
    set_default(scan_table, sampled=60)
    set_default(scan_table, for_choices=40)
    fitted = pk.Adjusted(pk.Rejection(30)).fit(*map(Source, arrays), random_seed=1)
    rows = fitted.table_.sample.numbers
    assert 60 <= len(rows) < N
    np.testing.assert_array_equal(rows, np.union1d(spread_out(N, 60), spread_out(N, 40)))
    scaler, at = Scaler.fit(x), x[5] * 1.001
    same = pk.Adjusted(pk.Rejection(1.0)).fit(theta[rows], x[rows])  # for its scale alone
    assert not np.allclose(same.table_.scaler.scale, scaler.scale)
    regression = fitted.adjustment_.mean_
    residual = theta - regression.predict(scaler.transform(x))
    residual[rows] = regression.residuals
    accepted = np.flatnonzero(fitted.weights(at))
    expected = regression.predict(scaler.transform(at[None])) + residual[accepted]
    assert 0 < np.isin(accepted, rows).sum() < 30
    found = fitted.condition(at).atoms
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(expected, axis=0), rtol=1e-6)


@pytest.mark.parametrize(
    ("estimator", "error", "words"),
    [
        (pk.KernelDensity(), TypeError, "KernelDensity works on tables in memory"),
        (pk.Adjusted(pk.KernelDensity()), TypeError, "KernelDensity, which gives weight to all rows"),
        (pk.Adjusted(pk.ConditionalMean()), TypeError, "ConditionalMean, which gives weight to all rows"),
        (pk.Adjusted(adjustment="joint_neighbours"), TypeError, "JointNeighbours, which looks for neighb"),
        (pk.ConditionalMean(solver="subsample"), ValueError, "works on tables in memory"),
        (pk.KernelBayes(prior=np.ones((3, 2))), ValueError, "leave `prior` out and `centred` on"),
        (pk.KernelBayes(centred=False), ValueError, "leave `prior` out and `centred` on"),
        (pk.KernelBayes(atoms="prior"), ValueError, "atoms"),
        (pk.Localised(20, kernel=Gaussian((1.0, 2.0, 3.0))), TypeError, "several bandwidths"),
        (pk.Rejection(N + 1), ValueError, "between 1 and the number of rows"),
    ],
)
def test_what_cannot_be_read_a_part_at_a_time_is_refused(estimator, error, words, arrays):
    with pytest.raises(error, match=words):
        estimator.fit(*map(Source, arrays))


def test_one_side_on_the_disk_is_enough_and_another_prior_is_refused(arrays):
    expected = pk.Rejection(20).fit(*arrays).weights(arrays[1][0])
    for table in ((arrays[0], Source(arrays[1])), (Source(arrays[0]), arrays[1])):
        np.testing.assert_allclose(pk.Rejection(20).fit(*table).weights(arrays[1][0]), expected)
        for given in ({"ratio": np.ones(N)}, {"prior": np.ones((3, 2))}):
            with pytest.raises(ValueError, match="load them or some of them"):
                pk.Rejection(20).fit(*table, **given)
    with pytest.raises(ValueError, match="support is one of 3"):
        pk.Rejection(20).fit(*map(Source, arrays), pk.Support.unbounded(3))
    with pytest.raises(ValueError, match="rows of parameters and"):
        pk.Rejection(20).fit(Source(arrays[0][:-1]), Source(arrays[1]))


def test_weights_that_memory_does_not_hold_are_refused(arrays, monkeypatch):
    fitted = pk.ConditionalMean(2.0, 1e-3, solver=Nystroem(25)).fit(*map(Source, arrays))
    monkeypatch.setattr(streamed_table, "physical_memory", lambda: 16 * 2 * N / 0.8)
    fitted.weights(arrays[1][:2])
    with pytest.raises(MemoryError, match="condition on fewer observations at once"):
        fitted.weights(arrays[1][:3])
    monkeypatch.setattr(embedding, "physical_memory", lambda: 8 * N**2 / 0.81)
    with pytest.raises(MemoryError, match="the Gram matrix of 160 rows"):
        pk.ConditionalMean(2.0, 1e-3).fit(*map(Source, arrays))
    pk.ConditionalMean(2.0, 1e-3, solver=Nystroem(25)).fit(*map(Source, arrays))


def test_what_is_left_out_of_many_rows_is_said(arrays, set_default):
    x = arrays[1]
    set_default(pk.NadarayaWatson._nearest_weights, most_atoms=50)
    observed = x[:2]
    whole = pk.NadarayaWatson(1.0).fit(*arrays).weights(observed)
    fitted = pk.NadarayaWatson(1.0).fit(*map(Source, arrays))
    with pytest.warns(UserWarning, match="the 50 nearest rows hold all but"):
        found = fitted.condition(observed)
    kept = np.sort(whole, axis=1)[:, -50:]
    for k in range(2):
        np.testing.assert_allclose(np.sort(found[k].weights), kept[k] / kept[k].sum())
        assert found[k].settings["left_out"] == pytest.approx(1 - kept.sum(axis=1).min())
    narrow = pk.NadarayaWatson(0.1).fit(*map(Source, arrays)).condition(observed[0])  # and no warning
    assert 0 <= narrow.settings["left_out"] < 0.01
    far = pk.NadarayaWatson(0.1, kernel="epanechnikov").fit(*map(Source, arrays))
    with pytest.raises(ValueError, match="no row of the table lies within the bandwidth"):
        far.condition(observed[0] * 100)
    gaussian = pk.NadarayaWatson(0.1).fit(*map(Source, arrays)).weights(observed[0] * 100)
    assert gaussian.sum() == pytest.approx(1)


def test_a_streamed_table_is_read_once_for_nearest_rows(arrays):
    theta, x = map(Source, arrays)
    table = StreamedTable.of(theta, x, None, True)
    assert (theta.read, x.read) == (N, N)
    assert table.streamed
    assert not pk.Rejection(5).fit(*arrays).table_.streamed
    rows = np.array([[7, 3], [3, 150]])
    for read, side in ((table.read_parameters, arrays[0]), (table.read_statistics, None)):
        points, places = read(rows)
        expected = Scaler.fit(arrays[1]).transform(arrays[1]) if side is None else side
        np.testing.assert_allclose(points[places], expected[rows], rtol=1e-9)
        assert len(points) == 3
    points, places = table.read_parameters(None)
    np.testing.assert_array_equal(points, arrays[0])
    assert places is None


# Nearest rows


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(
    "kernel", [Gaussian((0.5, 3.0, 1.0)), RBF((0.5, 3.0, 1.0)), RBF(1.5), Gaussian(1.5), Laplace(1.5)]
)
def test_localised_takes_the_rows_of_the_largest_kernel_values(kernel, centred, arrays):
    theta, x = arrays
    scaler, observed = Scaler.fit(x), x[:4] * 1.001
    scaled, at = scaler.transform(x), scaler.transform(observed)
    settings = {"kernel": kernel, "regularisation": 1e-2, "centred": centred}
    found = pk.Localised(25, **settings).fit(theta, x).weights(observed)
    for row, one in zip(found, at, strict=True):
        nearest = np.argsort(-kernel(scaled, one[None])[:, 0])[:25]
        assert set(np.flatnonzero(row)) == set(nearest.tolist())
        gram = kernel(scaled[nearest]) + 25 * 1e-2 * np.eye(25)
        solved = np.linalg.solve(gram, np.column_stack([kernel(scaled[nearest], one[None]), np.ones(25)]))
        expected = solved[:, 0]
        if centred:
            expected = expected + solved[:, 1] * (1 - expected.sum()) / solved[:, 1].sum()
        np.testing.assert_allclose(row[nearest], expected, atol=1e-9)
    whole = pk.ConditionalMean(**settings).fit(theta, x).weights(observed)
    np.testing.assert_allclose(pk.Localised(N, **settings).fit(theta, x).weights(observed), whole, atol=1e-8)


def test_units_are_those_of_kernels_with_several_bandwidths():
    assert kernel_units(Gaussian((0.5, 2.0))) == (0.5, 2.0)
    assert kernel_units(RBF((0.5, 2.0))) == (0.5, 2.0)
    for kernel in (Gaussian(2.0), RBF(2.0), Gaussian((2.0, 2.0)), Linear(), Laplace(3.0)):
        assert kernel_units(kernel) == ()


def test_localised_takes_five_hundred_rows_or_all(rng):
    theta = rng.normal(size=(520, 1))
    for rows, taken in ((520, 500), (90, 90)):
        fitted = pk.Localised(bandwidth=1.0, regularisation=1e-2).fit(theta[:rows], theta[:rows])
        assert fitted.neighbours_ == taken
        assert np.count_nonzero(fitted.weights([0.0])) == taken


def test_a_ratio_reaches_the_nearest_rows(arrays, rng):
    theta, x = arrays
    ratio, observed = rng.uniform(0.1, 3, size=N), x[:2] * 1.001
    settings = {"bandwidth": 2.0, "regularisation": 1e-2, "centred": False}
    scaler = Scaler.fit(x)
    scaled, at = scaler.transform(x), scaler.transform(observed)
    found = pk.Localised(25, **settings).fit(theta, x, ratio=ratio).weights(observed)
    for row, one in zip(found, at, strict=True):
        nearest = np.argsort(np.linalg.norm(scaled - one, axis=1))[:25]
        root = np.sqrt(ratio[nearest] / ratio[nearest].mean())
        gram = root[:, None] * Gaussian(2.0)(scaled[nearest]) * root + 25 * 1e-2 * np.eye(25)
        expected = root * np.linalg.solve(gram, root * Gaussian(2.0)(scaled[nearest], one[None])[:, 0])
        np.testing.assert_allclose(row[nearest], expected, atol=1e-10)


@pytest.mark.parametrize("kernel", ["top_hat", "epanechnikov", "gaussian"])
@pytest.mark.parametrize("accepted", [1, 20, N])
def test_accepted_rows_weigh_by_the_kernel_in_units_of_the_first_beyond(kernel, accepted, arrays, rng):
    theta, x = arrays
    ratio, observed = rng.uniform(0.1, 3, size=N), x[3] * 1.001
    scaler = Scaler.fit(x)
    distances = np.linalg.norm(scaler.transform(x) - scaler.transform(observed[None]), axis=1)
    order = np.argsort(distances)
    edge = distances[order[accepted]] if accepted < N else distances.max() * (1 + 1 / N)
    u = distances / edge
    values = {"top_hat": np.ones(N), "epanechnikov": 1 - u**2, "gaussian": np.exp(-(u**2) / 2)}[kernel]
    for given in (None, ratio):
        expected = np.where(np.isin(np.arange(N), order[:accepted]), values, 0)
        expected = expected * (1 if given is None else given)
        fitted = pk.Rejection(accepted, kernel=kernel).fit(theta, x, ratio=given)
        np.testing.assert_allclose(fitted.weights(observed), expected / expected.sum(), atol=1e-12)


def test_rows_that_are_all_equally_far_weigh_the_same(rng):
    x = np.where(np.arange(20)[:, None] % 2, 1.0, -1.0)
    for observed in (0.0, 1.0):  # the edge is as far as all rows, or zero
        weights = pk.Rejection(6, kernel="epanechnikov", scale=False).fit(x, x).weights([observed])
        np.testing.assert_allclose(weights[weights > 0], np.full(6, 1 / 6))


def test_a_share_of_few_rows_is_one_row_at_least():
    x = np.arange(10.0)[:, None]
    assert pk.Rejection(0.01).fit(x, x).accepted_ == 1
    assert pk.Rejection(0.26).fit(x, x).accepted_ == 3
    assert pk.Rejection(0.5, most=1).fit(x, x).accepted_ == 1
    assert pk.Rejection().accepted == 0.01


class Whole:
    """A table that brings both sides."""

    prior_ratio, parameter_names, statistic_names = None, ["a", "b"], ["s", "t", "u"]

    def __init__(self, parameters, statistics, support):
        self.parameters, self.statistics, self.support = parameters, statistics, support

    def __len__(self):
        return len(self.parameters)


def test_the_support_of_a_table_is_taken_unless_another_one_is_given(arrays):
    table = Whole(*arrays, pk.Support.from_bounds({"a": (-9, 9)}, ["a", "b"]))
    assert pk.Rejection(5).fit(table).table_.support == table.support
    wider = pk.Support.from_bounds({"a": (-99, 99)}, ["a", "b"])
    assert pk.Rejection(5).fit(table, support=wider).table_.support == wider


@pytest.mark.filterwarnings("ignore:the statistics in columns")
def test_names_are_noted_in_a_copy(arrays):
    fitted = pk.Rejection(20).fit(*arrays)
    noted = fitted.named(SimpleNamespace(parameter_names=["a", "b"], statistic_names=["s", "t", "u"]))
    assert noted.names_ == Names(("a", "b"), ("s", "t", "u"))
    assert fitted.names_ == Names()
    np.testing.assert_array_equal(noted.weights(arrays[1][:3]), fitted.weights(arrays[1][:3]))


def test_some_columns_of_a_table_are_a_table_of_these(arrays):
    theta, x = arrays
    x = np.column_stack([x[:, 0], np.full(len(x), 3.0), x[:, 1:]])
    whole, columns = build_table(theta, x), np.array([1, 3, 0])
    found, expected = (
        whole.of_columns(columns, whole.scaler.of_columns(columns)),
        build_table(theta, x[:, columns]),
    )
    for name in ("statistics", "parameters", "first", "raw"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found.scaler.kept, expected.scaler.kept)
