"""Pictures of spectra and of sizes over time: what they draw, and what they refuse."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr

mpl.use("Agg")
import matplotlib.pyplot as plt

import pymc_kbr as pk


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


NAMES = ["sfs_x_1_1", "sfs_x_1_2", "pi_x_1", "sfs_x_1_10"]
ROWS = np.random.default_rng(1).poisson([50, 25, 7, 5], (300, 4)).astype(float)
DATA = {"sfs_x_1_10": 4.0, "sfs_x_1_1": 52.0, "sfs_x_1_2": 20.0, "theta": 3.0}


def table():
    frame = pd.DataFrame(ROWS, columns=NAMES).assign(a=np.arange(300.0))
    return pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=NAMES)


def of_arviz():
    draws = ROWS.reshape(2, 150, 4)
    return xr.DataArray(draws, dims=["chain", "draw", "y_statistic"], coords={"y_statistic": NAMES})


@pytest.mark.parametrize(
    ("predicted", "observed"),
    [
        (pd.DataFrame(ROWS, columns=NAMES), DATA),
        (pd.DataFrame(ROWS, columns=[f"y[{name}]" for name in NAMES]), pd.Series(DATA)),
        (of_arviz().transpose("draw", "chain", "y_statistic"), {f"y[{k}]": v for k, v in DATA.items()}),
        (table(), DATA),
    ],
    ids=["frame", "columns of a table", "result, transposed", "table"],
)
def test_the_spectrum_has_medians_quantiles_and_data_by_name(predicted, observed):
    (axis,) = pk.popgen.plot_spectrum(predicted, observed, probability=0.8)
    rows = ROWS[:, [0, 1, 3]]
    np.testing.assert_array_equal(axis.lines[0].get_xydata(), [[1, 52], [2, 20], [10, 4]])
    low, middle, high = np.quantile(rows, [0.1, 0.5, 0.9], axis=0)
    np.testing.assert_allclose([bar.get_y() for bar in axis.patches], low)
    np.testing.assert_allclose([bar.get_y() + bar.get_height() for bar in axis.patches], high)
    np.testing.assert_allclose([line[0, 1] for line in axis.collections[0].get_segments()], middle)
    assert axis.get_title() == "sfs_x_1"


def test_joint_spectra_are_distances_in_deviations():
    names = [f"joint_sfs_a_b_{i}_{j}" for i, j in ((0, 1), (1, 0), (1, 1), (0, 2))]
    rows = np.column_stack([[1.0, 3.0], [2.0, 6.0], [0.0, 0.0], [5.0, 5.0]]).reshape(2, 4)
    observed = dict(zip(names, [4.0, 4.0, 0.0, 6.0], strict=True))
    (axis,) = pk.popgen.plot_spectrum(pd.DataFrame(rows, columns=names), observed)
    found = axis.images[0].get_array().filled(np.nan)
    # (4 - 2) / 1 and (4 - 4) / 2; equal to what is always predicted, and beyond it.
    np.testing.assert_array_equal(found, [[np.nan, 2, 3], [0, 0, np.nan]])


FRAME = pd.DataFrame(ROWS, columns=NAMES)


@pytest.mark.parametrize(
    ("predicted", "observed", "kwargs", "error", "words"),
    [
        (ROWS, DATA, {}, TypeError, "columns have no names"),
        (FRAME[["pi_x_1"]], DATA, {}, ValueError, "none of a spectrum"),
        (FRAME, {"sfs_x_1_1": 3.0}, {}, ValueError, "observed lacks .*sfs_x_1_2"),
        (FRAME, [1.0, 2.0], {}, TypeError, "one value a statistic"),
        (FRAME, DATA, {"names": ["sfs_y"]}, ValueError, "sfs_y.*has the spectra"),
    ],
)
def test_what_is_no_spectrum_is_refused(predicted, observed, kwargs, error, words):
    with pytest.raises(error, match=words):
        pk.popgen.plot_spectrum(predicted, observed, **kwargs)


# --- sizes over time ---


def past(size, factor=1.0, ended=100.0, duration=100.0):
    import msprime

    made = msprime.Demography()
    made.add_population(name="here", initial_size=size)
    made.add_population_parameters_change(time=ended, initial_size=size / factor)
    made.add_population_parameters_change(time=ended + duration, initial_size=size)
    return made


def split(north, south, both, time=500.0, migration=0.0):
    import msprime

    made = msprime.Demography()
    for name, size in {"north": north, "south": south, "both": both}.items():
        made.add_population(name=name, initial_size=size)
    if migration:
        made.set_symmetric_migration_rate(["north", "south"], migration)
    made.add_population_split(time, derived=["north", "south"], ancestral="both")
    return made


def lines_of(axis):
    return {line.get_label(): line.get_ydata() for line in axis.lines}


def band_of(axis, place=0):
    ends = axis.collections[place].get_paths()[0].get_extents()
    return ends.ymin, ends.ymax


@pytest.mark.parametrize("kind", ["dict", "frame", "dict of groups", "table"])
def test_sizes_are_those_of_the_demography(kind):
    pytest.importorskip("msprime")
    draws = {
        "size": np.array([900.0, 1000.0, 1300.0]),
        "factor": np.array([9.0, 10.0, 13.0]),
        "other": np.zeros(3),
    }
    group = xr.Dataset({name: (("chain", "draw"), values[None]) for name, values in draws.items()})
    frame = pd.DataFrame(draws)
    posterior = {
        "dict": draws,
        "frame": frame,
        "dict of groups": {"posterior": group},
        "table": pk.ReferenceTable.from_dataframe(
            frame.assign(x=0.0), parameters=["size", "factor"], statistics=["x"]
        ),
    }[kind]
    truth = {"size": 2000, "ended": 150}
    axis = pk.popgen.plot_population_size(
        past, posterior, times=[0, 50, 120, 160, 300, 1000], truth=truth, probability=0.5
    )
    found = lines_of(axis)
    np.testing.assert_allclose(found["posterior, median"], [1000, 1000, 100, 100, 1000, 1000])
    np.testing.assert_allclose(found["truth"], [2000] * 6)
    np.testing.assert_allclose(band_of(axis), [100, 1150])


def test_beyond_a_split_the_size_is_that_of_the_ancestor():
    pytest.importorskip("msprime")
    draws = {"north": [100.0], "south": [200.0], "both": [700.0]}
    for name in ("north", "south"):
        axis = pk.popgen.plot_population_size(
            split, draws, times=[10, 400, 600, 900], population=name, prior=draws
        )
        np.testing.assert_allclose(lines_of(axis)["posterior, median"], [draws[name][0]] * 2 + [700] * 2)


def test_with_migration_it_is_half_the_inverse_rate_of_two_lineages():
    pytest.importorskip("msprime")
    size, migration = 100.0, 2e-3
    draws = {"north": [size], "south": [size], "both": [size], "time": [1e6], "migration": [migration]}
    times = np.linspace(1, 400, 100)
    axis = pk.popgen.plot_population_size(split, draws, times=times, population="north")
    # Two lineages are in one deme or in two: the closed form of a Markov chain of two states.
    rates = np.array([[-1 / (2 * size) - 2 * migration, 2 * migration], [2 * migration, -2 * migration]])
    values, vectors = np.linalg.eig(rates)
    states = np.linalg.inv(vectors)[:, :, None] * np.exp(values[:, None, None] * times)
    together, apart = (np.einsum("k,kt->t", vectors[0], states[:, j]) for j in (0, 1))
    expected = size * (together + apart) / together
    np.testing.assert_allclose(lines_of(axis)["posterior, median"], expected, rtol=1e-3)


def test_times_of_its_own_end_where_few_pairs_are_left():
    pytest.importorskip("msprime")
    axis = pk.popgen.plot_population_size(past, {"size": [1000.0, 1000.0]})
    times = axis.lines[0].get_xdata()
    # Of pairs of lineages exp(-t / 2000) are left.
    assert 2000 * np.log(100) < times[-1] < 2000 * np.log(100) * 1.5
    np.testing.assert_allclose(axis.lines[0].get_ydata(), 1000)


@pytest.mark.parametrize(
    ("demography", "posterior", "kwargs", "error", "words"),
    [
        (past, {"factor": [2.0]}, {}, ValueError, "posterior lacks .'size'.*has .'factor'"),
        (past, np.ones((3, 1)), {}, TypeError, "result of `sample_abc`"),
        (past, {"size": [1.0, np.nan]}, {}, ValueError, "finite"),
        (past, {"size": [1.0, 2.0], "factor": [1.0]}, {}, ValueError, "numbers of draws"),
        (past, {"size": [1.0]}, {"truth": {"factor": 2}}, ValueError, "truth lacks"),
        (past, {"size": [1.0]}, {"times": [3, 2]}, ValueError, "rising"),
        (past, {"size": [1.0]}, {"population": "there"}, ValueError, "has .'here'"),
        (split, {"north": [1.0], "south": [1.0], "both": [1.0]}, {}, ValueError, "which to follow"),
        ("past", {"size": [1.0]}, {}, TypeError, "give a function"),
        (lambda size: size, {"size": [1.0]}, {}, TypeError, "demography returned"),
    ],
)
def test_what_has_no_sizes_is_refused(demography, posterior, kwargs, error, words):
    pytest.importorskip("msprime")
    with pytest.raises(error, match=words):
        pk.popgen.plot_population_size(demography, posterior, **kwargs)
