"""Simulation-based calibration on held-out rows of a reference table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import binom, kstest

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import shown
from pymc_kbr.posterior.arviz import pack
from pymc_kbr.posterior.posterior import Display, Shown
from pymc_kbr.tables.columns import Columns
from pymc_kbr.tables.reference_table import ReferenceTable


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Display):
    """How an estimator's posteriors agree with the parameters of held-out rows.

    Parameters
    ----------
    pit : ndarray of shape (k, p)
        Probability integral transforms in [0, 1]: the posterior probability below the true value, ties
        broken at random. Uniform where the estimator is calibrated.
    contraction : ndarray of shape (k, p)
        One minus the posterior's variance over the prior's.
    energy_scores : ndarray of shape (k,)
        Of the draws, over the parameters' standard deviations.
    columns : Columns
        Names and shapes of the parameters.
    draws : int
        Of each posterior.
    joint : JointTransforms, optional
        The same of all parameters together: of highest-density regions, and of distances to a point.
    recovery : Recovery, optional
        True values beside the quantiles of their posteriors.
    around : ndarray of shape (d,), optional
        The observation near which the rows were held out, where they are no draws of the prior.
    trials : int, optional
        Of each data set, where sets of trials were conditioned on.
    spread : float, optional
        Of trials that are rows with similar parameters: the deviation of the parameters in a set over that
        of the posterior, the median of all sets and the largest of all parameters.
    """

    pit: np.ndarray
    contraction: np.ndarray
    energy_scores: np.ndarray
    columns: Columns
    draws: int
    joint: JointTransforms | None = None
    recovery: Recovery | None = None
    around: np.ndarray | None = None
    trials: int | None = None
    spread: float | None = None

    def _shown(self) -> Shown:
        """The summary of the first parameters, and what coverage is expected."""
        low, high = self.band(0.9)
        where = "" if self.around is None else ", near one observation"
        joint = [
            f"{line['region']}: coverage of 90% is {line['coverage_90']:.1%}, p of uniformity "
            f"{line['uniformity_p']:.2g}"
            for line in (self.joint_summary() if self.joint else [])
        ]
        on = "held-out rows" if self.trials is None else f"sets of {self.trials:,} trials"
        if self.spread is not None:
            joint.append(f"the parameters of a set's rows differ by {self.spread:.2g} posterior deviations")
        return Shown(
            f"Calibration on {len(self.pit):,} {on}{where}, {self.draws:,} draws of each posterior",
            self.summary(),
            len(self.names),
            [*joint, f"coverage of 90% is expected between {low:.1%} and {high:.1%}"],
        )

    @property
    def names(self) -> list[str]:
        """Name of each parameter column."""
        return self.columns.names

    def coverage(self, levels: float | Sequence[float] | np.ndarray = 0.9) -> np.ndarray:
        """Share of the rows whose parameter lies in the central interval of each probability.

        Parameters
        ----------
        levels : float or array_like of shape (l,)

        Returns
        -------
        ndarray of shape (p,) or (l, p)

        Raises
        ------
        ValueError
            If a level is no probability.
        """
        asked = probabilities(levels)
        inside = np.abs(self.pit - 0.5)[None] <= asked[:, None, None] / 2
        found = inside.mean(axis=1)
        return found[0] if np.ndim(levels) == 0 else found

    def band(
        self,
        levels: float | Sequence[float] | np.ndarray,
        probability: float = 0.95,
        *,
        together: bool = False,
    ) -> np.ndarray:
        """Between which shares a calibrated estimator's coverage lies.

        Parameters
        ----------
        levels : float or array_like of shape (l,)
        probability : float
            That it lies there.
        together : bool
            At all levels at once, as the curve of a picture does, and not at each by itself.

        Returns
        -------
        ndarray of shape (2,) or (l, 2)

        Raises
        ------
        ValueError
            If a level, or `probability`, is no probability.

        Notes
        -----
        At all levels the band is that of each by itself with a larger probability, by simulation of uniform
        transforms [1]_.

        References
        ----------
        .. [1] T. Säilynoja, P.-C. Bürkner, A. Vehtari, Graphical test for discrete uniformity and its
           applications in goodness-of-fit evaluation and multiple sample comparison, Statistics and
           Computing (2022), section 2.2.
        """
        bounds = coverage_band(probabilities(levels), len(self.pit), probability, together=together)
        return bounds[0] if np.ndim(levels) == 0 else bounds

    def joint_coverage(self, levels: float | Sequence[float] | np.ndarray = 0.9) -> np.ndarray:
        """Share of the rows whose parameters lie in joint regions of each probability.

        Parameters
        ----------
        levels : float or array_like of shape (l,)

        Returns
        -------
        ndarray of shape (2,) or (l, 2)
            Of highest-density regions, and of balls about a point near the row [1]_. Their band is `band`.

        Raises
        ------
        ValueError
            If a level is no probability, or the calibration has marginal transforms only.

        References
        ----------
        .. [1] P. Lemos, A. Coogan, Y. Hezaveh, L. Perreault-Levasseur, Sampling-based accuracy testing of
           posterior estimators for general inference, ICML (2023): coverage of TARP.
        """
        asked = probabilities(levels)
        found = np.mean(self._joint().together()[None] <= asked[:, None, None], axis=1)
        return found[0] if np.ndim(levels) == 0 else found

    def joint_summary(self) -> list[dict[str, Any]]:
        """One row a kind of joint region: coverage at 50%, 90% and 95%, and the p-value of uniformity.

        Returns
        -------
        list of dict, length 2
            Keys are region, coverage_50, coverage_90, coverage_95 and uniformity_p.

        Raises
        ------
        ValueError
            If the calibration has marginal transforms only.
        """
        covered, transforms = self.joint_coverage([0.5, 0.9, 0.95]), self._joint().together()
        return [
            {
                "region": name,
                "coverage_50": float(covered[0, i]),
                "coverage_90": float(covered[1, i]),
                "coverage_95": float(covered[2, i]),
                "uniformity_p": float(kstest(transforms[:, i], "uniform").pvalue),
            }
            for i, name in enumerate(JointTransforms.REGIONS)
        ]

    def _joint(self) -> JointTransforms:
        if self.joint is None:
            raise ValueError(
                "this calibration has transforms of single parameters only; make a new one with `calibrate`"
            )
        return self.joint

    def uniformity(self) -> np.ndarray:
        """How far each parameter's transforms are from uniform, by the test of Kolmogorov and Smirnov.

        Returns
        -------
        ndarray of shape (p,)
            p-values.
        """
        return np.array([kstest(column, "uniform").pvalue for column in self.pit.T])

    def recalibrated(self, draws: np.ndarray) -> np.ndarray:
        """Draws whose marginal intervals have the coverage that was found wanting.

        Parameters
        ----------
        draws : ndarray of shape (m, p)
            Of a posterior of the same estimator.

        Returns
        -------
        ndarray of shape (m, p)
            Inside the range of `draws`, in the same joint order.

        Raises
        ------
        ValueError
            If they are draws of another number of parameters.

        Notes
        -----
        With F the distribution of the transforms on held-out rows, an interval that should end at the
        quantile u ends at the quantile F^-1(u): the draw of rank u is replaced by the quantile F^-1(u) of the
        draws of that parameter [1]_. Nothing can be moved beyond the outermost draws: intervals that are
        much too narrow stay so.

        References
        ----------
        .. [1] V. Kuleshov, N. Fenner, S. Ermon, Accurate uncertainties for deep learning using calibrated
           regression, ICML (2018).
        """
        draws = np.asarray(draws, dtype=float)
        if draws.ndim != 2 or draws.shape[1] != self.pit.shape[1]:
            raise ValueError(
                f"draws have shape {draws.shape}; the calibration is of {self.pit.shape[1]} parameters, so "
                f"they must have shape (m, {self.pit.shape[1]})"
            )
        m, result = len(draws), np.empty_like(draws)
        for i, (column, pit) in enumerate(zip(draws.T, self.pit.T, strict=True)):
            # By ranks, so that the joint order of the draws, their copula, stays as it is.
            levels = (np.argsort(np.argsort(column)) + 0.5) / m
            known = (np.arange(len(pit)) + 0.5) / len(pit)
            result[:, i] = np.quantile(column, np.interp(levels, known, np.sort(pit)))
        return result

    def to_arviz(self) -> Any:
        """The transforms as ArviZ's ``plot_ecdf_pit`` expects them.

        Returns
        -------
        arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
            Group ``prior_sbc``, or ``posterior_sbc`` of rows near an observation, with each parameter's
            transforms; and ``joint_sbc`` with those of joint regions.
        """
        variables: dict[str, Any] = {}
        for name, values in self.columns.split(self.pit).items():
            dims = ("chain", "draw", *(f"{name}_dim_{i}" for i in range(values.ndim - 1)))
            variables[name] = (dims, values[None])
        groups = {"prior_sbc" if self.around is None else "posterior_sbc": variables}
        if self.joint is not None:
            together = self.joint.together().T
            groups["joint_sbc"] = {
                name: (("chain", "draw"), transforms[None])
                for name, transforms in zip(JointTransforms.REGIONS, together, strict=True)
            }
        return pack({name: self._dataset(held) for name, held in groups.items()})

    def _dataset(self, variables: dict[str, Any]) -> xr.Dataset:
        dataset = xr.Dataset(variables, coords={"chain": [0], "draw": np.arange(len(self.pit))})
        dataset.attrs = {"inference_library": "pymc_kbr", "draws_per_posterior": self.draws}
        return dataset

    def summary(self) -> list[dict[str, Any]]:
        """One row a parameter: coverage of 50%, 90% and 95% intervals, uniformity, median contraction.

        Returns
        -------
        list of dict, length p
            Keys are parameter, coverage_50, coverage_90, coverage_95, uniformity_p and contraction.
        """
        covered, uniformity = self.coverage([0.5, 0.9, 0.95]), self.uniformity()
        return [
            {
                "parameter": name,
                "coverage_50": float(covered[0, i]),
                "coverage_90": float(covered[1, i]),
                "coverage_95": float(covered[2, i]),
                "uniformity_p": float(uniformity[i]),
                "contraction": float(np.median(self.contraction[:, i])),
            }
            for i, name in enumerate(self.names)
        ]


# --- chance limits of the coverage ---


def coverage_band(levels: np.ndarray, rows: int, probability: float, *, together: bool) -> np.ndarray:
    """Lowest and highest shares of so many rows, with this probability: see `Calibration.band`."""
    # Shapes: levels (l,); returned: (l, 2).
    if not 0 < probability < 1:
        raise ValueError(f"probability is {shown(probability)}; it lies between 0 and 1, neither included")
    tail = _tail_of_each(levels, rows, 1 - probability) if together else (1 - probability) / 2
    return np.column_stack([binom.ppf(tail, rows, levels), binom.isf(tail, rows, levels)]) / rows


def _tail_of_each(
    levels: np.ndarray,
    rows: int,
    outside: float,
    *,
    # Simulated curves of uniform transforms, which give the band of whole curves.
    simulated_curves: int = 2000,
) -> float:
    """Tail probability at each level beyond which so large a share of calibrated curves goes somewhere."""
    edges = np.concatenate([[0.0], np.sort(levels), [1.0]])
    # A seed of its own: the band belongs to a number of rows, and no call moves it.
    counts = (
        np.random.default_rng(0).multinomial(rows, np.diff(edges), simulated_curves)[:, :-1].cumsum(axis=1)
    )
    tails = np.minimum(binom.cdf(counts, rows, edges[1:-1]), binom.sf(counts - 1, rows, edges[1:-1]))
    return float(np.quantile(tails.min(axis=1), outside))


def probabilities(levels: float | Sequence[float] | np.ndarray) -> np.ndarray:
    """Levels (l,), refused where one is no probability."""
    asked = np.atleast_1d(np.asarray(levels, dtype=float))
    if np.any(~((asked >= 0) & (asked <= 1))):
        raise ValueError(f"levels are {levels}; probabilities lie in [0, 1]")
    return asked


# --- draws corrected by a calibration ---


def recalibrated(
    draws: np.ndarray,
    calibration: Calibration,
    table: ReferenceTable,
    *,
    # A draw that leaves the support is moved half as far, so many times at most; then it stays where it was.
    most_halvings: int = 30,
) -> tuple[np.ndarray, float]:
    """Draws (m, p), recalibrated as by `Calibration.recalibrated`, and the share that is moved less far."""
    if calibration.names != table.parameter_names:
        raise ValueError(
            f"the calibration is of the parameters {calibration.names}; the table has {table.parameter_names}"
        )
    moved, support = calibration.recalibrated(draws), table.support
    parts = zip(support.blocks, support.parts(), strict=True)
    tied = [column for block, free in parts if len(free) < len(block.columns) for column in block.columns]
    if len(tied) == support.size:
        raise ValueError(
            f"the parameters {calibration.names} lie on a surface, as shares that sum to one do, and "
            "recalibration moves each by itself; leave it out"
        )
    moved[:, tied] = draws[:, tied]
    whole = np.flatnonzero([v.discrete for v in table.parameter_columns.variables for _ in range(v.size)])
    for column in whole:  # between two whole numbers a quantile is none
        moved[:, column] = _nearest(np.unique(draws[:, column]), moved[:, column])
    outside = np.flatnonzero(~support.allows(moved))
    share = len(outside) / len(draws)
    moved[np.ix_(outside, whole)] = draws[np.ix_(outside, whole)]
    for halving in range(most_halvings):
        if not len(outside):
            return moved, share
        if halving:
            moved[outside] = (moved[outside] + draws[outside]) / 2
        outside = outside[~support.allows(moved[outside])]
    moved[outside] = draws[outside]
    return moved, share


def _nearest(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The nearest of rising values (v,) to each of points (m,)."""
    return values[np.searchsorted((values[1:] + values[:-1]) / 2, points)]


