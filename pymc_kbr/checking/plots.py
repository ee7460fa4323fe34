"""Pictures of weights, calibration, recovery and the observation's place among the simulations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.labelled import chains_first, read, some
from pymc_kbr.arrays.names import parameters_by_name
from pymc_kbr.arrays.plotting import (
    BAND,
    BARS,
    BLACK,
    OBSERVED,
    POSTERIOR,
    PRIOR,
    RULE,
    TRUTH,
    WRONG,
    drawn_on,
    line_style,
    once_axes,
)
from pymc_kbr.arrays.refusals import check_seed, instance, names_of
from pymc_kbr.arrays.refusals import probability as refuse_probability
from pymc_kbr.arrays.rows import as_rows
from pymc_kbr.checking.calibration import Calibration
from pymc_kbr.checking.observation_support import ObservationSupport, observation_support
from pymc_kbr.posterior.posterior import Posterior
from pymc_kbr.tables.file import check_result
from pymc_kbr.tables.reference_table import ReferenceTable, check_table


@default_arithmetic
@once_axes
def plot_posterior_weights(
    posterior: Posterior, *, names: list[str] | None = None, ax: Any = None
) -> np.ndarray:
    """Each atom's weight against its parameters: positive weights filled, negative ones hollow.

    Parameters
    ----------
    posterior : Posterior
    names : list of str, optional
        Of the parameters.
    ax : sequence of matplotlib Axes, optional
        One a parameter.

    Returns
    -------
    ndarray of matplotlib Axes, shape (p,)
    """
    instance("posterior", posterior, Posterior, "a Posterior, as `condition` makes one")
    p = posterior.atoms.shape[1]
    axes = drawn_on(ax, p, (3.2 * p, 2.8))
    negative = posterior.weights < 0
    for i, axis in enumerate(axes):
        atoms = posterior.atoms[:, i]
        axis.scatter(atoms[~negative], posterior.weights[~negative], s=8, color=BLACK, label="positive")
        if np.any(negative):
            axis.scatter(
                atoms[negative],
                posterior.weights[negative],
                s=10,
                facecolors="none",
                edgecolors=WRONG,
                linewidths=0.8,
                label=f"negative ({posterior.negative_share:.0%})",
            )
        axis.axhline(0, color=BARS, linewidth=0.8, zorder=0)
        axis.set(xlabel=names[i] if names else f"parameter {i}", ylabel="weight" if i == 0 else "")
    axes[0].legend(frameon=False, fontsize=8)
    return axes


@default_arithmetic
@once_axes
def plot_calibration(calibration: Calibration, *, probability: float = 0.95, ax: Any = None) -> np.ndarray:
    """Coverage of central intervals less their probability, and the transforms' distribution.

    Parameters
    ----------
    calibration : Calibration
    probability : float
        With which the whole curve of a calibrated estimator's parameter lies in the band.
    ax : pair of matplotlib Axes, optional

    Returns
    -------
    ndarray of matplotlib Axes, shape (2,)
    """
    instance("calibration", calibration, Calibration, "a Calibration, as `calibrate` makes one")
    axes = drawn_on(ax, 2, (7.2, 3.0))
    levels = np.linspace(0, 1, 51)
    band = calibration.band(levels, probability, together=True)
    axes[0].fill_between(levels, band[:, 0] - levels, band[:, 1] - levels, color=BAND, label="calibrated")
    covered = calibration.coverage(levels)
    for i, name in enumerate(calibration.names):
        style = line_style(i + 1)
        axes[0].plot(levels, covered[:, i] - levels, label=name, **style)
        ordered = np.sort(calibration.pit[:, i])
        empirical = (np.arange(len(ordered)) + 0.5) / len(ordered)
        axes[1].plot(ordered, empirical - ordered, label=name, **style)
    # The same band, as the number of uniform transforms below a level is binomial, too.
    axes[1].fill_between(levels, band[:, 0] - levels, band[:, 1] - levels, color=BAND)
    for axis in axes:
        axis.axhline(0, color=RULE, linewidth=0.8)
    axes[0].set(xlabel="probability of the central interval", ylabel="coverage less probability")
    axes[1].set(xlabel="probability integral transform", ylabel="share below less transform")
    extent = max(np.abs(band - levels[:, None]).max(), np.abs(covered - levels[:, None]).max())
    axes[0].set_ylim(-2.0 * extent, 1.2 * extent)  # room for the legend below the curves
    axes[0].legend(frameon=False, fontsize=8, loc="lower center", ncols=min(4, 1 + len(calibration.names)))
    return axes


@default_arithmetic
def plot_joint_calibration(calibration: Calibration, *, probability: float = 0.95, ax: Any = None) -> Any:
    """Coverage of joint regions less their probability: highest-density regions, and balls (TARP).

    Parameters
    ----------
    calibration : Calibration
    probability : float
        With which the whole curve of a calibrated estimator lies in the band.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If the calibration has transforms of single parameters only.
    """
    instance("calibration", calibration, Calibration, "a Calibration, as `calibrate` makes one")
    levels = np.linspace(0, 1, 51)
    covered = calibration.joint_coverage(levels)
    (axis,) = drawn_on(ax, 1, (4.0, 3.0))
    band = calibration.band(levels, probability, together=True) - levels[:, None]
    axis.fill_between(levels, band[:, 0], band[:, 1], color=BAND, label="calibrated")
    for i, words in enumerate(("highest-density regions", "balls (TARP)")):
        axis.plot(levels, covered[:, i] - levels, label=words, **line_style(i + 1))
    axis.axhline(0, color=RULE, linewidth=0.8)
    axis.set(xlabel="probability of the joint region", ylabel="coverage less probability")
    extent = max(np.abs(band).max(), np.abs(covered - levels[:, None]).max())
    axis.set_ylim(-2.0 * extent, 1.2 * extent)  # room for the legend below the curves
    axis.legend(frameon=False, fontsize=8, loc="lower center")
    return axis


@default_arithmetic
@once_axes
def plot_recovery(calibration: Calibration, *, most: int = 200, ax: Any = None) -> np.ndarray:
    """Posterior medians and central 90% intervals of held-out rows against the true parameters.

    Parameters
    ----------
    calibration : Calibration
    most : int
        Rows that are drawn, the first ones.
    ax : sequence of matplotlib Axes, optional
        One a parameter.

    Returns
    -------
    ndarray of matplotlib Axes, shape (p,)

    Raises
    ------
    ValueError
        If the calibration was made without the true values.
    """
    instance("calibration", calibration, Calibration, "a Calibration, as `calibrate` makes one")
    if calibration.recovery is None:
        raise ValueError("this calibration has no true values; make a new one with `calibrate`")
    truths, quantiles = calibration.recovery.truths[:most], calibration.recovery.quantiles[:most]
    axes = drawn_on(ax, truths.shape[1], (3.0 * truths.shape[1], 3.0))
    for i, (axis, name) in enumerate(zip(axes, calibration.names, strict=True)):
        lower, middle, upper = quantiles[:, :, i].T
        held = (lower <= truths[:, i]) & (truths[:, i] <= upper)
        for those, colour, words in ((held, RULE, "holds the truth"), (~held, WRONG, "misses it")):
            reach = np.array([middle - lower, upper - middle])[:, those]
            axis.errorbar(
                truths[those, i],
                middle[those],
                yerr=reach,
                fmt="o",
                markersize=2.5,
                linewidth=0.7,
                color=colour,
                label=f"{words} ({those.mean():.0%})",
            )
        ends = truths[:, i].min(), truths[:, i].max()
        axis.plot(ends, ends, color=TRUTH, linewidth=0.8)
        axis.set(xlabel=f"true {name}", ylabel="median and 90% interval" if i == 0 else "")
        axis.legend(frameon=False, fontsize=7)
    return axes


@default_arithmetic
@once_axes
def plot_observation_support(table: ReferenceTable, *, ax: Any = None) -> np.ndarray:
    """How far the observation is from its nearest simulations, and on which statistics.

    Parameters
    ----------
    table : ReferenceTable
        With an observation.
    ax : pair of matplotlib Axes, optional

    Returns
    -------
    ndarray of matplotlib Axes, shape (2,)

    Raises
    ------
    ValueError
        If the table has no observation.
    """
    check_table("table", table)
    support = observation_support(table)
    axes = drawn_on(ax, 2, (8.0, 0.6 + max(2.4, 0.28 * min(len(support.names), 15))))
    axes[0].hist(support.references, bins=40, color=BARS, label="simulations")
    axes[0].axvline(
        np.quantile(support.references, support.far_percentile),
        color=RULE,
        linestyle=":",
        label=f"{support.far_percentile:.1%} of them",
    )
    _mark_observation(axes[0], support)
    axes[0].set(xlabel="mean distance to the 10 nearest simulations", ylabel="simulations")
    axes[0].legend(frameon=False, fontsize=8)
    shown = np.argsort(support.contributions)[::-1][:15][::-1]
    axes[1].barh(range(len(shown)), support.contributions[shown], color=BARS)
    for place, i in enumerate(shown):
        axes[1].text(
            support.contributions[shown].max() * 0.02,
            place,
            f"{support.position[i]:.1%} of the simulations are smaller",
            va="center",
            fontsize=7,
        )
    axes[1].set(
        yticks=range(len(shown)),
        yticklabels=[support.names[i] for i in shown],
        xlabel="share of the squared distance",
    )
    return axes


def _mark_observation(
    axis: Any,
    support: ObservationSupport,
    *,
    # Times the farthest simulation's distance beyond which the observation does not fit on the axis.
    off_axis: float = 3.0,
) -> None:
    """A line at the observation's distance, or an arrow where the histogram would shrink to nothing."""
    farthest = float(support.references.max())
    if support.distance <= off_axis * farthest or farthest <= 0:
        axis.axvline(support.distance, color=OBSERVED, label="observation")
        return
    axis.set_xlim(0, 1.5 * farthest)
    arrow = {"arrowstyle": "-|>", "color": OBSERVED}
    axis.annotate("", (1.0, 0.5), (0.8, 0.5), xycoords="axes fraction", arrowprops=arrow)
    axis.plot([], [], color=OBSERVED, label=f"observation, beyond this at {support.distance:.3g}")


