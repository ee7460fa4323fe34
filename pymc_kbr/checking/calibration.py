"""Simulation-based calibration on held-out rows of a reference table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import kstest

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.checking.coverage_band import coverage_band, probabilities
from pymc_kbr.checking.joint_transforms import JointTransforms, Recovery
from pymc_kbr.posterior.arviz import pack
from pymc_kbr.posterior.shown import Shown
from pymc_kbr.tables.columns import Columns


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
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
    """

    pit: np.ndarray
    contraction: np.ndarray
    energy_scores: np.ndarray
    columns: Columns
    draws: int
    joint: JointTransforms | None = None
    recovery: Recovery | None = None
    around: np.ndarray | None = None

    def __repr__(self) -> str:
        return self._shown().text()

    def _repr_html_(self) -> str:
        return self._shown().html()

    def _shown(self) -> Shown:
        """The summary of the first parameters, and what coverage is expected."""
        low, high = self.band(0.9)
        where = "" if self.around is None else ", near one observation"
        joint = [
            f"{line['region']}: coverage of 90% is {line['coverage_90']:.1%}, p of uniformity "
            f"{line['uniformity_p']:.2g}"
            for line in (self.joint_summary() if self.joint else [])
        ]
        return Shown(
            f"Calibration on {len(self.pit):,} held-out rows{where}, {self.draws:,} draws of each posterior",
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
                "this calibration has transforms of single parameters only; make it anew with `calibrate`"
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
