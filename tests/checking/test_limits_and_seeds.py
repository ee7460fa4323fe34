"""Limits from which a fault is named, and seeds that decide."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk
from pymc_kbr.checking import diagnostics, statistic_contributions
from tests.checking.test_special_cases import a_table


@pytest.mark.parametrize(("size", "named"), [(49.0, True), (50.0, False)])
def test_fifty_atoms_are_enough(size, named):
    posterior, seen = SimpleNamespace(effective_sample_size=size), SimpleNamespace(remedy="rounds")
    found = diagnostics._effective_sample_size(posterior, False, seen)
    assert (found is not None) is named


@pytest.mark.parametrize(("share", "named"), [(0.06, True), (0.04, False)])
def test_a_twentieth_beyond_the_simulations_is_extrapolated(share, named):
    found = diagnostics._extrapolated(SimpleNamespace(settings={"share_beyond_rows": share}))
    assert (found is not None) is named
    assert diagnostics._extrapolated(SimpleNamespace(settings={})) is None


class Held(Exception):
    """Carries the state of the generator that rows are held out by."""


def test_the_seed_decides_which_rows_are_held_out(monkeypatch):
    def hold_out(estimator, table, rows, observed, rng):
        raise Held(rng.bit_generator.state["state"]["state"])

    monkeypatch.setattr(statistic_contributions, "hold_out", hold_out)
    states = []
    for seed in (1, 1, 2):
        with pytest.raises(Held) as held:
            pk.statistic_contributions(pk.Rejection(5), a_table(), random_seed=seed, progressbar=False)
        states.append(held.value.args[0])
    assert states[0] == states[1] != states[2]
    expected = np.random.default_rng(2).bit_generator.state["state"]["state"]
    assert states[2] == expected


def test_a_parameter_that_never_varies_leaves_scores_that_are_numbers():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"k": 1, "a": rng.normal(size=200), "t": rng.normal(size=200)})
    frame["s"] = frame["a"] + 0.1 * rng.normal(size=200)
    table = pk.ReferenceTable.from_dataframe(frame, parameters=["k", "a"], statistics=["s", "t"])
    found = pk.statistic_contributions(
        pk.Rejection(10), table, rows=30, random_seed=1, progressbar=False
    ).summary()
    assert found.notna().all().all()
    assert found.index[0] == "s"


@pytest.mark.parametrize(("parameters", "off"), [(1, True), (100, False)])
def test_an_estimator_is_called_off_as_seldom_whatever_its_number_of_parameters(parameters, off):
    names = [f"a{i}" for i in range(parameters)]
    seen = SimpleNamespace(parameter_names=names, discrete=[False] * parameters)
    # By 3.7 deviations: once in 5,000 times of one parameter, and once in 50 of a hundred.
    covered = np.append(0.9 - 3.7 * np.sqrt(0.09 / 400), np.full(parameters - 1, 0.9))
    assert bool(diagnostics._coverage(covered, 400, seen)) is off


@pytest.mark.parametrize("covered", [1.0, np.nextafter(1.0, 2), 1 + 1e-12])
@pytest.mark.parametrize("rows", [1, 20])
def test_all_of_few_rows_are_not_too_many_whatever_their_weights_sum_to(covered, rows):
    seen = SimpleNamespace(parameter_names=["a"], discrete=[False])
    assert diagnostics._coverage(np.array([covered]), rows, seen) == []
    (found,) = diagnostics._coverage(np.array([covered]), 400, seen)
    assert "covered a 100% of 400 held-out rows" in found.message


@pytest.mark.parametrize(("rows", "named"), [(1, False), (9, False), (10, True)])
def test_of_nine_rows_nothing_is_said(rows, named):
    seen = SimpleNamespace(parameter_names=["a"], discrete=[False])
    assert bool(diagnostics._coverage(np.array([0.0]), rows, seen)) is named
