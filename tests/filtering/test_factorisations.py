"""What does not change between steps is not factored again."""

import numpy as np
import pytest

from pymc_kbr.filtering import KernelBayesFilter
from pymc_kbr.filtering.recursion import Recursion
from pymc_kbr.gram import dense, low_rank
from tests.filtering.problems import fixed, turning


@pytest.fixture
def counted(monkeypatch):
    """Sizes of the matrices that are factored, as they are."""
    sizes = []

    def counting(factor):
        def count(matrix, *rest, **options):
            sizes.append(len(matrix))
            return factor(matrix, *rest, **options)

        return count

    for module, name in (
        (dense, "cho_factor"),
        (dense, "lu_factor"),
        (low_rank, "cho_factor"),
        (low_rank, "eigh"),
    ):
        monkeypatch.setattr(module, name, counting(getattr(module, name)))
    return sizes


@pytest.mark.parametrize("solver", ["exact", "incomplete_cholesky"])
@pytest.mark.parametrize("rule", ["iw_kbr", "kbr"])
def test_a_step_factors_its_update_alone(rule, solver, counted, rng):
    z, x = turning(60, rng)
    kbf = fixed(rule, solver=solver).fit(z[:50], x[:50])
    assert len(counted) == 2  # the transition and the sum rule
    counted.clear()
    last = kbf.filter(x[50:]).last
    assert len(counted) == 10
    counted.clear()
    kbf.predict(7, last)
    kbf.filter(np.full((5, 2), np.nan), initial=last)
    assert counted == []
    kbf.step(last, x[50])
    assert len(counted) == 1


def test_rows_without_positive_weight_are_not_factored(counted, rng):
    z, x = turning(220, rng)
    kbf = fixed().fit(z[:200], x[:200])
    counted.clear()
    kbf.filter(x[200:])
    assert counted[0] == 200  # 1 / n each
    assert np.mean(counted[1:]) < 160


def test_a_known_transition_is_drawn_from_once(rng):
    z, x = turning(60, rng)
    calls = []

    def step(states, rng):
        calls.append(len(states))
        return states + 0.1 * rng.normal(size=states.shape)

    kbf = fixed(transition=step, transition_draws=3).fit(z[:50], x[:50])
    calls.clear()
    kbf.filter(x[50:])
    kbf.predict(5)
    assert calls == []


def test_settings_that_share_a_state_kernel_share_its_factorisations(monkeypatch, rng):
    z, x = turning(90, rng)
    made = []
    factor = Recursion._factor

    def counting(self):
        made.append(self.settings.state_kernel)
        factor(self)

    monkeypatch.setattr(Recursion, "_factor", counting)
    kbf = KernelBayesFilter(solver="exact").fit(z, x)
    assert kbf.validation_error_ > 0
    # one for each of five bandwidths on the states, one for KuLSIF's eta, and the fit itself
    assert len(made) <= 7
