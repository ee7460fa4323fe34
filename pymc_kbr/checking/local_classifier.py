"""Can a classifier separate true values from draws near one observation? It learns from rows near it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import generator_of, whole
from pymc_kbr.arrays.scaling import nonzero, unit_deviations
from pymc_kbr.checking.held_out import hold_out, one_observation
from pymc_kbr.estimators import Estimator, make_estimator
from pymc_kbr.hypothesis_tests.result import by_permutation
from pymc_kbr.kernels import Gaussian
from pymc_kbr.kernels.kernel import frequencies
from pymc_kbr.posterior.posterior import Display, Shown
from pymc_kbr.tables.reference_table import ReferenceTable, check_table


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class LocalClassifierTest(Display):
    """How well a classifier separates true values from draws, near one observation.

    Parameters
    ----------
    statistic : float
        Variance of the classifier's score over the observation's posterior: zero where it learns nothing.
    pvalue : float
        Probability of a larger one if truths are draws of the posteriors.
    null : ndarray of shape (permutations,)
        Statistics of classifiers that were given draws in place of true values.
    effective_rows : float
        Held-out rows that count, those near the observation more.
    """

    statistic: float
    pvalue: float
    null: np.ndarray
    effective_rows: float

    def _shown(self) -> Shown:
        line = {"statistic": self.statistic, "pvalue": self.pvalue, "rows": self.effective_rows}
        return Shown("Local classifier test: small p-values say that the posterior is wrong", [line], 1)


@default_arithmetic
def local_classifier_test(
    estimator: str | Estimator,
    table: ReferenceTable,
    observed: Any = None,
    *,
    rows: int = 1000,
    permutations: int = 500,
    width_draws: int = 200,
    compared_draws: int = 4,
    random_seed: int | np.random.Generator | None = None,
) -> LocalClassifierTest:
    """Test whether an estimator's joint posterior is right near one observation.

    Parameters
    ----------
    estimator : str or Estimator
        A name, or an estimator; it is fitted again to the rows that are not held out.
    table : ReferenceTable
        Whose rows are draws of the prior.
    observed : array_like of shape (d,), optional
        The observation; the table's own where left out.
    rows : int
        Rows to hold out; at most half of the table.
    permutations : int
    width_draws : int
        Draws of each posterior that measure its width.
    compared_draws : int
        Further draws of each posterior that are compared with its truth.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    LocalClassifierTest

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, there is no observation, it does not fit or is not finite, or the rows
        are no draws of the prior.

    Notes
    -----
    The idea is that of the local classifier two-sample test [1]_: a classifier learns to separate parameters
    from draws of their posterior, given the statistics; where the posterior is right at the observation, its
    score does not vary over that posterior. Here it is a regularised discriminant of the parameters'
    deviations from their posterior: these, their squares and products, waves of each and random waves of all.
    Rows count by a Gaussian kernel of their statistics' distance to the observation. A truth is one more draw
    of its posterior under the null hypothesis, so that the discriminant is learnt again with other draws in
    the place of the truths; the scaling does not change, and the level is exact but for how different the
    posteriors of rows nearby are.

    References
    ----------
    .. [1] J. Linhart, A. Gramfort, P. Rodrigues, L-C2ST: local diagnostics for posterior approximations in
       simulation-based inference, NeurIPS (2023).
    """
    check_table("table", table)
    whole("rows", rows)
    whole("permutations", permutations)
    whole("width_draws", width_draws)
    whole("compared_draws", compared_draws)
    table = table.without_missing() if observed is None else table
    observation = one_observation(table, observed)
    rng = generator_of(random_seed)
    held = hold_out(clone(make_estimator(estimator)), table, rows, None, rng)
    posteriors = held.estimator.condition(np.vstack([observation[None], table.statistics[held.rows]]))
    p = table.parameters.shape[1]
    features = _ClassifierFeatures.drawn(p, rng)
    # Those of the observation first: draws alone, in units of their own posterior.
    width, further = _two_parts(posteriors[0].draw(2 * width_draws, rng), width_draws)
    at_observation = features(_in_deviations(further, width))
    learnt = np.empty((len(held.rows), 1 + compared_draws, at_observation.shape[1]))
    for i, posterior in enumerate(posteriors[1:]):
        # Deviations from further draws: neither a truth nor a draw beside it is among those that measure it.
        width, beside = _two_parts(posterior.draw(width_draws + compared_draws, rng), width_draws)
        points = np.vstack([table.parameters[held.rows[i]][None], beside])
        learnt[i] = features(_in_deviations(points, width))
    weights = _nearness(table.statistics[held.rows], observation, unit_deviations(table.statistics))
    return _tested(learnt, at_observation, weights, permutations, features.directions, rng)


@dataclass(frozen=True, eq=False)
class _ClassifierFeatures:
    """What a classifier sees of deviations (k, p): these, their products of two, and waves."""

    waves: np.ndarray

    @classmethod
    def drawn(
        cls,
        p: int,
        rng: np.random.Generator,
        *,
        # Random frequencies, in units of the posterior's deviations, with a cosine and a sine each.
        waves: int = 50,
    ) -> _ClassifierFeatures:
        # Distances grow with the root of p: narrower kernels would see no two points of many parameters as
        # near.
        return cls(frequencies(Gaussian(float(np.sqrt(p))), waves, p, rng))

    def __call__(
        self,
        deviations: np.ndarray,
        *,
        # Of a wave of each parameter by itself: waves of many hide the shape of one.
        own_frequency: float = 1.5,
    ) -> np.ndarray:
        first, second = np.triu_indices(deviations.shape[1])
        phases = deviations @ self.waves.T
        products = deviations[:, first] * deviations[:, second]
        scale = 1 / np.sqrt(len(self.waves))
        together = [scale * np.cos(phases), scale * np.sin(phases)]
        own = own_frequency * deviations
        return np.hstack([deviations, products, *together, np.cos(own), np.sin(own)])

    @property
    def directions(self) -> float:
        """Degrees of freedom of the classifier."""
        p = self.waves.shape[1]
        # Twice as many as means, variances and correlations: with fewer nothing is left for shapes.
        return float(max(10, p * (p + 3)))


def _two_parts(draws: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    return draws[:count], draws[count:]


def _in_deviations(points: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Points (k, p) less the mean of a posterior's draws (m, p), in its deviations."""
    return (points - draws.mean(axis=0)) / nonzero(draws.std(axis=0))


