"""Pictures of spectra, and of the sizes of populations over time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pymc_kbr.arrays.extras import brought_by
from pymc_kbr.arrays.labelled import chains_first, read, some
from pymc_kbr.arrays.plotting import DIVERGING, OBSERVED, POSTERIOR, PRIOR, TRUTH, drawn_on
from pymc_kbr.arrays.refusals import named, names_of, shown, whole
from pymc_kbr.arrays.refusals import probability as refuse_probability
from pymc_kbr.popgen.demography import as_demography, parameters_of
from pymc_kbr.tables.reference_table import ReferenceTable

# --- spectra ---


def plot_spectrum(
    predicted: Any,
    observed: Any,
    *,
    names: Sequence[str] | None = None,
    probability: float = 0.9,
    ax: Any = None,
) -> np.ndarray:
    """Site frequency spectra: the observed one beside those that are predicted.

    Parameters
    ----------
    predicted : DataFrame, DataArray or ReferenceTable
        Simulations of the statistics "sfs" or "joint_sfs" of `Statistics`, one a row, by their names:
        ``idata["posterior_predictive"]["y"]``, or a table, whose rows are predictions of its prior. Other
        statistics are not drawn.
    observed : Series, DataArray or mapping of str to float
        The same of the data.
    names : sequence of str, optional
        Of the spectra to draw, "sfs_north" or "joint_sfs_north_south"; all where left out.
    probability : float
        Of the band of predictions.
    ax : sequence of matplotlib Axes, optional
        One a spectrum.

    Returns
    -------
    ndarray of matplotlib Axes, shape (spectra,)
        Of one population, sites by copies of the rarer allele. Of two populations, the observed number less
        the mean prediction, over the deviation of predictions; white where predictions and data are the same.

    Raises
    ------
    ValueError
        If there is no spectrum, a spectrum of `names` is not there, or lacks entries in `observed`.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(1)
    >>> predicted = pd.DataFrame({f"sfs_all_{i}": rng.poisson(60 / i, 200) for i in (1, 2, 3)})
    >>> (axis,) = plot_spectrum(predicted, {"sfs_all_1": 58, "sfs_all_2": 33, "sfs_all_3": 14})
    >>> axis.get_title()
    'sfs_all'
    """
    refuse_probability("probability", probability)
    labels, rows = _simulations(predicted)
    data = _one_row(observed)
    found = _spectra(labels)
    if not found:
        raise ValueError(
            f"predicted has the statistics {some(labels)}, and none of a spectrum; simulate with "
            "Statistics(..., statistics=['sfs'])"
        )
    drawn = list(found) if names is None else list(names_of("names", names))
    unknown = [name for name in drawn if name not in found]
    if unknown or not drawn:
        raise ValueError(f"names has {unknown or 'nothing'}; predicted has the spectra {some(list(found))}")
    lacking = [labels[k] for name in drawn for k in found[name].values() if labels[k] not in data]
    if lacking:
        raise ValueError(f"observed lacks {some(lacking)}; give the statistics of the same `Statistics`")
    axes = drawn_on(ax, len(drawn), (4.2 * len(drawn), 3.0))
    for axis, name in zip(axes, drawn, strict=True):
        columns = list(found[name].values())
        values = np.array([data[labels[k]] for k in columns])
        draw = _of_one if len(next(iter(found[name]))) == 1 else _of_two
        draw(axis, list(found[name]), rows[:, columns], values, probability)
        axis.set_title(name)
    return axes


def _simulations(predicted: Any) -> tuple[list[str], np.ndarray]:
    """Names of statistics, and simulations (m, d) of them."""
    if isinstance(predicted, ReferenceTable):
        return _of_variables(predicted.statistic_names), predicted.statistics
    found = read("predicted", chains_first(predicted))
    if found.names is None:
        raise TypeError(
            f"predicted is {named(predicted)} whose columns have no names; give a data frame, or a DataArray "
            "whose last dimension has the names of the statistics"
        )
    rows = np.asarray(found.values, dtype=float).reshape(-1, len(found.names))
    return _of_variables(found.names), rows


def _one_row(observed: Any) -> dict[str, float]:
    """Observed statistics by name."""
    found = read("observed", observed)
    values = np.asarray(found.values, dtype=float).ravel()
    if found.names is None or len(values) != len(found.names):
        raise TypeError(
            f"observed is {named(observed)}; give one value a statistic, by name, as those of "
            "`Statistics.from_vcf`"
        )
    return dict(zip(_of_variables(found.names), values.tolist(), strict=True))


def _of_variables(names: Sequence[str]) -> list[str]:
    """The names that statistics have by themselves: those of a table have the variable's before them."""
    found = [re.sub(r"^.+\[(.+)\]$", r"\1", name) for name in names]
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise ValueError(f"{some(twice)} are statistics of several variables; give those of one")
    return found


