"""Rounds of simulations at draws of the present posterior."""

import dataclasses

import numpy as np
import pymc as pm
import pytest
from scipy.stats import multivariate_normal, norm

import pymc_kbr as pk
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.posterior import Posterior
from pymc_kbr.rounds.refine import _by_first_round
from pymc_kbr.rounds.sequence import held_out_rows, indistinguishable, widening
from pymc_kbr.simulation import ForwardModel, Proposal, SimulationOptions, simulate_table

QUIET = {"progressbar": False}
LINEAR = pk.Adjusted(pk.Rejection(60), "local_linear")


def normal(rng, mean, scale, size):
    return rng.normal(mean, scale, size)


def linear_model(scale=0.02, observed=(0.5, -0.3)):
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1, shape=2)
        pm.Simulator("y", normal, mean, scale, observed=list(observed))
    return model


def two_modes(rng, x, size):
    return np.abs(x) + rng.normal(0, 0.05, size)


def a_proposal(forward, share=0.2):
    q = forward.support.forward(forward.draw(2, 0, None)[0]).shape[1]
    return Proposal(
        np.array([0.3, 0.7]),
        np.array([np.full(q, 0.3), np.full(q, -0.2)]),
        np.stack([0.2 * np.eye(q) + 0.05, 0.5 * np.eye(q)]),
        forward.support,
        share,
    )


def priors():
    """Models whose parameters are freed in each way."""
    with pm.Model() as plain:
        a, b = pm.Normal("a", 0, 1), pm.Uniform("b", -1, 2)
        pm.Simulator("y", normal, a + b, 1.0, observed=[0.0])
    with pm.Model() as positive:
        a = pm.Gamma("a", 2, 1)
        b = pm.Uniform("b", 0, a)
        pm.Simulator("y", normal, a + b, 1.0, observed=[0.0])
    with pm.Model() as ordered:
        a = pm.Normal("a", 0, 1, shape=3, transform=pm.distributions.transforms.ordered, initval=[-1, 0, 1])
        pm.Simulator("y", normal, a, 1.0, observed=[0.0] * 3)
    with pm.Model() as simplex:
        a = pm.Dirichlet("a", np.array([2.0, 1.0, 3.0]))
        pm.Simulator("y", normal, a, 1.0, observed=[0.0] * 3)
    with pm.Model() as zero_sum:
        a = pm.ZeroSumNormal("a", 1.5, shape=3)
        pm.Simulator("y", normal, a, 1.0, observed=[0.0] * 3)
    return {
        "plain": plain,
        "positive": positive,
        "ordered": ordered,
        "simplex": simplex,
        "zero_sum": zero_sum,
    }


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["plain", "positive", "ordered", "simplex", "zero_sum"])
def test_the_ratio_integrates_to_one_and_weighted_rows_are_draws_of_the_prior(name):
    forward = ForwardModel.read(priors()[name])
    options = SimulationOptions(6000, random_seed=1, proposal=a_proposal(forward), **QUIET)
    table = simulate_table(options, forward)
    ratio, n = table.prior_ratio, len(table)
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(n)
    assert ratio.max() <= 1 / 0.2 + 1e-9
    prior = pk.simulate(6000, model=forward.graph.model, random_seed=2, **QUIET).parameters
    for f in (np.copy, np.square, np.cos):
        weighted = ratio[:, None] * f(table.parameters)
        error = np.sqrt(weighted.var(axis=0) / n + f(prior).var(axis=0) / 6000)
        assert np.all(np.abs(weighted.mean(axis=0) - f(prior).mean(axis=0)) <= 4.5 * error + 1e-12)


def test_every_fifth_row_is_the_priors_and_a_longer_table_begins_with_the_shorter_one():
    forward = ForwardModel.read(linear_model())
    proposal = a_proposal(forward)
    tables = [
        simulate_table(SimulationOptions(n, random_seed=3, proposal=proposal, **QUIET), forward)
        for n in (500, 2500)
    ]
    assert np.array_equal(tables[0].statistics, tables[1].statistics[:500])
    prior = forward.draw(500, 3, None)[0]
    assert np.array_equal(tables[1].parameters[4::5], prior)


