import concurrent.futures
import subprocess
import sys
import threading

import numpy as np
import pymc as pm
import pytest
from pytensor import tensor as pt
from scipy import stats

import pymc_kbr as pk
from pymc_kbr.simulation.forward_model import ForwardModel
from tests import models
from tests.models import DATA, model, same, table, vector_model

# --- what comes out ---


@pytest.mark.versions
def test_a_table_holds_draws_from_the_prior_and_their_simulations():
    made = table(4000, model(sum_stat="mean"))
    assert made.parameter_names == ["mean", "scale"]
    assert made.statistic_names == ["y"]
    mean, scale = made.parameters.T
    # Deviations of the averages of 4,000 draws: 1 / 63, and 0.6 / 63.
    assert abs(mean.mean()) < 4 / 63
    assert abs(scale.mean() - np.sqrt(2 / np.pi)) < 2.4 / 63
    residual = (made.statistics[:, 0] - mean) / (scale / 2)
    assert abs(residual.mean()) < 4 / 63
    assert abs(residual.std() - 1) < 4 / 63 / np.sqrt(2)
    np.testing.assert_allclose(made.observed, DATA.mean())


@pytest.mark.versions
@pytest.mark.parametrize(
    ("sum_stat", "expected"),
    [
        ("sort", np.sort),
        ("median", lambda y: np.array([np.median(y)])),
        (lambda y: np.array([y.mean(), y.std()]), lambda y: np.array([y.mean(), y.std()])),
        (lambda y: pt.stack([pt.mean(y), pt.max(y)]), lambda y: np.array([y.mean(), y.max()])),
    ],
)
def test_summaries_of_every_kind_are_those_of_each_row(sum_stat, expected):
    whole = table(30, model(models.normal_by_hand))
    made = table(30, model(models.normal_by_hand, sum_stat=sum_stat))
    np.testing.assert_allclose(made.observed, expected(DATA))
    np.testing.assert_allclose(made.statistics, [expected(row) for row in whole.statistics])


@pytest.mark.versions
def test_several_simulators_and_ordinary_distributions_beside_them():
    with pm.Model() as made:
        mean = pm.Normal("mean", 0, 1)
        first = pm.Simulator("first", models.normal, mean, 0.1, observed=DATA)
        pm.Simulator("second", models.normal_by_hand, mean, 0.1, observed=DATA[:2])
        pm.Normal("third", mean, 0.1, observed=[[0.0, 1.0], [2.0, 3.0]])
        pm.Poisson("fourth", pt.exp(mean), observed=3)
        pm.Normal("fifth", first, 1e-6, observed=DATA)
        pm.Simulator("sixth", models.normal, first, 1e-6, observed=DATA)
    t = table(500, made)
    assert {v.name: v.size for v in t.statistic_columns.variables} == {
        "first": 4,
        "second": 2,
        "fifth": 4,
        "sixth": 4,
    }
    # What does not hang together with a simulator enters by its density.
    assert t.origin.known == ("third", "fourth")
    error = t.statistics[:, [0, 4]] - t.parameters
    assert 0.08 < error.std() < 0.12
    np.testing.assert_allclose(t.statistics[:, 6:10], t.statistics[:, :4], atol=1e-4)
    np.testing.assert_allclose(t.statistics[:, 10:], t.statistics[:, :4], atol=1e-4)


@pytest.mark.versions
@pytest.mark.parametrize("fn", [models.normal, models.normal_by_hand])
def test_a_parameter_may_be_bound_by_another_one_and_go_to_the_simulator_with_it(fn):
    with pm.Model() as made:
        upper = pm.Uniform("upper", 0, 1)
        below = pm.Uniform("below", 0, upper)
        pm.Simulator("y", fn, upper + 10 * below, 1e-3, observed=DATA)
    t = table(200, made)
    upper, below = t.parameters.T
    assert np.all(below <= upper)
    np.testing.assert_allclose(t.statistics, np.tile((upper + 10 * below)[:, None], 4), atol=6e-3)