# --- joint calibration of all parameters ---


@dataclass(frozen=True, eq=False)
class JointTransforms:
    """Transforms in [0, 1] of k held-out rows, uniform where the joint posteriors are calibrated."""

    # Shapes: highest_density (k,); tarp (k,).
    REGIONS: ClassVar[tuple[str, str]] = ("highest_density", "tarp")

    highest_density: np.ndarray
    tarp: np.ndarray

    def together(self) -> np.ndarray:
        """Both, as columns in the order of `REGIONS`, shape (k, 2)."""
        return np.column_stack([self.highest_density, self.tarp])


@dataclass(frozen=True, eq=False)
class Recovery:
    """True values of k held-out rows beside quantiles of their posteriors."""

    # Shapes: truths (k, p); quantiles (k, 3, p).
    LEVELS: ClassVar[tuple[float, float, float]] = (0.05, 0.5, 0.95)

    truths: np.ndarray
    quantiles: np.ndarray


def density_transform(draws: np.ndarray, truth: np.ndarray, rng: np.random.Generator) -> float:
    """Share of draws (m, p) where the posterior is denser than at the truth (p,)."""
    half = len(draws) // 2
    among, others = draws[:half], draws[half:]
    values = _log_density(among, np.vstack([truth[None], others]))
    return _place(-values[0], -values[1:], rng)