def test_a_file_keeps_the_ratio_and_old_files_have_none(tmp_path):
    table = pk.refine(200, model=linear_model(), rounds=2, estimator=LINEAR, random_seed=1, **QUIET)
    read = pk.ReferenceTable.load(table.save(tmp_path / "table.nc"))
    assert np.array_equal(read.prior_ratio, table.prior_ratio)
    assert read.origin == table.origin
    plain = pk.simulate(20, model=linear_model(), random_seed=1, **QUIET)
    assert pk.ReferenceTable.load(plain.save(tmp_path / "plain.nc")).prior_ratio is None


def test_two_cores_give_the_same_bits():
    settings = {"model": linear_model(), "rounds": 3, "estimator": LINEAR, "random_seed": 4, **QUIET}
    one = pk.refine(240, batched=False, **settings)
    two = pk.refine(240, batched=False, cores=2, **settings)
    assert np.array_equal(one.parameters, two.parameters)
    assert np.array_equal(one.statistics, two.statistics)
    assert np.array_equal(one.prior_ratio, two.prior_ratio)


class Dies:
    """Steps in for `simulate_table` and dies at one of its calls."""

    def __init__(self, monkeypatch, at):
        from pymc_kbr.rounds import sequence as module

        self.calls, self.at, self.real = 0, at, module.simulate_table
        monkeypatch.setattr(module, "simulate_table", self)

    def __call__(self, *args):
        self.calls += 1
        if self.calls == self.at:
            raise SystemExit
        return self.real(*args)


def test_the_same_call_goes_on_after_a_kill(tmp_path, monkeypatch):
    settings = {"model": linear_model(), "rounds": 3, "estimator": LINEAR, "random_seed": 5, **QUIET}
    whole = pk.refine(240, **settings)
    with monkeypatch.context() as patched:
        Dies(patched, at=3)
        with pytest.raises(SystemExit):
            pk.refine(240, store=tmp_path / "rounds", **settings)
    assert len(list((tmp_path / "rounds").glob("round_*.zarr"))) == 2
    again = pk.refine(240, store=tmp_path / "rounds", **settings)
    assert np.array_equal(again.parameters, whole.parameters)
    assert np.array_equal(again.statistics, whole.statistics)
    assert np.array_equal(again.prior_ratio, whole.prior_ratio)
    with pytest.raises(ValueError, match="of another call"):
        pk.refine(240, store=tmp_path / "rounds", prior_share=0.2, **settings)
    # The next call only reads; a round by itself knows how it was drawn, too.
    assert np.array_equal(pk.refine(240, store=tmp_path / "rounds", **settings).parameters, whole.parameters)
    stored = pk.StoredTable.open(tmp_path / "rounds" / "round_1.zarr")
    assert stored.load(40).prior_ratio.shape == (40,)
    with pytest.raises(ValueError, match="no draws of the prior"):
        pk.sample_abc(10, reference_table=stored, estimator="localised", **QUIET)


def test_a_round_that_was_left_unfinished_does_not_pass_for_draws_of_the_prior(tmp_path):
    forward = ForwardModel.read(linear_model())
    options = SimulationOptions(
        50, random_seed=1, proposal=a_proposal(forward), store=tmp_path / "t.zarr", **QUIET
    )
    stored = simulate_table(options, forward)
    stored.store.keep("prior_ratio", ("row",), np.full(50, np.nan))  # as a kill can leave it
    with pytest.raises(ValueError, match="make that call again"):
        pk.StoredTable.open(tmp_path / "t.zarr").load()
    assert np.isfinite(simulate_table(options, forward).load().prior_ratio).all()
    with pytest.raises(ValueError, match="other proposal"):
        simulate_table(dataclasses.replace(options, proposal=None), forward)