# --- a posterior with its prior and the truth ---


@default_arithmetic
def plot_posterior(
    posterior: Any,
    *,
    prior: Any = None,
    truth: Any = None,
    names: Sequence[str] | None = None,
    probability: float = 0.9,
    random_seed: int | np.random.Generator | None = None,
    ax: Any = None,
) -> np.ndarray:
    """Each parameter's posterior with a central interval, its prior, and the truth where it is known.

    Parameters
    ----------
    posterior : Posterior, result of `sample_abc`, or ndarray of shape (m, p)
        Of a `Posterior` 4,000 draws are made. Of a result, an array has one panel an entry.
    prior : ReferenceTable or ndarray of shape (l, p), optional
        Draws of it; that of the result where left out.
    truth : mapping of str to float, or sequence of float (p,), optional
    names : sequence of str, optional
        Of the panels that are drawn, all where left out; of an array, of its columns.
    probability : float
        Of the interval.
    random_seed : int or numpy.random.Generator, optional
        For the draws of a `Posterior`.
    ax : sequence of matplotlib Axes, optional
        One a parameter.

    Returns
    -------
    ndarray of matplotlib Axes, shape (p,)

    Raises
    ------
    ValueError
        If a name is not that of a parameter, the truth or the prior has another number of columns, the
        probability is not between 0 and 1, or other axes than panels are given.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> draws = rng.normal([1.0, 2.0], 0.1, (500, 2))
    >>> (first, second) = plot_posterior(draws, prior=rng.normal(size=(500, 2)), names=["a", "b"])
    >>> first.get_xlabel(), second.get_xlabel()
    ('a', 'b')
    """
    refuse_probability("probability", probability)
    check_seed(random_seed)
    names = None if names is None else names_of("names", names)
    if names is not None and not names:
        raise ValueError("names is empty; name at least one parameter, or leave it out")
    columns, draws, before = _columns(posterior, names, random_seed)
    if prior is not None:
        before = _prior(prior, columns)
    truths = _truths(truth, columns)
    panels = columns if names is None else list(names)
    unknown = sorted(set(panels) - set(columns))
    if unknown:
        raise ValueError(f"{unknown} are not parameters; there are {columns}")
    axes = drawn_on(ax, len(panels), (3.2 * len(panels), 2.8))
    tails = (1 - probability) / 2, (1 + probability) / 2
    for axis, name in zip(axes, panels, strict=True):
        i = columns.index(name)
        _panel(axis, draws[:, i], before.get(name), truths.get(name), tails)
        axis.set(xlabel=name, ylabel="density" if axis is axes[0] else "")
    axes[0].legend(frameon=False, fontsize=8)
    return axes


