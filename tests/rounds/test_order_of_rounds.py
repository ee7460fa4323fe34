"""When rounds end, with which seeds and between which bounds they draw, and what is predicted."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_kbr as pk
from pymc_kbr.rounds import emulate as emulate_module
from pymc_kbr.rounds import learn_simulators, zoom
from pymc_kbr.rounds.emulator import Emulator, _directions
from pymc_kbr.rounds.sequence import Rounds
from pymc_kbr.simulation import ForwardModel, Proposal, SimulationOptions, simulate_table, weights_of

QUIET = {"progressbar": False}


def a_model(known=False):
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        pm.Simulator("y", lambda rng, mean, size: rng.normal(mean, 0.1, size), mean, observed=[0.3])
        if known:
            pm.Normal("z", mean, 0.5, observed=1.0)
    return model


@pytest.fixture
def simulated(monkeypatch):
    """Options of the rounds that are simulated."""
    kept = []

    def remembered(options, forward):
        kept.append(options)
        return simulate_table(options, forward)

    monkeypatch.setattr(zoom, "simulate_table", remembered)
    return kept


@pytest.mark.parametrize(
    ("narrows", "rounds"),
    [
        ([False, False], 2),
        ([True, False, False], 3),
        ([False, True, False, False], 4),
        ([True, False, True, True, True], 5),
    ],
)
def test_rounds_end_after_two_that_narrow_nothing_and_the_last_has_what_is_left(
    narrows, rounds, simulated, monkeypatch
):
    answers = iter(narrows)
    monkeypatch.setattr(zoom, "narrower", lambda table, bounds, scale: (next(answers), bounds))
    pk.zoom(1203, model=a_model(), rounds=5, random_seed=1, **QUIET)
    assert [options.draws for options in simulated] == [120] * rounds + [1203 - 120 * rounds]


def test_with_noise_one_round_that_predicts_well_and_narrows_nothing_is_the_last(simulated, monkeypatch):
    seeds, answers = [], iter([(False, False), (True, True), (False, True)])

    def narrower(table, bounds, scale, forward, noise, seed):
        seeds.append(seed)
        narrowed, last = next(answers)
        return narrowed, bounds, last

    monkeypatch.setattr(zoom, "narrower_with_noise", narrower)
    pk.zoom(720, model=a_model(), rounds=5, noise=0.1, random_seed=1, **QUIET)
    assert [options.draws for options in simulated] == [120, 120, 120, 360]
    # A pilot's rows must be others than those of any round.
    assert len({*seeds, *(options.random_seed for options in simulated)}) == 3 + 4


def test_rows_between_bounds_are_weighted_by_what_is_known_of_the_data():
    model = a_model(known=True)
    table = pk.zoom(480, model=model, rounds=2, random_seed=1, **QUIET)
    expected = np.exp(-0.5 * ((1.0 - table.parameters[:, 0]) / 0.5) ** 2)
    np.testing.assert_allclose(table.prior_ratio / table.prior_ratio.max(), expected / expected.max())
    every = ForwardModel.of_columns(model).log_known(table.parameters)
    np.testing.assert_allclose(
        table.prior_ratio / table.prior_ratio.sum(), weights_of(every) / weights_of(every).sum()
    )


class Recorded(Rounds):
    """Rounds of which nothing is simulated or proposed."""

    def run(self):
        self.seeds, self.sizes, self.stopped = [], [], []
        return super().run()

    def _simulate(self, size, proposal, seed):
        self.seeds.append(seed)
        self.sizes.append(size)
        self.tables.append(None)

    def _next(self, seed):
        self.seeds.append(seed)
        return SimpleNamespace(notes={"last": len(self.tables) == 3})

    def _pooled(self, stopped=False):
        self.stopped.append(stopped)
        return SimpleNamespace(failures=[])


def test_each_round_and_each_proposal_has_a_seed_of_its_own():
    asked = {"draws": 103, "rounds": 4}
    runs = []
    for seed in (5, 6):
        rounds = Recorded(None, None, SimulationOptions(103, random_seed=seed, **QUIET), asked, None)
        rounds.run()
        assert rounds.stopped == [False]
        assert len(set(rounds.seeds)) == 4 + 3
        assert rounds.sizes == [25, 25, 25, 28]
        runs.append(set(rounds.seeds))
    assert not runs[0] & runs[1]


# --- predicted tables ---


def decay_table(model, rows=60):
    return pk.simulate(rows, model=model, random_seed=1, **QUIET)


@pytest.mark.parametrize("noise", [None, 0.2])
def test_predicted_rows_have_seeds_bounds_and_units_of_their_own(noise, monkeypatch):
    with pm.Model() as model:
        rate = pm.Uniform("rate", 0, 4)
        pk.vector_simulator(
            "y", lambda rng, rate, size=None: np.array([rate, 10 * rate]), rate, observed=[2.0, 20.0]
        )
    table = decay_table(model)
    looks, draws, units = [], [], []
    fit, draw = Emulator.fit, ForwardModel.draw

    def fitted(table, unit, rng):
        units.append(unit)
        return fit(table, unit, rng)

    def drawn(self, count, seed, within, even=False):
        draws.append((count, seed, within))
        return draw(self, count, seed, within, even=even)

    def likely(emulator, table, forward, seed, within, noise):
        looks.append((seed, within))
        return len(looks) < 3, {"rate": (np.array(1.0), np.array(3.0))}

    monkeypatch.setattr(Emulator, "fit", fitted)
    monkeypatch.setattr(ForwardModel, "draw", drawn)
    monkeypatch.setattr(emulate_module, "likely_bounds", likely)
    how = {"model": model, "noise": noise, "random_seed": 1, **QUIET}
    pk.emulate(table, 50, **how)
    ends = [table.parameters.min() - 1e-3, table.parameters.max() + 1e-3]
    bounds = pk.Support.from_bounds({"rate": tuple(ends)}, ["rate"])
    bounded = dataclasses.replace(table, support=bounds)
    pk.emulate(bounded, 50, **how)
    expected = table.statistics.std(axis=0) if noise is None else np.full(2, 0.2)
    np.testing.assert_allclose(units, [expected] * 2)
    assert len({seed for seed, _ in looks} | {draws[0][1]}) == (1 if noise is None else 4)
    if noise is None:
        assert looks == []
        assert draws[0][2] is None
        assert [float(end) for end in draws[1][2]["rate"]] == ends
    else:
        assert [float(end) for end in looks[3][1]["rate"]] == ends


@pytest.mark.parametrize(("error", "told"), [(0.04, 0), (0.06, 1)])
def test_a_twentieth_of_a_deviation_is_told_of(error, told, recwarn):
    emulate_module._warn_of_errors(error, 3, False)
    assert len(recwarn) == told


def test_directions_are_left_out_as_long_as_all_of_them_together_are_error(rng):
    """One of variance one, and 39 of a tenth: nine of these are below an error of one, ten are not."""
    deviations = np.sqrt(np.array([1.0, *[0.1] * 39]))
    q, _ = np.linalg.qr(rng.normal(size=(200, 40)))
    targets = np.sqrt(200) * q * deviations
    kept = _directions(targets, 0.95)
    assert kept.shape == (40, 31)
    left = np.sum(targets**2) / 200 - np.sum((targets @ kept) ** 2) / 200
    assert left == pytest.approx(0.9)
    assert _directions(targets, 1e9).shape == (40, 1)


# --- learned simulators ---


def test_what_is_the_same_in_all_rows_is_no_input_of_a_learned_simulator(rng):
    theta = np.column_stack([rng.normal(size=30), np.full(30, 2.0), rng.normal(size=30)])
    asked = []
    kind = SimpleNamespace(
        theta_of_rows=lambda table: theta,
        support=lambda table, columns: asked.append(columns) or "support",
        inputs="inputs",
    )
    likelihood = SimpleNamespace(fit=lambda *given, **how: asked.append((given, how)))
    frame = pd.DataFrame({"a": rng.normal(size=30), "s": rng.normal(size=30)})
    table = pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["s"])
    learned = learn_simulators._fitted(kind, table, likelihood, 9)
    columns, ((given, statistics, support), how) = asked
    np.testing.assert_array_equal(columns, [0, 2])
    np.testing.assert_array_equal(given, theta[:, [0, 2]])
    assert statistics is table.statistics
    assert (support, how) == ("support", {"random_seed": 9})
    np.testing.assert_array_equal(learned.columns, [0, 2])


# --- rows of rounds at posterior draws ---


def test_rows_at_posterior_draws_are_weighted_by_what_is_known_as_well():
    """The same rows in a model with another observed variable: weights times its density."""
    tables = [pk.simulate(40, model=a_model(), random_seed=seed, **QUIET) for seed in (1, 2)]
    ratios = []
    for known in (False, True):
        forward = ForwardModel.of_columns(a_model(known))
        covariances = np.array([[[1.0]], [[4.0]]])
        proposal = Proposal(np.full(2, 0.5), np.full((2, 1), 0.3), covariances, forward.support, 0.25)
        rounds = Rounds(
            forward, pk.Rejection(5), SimulationOptions(40, **QUIET), {}, None, tables, [None, proposal]
        )
        pooled = rounds._pooled()
        ratios.append(pooled.prior_ratio)
    expected = ratios[0] * np.exp(-0.5 * ((1.0 - pooled.parameters[:, 0]) / 0.5) ** 2)
    np.testing.assert_allclose(ratios[1] / ratios[1].sum(), expected / expected.sum())