def ball_transform(
    draws: np.ndarray, truth: np.ndarray, reference: np.ndarray, rng: np.random.Generator
) -> float:
    """Share of draws (m, p) nearer than the truth (p,) to a reference point (p,), all in the same units."""
    distances = cdist(reference[None], np.vstack([truth[None], draws]))[0]
    return _place(distances[0], distances[1:], rng)


def _place(value: float, others: np.ndarray, rng: np.random.Generator) -> float:
    """Where a value is among m others, in [0, 1]: it is one more of them, and ties are broken at random."""
    below, equal = np.sum(others < value), np.sum(others == value)
    return float((below + rng.random() * (equal + 1)) / (len(others) + 1))


def _log_density(
    among: np.ndarray,
    points: np.ndarray,
    *,
    # Variances below this share of the largest one count as zero: draws then lie in fewer dimensions.
    flat_share: float = 1e-10,
) -> np.ndarray:
    """Log density, up to a constant, of a normal kernel over rows (m, p), at points (k, p)."""
    centre = among.mean(axis=0)
    values, directions = np.linalg.eigh(np.atleast_2d(np.cov(among.T)))
    kept = values > flat_share * max(values.max(), np.finfo(float).tiny)
    whiten = directions[:, kept] / np.sqrt(values[kept])
    width = len(among) ** (-1 / (kept.sum() + 4))
    squares = cdist((points - centre) @ whiten, (among - centre) @ whiten, "sqeuclidean")
    return logsumexp(-squares / (2 * width**2), axis=1)
