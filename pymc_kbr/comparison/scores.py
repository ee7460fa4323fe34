"""Scores of many posteriors at their true parameters, over all parameters and for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from pymc_kbr.arrays.scaling import nonzero
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.scores import covered, crps, energy_score, rmse

KEYS = ("estimator", "budget", "repetition")
COSTS = (
    "observations",
    "simulations",
    "amortised",
    "seconds_simulate",
    "seconds_fit",
    "seconds_condition",
    "peak_memory",
)
OVERALL = ("rmse", "rmse_of_mode", "bias", "crps", "energy_score", "coverage_90", "rkhs_error")
BY_PARAMETER = ("rmse", "rmse_of_mode", "bias", "crps", "coverage_90")

KERNEL_SHARE = 0.5
"""Bandwidth of the kernel in which RKHS errors are measured, as a share of the prior's deviations."""


@dataclass(frozen=True)
class ScoredPosterior:
    """What is scored of a posterior.

    Parameters
    ----------
    mean : ndarray of shape (p,)
    draws : ndarray of shape (m, p)
    atoms : ndarray of shape (a, p)
    weights : ndarray of shape (a,), optional
        Equal where left out.
    mode : ndarray of shape (p,), optional
    """

    mean: np.ndarray
    draws: np.ndarray
    atoms: np.ndarray
    weights: np.ndarray | None
    mode: np.ndarray | None = None


@dataclass(frozen=True)
class Scores:
    """Scores over the prior's deviations, and of each parameter in its own unit."""

    overall: dict[str, float]
    by_parameter: dict[str, np.ndarray]


def columns_of(parameters: list[str]) -> list[str]:
    """The columns of a comparison of a problem with these parameters."""
    named = [f"{score}[{name}]" for score in BY_PARAMETER for name in parameters]
    return [*KEYS, *COSTS, *OVERALL, *named, "note"]


def score_posteriors(
    posteriors: Iterable[ScoredPosterior],
    truth: np.ndarray,
    observed: np.ndarray,
    deviation: np.ndarray,
    exact: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None,
) -> tuple[int, Scores]:
    """The number of posteriors, and their scores.

    Parameters
    ----------
    posteriors : iterable of ScoredPosterior
        Of the first rows of the others.
    truth, observed : ndarray of shape (k, p), (k, d)
    deviation : ndarray of shape (p,)
        Of the prior.
    exact : callable, optional
        See `compare`.
    """
    unit = nonzero(deviation)
    kernel = Gaussian(tuple((KERNEL_SHARE * unit).tolist()))
    means, modes, single, energy, covers, errors = [], [], [], [], [], []
    for posterior, true, x in zip(posteriors, truth, observed, strict=False):
        means.append(posterior.mean)
        modes.append(np.full(len(unit), np.nan) if posterior.mode is None else posterior.mode)
        single.append(crps(posterior.draws, true))
        energy.append(energy_score(posterior.draws / unit, true / unit))
        covers.append(covered(posterior.draws, true))
        if exact is not None:
            count = len(posterior.atoms)
            weights = np.full(count, 1 / count) if posterior.weights is None else posterior.weights
            carried = weights != 0  # all pairs of atoms are visited
            embedding = Embedding(Atoms(posterior.atoms[carried], kernel), weights[carried])
            errors.append(np.sqrt(max(0.0, embedding.squared_error_to_gaussian(*exact(x)))))
    k = len(means)
    estimates = np.array(means)
    by_parameter = {
        "rmse": rmse(estimates, truth[:k]),
        "rmse_of_mode": rmse(np.array(modes), truth[:k]),
        "bias": np.mean(estimates - truth[:k], axis=0),
        "crps": np.mean(single, axis=0),
        "coverage_90": np.mean(covers, axis=0),
    }
    overall = {
        "rmse": _root_mean_square(by_parameter["rmse"] / unit),
        "rmse_of_mode": _root_mean_square(by_parameter["rmse_of_mode"] / unit),
        "bias": _root_mean_square(by_parameter["bias"] / unit),
        "crps": float(np.mean(by_parameter["crps"] / unit)),
        "energy_score": float(np.mean(energy)),
        "coverage_90": float(np.mean(covers)),
        "rkhs_error": float(np.mean(errors)) if errors else float("nan"),
    }
    return k, Scores(overall, by_parameter)


def _root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))