def error_of(table, mean, covariance, seed):
    """Divergence of a normal fit to the draws from the exact posterior."""
    result = pk.Adjusted(pk.Rejection(min(200, len(table) // 2)), "local_linear").fit(
        table.parameters, table.statistics, table.support, ratio=table.prior_ratio
    )
    drawn = result.condition(table.observed).draw(2000, seed)
    found, apart = np.cov(drawn.T), drawn.mean(axis=0) - mean
    inverse = np.linalg.inv(covariance)
    return 0.5 * (
        np.trace(inverse @ found) + apart @ inverse @ apart - 2
        - np.linalg.slogdet(inverse @ found)[1]
    )  # fmt: skip


def test_three_rounds_beat_one_table_of_the_same_budget():
    def bent(rng, mean, size):
        x = np.stack(
            [mean[..., 0] + 0.3 * mean[..., 1] ** 2, mean[..., 1] + 0.3 * mean[..., 0] ** 2], axis=-1
        )
        return x + rng.normal(0, 0.02, x.shape)

    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1, shape=2)
        pm.Simulator("y", bent, mean, observed=[0.0, 0.0])
    covariance = np.linalg.inv(np.eye(2) + np.eye(2) / 0.02**2)
    refined, plain = [], []
    for seed in range(3):
        settings = {"model": model, "random_seed": seed, **QUIET}
        refined.append(
            error_of(pk.refine(600, rounds=3, estimator=LINEAR, **settings), np.zeros(2), covariance, seed)
        )
        plain.append(error_of(pk.simulate(600, **settings), np.zeros(2), covariance, seed))
    assert np.mean(refined) < 0.5 * np.mean(plain)


def test_weighted_rows_of_a_refined_table_give_the_exact_posterior():
    table = pk.refine(1500, model=linear_model(0.3), rounds=3, estimator=LINEAR, random_seed=1, **QUIET)
    exact = np.array([0.5, -0.3]) / (1 + 0.3**2)
    deviation = 0.3 / np.sqrt(1 + 0.3**2)
    result = pk.sample_abc(2000, reference_table=table, estimator="adjusted", random_seed=1, **QUIET)
    drawn = result["posterior"]["mean"].values[0]
    # What is regressed has some hundred rows of effective size.
    assert np.all(np.abs(drawn.mean(axis=0) - exact) < 4 * deviation / np.sqrt(150))
    assert np.all(np.abs(drawn.std(axis=0) / deviation - 1) < 4 / np.sqrt(2 * 150))


@pytest.mark.statistical
def test_two_separate_modes_are_both_kept():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Simulator("y", two_modes, x, observed=[1.0])
    for seed in range(8):
        table = pk.refine(500, model=model, estimator=pk.Rejection(20), random_seed=seed, **QUIET)
        left = np.mean(table.parameters < 0)
        assert 0.2 < left < 0.8
        assert table.support.contains(np.array([[-1.0], [1.0]])).all()


def test_rounds_end_where_the_posterior_stays_and_no_simulation_is_left_out():
    table = pk.refine(1600, model=linear_model(1.0), rounds=8, estimator=LINEAR, random_seed=1, **QUIET)
    assert table.simulations == 1600
    assert "ended early" in table.provenance["refined"]


def test_rows_far_from_the_posterior_are_left_out_and_counted():
    table = pk.refine(300, model=linear_model(), rounds=3, estimator=LINEAR, random_seed=1, **QUIET)
    words = table.provenance["refined"]
    parts = [tuple(map(int, part.split(" rows of "))) for part in words.split("; ")[:3]]
    kept, drawn = np.sum(parts, axis=0)
    assert (kept, drawn) == (len(table), 300)
    assert f"{300 - len(table)} rows left out" in words
    assert len(table) >= 100  # half of the rows before the last round, which are within its bounds
    assert np.ptp(table.parameters, axis=0).max() < 2
    assert table.origin.left_out == 300 - len(table)
    assert not table.origin.between_bounds


def one_signal(rng, x, size):
    return np.append(rng.normal(x, 0.05), rng.normal(size=24))


def all_signal(rng, x, size):
    return rng.normal(x, 1.0, size=25)


def of_25(simulator):
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Simulator("y", simulator, x, observed=np.full(25, 0.3))
    return model


def test_of_many_statistics_rounds_go_by_those_that_depend_on_the_parameters(monkeypatch):
    fitted = []
    fit = pk.KernelLikelihood.fit
    monkeypatch.setattr(
        pk.KernelLikelihood,
        "fit",
        lambda self, *given, **more: fitted.append(self) or fit(self, *given, **more),
    )
    table = pk.refine(400, model=of_25(one_signal), rounds=2, random_seed=1, **QUIET)
    assert {one.scale for one in fitted} == {"dependent"}
    # Half of the second round's rows are from a law of twice the posterior's deviations, 0.05.
    near = np.abs(table.parameters[:, 0] - 0.3) < 0.3
    assert near.sum() > 100


def test_of_many_statistics_that_all_depend_on_the_parameters_rounds_go_by_all():
    table = pk.simulate(200, model=of_25(all_signal), random_seed=1, **QUIET)
    assert _by_first_round(table).scale is True


def rare_count(rng, x, size):
    return np.append(rng.normal(x, 0.1), float(rng.random() < 0.05))


def test_a_count_that_no_simulation_has_does_not_end_the_rounds():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Simulator("y", rare_count, x, observed=np.array([0.3, 2.0]))
    with pytest.warns(pk.PosteriorWarning, match=r"no simulation has the value 2.*'y\[1\]'"):
        table = pk.refine(400, model=model, rounds=2, random_seed=1, **QUIET)
    assert np.median(np.abs(table.parameters[-100:, 0] - 0.3)) < 0.5


def test_failures_are_counted_over_all_rounds():
    def fails(rng, mean, size):
        if mean[0] < 0.45:
            raise FloatingPointError("too low")
        return rng.normal(mean, 0.1, size)

    with pm.Model() as model:
        mean = pm.Normal("mean", 0.5, 1, shape=2)
        pm.Simulator("y", fails, mean, observed=[0.5, -0.3])
    settings = {"model": model, "rounds": 3, "estimator": pk.Rejection(20), "random_seed": 1, **QUIET}
    with pytest.warns(UserWarning, match="failed and were dropped") as told:
        table = pk.refine(300, on_failure="drop", **settings)
    words = [str(one.message) for one in told if "dropped" in str(one.message)]
    assert [text.split(" (")[0] for text in words] == [f"{len(table.failures)} of 300 simulations"]
    assert told[0].filename == __file__
    assert table.simulations == 300
    assert len(table.failures) > 30
    assert np.all(np.diff(table.failures.rows) > 0)
    assert table.parameters[:, 0].min() >= 0.45
    with pytest.raises(pk.SimulationError, match="too low"):
        pk.refine(300, **settings)


class Exact(pk.Estimator):
    """The posterior of one normal observation a parameter, with deviations that are wrong by a factor."""

    scale, parameter_bandwidth = True, None

    def __init__(self, factor=1.0):
        self.factor = factor

    def fit(self, parameters, statistics, support=None, **_):
        self.support = support
        return self

    def condition(self, observed):
        rng = np.random.default_rng(0)
        draws = observed[:, None] / 1.01 + self.factor * 0.1 / np.sqrt(1.01) * rng.normal(size=(400, 2))
        return [
            Posterior.of(Atoms(drawn, Gaussian(1.0)), np.full(400, 1 / 400), self.support, smoothing="none")
            for drawn in draws
        ]

    def _check(self, n, streamed): ...

    def _fit(self, rng): ...

    def _row_weights(self, x): ...


@pytest.mark.parametrize("factor", [0.1, 0.3, 1.0, 3.0])
def test_posteriors_are_widened_by_as_much_as_they_are_too_narrow(factor):
    table = pk.simulate(400, model=linear_model(0.1), random_seed=1, **QUIET)
    exact, found = Exact(factor).fit(None, None, table.support), []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        found.append(widening(exact, table, held_out_rows(table, rng), rng))
    # The quantile of twelve rows is a noisy one: by about a third.
    expected = max(1.0, factor**-2)
    assert expected / 1.5 < np.median(found) < expected * 1.5
    assert min(found) >= 1


@pytest.mark.statistical
def test_a_narrow_posterior_is_found_by_the_learned_likelihood():
    exact, deviation = np.array([0.5, -0.3]) / (1 + 0.01**2), 0.01
    learnt = pk.KernelLikelihood("autoregressive", particles=500)
    table = pk.refine(400, model=linear_model(0.01), rounds=4, estimator=learnt, random_seed=1, **QUIET)
    fitted = pk.KernelLikelihood("autoregressive", particles=1000).fit(
        table.parameters, table.statistics, table.support, ratio=table.prior_ratio, random_seed=1
    )
    drawn = fitted.condition(table.observed).draw(1000, np.random.default_rng(1))
    # Of 300 rows near by the mean is known to a twentieth of their noise, and to a few of these here.
    assert np.all(np.abs(drawn.mean(axis=0) - exact) < 0.3 * deviation)
    assert np.all(np.abs(np.log(drawn.std(axis=0) / deviation)) < 0.3)


def test_samples_of_one_law_are_alike_and_shifted_ones_are_not():
    rng = np.random.default_rng(0)
    same = [indistinguishable(rng.normal(size=(300, 2)), rng.normal(size=(300, 2)), rng) for _ in range(40)]
    shifted = [
        indistinguishable(rng.normal(size=(300, 2)), rng.normal(0.4, 1, size=(300, 2)), rng)
        for _ in range(40)
    ]
    assert np.mean(same) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / 40)
    assert np.mean(shifted) < 0.2