def _nearness(
    statistics: np.ndarray,
    observation: np.ndarray,
    unit: np.ndarray,
    *,
    # Share of the held-out rows within one bandwidth of the observation.
    share_within: float = 0.2,
) -> np.ndarray:
    """Weights (k,) of rows by their distance to the observation, of sum one."""
    distances = np.sqrt(np.sum(((statistics - observation) / unit) ** 2, axis=1))
    bandwidth = nonzero(np.quantile(distances, share_within))
    # Less the smallest distance, or an observation far from all rows would leave every weight at zero.
    weights: np.ndarray = np.exp(-0.5 * ((distances - distances.min()) / bandwidth) ** 2)
    return weights / weights.sum()


def _tested(
    learnt: np.ndarray,
    at_observation: np.ndarray,
    weights: np.ndarray,
    permutations: int,
    directions: float,
    rng: np.random.Generator,
) -> LocalClassifierTest:
    """The variance of a discriminant's score, and of the scores where draws take the place of truths."""
    # Shapes: learnt (k, 1 + b, w); at_observation (m, w); weights (k,).
    k, members, _ = learnt.shape
    centred = learnt - learnt.mean(axis=1, keepdims=True)
    # The same whichever member is the truth: nothing here knows it.
    spread = np.einsum("k,kma,kmb->ab", weights, centred, centred) / (members - 1)
    values, axes = np.linalg.eigh(spread)
    values = np.maximum(values, 0.0)
    chosen = rng.integers(members, size=(permutations + 1, k))
    # The first is the test itself: a truth comes before the draws beside it.
    chosen[0] = 0
    means = np.stack([weights @ centred[np.arange(k), of] for of in chosen])
    discriminants = (means @ axes) / (values + _ridge(values, directions))
    scores = (at_observation - at_observation.mean(axis=0)) @ axes @ discriminants.T
    found = np.mean(scores**2, axis=0)
    effective = float(1 / np.sum(weights**2))
    return LocalClassifierTest(float(found[0]), by_permutation(found[0], found[1:]), found[1:], effective)


def _ridge(values: np.ndarray, directions: float) -> float:
    """The ridge with which a discriminant has so many degrees of freedom, or half of all."""
    wanted = min(directions, np.sum(values > 0) / 2)
    low, high = 1e-12 * values.max(), 1e6 * values.max()
    for _ in range(60):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if np.sum(values / (values + middle)) > wanted else (low, middle)
    return float(middle)