@pytest.mark.versions
def test_free_variables_of_any_kind(monkeypatch):
    # One draw in six is ordered, and such draws are made one by one.
    monkeypatch.setattr("pymc_kbr.simulation.prior.draws.ROWS_A_STREAM", 128)
    with pm.Model(coords={"group": ["x", "y"]}) as made:
        top = pm.HalfNormal("top", 1)
        pm.Uniform("below", 0, 2 * top)
        effect = pm.Normal("effect", 0, top, dims="group")
        share = pm.Dirichlet("share", np.ones(3))
        pm.Normal("cut", 0, 1, shape=3, transform=pm.distributions.transforms.ordered)
        count = pm.Poisson("count", 3, shape=(2, 2))
        pm.VonMises("angle", 0, 1)
        pm.ZeroSumNormal("contrast", shape=3)
        pm.Deterministic("total", effect.sum())
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.Exponential.dist(1.0))
        pm.Simulator("y", models.normal, effect.sum() + share[0] + count.sum(), chol[0, 0], observed=DATA)
    t = table(100, made)
    parts = t.parameter_columns.split(t.parameters)
    assert "effect[x]" in t.parameter_names
    assert t.parameter_names.count("count[1, 0]") == 1
    assert np.all(parts["below"] <= 2 * parts["top"])
    np.testing.assert_allclose(parts["share"].sum(axis=1), 1)
    assert np.all(np.diff(parts["cut"], axis=1) >= 0)
    assert parts["count"].dtype.kind == "i"
    np.testing.assert_allclose(parts["contrast"].sum(axis=1), 0, atol=1e-10)
    back = t.support.backward(t.support.forward(t.parameters))
    np.testing.assert_allclose(back, t.parameters, atol=1e-8)


@pytest.mark.versions
def test_the_density_of_an_ordered_prior_is_that_of_what_is_left_of_it():
    with pm.Model() as made:
        cut = pm.Normal("cut", 0, 1, shape=2, transform=pm.distributions.transforms.ordered)
        pm.Simulator("y", models.normal, cut, 1.0, observed=np.zeros(2))
    points = np.array([[-1.0, 0.5], [0.3, 0.2]])
    found = ForwardModel.read(made).log_prior(points)
    # Half of all draws are in order; the share of so many has that Monte Carlo error.
    error = 4 / np.sqrt(100 * 1024)
    assert found[0] == pytest.approx(stats.norm.logpdf(points[0]).sum() + np.log(2), abs=error)
    assert found[1] == -np.inf


@pytest.mark.versions
def test_the_vector_helper_gives_scalars_and_arrays_as_they_are():
    seen = []

    def fn(rng, scalar, vector, constant, size=None):
        seen.append((np.shape(scalar), np.shape(vector), np.shape(constant), size))
        return np.array([float(scalar), vector.sum(), float(constant)])

    with pm.Model() as made:
        a = pm.Normal("a")
        b = pm.Normal("b", shape=2)
        pk.vector_simulator("y", fn, a, b, 7.0, observed=pm.Data("data", [0.0, 0.0, 0.0]))
    t = table(5, made)
    assert seen[0][:3] == ((), (2,), ())
    np.testing.assert_allclose(t.statistics[:, 1], t.parameters[:, 1:].sum(axis=1))


# --- batches and rows ---


@pytest.mark.versions
@pytest.mark.parametrize(
    ("made", "how"),
    [
        (model(), "in batches"),
        (model(models.normal_by_hand), "row by row"),
        (vector_model(), "in batches"),
        (vector_model(models.two_statistics_by_hand), "row by row"),
    ],
)
def test_batches_are_found_out(made, how):
    assert table(10, made).provenance["simulated"] == how


def said(capsys, made, **kwargs):
    made = table(20, made, **{"progressbar": True, **kwargs})
    return capsys.readouterr().out.count("row by row, which is slower"), made.provenance["why"]


def test_a_simulator_that_falls_back_to_rows_says_so_once_with_the_reason(capsys):
    slow = model(models.normal_by_hand)
    table(20, slow, progressbar=True)
    words = " ".join(capsys.readouterr().out.split())
    assert words.count("Simulating row by row, which is slower than in batches: the simulator 'y'") == 1
    for quiet in ({"progressbar": False}, {"batched": False}, {"timeout": 30.0}):
        assert said(capsys, slow, **quiet)[0] == 0
    assert said(capsys, model())[0] == 0