def test_the_mixtures_density_is_that_of_its_draws_formula():
    forward = ForwardModel.read(linear_model())
    proposal = a_proposal(forward)
    points = np.random.default_rng(1).normal(size=(50, 2))
    by_hand = sum(
        w * multivariate_normal(m, c).pdf(points)
        for w, m, c in zip(proposal.weights, proposal.means, proposal.covariances, strict=True)
    )
    np.testing.assert_allclose(np.exp(proposal.log_density(points)), by_hand)
    prior = norm.pdf(points).prod(axis=1)
    ratio = proposal.log_ratio(points, np.log(prior), 10)
    np.testing.assert_allclose(np.exp(ratio), 0.2 + 0.8 * by_hand / prior)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"rounds": 0}, ValueError, "rounds is 0"),
        ({"rounds": 2.0}, TypeError, "rounds"),
        ({"draws": 0}, ValueError, "draws is 0"),
        ({"draws": 200}, ValueError, "simulates 50; give each at least 62"),
        ({"prior_share": 0.0}, ValueError, "prior_share is 0.0"),
        ({"prior_share": "half"}, TypeError, "must be a number"),
        ({"estimator": "nothing"}, ValueError, "nothing"),
        ({"store": "folder"}, ValueError, "must be a whole number"),
    ],
)
def test_arguments_out_of_range_are_refused(settings, error, words):
    with pytest.raises(error, match=words):
        pk.refine(**{"draws": 400, "model": linear_model(), **QUIET, **settings})


