"""Single trials: coverage for data sets of 1 to 200 of them, and how exact the density of one is."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
from scipy.stats import binom, skew

import pymc_kbr as pk
from case_studies.hierarchical import waiting_times

LEVEL = 0.9
BINS = ((1, 10), (11, 50), (51, 200))
"""Of the number of trials."""

PARAMETERS = ("log drift", "log threshold")
GRID = 61


def data_sets(count: int, rng: np.random.Generator) -> tuple[np.ndarray, list[np.ndarray]]:
    """Parameters (count, 2) of the table's prior, and trials (r, 1) for each, r log-uniform from 1 to 200."""
    theta = waiting_times.table_parameters(count, rng)
    counts = np.floor(np.exp(rng.uniform(0, np.log(201), count))).astype(int)
    return theta, [
        waiting_times.simulate(np.repeat(row[None], r, axis=0), rng)[:, None]
        for row, r in zip(theta, counts, strict=True)
    ]


def exact_posterior(times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, deviations and quantiles (2, 2), of the lower and upper end, on a grid that is laid twice."""
    low, high = (
        waiting_times.CENTRE - 4.5 * waiting_times.DEVIATION,
        waiting_times.CENTRE + 4.5 * waiting_times.DEVIATION,
    )
    for _ in range(2):
        axes = [np.linspace(low[j], high[j], GRID) for j in range(2)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        z = (grid - waiting_times.CENTRE) / waiting_times.DEVIATION
        logs = -0.5 * (z**2).sum(axis=-1)
        for time_ in times:
            logs = logs + waiting_times.log_density(time_, grid)
        weights = np.exp(logs - logs.max())
        margins = [weights.sum(axis=1 - j) / weights.sum() for j in range(2)]
        mean = np.array([margin @ axis for margin, axis in zip(margins, axes, strict=True)])
        variance = [margin @ (axis - m) ** 2 for margin, axis, m in zip(margins, axes, mean, strict=True)]
        deviation = np.sqrt(variance)
        low, high = mean - 5 * deviation, mean + 5 * deviation
    ends = [
        np.interp([(1 - LEVEL) / 2, (1 + LEVEL) / 2], np.cumsum(margin) - margin / 2, axis)
        for margin, axis in zip(margins, axes, strict=True)
    ]
    return mean, deviation, np.transpose(ends)


def each_data_set(likelihood: pk.KernelLikelihood, count: int, random_seed: int) -> pd.DataFrame:
    """A line a data set and parameter: the truth, both posteriors, and whether 90% intervals hold it."""
    theta, sets = data_sets(count, np.random.default_rng(random_seed))
    started = time.perf_counter()
    posteriors = likelihood.condition(sets, trials=True)
    seconds = time.perf_counter() - started
    lines = []
    for truth, data, posterior in zip(theta, sets, posteriors, strict=True):
        lower, upper = posterior.quantile([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        mean, deviation, ends = exact_posterior(data[:, 0])
        ratio = np.sqrt(np.diag(posterior.cov())) / deviation
        for j, name in enumerate(PARAMETERS):
            lines.append(
                {
                    "trials": len(data),
                    "parameter": name,
                    "inside": bool(lower[j] <= truth[j] <= upper[j]),
                    "inside_exact": bool(ends[0, j] <= truth[j] <= ends[1, j]),
                    "error": (posterior.mean()[j] - mean[j]) / deviation[j],
                    "ratio": ratio[j],
                }
            )
    return pd.DataFrame(lines).assign(milliseconds=1000 * seconds / count)


def coverage(lines: pd.DataFrame) -> pd.DataFrame:
    """A line a parameter and number of trials: how many intervals hold the truth, and should.

    The band is that in which a binomial variable of the level lies with probability 0.95.
    """
    found = []
    for name in PARAMETERS:
        for low, high in ((1, 200), *BINS):
            part = lines[(lines["parameter"] == name) & lines["trials"].between(low, high)]
            least, most = binom.ppf([0.025, 0.975], len(part), LEVEL)
            found.append(
                {
                    "parameter": name,
                    "fewest": low,
                    "most": high,
                    "data_sets": len(part),
                    "inside": int(part["inside"].sum()),
                    "inside_exact": int(part["inside_exact"].sum()),
                    "band_low": int(least),
                    "band_high": int(most),
                    "mean_error": part["error"].mean(),
                    "rms_error": float(np.sqrt(np.mean(part["error"] ** 2))),
                    "ratio": part["ratio"].mean(),
                    "milliseconds": part["milliseconds"].mean(),
                }
            )
    return pd.DataFrame(found)


def density_errors(
    likelihood: pk.KernelLikelihood, lapses: float, points: int, each: int, random_seed: int
) -> dict[str, float]:
    """How far the learnt density of one trial is from the exact one, at parameters of the table's prior.

    Parameters
    ----------
    likelihood : KernelLikelihood
    lapses : float
        Share of lapses that it was learnt with.
    points, each : int
        Parameters, and trials at each.
    random_seed : int

    Returns
    -------
    dict of str to float
        Kullback-Leibler divergence from the exact density; root mean squared over the parameters, of log
        times: the error of the mean in deviations, of the deviation's logarithm, and of the skewness; the
        size of these that the number of trials alone gives.
    """
    rng = np.random.default_rng(random_seed)
    theta = waiting_times.table_parameters(points, rng)
    rows = np.repeat(theta, each, axis=0)
    times = waiting_times.simulate(rows, rng, lapses)
    again = waiting_times.simulate(rows, rng, lapses)
    exact = waiting_times.log_density(times, rows, lapses)
    learnt = likelihood.log_density(likelihood.describe(rows), likelihood.prepare(times[:, None]))
    drawn = likelihood.draw_statistics(rows, rng)[:, 0]
    truth, ours, chance = (np.log(part).reshape(points, each) for part in (times, drawn, again))
    found = {"divergence": float(np.mean(exact - learnt)), "error_of_divergence": 0.0}
    by_point = (exact - learnt).reshape(points, each).mean(axis=1)
    found["error_of_divergence"] = float(by_point.std() / np.sqrt(points))
    for name, part in (("learnt", ours), ("chance", chance)):
        found[f"mean_{name}"] = _rms((part.mean(axis=1) - truth.mean(axis=1)) / truth.std(axis=1))
        found[f"spread_{name}"] = _rms(np.log(part.std(axis=1) / truth.std(axis=1)))
        found[f"skewness_{name}"] = _rms(skew(part, axis=1) - skew(truth, axis=1))
    return found


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))
