"""A posterior with its prior and, where it is known, the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.labelled import chains_first, read, some
from pymc_kbr.arrays.names import parameters_by_name
from pymc_kbr.arrays.pictures.axes import drawn_on
from pymc_kbr.arrays.pictures.palette import POSTERIOR, PRIOR, TRUTH
from pymc_kbr.arrays.refusals import check_seed, names_of
from pymc_kbr.arrays.refusals import probability as refuse_probability
from pymc_kbr.arrays.rows import as_rows
from pymc_kbr.posterior.posterior import Posterior
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.saved import check_result

DRAWS_SHOWN = 4000
"""Of a `Posterior`, for its histogram."""


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
    posterior: Any, names: Sequence[str] | None, random_seed: Any
) -> tuple[list[str], np.ndarray, dict[str, np.ndarray]]:
    """Names of the columns, the draws (m, p), and the prior's draws by column, where it is known."""
    if isinstance(posterior, Posterior):
        draws = posterior.draw(DRAWS_SHOWN, random_seed)
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
