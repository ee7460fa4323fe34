"""Conditional mean embeddings against exact ones: what the ground-truth studies have in common.

A problem draws pairs (X, Y) whose conditional distribution of Y given X is known and normal. Each method
estimates its embedding at some x; errors are the RKHS distance to the exact embedding (Gaussian kernel of
variance one on Y), and the distances of the mean and the mode to a value of Y drawn at x.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

import pymc_kbr as pk
from pymc_kbr.embedding.embedding import Atoms, Embedding, mode
from pymc_kbr.gram import (
    DivideAndConquer,
    IncompleteCholesky,
    Nystroem,
    RandomFeatures,
    Subsample,
    pivoted_cholesky,
)
from pymc_kbr.kernels import Gaussian, gaussian_mean

OUTPUT_KERNEL = Gaussian(1.0)
FACTOR_ABOVE = 3_000
"""Rows above which the Gram matrix of Y is factored, to 1e-10 of its trace, to take norms."""

RANK = 500
METHODS = (
    "exact",
    "localised",
    "Nadaraya-Watson",
    "random subsample",
    "incomplete Cholesky",
    "random features",
    "divide and conquer",
    "fast randomised",
    "exact, by default",
    "localised, by default",
)


@dataclass(frozen=True)
class Trial:
    """One drawn problem.

    Attributes
    ----------
    x, y : ndarray of shape (n, d), (n, p)
        The sample.
    at : ndarray of shape (k, d)
        Where the conditional distribution is wanted.
    means : ndarray of shape (k, p)
        Its exact means.
    covariance : ndarray of shape (p, p)
        Its exact covariance, the same everywhere.
    drawn : ndarray of shape (k, p)
        One value of Y at each.
    """

    x: np.ndarray
    y: np.ndarray
    at: np.ndarray
    means: np.ndarray
    covariance: np.ndarray
    drawn: np.ndarray


Draw = Callable[[int, int, np.random.Generator], Trial]
"""A problem: from the dimension of X, the sample's size and a generator to a trial."""


def neighbours(n: int) -> int:
    """M = n^(2/3), as in the draft."""
    return min(n, max(2, round(n ** (2 / 3))))