def _spectra(labels: Sequence[str]) -> dict[str, dict[tuple[int, ...], int]]:
    """By the names of spectra, places of their entries by numbers of copies."""
    found: dict[str, dict[tuple[int, ...], int]] = {}
    for place, label in enumerate(labels):
        entry = re.fullmatch(r"(sfs_.+)_(\d+)", label) or re.fullmatch(r"(joint_sfs_.+)_(\d+)_(\d+)", label)
        if entry:
            spectrum, *copies = entry.groups()
            found.setdefault(spectrum, {})[tuple(map(int, copies))] = place
    return {name: dict(sorted(entries.items())) for name, entries in found.items()}


def _of_one(
    axis: Any, copies: list[tuple[int, ...]], rows: np.ndarray, values: np.ndarray, probability: float
) -> None:
    """The spectrum of one population: a band, its median, and the data."""
    x = np.array(copies)[:, 0]
    tails = (1 - probability) / 2, 0.5, (1 + probability) / 2
    low, middle, high = np.quantile(rows, tails, axis=0)
    # Bars and no area, since there is nothing between whole numbers of copies.
    axis.bar(
        x,
        high - low,
        bottom=low,
        width=0.8,
        color=POSTERIOR,
        alpha=0.3,
        label=f"predicted, {probability:.0%}",
    )
    axis.hlines(middle, x - 0.4, x + 0.4, color=POSTERIOR, linewidth=1.6, label="predicted, median")
    axis.plot(x, values, "o", markersize=4, color=OBSERVED, label="observed")
    axis.set(xlabel="copies of the rarer allele", ylabel="sites")
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False, fontsize=8)


def _of_two(
    axis: Any, copies: list[tuple[int, ...]], rows: np.ndarray, values: np.ndarray, probability: float
) -> None:
    """The joint spectrum of two populations: how far the data are from predictions."""
    away, spread = values - rows.mean(axis=0), rows.std(axis=0)
    # Where all predictions are one number the data are it, or infinitely far.
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = np.where(away == 0, 0.0, away / spread)
    sizes = np.max(copies, axis=0) + 1
    picture = np.full(sizes, np.nan)
    picture[tuple(np.transpose(copies))] = distances
    finite = np.abs(distances[np.isfinite(distances)])
    extent = max(finite.max(initial=0.0), 3.0)  # less than three deviations is no strong colour
    shade = np.clip(picture, -extent, extent)
    image = axis.imshow(shade, origin="lower", cmap=DIVERGING, vmin=-extent, vmax=extent, aspect="auto")
    axis.figure.colorbar(image, ax=axis, label="deviations from the prediction")
    axis.set(ylabel="copies in the first population", xlabel="copies in the second")


# --- sizes of populations over time ---


def plot_population_size(
    demography: Callable[..., Any],
    posterior: Any,
    *,
    times: Any = None,
    population: str | None = None,
    prior: Any = None,
    truth: Mapping[str, Any] | None = None,
    probability: float = 0.9,
    draws: int = 200,
    ax: Any = None,
) -> Any:
    """Effective size of a population over time, Ne(t): the posterior's median and band.

    Parameters
    ----------
    demography : callable
        As in `coalescent`.
    posterior : result of `sample_abc`, DataFrame, or mapping of str to draws
        Draws of the parameters of `demography`, by name. Other variables are not used.
    times : array_like of shape (t,), optional
        Rising, in generations ago. Where left out, until one pair of lineages in a hundred has no common
        ancestor yet, on the average of the draws.
    population : str, optional
        From which two lineages are followed into the past; needed where the demography has several.
    prior : ReferenceTable, DataFrame or mapping, optional
        Draws of the prior, whose band is drawn in grey.
    truth : mapping of str to value, optional
        Parameters whose size is drawn as a line.
    probability : float
        That the size lies in the band, at each time by itself.
    draws : int
        Of which bands are made; evenly taken from those that are given.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError
        If msprime is not installed (extra `popgen`).
    TypeError, ValueError
        If parameters of `demography` are not there, times do not rise, or the demography has no such
        population.

    Notes
    -----
    The size is half the inverse of the rate at which two lineages of the population have a common ancestor,
    for diploid individuals. Of one population it is that of the demography, and before a split the
    ancestor's; with migration it is that of one population with the same times of common ancestors [1]_.
    A band ends where in some draw no pair of lineages is left.

    References
    ----------
    .. [1] O. Mazet, W. Rodríguez, S. Grusea, S. Boitard, L. Chikhi, On the importance of being structured:
       instantaneous coalescence rates and human evolution, Heredity 116 (2016), 362-371.
    """
    with brought_by("popgen", "msprime"):
        import msprime  # noqa: F401
    refuse_probability("probability", probability)
    whole("draws", draws)
    parameters = parameters_of(demography)
    histories = _histories("posterior", demography, posterior, parameters, draws, population)
    before = None if prior is None else _histories("prior", demography, prior, parameters, draws, population)
    right = None
    if truth is not None:
        once = {name: np.asarray(value)[None] for name, value in dict(truth).items()}
        right = _histories("truth", demography, once, parameters, 1, population)
    at = _times(times, histories)
    (axis,) = drawn_on(ax, 1, (5.0, 3.2))
    tails = (1 - probability) / 2, 0.5, (1 + probability) / 2
    if before is not None:
        low, _, high = np.quantile(_sizes(before, at), tails, axis=0)
        axis.fill_between(
            at, low, high, color=PRIOR, alpha=0.5, linewidth=0, label=f"prior, {probability:.0%}"
        )
    low, middle, high = np.quantile(_sizes(histories, at), tails, axis=0)
    axis.fill_between(
        at, low, high, color=POSTERIOR, alpha=0.3, linewidth=0, label=f"posterior, {probability:.0%}"
    )
    axis.plot(at, middle, color=POSTERIOR, label="posterior, median")
    if right is not None:
        axis.plot(at, _sizes(right, at)[0], color=TRUTH, linestyle="--", linewidth=1.2, label="truth")
    axis.set(xscale="log", yscale="log", xlabel="generations ago", ylabel="effective size")
    axis.legend(frameon=False, fontsize=8)
    return axis