def _panel(
    axis: Any, draws: np.ndarray, prior: np.ndarray | None, truth: float | None, tails: tuple[float, float]
) -> None:
    """One parameter. A prior that reaches far beyond the posterior is cut, so that both can be seen."""
    low, high = np.quantile(draws, tails)
    # Draws that are all one number still need bins of some width, and one that their floats can tell apart.
    least_width = 1e-12 * max(1.0, float(np.abs(draws).max()))
    reach = 4 * max(high - low, least_width)
    if prior is not None:
        least, most = np.quantile(prior, [0.005, 0.995])
        ends = min(max(least, low - reach), draws.min()), max(min(most, high + reach), draws.max())
        # Of a prior all of whose draws lie elsewhere the density there would be zero over zero.
        if np.any((ends[0] <= prior) & (prior <= ends[1])):
            axis.hist(prior, np.linspace(*ends, 41), density=True, color=PRIOR, label="prior")
    bins = np.linspace(draws.min(), draws.max() + least_width, 31)
    axis.hist(draws, bins, density=True, histtype="stepfilled", alpha=0.8, color=POSTERIOR, label="posterior")
    axis.hlines(0, low, high, color=TRUTH, linewidth=4, label=f"{tails[1] - tails[0]:.0%} interval")
    if truth is not None:
        axis.axvline(truth, color=TRUTH, linestyle="--", linewidth=1.2, label="truth")


