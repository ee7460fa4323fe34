"""Where random numbers come from: each row and generator from its own, all of them from the seed."""

import itertools

import numpy as np
import pymc as pm
import pytest

from pymc_kbr.simulation import simulate_data
from pymc_kbr.simulation.streams import BATCH_STREAM, PILOT_STREAM, PRIOR_STREAM, ROW_STREAM, streams
from tests import models
from tests.models import model, table


@pytest.mark.versions
def test_no_two_streams_are_the_same():
    keys = itertools.product((1, 2), (PRIOR_STREAM, ROW_STREAM, BATCH_STREAM, PILOT_STREAM), range(5))
    drawn = [stream.random(3) for key in keys for stream in streams(*key, 4)]
    assert len({tuple(numbers) for numbers in drawn}) == 2 * 4 * 5 * 4
    # A stream does not depend on how many others are made beside it.
    assert np.array_equal(
        streams(1, ROW_STREAM, 3, 1)[0].random(3), streams(1, ROW_STREAM, 3, 4)[0].random(3)
    )


@pytest.mark.versions
@pytest.mark.parametrize("batched", [True, False])
def test_two_simulators_and_two_priors_of_a_row_are_independent(batched):
    with pm.Model() as made:
        means = [pm.Normal(f"mean_{i}", 0, 1) for i in range(2)]
        for i in range(3):
            pm.Simulator(f"y_{i}", models.normal, 0.0 * means[i % 2], 1.0, observed=np.zeros(1))
    t = table(400, made, batched=batched)
    columns = np.hstack([t.parameters, t.statistics])
    correlation = np.corrcoef(columns.T)[np.triu_indices(5, 1)]
    assert np.abs(correlation).max() < 5 / np.sqrt(400)
    # Equal streams would give equal numbers, whatever their correlation.
    assert all(len(np.intersect1d(a, b)) == 0 for a, b in itertools.combinations(columns.T, 2))


def noise(rng, mean, scale, size=None):
    """Does not depend on the parameters, so that its numbers are those of its own streams."""
    return rng.normal(0.0 * mean, 1.0, size=size)


@pytest.mark.versions
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("within", [None, {"mean": (0.2, 0.5), "scale": (0.1, 1.0)}])
def test_the_seed_decides_parameters_and_statistics_of_every_row(batched, within):
    one, same, other = (
        table(50, model(noise), random_seed=seed, within=within, batched=batched) for seed in (1, 1, 2)
    )
    for side in ("parameters", "statistics"):
        assert np.array_equal(getattr(one, side), getattr(same, side))
        assert not np.any(np.isin(getattr(one, side), getattr(other, side)))
        assert len(np.unique(getattr(one, side))) == getattr(one, side).size


@pytest.mark.versions
def test_predicted_data_are_those_of_the_generator():
    draws = {"mean": np.zeros(3), "scale": np.ones(3)}
    one, same, other = (
        simulate_data(model(), draws, np.random.default_rng(seed))[0]["y"] for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same)
    assert not np.any(np.isin(one, other))
    assert len(np.unique(one)) == one.size


@pytest.mark.parametrize(
    ("bounds", "how"), [((0.2, 0.5), "uniform candidates"), ((-1.0, 4.0), "of the prior's draws")]
)
def test_draws_between_bounds_lie_there_and_fill_them(bounds, how):
    from pymc_kbr.simulation import ForwardModel

    within = {"mean": bounds, "scale": (0.5, 1.5)}
    drawn, _ = ForwardModel.read(model()).draw(3000, 1, within, True)
    made = table(3000, model(), within=within)
    assert how in made.provenance["prior_truncated"]
    for parameters in (drawn, made.parameters):
        for column, (lower, upper) in zip(parameters.T, within.values(), strict=True):
            assert np.all((lower <= column) & (column <= upper))
            assert column.min() < lower + 0.2 * (upper - lower)
    assert drawn[:, 1].max() > 1.4


# --- batches that are nearly, but not quite, what single rows give ---


def off_in_batches(by, unit=1.0):
    """Adds a share to what a batch gives, and nothing where rows are simulated alone."""

    def fn(rng, mean, scale, size=None):
        y = unit * rng.normal(mean, scale, size=size)
        return y * (1 + by) if np.size(mean) > 1 else y

    return fn


@pytest.mark.versions
@pytest.mark.parametrize(("by", "unit"), [(0.1, 1.0), (1e-6, 1e-20), (1e-6, 1e20)])
def test_a_batch_that_is_off_is_not_taken(by, unit):
    made = table(20, model(off_in_batches(by, unit)))
    assert made.provenance["simulated"] == "row by row"
    assert "its results were not those of its rows alone" in made.provenance["why"]
    assert table(20, model(off_in_batches(0.0, unit))).provenance["simulated"] == "in batches"
    with pytest.raises(ValueError, match="not those of its rows alone"):
        table(20, model(off_in_batches(by, unit)), batched=True)


# --- the support of another prior ---