def test_priors_that_rounds_cannot_draw_are_refused():
    with pm.Model() as counts:
        a = pm.Poisson("a", 3)
        pm.Simulator("y", normal, a, 1.0, observed=[0.0])
    with pytest.raises(ValueError, match=r"\['a'\] are discrete"):
        pk.refine(200, model=counts, **QUIET)
    with pm.Model() as angles:
        a = pm.VonMises("a", 0, 1)
        pm.Simulator("y", normal, a, 1.0, observed=[0.0])
    with pytest.raises(ValueError, match="angles"):
        pk.refine(200, model=angles, **QUIET)
    with pm.Model() as unknown:
        a = pm.CustomDist("a", random=lambda rng=None, size=None: rng.normal(size=size))
        pm.Simulator("y", normal, a, 1.0, observed=[0.0])
    with pytest.raises(ValueError, match="no density that PyMC knows"):
        pk.refine(200, model=unknown, **QUIET)
    with pm.Model() as unobserved:
        pm.Normal("a")
    with pytest.raises(ValueError, match="observed"):
        pk.refine(200, model=unobserved, **QUIET)


def test_uses_that_need_draws_of_the_prior_refuse_other_rows():
    table = pk.refine(200, model=linear_model(), rounds=2, estimator=LINEAR, random_seed=1, **QUIET)
    with pytest.raises(ValueError, match="calibration is over the prior"):
        pk.calibrate("localised", table, rows=20, **QUIET)
    with pytest.raises(ValueError, match="compared over the prior"):
        pk.compare(table, estimators=["rejection"], budgets=[50], random_seed=1, **QUIET)
    with pytest.raises(ValueError, match="no draws of the prior"):
        table.append(table)
    for ratio in (np.ones(3), -table.prior_ratio, 0 * table.prior_ratio):
        with pytest.raises(ValueError, match="prior_ratio"):
            dataclasses.replace(table, prior_ratio=ratio)


def test_posteriors_of_a_row_or_two_are_made_no_wider_than_the_prior():
    """Those of three accepted rows are thousands of times too narrow for others."""
    with pm.Model() as model:
        c = pm.LKJCorr("c", eta=2, n=2)
        scale = pm.HalfNormal("scale", 1)
        pk.vector_simulator("y", correlated, c, scale, observed=[1.0, 0.3, 0.8])
    table = pk.refine(500, model=model, rounds=2, estimator="rejection", random_seed=1, **QUIET)
    assert len(table) + table.origin.left_out == 500
    assert np.isfinite(table.prior_ratio).all()
    # The logarithm's standard deviation is 1.1, and proposals are at most some times as wide.
    assert np.ptp(np.log(table.parameters[:, 1])) < 30


def correlated(rng, c, scale, size):
    c = float(np.ravel(c)[0 if np.size(c) == 1 else 1])
    y = rng.multivariate_normal([0, 0], [[1, c], [c, 1]], 20) * float(np.ravel(scale)[0])
    return np.cov(y.T)[np.triu_indices(2)]