def _columns(
    posterior: Any,
    names: Sequence[str] | None,
    random_seed: Any,
    *,
    # Draws of a `Posterior` in its histogram.
    draws_shown: int = 4000,
) -> tuple[list[str], np.ndarray, dict[str, np.ndarray]]:
    """Names of the columns, the draws (m, p), and the prior's draws by column, where it is known."""
    if isinstance(posterior, Posterior):
        draws = posterior.draw(draws_shown, random_seed)
        columns = posterior.names or tuple(f"parameter {i}" for i in range(draws.shape[1]))
        return [str(name) for name in columns], draws, {}
    if isinstance(posterior, np.ndarray):
        draws = as_rows("posterior", posterior)
        draws = draws.reshape(len(draws), -1) if draws.ndim else draws.reshape(1, 1)
        named = [f"parameter {i}" for i in range(draws.shape[1])] if names is None else list(names)
        if len(named) != draws.shape[1]:
            raise ValueError(f"{len(named)} names were given for {draws.shape[1]} columns")
        return named, draws, {}
    check_result("posterior", posterior)
    found = _flat(posterior["posterior"])
    before = _flat(posterior["prior"]) if "prior" in posterior else {}
    return list(found), np.column_stack(list(found.values())), before


def _prior(prior: Any, columns: list[str]) -> dict[str, np.ndarray]:
    """Draws of the prior by the names of its columns: a table's own, else those of the posterior."""
    if isinstance(prior, ReferenceTable):
        return dict(zip(prior.parameter_names, prior.parameters.T, strict=True))
    draws = parameters_by_name(prior, columns, "the prior")
    draws = (
        draws[:, None]
        if draws.ndim == 1
        else draws.reshape(len(draws), -1)
        if draws.ndim
        else draws[None, None]
    )
    if draws.shape[1] != len(columns):
        raise ValueError(f"the prior has {draws.shape[1]} columns; the posterior has {len(columns)}")
    return dict(zip(columns, draws.T, strict=True))


def _flat(group: Any) -> dict[str, np.ndarray]:
    """One column an entry of a variable, its draws of all chains in a row."""
    columns: dict[str, np.ndarray] = {}
    for name, variable in group.data_vars.items():
        values = np.asarray(chains_first(variable))
        values = values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])
        for place in np.ndindex(values.shape[1:]):
            label = f"{name}[{', '.join(map(str, place))}]" if place else str(name)
            columns[label] = values[(slice(None), *place)]
    return columns


def _truths(truth: Any, columns: list[str]) -> dict[str, float]:
    if truth is None:
        return {}
    found = read("the truth", truth, columns)
    names = found.names or tuple(columns)
    if found.values.size != len(names):
        raise ValueError(
            f"the truth has {found.values.size} values for the {len(names)} parameters {some(names)}; give "
            "one for each"
        )
    unknown = sorted(set(names) - set(columns))
    if unknown:
        raise ValueError(f"{unknown} are not parameters; there are {columns}")
    return dict(zip(names, found.values.ravel().tolist(), strict=True))