def methods(
    n: int, bandwidth: float, regularisation: Callable[[int], float], names: Iterable[str]
) -> dict[str, pk.Estimator]:
    """The draft's methods at fixed settings; `regularisation` is a function of the rows in one regression."""
    m = neighbours(n)
    common: dict[str, Any] = {"centred": False, "scale": False}
    lam = regularisation(n)

    def on_all(solver: Any) -> pk.Estimator:
        return pk.ConditionalMean(bandwidth, lam, solver=solver, **common)

    made: dict[str, Callable[[], pk.Estimator]] = {
        "exact": lambda: on_all("exact"),
        "localised": lambda: pk.Localised(m, bandwidth, regularisation(m), **common),
        "Nadaraya-Watson": lambda: pk.NadarayaWatson(bandwidth, scale=False),
        "random subsample": lambda: pk.ConditionalMean(
            bandwidth, regularisation(m), solver=Subsample(m), **common
        ),
        "incomplete Cholesky": lambda: on_all(IncompleteCholesky(tolerance=1e-6, rank=min(n, RANK))),
        "random features": lambda: on_all(RandomFeatures(RANK)),
        "divide and conquer": lambda: on_all(DivideAndConquer(max(1, n // m))),
        "fast randomised": lambda: on_all(Nystroem(min(n, RANK), sampling="leverage")),
        "exact, by default": lambda: pk.ConditionalMean(solver="exact"),
        "localised, by default": lambda: pk.Localised(),
    }
    return {name: made[name]() for name in names}


class Errors:
    """Errors of weights on one trial's sample."""

    def __init__(self, trial: Trial, modes: bool = True) -> None:
        self.trial, self.modes = trial, modes
        y, variance = trial.y, np.ones(trial.y.shape[1])
        self.own = gaussian_mean(
            np.zeros((1, len(variance))), np.zeros_like(variance), 2 * trial.covariance, variance
        )[0]
        self.cross = np.array([gaussian_mean(y, mean, trial.covariance, variance) for mean in trial.means])
        rank = min(len(y), 800)
        self.factor = pivoted_cholesky(OUTPUT_KERNEL, y, rank, 1e-10)[0] if len(y) > FACTOR_ABOVE else None
        self.gram = OUTPUT_KERNEL(y) if self.factor is None else None

    def of(self, weights: np.ndarray) -> dict[str, float]:
        """Mean RKHS error, and root mean squared errors of mean and mode, of weights (k, n)."""
        if self.factor is not None:
            squares = np.sum((weights @ self.factor) ** 2, axis=1)
        else:
            squares = np.sum((weights @ self.gram) * weights, axis=1)
        squared = self.own - 2 * np.sum(weights * self.cross, axis=1) + squares
        found = {
            "rkhs_error": float(np.mean(np.sqrt(np.maximum(squared, 0)))),
            "squared_error_of_mean": float(
                np.mean(np.sum((weights @ self.trial.y - self.trial.drawn) ** 2, axis=1))
            ),
        }
        if self.modes:
            gaps = [self._mode(w) - drawn for w, drawn in zip(weights, self.trial.drawn, strict=True)]
            found["squared_error_of_mode"] = float(np.mean(np.sum(np.square(gaps), axis=1)))
        return found

    def _mode(self, weights: np.ndarray) -> np.ndarray:
        carried = weights != 0
        if not carried.any():  # kernel values underflow far from all rows: any point is as near
            return np.asarray(self.trial.y.mean(axis=0))
        atoms = Atoms(self.trial.y[carried], OUTPUT_KERNEL)
        return mode(Embedding(atoms, weights[carried]), starts=2, iterations=60)


def score(trial: Trial, made: dict[str, pk.Estimator], modes: bool = True) -> list[dict[str, float | str]]:
    """A line for each method: errors and seconds, or why it was refused."""
    errors = Errors(trial, modes)
    lines: list[dict[str, float | str]] = []
    for name, estimator in made.items():
        started = time.process_time()  # of the processor: other processes do not count
        try:
            weights = estimator.fit(trial.y, trial.x, random_seed=0).weights(trial.at)
        except MemoryError as error:
            lines.append({"method": name, "refused": str(error)})
            continue
        seconds = time.process_time() - started
        lines.append({"method": name, **errors.of(weights), "seconds": seconds})
    return lines


def averaged(lines: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Means over trials: the RKHS error with its standard error, root mean squared errors, seconds."""
    grouped = lines.groupby(by, sort=False)
    result = grouped[["rkhs_error"]].mean()
    result["standard_error"] = grouped["rkhs_error"].sem()
    for what in ("mean", "mode"):
        if f"squared_error_of_{what}" in lines:
            result[f"rmse_of_{what}"] = np.sqrt(grouped[f"squared_error_of_{what}"].mean())
    if "seconds" in lines:
        result["seconds"] = grouped["seconds"].mean()
    result["trials"] = grouped["rkhs_error"].count()
    if "refused" in lines:
        result["refused"] = grouped["refused"].first()
    return result.reset_index()


def surface(
    draw: Draw, trials: int, n: int, bandwidths: np.ndarray, regularisations: np.ndarray, modes: bool = False
) -> pd.DataFrame:
    """Errors as functions of bandwidth and ridge; the ridge of m rows is the same lambda times m."""
    names = ("exact", "localised", "Nadaraya-Watson", "random subsample")
    lines = []
    for number in range(trials):
        trial = draw(2, n, np.random.default_rng([number, n]))
        errors = Errors(trial, modes)
        for bandwidth in bandwidths:
            smoothed: dict[str, float] | None = None
            for regularisation in regularisations:
                ridge = functools.partial(_same, float(regularisation))
                for name, estimator in methods(n, bandwidth, ridge, names).items():
                    if name == "Nadaraya-Watson" and smoothed is not None:
                        found = smoothed  # it has no ridge
                    else:
                        weights = estimator.fit(trial.y, trial.x, random_seed=0).weights(trial.at)
                        found = errors.of(weights)
                    if name == "Nadaraya-Watson":
                        smoothed = found
                    lines.append(
                        {"method": name, "bandwidth": bandwidth, "regularisation": regularisation, **found}
                    )
    return averaged(pd.DataFrame(lines), ["method", "bandwidth", "regularisation"])


def over_dimensions(draw: Draw, trials: int, n: int, dimensions: Sequence[int]) -> pd.DataFrame:
    """Errors as a function of the dimension of X, at bandwidth sqrt(d) and lambda = 0.001 / sqrt(n)."""
    lines = []
    for d in dimensions:
        for number in range(trials):
            trial = draw(d, n, np.random.default_rng([number, n, d]))
            made = methods(n, np.sqrt(d), draft_ridge, METHODS)
            lines += [{"d": d, **line} for line in score(trial, made)]
    return averaged(pd.DataFrame(lines), ["d", "method"])


def _same(regularisation: float, n: int) -> float:
    """The same lambda for any number of rows."""
    return regularisation


def draft_ridge(n: int) -> float:
    """Lambda of the draft's notes: 0.001 / sqrt(n)."""
    return 0.001 / np.sqrt(n)


def squared_distance(
    estimator: pk.Estimator, x: np.ndarray, y: np.ndarray, kernel: Gaussian, folds: int
) -> float:
    """Cross-validated |k(., y_i) - m(x_i)|^2 in the space of the kernel on Y, averaged over i."""
    total = 0.0
    for rest, out in KFold(folds, shuffle=True, random_state=0).split(x):
        weights = estimator.fit(y[rest], x[rest], random_seed=0).weights(x[out])
        cross = np.sum(weights * kernel(y[out], y[rest]), axis=1)
        own = np.sum(weights @ kernel(y[rest]) * weights, axis=1)
        total += float(np.sum(kernel.diag(y[out]) - 2 * cross + own))
    return total / len(x)


def chosen_settings(
    draw: Draw, trials: int, n: int, bandwidths: np.ndarray, regularisations: np.ndarray
) -> pd.DataFrame:
    """Bandwidth and ridge with the smallest 5-fold distance, as logarithms less those of the exact one."""
    names = ("exact", "localised", "Nadaraya-Watson", "random subsample")
    lines = []
    for number in range(trials):
        trial = draw(2, n, np.random.default_rng([number, n, 7]))
        chosen: dict[str, tuple[float, float, float]] = {}
        for bandwidth in bandwidths:
            for place, regularisation in enumerate(regularisations):
                ridge = functools.partial(_same, float(regularisation))
                for name, estimator in methods(n * 4 // 5, bandwidth, ridge, names).items():
                    if name == "Nadaraya-Watson" and place:
                        continue  # it has no ridge
                    distance = squared_distance(estimator, trial.x, trial.y, OUTPUT_KERNEL, 5)
                    if name not in chosen or distance < chosen[name][0]:
                        chosen[name] = distance, float(bandwidth), float(regularisation)
        for name, (distance, bandwidth, regularisation) in chosen.items():
            lines.append(
                {
                    "trial": number,
                    "method": name,
                    "distance": distance,
                    "bandwidth": bandwidth,
                    "regularisation": np.nan if name == "Nadaraya-Watson" else regularisation,
                    "log10_bandwidth_less_exact": np.log10(bandwidth / chosen["exact"][1]),
                    "log10_regularisation_less_exact": np.nan
                    if name == "Nadaraya-Watson"
                    else np.log10(regularisation / chosen["exact"][2]),
                }
            )
    return pd.DataFrame(lines)


def write(table: pd.DataFrame, path: Path) -> None:
    """A CSV file with five significant digits."""
    table.to_csv(path, index=False, float_format="%.5g")
