"""Do the data look like what the posterior would produce? By the maximum mean discrepancy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.labelled import chains_first
from pymc_kbr.arrays.plotting import BARS, OBSERVED, drawn_on
from pymc_kbr.arrays.refusals import generator_of, one_of, whole
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.embedding.learnt_lengthscale import learn_lengthscale
from pymc_kbr.hypothesis_tests import TestResult, mmd_test
from pymc_kbr.kernels import Gaussian, median_heuristic
from pymc_kbr.posterior.posterior import Display, Shown
from pymc_kbr.simulation import simulate_data
from pymc_kbr.tables.file import check_result

if TYPE_CHECKING:
    import pymc as pm


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class PredictiveCheck(Display):
    """The observed data among data sets simulated from the posterior.

    Parameters
    ----------
    p_values : dict of str to float
        Of each observed variable: share of the simulated data sets that are at least as far from the
        others as the observed one is. Small values say that the model does not produce such data.
    observed : dict of str to float
        Mean squared maximum mean discrepancy of the observed data to the simulated ones.
    simulated : dict of str to ndarray of shape (k,)
        The same of each simulated data set to the others.
    tests : dict of str to TestResult
        `mmd_test` of the entries of the data and those of all simulated sets, of variables whose entries
        are exchangeable and at least two. Where the posterior has seen the data, its p-values are too large.
    """

    p_values: dict[str, float]
    observed: dict[str, float]
    simulated: dict[str, np.ndarray]
    tests: dict[str, TestResult]

    def plot(self, *, ax: Any = None) -> np.ndarray:
        """Distances of the simulated data sets to each other, and that of the data to them.

        Parameters
        ----------
        ax : sequence of matplotlib Axes, optional
            One a variable.

        Returns
        -------
        ndarray of matplotlib Axes, shape (v,)

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If another number of axes was given.
        """
        axes = drawn_on(ax, len(self.p_values), (3.6 * len(self.p_values), 2.8))
        for axis, (name, p_value) in zip(axes, self.p_values.items(), strict=True):
            axis.hist(self.simulated[name], bins=30, color=BARS, label="simulated")
            axis.axvline(self.observed[name], color=OBSERVED, label=f"observed, p = {p_value:.2g}")
            axis.set(xlabel=f"squared discrepancy of {name}", ylabel="data sets" if axis is axes[0] else "")
            axis.legend(frameon=False, fontsize=8)
        return axes

    def _shown(self) -> Shown:
        lines = [
            {
                "variable": name,
                "p-value": p_value,
                "distance of the data": self.observed[name],
                "of simulated data": float(np.mean(self.simulated[name])),
            }
            for name, p_value in self.p_values.items()
        ]
        return Shown(
            "Predictive check: small p-values say that the model makes other data", lines, len(lines)
        )


@default_arithmetic
def predictive_check(
    idata: Any,
    *,
    model: pm.Model | None = None,
    draws: int = 100,
    bandwidth: str = "median",
    random_seed: int | np.random.Generator | None = None,
) -> PredictiveCheck:
    """Compare the data, before they are summarised, with data simulated from the posterior.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        What `sample_abc` returned.
    model : pymc.Model, optional
        That of the surrounding ``with`` block where left out.
    draws : int
        Data sets to simulate, each from one draw of the posterior.
    bandwidth : "median" or "bayesian"
        Of the kernel: the median heuristic, or the maximum marginal likelihood of observed and simulated
        entries together.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    PredictiveCheck

    Raises
    ------
    ValueError
        If the result lacks a free variable of the model, draws are fewer than 20, the bandwidth
        is neither of the two, or a simulation fails.

    Notes
    -----
    The squared maximum mean discrepancy [1]_ under a Gaussian kernel at the median heuristic, between the
    entries of the observed variable's first axis and those of a simulated one, which are taken for
    independent draws; a vector simulator's data are one point. It sees what the summary statistics of
    `sum_stat` leave out. Entries that are missing in the data (NaN) are left out of the simulated sets, too.

    References
    ----------
    .. [1] A. Gretton, K. Borgwardt, M. Rasch, B. Schölkopf, A. Smola, A kernel two-sample test, JMLR 13
       (2012), 723-773.
    """
    check_result("idata", idata)
    whole("draws", draws)
    if draws < 20:
        raise ValueError(f"draws is {draws}; at least 20 simulated data sets are needed for a p-value")
    one_of("bandwidth", bandwidth, ("median", "bayesian"))
    rng = generator_of(random_seed)
    posterior = idata["posterior"]
    stacked = {
        str(name): np.asarray(values).reshape(-1, *values.shape[2:])
        for name, values in ((each, chains_first(held)) for each, held in posterior.data_vars.items())
    }
    count = len(next(iter(stacked.values())))
    rows = rng.choice(count, draws, replace=count < draws)
    simulated, observed, exchangeable = simulate_data(
        model, {name: values[rows] for name, values in stacked.items()}, rng
    )
    p_values, distances, references, tests = {}, {}, {}, {}
    for name, data in observed.items():
        sets = _sets(data, simulated[name], exchangeable[name])
        apart = squared_discrepancies(sets, bandwidth)
        # A set's distance to itself is zero and would make the references too small.
        np.fill_diagonal(apart, np.nan)
        distances[name] = float(np.nanmean(apart[0, 1:]))
        references[name] = np.nanmean(apart[1:, 1:], axis=1)
        # The observation counts among its references, which makes the p-value exact, and never zero.
        larger = int(np.sum(references[name] >= distances[name]))
        p_values[name] = (1 + larger) / (1 + draws)
        if len(sets[0]) > 1:
            tests[name] = _tested(sets, bandwidth, rng)
    return PredictiveCheck(p_values, distances, references, tests)


def _sets(data: Any, simulated: Any, exchangeable: bool) -> list[np.ndarray]:
    """The data and each simulated data set as points (m, q), all without what is missing in the data."""
    sets = [
        np.reshape(np.asarray(one, dtype=float), (len(one) if exchangeable else 1, -1))
        for one in (data, *simulated)
    ]
    gaps = np.isnan(sets[0])
    if not np.any(gaps):
        return sets
    # With a gap in every entry none would be left: what is there is then taken as one point.
    if exchangeable and not np.all(gaps.any(axis=1)):
        return [one[~gaps.any(axis=1)] for one in sets]
    return [one[~gaps][None] for one in sets]


def _tested(
    sets: list[np.ndarray],
    bandwidth: str,
    rng: np.random.Generator,
    *,
    # Simulated entries, evenly spread, that the data's are tested against.
    entries: int = 2000,
) -> TestResult:
    """The entries of the first set against those of the others together."""
    others = np.vstack(sets[1:])
    others = others[spread_out(len(others), entries)]
    # Of both together: under the null hypothesis their entries can be exchanged.
    unit = unit_deviations(np.vstack([sets[0], others]))
    return mmd_test(sets[0] / unit, others / unit, bandwidth=bandwidth, random_seed=rng)


# --- the maximum mean discrepancy between samples ---


def squared_discrepancies(sets: list[np.ndarray], bandwidth: str = "median") -> np.ndarray:
    """Squared maximum mean discrepancies (s, s) between sets of points, each of shape (m, q)."""
    # Under a Gaussian kernel on standardised points, its bandwidth by the median heuristic or "bayesian".
    deviation = unit_deviations(np.vstack(sets))
    scaled = [points / deviation for points in sets]
    pooled = np.vstack(scaled)
    kernel = (
        learn_lengthscale(pooled).kernel if bandwidth == "bayesian" else Gaussian(median_heuristic(pooled))
    )
    inner = np.empty((len(sets), len(sets)))
    for i, one in enumerate(scaled):
        for j, other in enumerate(scaled[: i + 1]):
            inner[i, j] = inner[j, i] = kernel(one, other).mean()
    norms = np.diag(inner)  # pairs of a point with itself are kept: a squared distance, never negative
    return norms[:, None] + norms[None, :] - 2 * inner