def _histories(
    what: str,
    demography: Callable[..., Any],
    value: Any,
    parameters: tuple[list[str], list[str]],
    draws: int,
    population: str | None,
) -> list[tuple[Any, str]]:
    """The demography of some draws, each with the population that is followed."""
    columns = _columns(what, value, *parameters)
    count = len(next(iter(columns.values())))
    rows = np.unique(np.linspace(0, count - 1, min(draws, count)).round().astype(int))
    found = []
    for row in rows:
        made = as_demography(
            demography(
                **{name: one[row].item() if one.ndim == 1 else one[row] for name, one in columns.items()}
            )
        )
        there = [one.name for one in made.populations]
        if population is None and len(there) > 1:
            raise ValueError(
                f"the demography has the populations {there}; say by `population` which to follow"
            )
        if population is not None and population not in there:
            raise ValueError(f"population is {shown(population)}; the demography has {there}")
        found.append((made.debug(), population or there[0]))
    return found


def _columns(what: str, value: Any, needed: list[str], more: list[str]) -> dict[str, np.ndarray]:
    """Draws (m, ...) of the arguments of a demography, by name."""
    if isinstance(value, ReferenceTable):
        value = dict(zip(value.parameter_names, value.parameters.T, strict=True))
    try:
        # A result of either ArviZ, or draws as they are.
        group = value.get("posterior", value)
        variables = group if not hasattr(group, "data_vars") else group.data_vars
        known = [str(name) for name in variables]
    except (AttributeError, TypeError):
        raise TypeError(
            f"{what} is {named(value)}; give a result of `sample_abc`, a data frame or a dict of draws"
        ) from None
    lacking = [name for name in needed if name not in known]
    if lacking:
        raise ValueError(f"{what} lacks {some(lacking)}, which demography takes; it has {some(known)}")
    found = {}
    for name in (*needed, *(one for one in more if one in known)):
        variable = chains_first(variables[name])
        values = np.asarray(variable, dtype=float)
        if tuple(getattr(variable, "dims", ()))[:2] == ("chain", "draw"):
            values = values.reshape(-1, *values.shape[2:])
        if values.ndim == 0 or not np.all(np.isfinite(values)):
            raise ValueError(f"{name} of {what} is {shown(values)}; give draws, which are finite numbers")
        found[name] = values
    lengths = {name: len(values) for name, values in found.items()}
    if not found or len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise ValueError(
            f"{what} has the numbers of draws {lengths}; give the same of each parameter, at least one"
        )
    return found


def _times(times: Any, histories: list[tuple[Any, str]]) -> np.ndarray:
    """Generations ago (t,)."""
    if times is None:
        grid = np.geomspace(1, 1e9, 60)
        _, left = _trajectories(histories, grid)
        longest = grid[np.argmax(left.mean(axis=0) < 0.01)]
        return np.geomspace(longest / 1000, longest, 100)
    at = np.asarray(times, dtype=float)
    if at.ndim != 1 or len(at) < 2 or not np.all(np.isfinite(at)) or at[0] < 0 or not np.all(np.diff(at) > 0):
        raise ValueError(f"times is {shown(times)}; give at least two rising numbers of generations ago")
    return at


def _sizes(histories: list[tuple[Any, str]], at: np.ndarray) -> np.ndarray:
    """Sizes (m, t): half the inverse of the rate at which two lineages coalesce; NaN where none is left."""
    rates, _ = _trajectories(histories, at)
    with np.errstate(divide="ignore"):
        return np.asarray(1 / (2 * rates))


def _trajectories(histories: list[tuple[Any, str]], at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rates (m, t) at which two lineages coalesce, and probabilities (m, t) that they have not yet."""
    # Rates are integrated over the steps, which begin now.
    steps = at if at[0] == 0 else np.r_[0.0, at]
    with np.errstate(divide="ignore", invalid="ignore"):
        found = [
            one.coalescence_rate_trajectory(steps, {name: 2}, double_step_validation=False)
            for one, name in histories
        ]
    rates, left = np.moveaxis(np.array(found), 1, 0)[:, :, -len(at) :]
    return rates, left