def wrong_in_batches():
    """Simulators that return the right shape for a batch, and the wrong numbers."""

    def common_noise(rng, mean, scale, size=None):
        return mean + scale * rng.standard_normal(size[-1])

    def mean_of_the_batch(rng, mean, scale, size=None):
        return rng.normal(np.mean(mean), scale, size=size)

    def own_generator(rng, mean, scale, size=None):
        return mean + np.random.default_rng(rng.integers(2**31)).standard_normal(size)

    def shuffled(rng, mean, scale, size=None):
        return rng.permutation(rng.normal(mean, scale, size=size))

    def bits(rng, mean, scale, size=None):
        return mean + rng.bit_generator.random_raw(1)[0] % 7 + rng.normal(size=size)

    return [common_noise, mean_of_the_batch, own_generator, shuffled, bits]


@pytest.mark.versions
@pytest.mark.parametrize("fn", wrong_in_batches(), ids=lambda fn: fn.__name__)
def test_simulators_that_would_go_wrong_in_batches_run_row_by_row(fn):
    made = table(20, model(fn))
    assert made.provenance["simulated"] == "row by row"
    assert "cannot be called in batches" in made.provenance["why"]
    with pytest.raises(ValueError, match="batched=True, but the simulator 'y' cannot"):
        table(20, model(fn), batched=True)


def right_in_batches():
    def many_kinds(rng, mean, scale, size=None):
        y = rng.gamma(2.0, scale, size) + rng.poisson(np.exp(mean), size) + rng.binomial(5, 0.3, size=size)
        return y + rng.uniform(size=size) + rng.integers(0, 9, size) + rng.exponential(scale, size)

    def scipy(rng, mean, scale, size=None):
        from scipy import stats

        return stats.norm.rvs(mean, scale, size=size, random_state=rng)

    def branches(rng, mean, scale, size=None):
        return np.where(mean > 0, rng.normal(size=size), rng.standard_t(3, size=size) * scale)

    return [many_kinds, scipy, branches]


@pytest.mark.parametrize("fn", right_in_batches(), ids=lambda fn: fn.__name__)
def test_simulators_that_broadcast_run_in_batches(fn):
    made = table(2000, model(fn))
    assert made.provenance["simulated"] == "in batches", made.provenance["why"]
    alone = table(2000, model(fn), batched=False, random_seed=2)
    pooled = np.sqrt((made.statistics.var(axis=0) + alone.statistics.var(axis=0)) / 2000)
    difference = np.abs(made.statistics.mean(axis=0) - alone.statistics.mean(axis=0))
    assert np.all(difference < 4.5 * pooled)


@pytest.mark.versions
def test_rows_of_a_batch_are_independent():
    made = table(3000, model())
    noise = (made.statistics - made.parameters[:, :1]) / made.parameters[:, 1:]
    assert len(np.unique(noise)) == noise.size
    correlation = np.corrcoef(noise[:-1, 0], noise[1:, 0])[0, 1]
    assert abs(correlation) < 4 / np.sqrt(3000)


@pytest.mark.versions
def test_a_batch_with_a_row_that_raises_is_done_row_by_row():
    def raises_for_one(rng, mean, scale, size=None):
        if np.any(mean > 3):
            raise RuntimeError("too high")
        return rng.normal(mean, scale, size=size)

    made = table(3000, model(raises_for_one), on_failure="drop")
    high = len(made.failures)
    assert made.provenance["simulated"] == "in batches"
    assert 0 < high < 20
    assert np.all(made.failures.parameters[:, 0] > 3)
    assert np.all(made.parameters[:, 0] <= 3)


# --- seeds, cores, executors ---


def shifted(shift):
    """A simulator that no module holds, to be run row by row."""

    def local(rng, mean, scale, size=None):
        return shift + models.normal_by_hand(rng, mean, scale, size)

    return local


@pytest.mark.parametrize("made", [model(), model(shifted(0.5))])
def test_cores_do_not_change_a_bit(made):
    one = table(2500, made)
    same(one, table(2500, made, cores=2))
    assert not np.array_equal(one.statistics, table(2500, made, random_seed=2).statistics)


@pytest.mark.parametrize(("made", "draws"), [(model(), 37), (model(models.normal_by_hand), 2)])
def test_a_longer_table_begins_with_the_shorter_one(made, draws):
    short, long = table(draws, made), table(1500, made)
    np.testing.assert_array_equal(long.parameters[:draws], short.parameters)
    np.testing.assert_array_equal(long.statistics[:draws], short.statistics)


