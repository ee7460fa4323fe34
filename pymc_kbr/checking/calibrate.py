"""`calibrate`: an estimator conditioned on held-out rows, of all of the prior or near an observation."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.neighbours import Tree
from pymc_kbr.arrays.refusals import flag, generator_of, whole
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.checking.calibration import (
    Calibration,
    JointTransforms,
    Recovery,
    ball_transform,
    density_transform,
)
from pymc_kbr.checking.held_out import HeldOut, hold_out, one_observation
from pymc_kbr.estimators import Estimator, make_estimator
from pymc_kbr.estimators.kernel_likelihood import KernelLikelihood
from pymc_kbr.estimators.likelihood.success import refuse_weighted_for_success
from pymc_kbr.posterior.posterior import PosteriorWarning
from pymc_kbr.posterior.scores import energy_score
from pymc_kbr.simulation.model.read import read_model
from pymc_kbr.simulation.predictive import simulate_held_out
from pymc_kbr.simulation.progress import tracked
from pymc_kbr.tables.reference_table import ReferenceTable, check_table

if TYPE_CHECKING:
    import pymc as pm


@default_arithmetic
def calibrate(
    estimator: str | Estimator,
    table: ReferenceTable,
    *,
    rows: int = 1000,
    draws: int = 500,
    around: ArrayLike | None = None,
    trials: int | None = None,
    model: pm.Model | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> Calibration:
    """Condition an estimator on held-out rows and compare its posteriors with their parameters.

    Parameters
    ----------
    estimator : str or Estimator
        A name, or an estimator; one with settings of its own keeps them. It is fitted again to the rows
        that are not held out, and itself stays as it is.
    table : ReferenceTable
        Its observation plays no part, unless it is given as `around`.
    rows : int
        Rows to hold out; at most half of the table. Near an observation there can be fewer.
    draws : int
        Of each posterior; at least 10.
    around : array_like of shape (d,), optional
        An observation: rows are then held out where its posterior lies, and what is checked are posteriors
        under a prior that is concentrated there. Of the whole prior where left out.
    trials : int, optional
        Of a `KernelLikelihood`: posteriors of data sets of so many independent trials are checked, each a row
        of the table, and not of one. With `model` they are simulated at the parameters of each held-out row.
        Otherwise half of the table is held out and cut into sets of rows with similar parameters, each row
        in one set, at most `rows` of them; the mean of a set's parameters counts as the true value. That is
        exact where the mean of a trial is linear in the parameters and nothing else of it depends on them;
        it costs half of the rows to fit, and `spread` says by how many posterior deviations parameters in a
        set differ.
    model : pymc.Model, optional
        Of which the rows of the table are simulations, for `trials`.
    random_seed : int or numpy.random.Generator, optional
    progressbar : bool

    Returns
    -------
    Calibration

    Raises
    ------
    TypeError, ValueError
        If the estimator's name is unknown, there are fewer than 10 or more than half of the rows to
        hold out, fewer than 10 draws, too few rows near the observation, or the rows are no draws of the
        prior, as those of `refine`; if `trials` are asked of another estimator, of one with conditions, or
        with `around`, or if `model` has other parameters than the table, or fails.

    Warns
    -----
    PosteriorWarning
        If the parameters of rows that stand for trials of one set differ by more than a posterior deviation.

    Notes
    -----
    Simulation-based calibration [1]_: parameters drawn from the prior are distributed as draws of the
    posterior given the data that they have simulated. Held-out rows are such pairs. A fitted summary that
    is given as the estimator's `scale` is not fitted again: it may have seen them.

    Near an observation this is posterior simulation-based calibration [2]_ without new simulations: held-out
    rows are accepted with probability r, which is the density of the observation's posterior up to the level
    that three quarters of it exceed, so that they are draws of the prior times r, and the estimator is fitted
    to the other rows with weights r. Both agree whatever r is; how well the posterior is known decides only
    where one looks.

    References
    ----------
    .. [1] S. Talts, M. Betancourt, D. Simpson, A. Vehtari, A. Gelman, Validating Bayesian inference
       algorithms with simulation-based calibration, arXiv:1804.06788.
    .. [2] T. Säilynoja, M. Schmitt, P.-C. Bürkner, A. Vehtari, Posterior SBC: simulation-based calibration
       checking conditional on data, arXiv:2502.03279.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"a": rng.normal(size=600)})
    >>> frame["x"] = frame["a"] + rng.normal(size=600)
    >>> table = ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["x"])
    >>> found = calibrate("adjusted", table, rows=100, random_seed=1, progressbar=False)
    >>> low, high = found.band(0.9)
    >>> low <= found.coverage(0.9)[0] <= high
    np.True_
    """
    check_table("table", table)
    whole("rows", rows)
    whole("draws", draws)
    flag("progressbar", progressbar)
    chosen = clone(make_estimator(estimator))
    if table.prior_ratio is not None:
        raise ValueError(
            "the rows of the table are no draws of the prior (they have a prior_ratio), and calibration is "
            "over the prior: simulate a table for it with `simulate`"
        )
    refuse_weighted_for_success(table, "calibration is over the prior")
    n = len(table)
    if not 10 <= rows <= n // 2:
        raise ValueError(
            f"rows is {rows}; of a table of {n} rows between 10 and {n // 2} can be held out for calibration"
        )
    if draws < 10:
        raise ValueError(f"draws is {draws}; of each posterior at least 10 are needed for the transforms")
    _check_trials(chosen, table, trials, model, around)
    rng = generator_of(random_seed)
    joint_rng = rng.spawn(1)[0]  # of its own, so that the transforms of single parameters do not depend on it
    near = trials is not None and model is None
    held = hold_out(chosen, table, n // 2 if near else rows, around, rng)
    unit = unit_deviations(table.parameters[held.fitted])
    truths, sets = table.parameters[held.rows], table.statistics[held.rows][:, None]
    spreads = np.zeros((len(truths), len(unit)))
    if near:
        assert trials is not None
        similar = rng.permutation(_sets_of_similar(truths / unit, trials))[:rows]
        sets, spreads = sets[similar, 0], truths[similar].std(axis=1)
        truths = truths[similar].mean(axis=1)
    elif trials is not None:
        _, simulated = simulate_held_out(model, np.repeat(truths, trials, axis=0), rng)
        failed = int(np.any(~np.isfinite(simulated), axis=1).sum())
        if failed:
            raise ValueError(
                f"{failed} of {len(simulated)} trials that the model simulated failed (NaN or infinity), and "
                "sets of trials are those of simulations that succeed; leave model out: rows of the table "
                "then stand for trials"
            )
        sets = simulated.reshape(len(truths), trials, -1)
    nearest = _nearest_parameters(held, table, sets.mean(axis=1))
    k, p = len(truths), len(unit)
    pit, contraction, scores = np.empty((k, p)), np.empty((k, p)), np.empty(k)
    joint, quantiles = np.empty((k, 2)), np.empty((k, len(Recovery.LEVELS), p))
    over = np.zeros((k, p))
    # Fifty observations at once: their posteriors are in memory together.
    parts = np.array_split(np.arange(k), -(-k // 50))
    # Of posteriors that are made of draws, as many as are looked at.
    compared = held.estimator.for_scores().for_draws(draws)
    for part in tracked(parts, "calibrating", progressbar):
        if trials is None:
            posteriors = compared.condition(sets[part, 0])
        else:
            posteriors = compared.posteriors_of_trials(list(sets[part]))  # type: ignore[attr-defined]
        for i, posterior in zip(part, posteriors, strict=True):
            drawn, truth = posterior.draw(draws, rng), truths[i]
            over[i] = spreads[i] / np.maximum(drawn.std(axis=0), np.finfo(float).tiny)
            # The truth is one more draw; its place among those that equal it is drawn, too.
            below, equal = np.sum(drawn < truth, axis=0), np.sum(drawn == truth, axis=0)
            pit[i] = (below + rng.random(p) * (equal + 1)) / (draws + 1)
            contraction[i] = 1 - drawn.var(axis=0) / unit**2
            scores[i] = energy_score(drawn / unit, truth / unit)
            quantiles[i] = np.quantile(drawn, Recovery.LEVELS, axis=0)
            joint[i, 0] = density_transform(drawn / unit, truth / unit, joint_rng)
            joint[i, 1] = ball_transform(drawn / unit, truth / unit, nearest[i] / unit, joint_rng)
    spread = float(np.median(over, axis=0).max()) if near else None
    if spread is not None and spread > 1:
        warnings.warn(
            f"the rows that stand for {trials} trials of one set have parameters that differ by {spread:.2g} "
            "posterior deviations: what is found may be due to that; give `model`, simulate more rows, or "
            "take fewer trials",
            PosteriorWarning,
            stacklevel=users_line(),
        )
    return Calibration(
        pit,
        contraction,
        scores,
        table.parameter_columns,
        draws,
        JointTransforms(joint[:, 0], joint[:, 1]),
        Recovery(truths, quantiles),
        None if around is None else one_observation(table, around),
        trials,
        spread,
    )


def _check_trials(
    chosen: Estimator, table: ReferenceTable, trials: Any, model: Any, around: ArrayLike | None
) -> None:
    """Refuse sets of trials where there can be none."""
    if trials is None:
        if model is not None:
            raise ValueError("model is given, and trials is not; say how many trials a data set has")
        return
    whole("trials", trials)
    if not isinstance(chosen, KernelLikelihood):
        raise ValueError(
            f"trials is given, and the estimator is a {type(chosen).__name__}; the likelihoods of trials are "
            "multiplied, which takes a KernelLikelihood"
        )
    if around is not None:
        raise ValueError("trials and around are both given; leave one of the two out")
    if chosen.conditions is not None:
        raise ValueError(
            "the likelihood has conditions, which the rows of a table do not tell from parameters that are "
            "inferred; leave trials out of calibrate, or conditions out of the likelihood"
        )
    # Half of the rows, of which ten sets are the fewest that are compared with anything.
    most_trials = len(table) // 20
    if trials < 2 or (model is None and trials > most_trials):
        most = (
            f" and, without a model, at most {most_trials}, of which half of the table has ten sets"
            if model is None
            else ""
        )
        raise ValueError(f"trials is {trials}; it must be at least 2{most}")
    if model is not None:
        names = read_model(model).parameters.names
        if list(names) != list(table.parameter_names):
            raise ValueError(
                f"the model has the parameters {list(names)}, and the table {list(table.parameter_names)}; "
                "give the model that the table was simulated from"
            )


def _sets_of_similar(parameters: np.ndarray, trials: int) -> np.ndarray:
    """Sets (m, trials) of rows whose parameters (n, p) are similar, each row in one set at most."""
    # Sets that shared rows would not be independent, as is what their ranks are compared with.

    def cut(rows: np.ndarray) -> list[np.ndarray]:
        sets = len(rows) // trials
        if sets < 2:
            return [rows[:trials]]
        widest = parameters[rows].std(axis=0).argmax()
        ordered = rows[np.argsort(parameters[rows, widest], kind="stable")]
        middle = sets // 2 * trials
        return cut(ordered[:middle]) + cut(ordered[middle:])

    return np.array(cut(np.arange(len(parameters))))


def _nearest_parameters(held: HeldOut, table: ReferenceTable, statistics: np.ndarray) -> np.ndarray:
    """Parameters (k, p) of the fitted row whose statistics are nearest to each of others (k, d)."""
    unit = unit_deviations(table.statistics[held.fitted])
    tree = Tree(table.statistics[held.fitted] / unit)
    _, near = tree.query(statistics / unit, 1)
    return table.parameters[held.fitted][near[:, 0]]