@pytest.mark.parametrize("made", [model(), vector_model(models.two_statistics_by_hand)])
def test_any_executor_gives_the_same(made):
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        same(table(100, made), table(100, made, executor=executor))


@pytest.mark.versions
def test_a_generator_as_seed_and_no_seed():
    one = table(10, model(), random_seed=np.random.default_rng(3))
    same(one, table(10, model(), random_seed=np.random.default_rng(3)))
    free = table(10, model(), random_seed=None)
    same(free, table(10, model(), random_seed=free.seed))


@pytest.mark.versions
def test_randomness_from_elsewhere_is_noticed():
    elsewhere = np.random.default_rng(0)

    def unseeded(rng, mean, scale, size=None):
        return mean + elsewhere.standard_normal(size)

    with pytest.warns(UserWarning, match="'y' gave two results from one state of its generator"):
        table(10, model(unseeded))


def test_a_simulator_that_cannot_be_sent_is_named_and_works_here():
    lock = threading.Lock()

    def locked(rng, mean, scale, size=None):
        with lock:
            return models.normal_by_hand(rng, mean, scale, size)

    with pytest.raises(TypeError, match=r"simulator of 'y' cannot be sent.*cores=1"):
        table(10, model(locked), cores=2)
    assert len(table(10, model(locked))) == 10


SCRIPT = """
import os, signal, sys, threading, time
sys.path.insert(0, {root!r})
from tests.models import *
def slow(rng, mean, scale, size=None):
    time.sleep(0.01)
    return normal_by_hand(rng, mean, scale, size)
import psutil
# A process that a shell has put into the background may have been told to ignore interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
def workers():
    return [child for child in psutil.Process().children(recursive=True) if child.ppid() != os.getpid()]
def interrupt():
    while len(workers()) < 2:
        time.sleep(0.1)
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    found = table(20_000, model(slow), cores=2).provenance["interrupted"].split()[0]
except KeyboardInterrupt:  # before there were rows
    found = "interrupted"
time.sleep(1)
print(found + ", workers left:", len(workers()))
"""


def test_an_interrupt_ends_the_workers(request):
    script = SCRIPT.format(root=str(request.config.rootpath))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert "interrupted, workers left: 0" in run.stdout, run.stderr[-2000:]


# --- failures ---


@pytest.mark.versions
def test_a_failure_names_the_row_its_parameters_and_the_error():
    with pytest.raises(pk.SimulationError, match="'drop'") as caught:
        table(50, model(models.fails_when_high))
    error = caught.value
    assert f"simulation {error.row} of 50" in str(error)
    assert f"mean = {error.parameters['mean']:.6g}" in str(error)
    assert ("the population died out" in str(error)) == (error.parameters["mean"] > 1)
    assert ("NaN or infinity in y" in str(error)) == (error.parameters["mean"] < -1)


@pytest.mark.parametrize(("fn", "cores"), [(models.fails_when_high, 1), (models.nan_when_high, 2)])
def test_dropped_rows_keep_their_parameters(fn, cores):
    with pytest.warns(UserWarning, match="failed and were dropped"):
        made = table(1200, model(fn), on_failure="drop", cores=cores)
    whole = table(1200, model())
    assert len(made) + len(made.failures) == 1200
    np.testing.assert_array_equal(made.failures.parameters, whole.parameters[made.failures.rows])
    kept = np.setdiff1d(np.arange(1200), made.failures.rows)
    np.testing.assert_array_equal(made.parameters, whole.parameters[kept])
    assert np.isfinite(made.statistics).all()
    assert np.all(made.failures.parameters[:, 0] > 1) == (fn is models.nan_when_high)


@pytest.mark.parametrize(("cores", "batched"), [(1, None), (2, False)])
def test_a_simulator_that_exits_ends_one_simulation(cores, batched):
    def exits(rng, mean, scale, size=None):
        if np.any(mean > 1):
            sys.exit("no population left")
        return rng.normal(mean, scale, size=size)

    with pytest.warns(UserWarning, match="failed and were dropped"):
        made = table(300, model(exits), on_failure="drop", cores=cores, batched=batched)
    assert np.all(made.failures.parameters[:, 0] > 1)
    assert set(made.failures.messages) == {"SystemExit: no population left"}
    assert len(made) + len(made.failures) == 300


# --- the screen, and memory ---
