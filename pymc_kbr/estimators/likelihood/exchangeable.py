"""The fourth form: all statistics are independent draws of one distribution, in any order or sorted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betainc, gammaln

from pymc_kbr.arrays.exchangeable import MOST_EQUAL, Atoms
from pymc_kbr.estimators.likelihood.autoregressive import SPARING
from pymc_kbr.estimators.likelihood.basis import Basis, Landmarks
from pymc_kbr.estimators.likelihood.categorical import Logit, fit_part
from pymc_kbr.estimators.likelihood.checks import fewest_rows
from pymc_kbr.estimators.likelihood.conditional_mean import (
    USUAL,
    MeanSearch,
    mean_basis,
    regress,
    regress_with_common_weights,
)
from pymc_kbr.estimators.likelihood.conditional_mixture import (
    FittedFunctions,
    Observed,
    distribution,
    draw_numbers,
    fit_functions,
    log_densities,
    parts_of_numbers,
    start_of_groups,
)
from pymc_kbr.estimators.likelihood.form import Form, hold_out
from pymc_kbr.estimators.likelihood.normal_mixture import mixture_log_mass
from pymc_kbr.estimators.likelihood.smooth_function import Effort, Inputs
from pymc_kbr.estimators.likelihood.spread import LARGEST_LOG
from pymc_kbr.estimators.likelihood.tempered import ImpossibleObservation
from pymc_kbr.estimators.summaries.transformed import FAR


@dataclass(frozen=True, eq=False, repr=False)
class Exchangeable:
    """Elements of x are independent draws of a normal mixture of z = (y - m) exp(-s), or of asinh z."""

    # Shapes: level_coefficients (1 + q + l, 2); law_coefficients (1 + q + l, 3 c), c zero without a density.
    size: int
    in_order: bool
    units: ElementUnits
    level: Landmarks
    level_coefficients: np.ndarray
    law: Landmarks
    law_coefficients: np.ndarray
    masses: Masses | None = None

    @property
    def parts(self) -> int:
        """Number of parts of the mixture, c."""
        return self.law_coefficients.shape[1] // 3

    def describe(self, theta: Any, xp: Any = np) -> Any:
        """m, s and the numbers of the parts at parameters (k, q): shape (k, 2 + 3 c)."""
        level = self.level.combined(theta, self.level_coefficients, xp)
        logs = xp.maximum(xp.minimum(level[:, 1:2], LARGEST_LOG), -LARGEST_LOG)
        law = self.law.combined(theta, self.law_coefficients, xp)
        masses = [] if self.masses is None else [self.masses.describe(theta, xp)]
        return xp.concatenate([level[:, 0:1], logs, law, *masses], axis=1)

    def parts_at(self, described: Any, xp: Any = np) -> list[tuple[Any, Any, Any]]:
        """Log share, mean and log deviation (k, 1) of each part."""
        return parts_of_numbers(described[:, 2 : 2 + 3 * self.parts], self.parts, xp)

    def masses_at(self, described: Any, xp: Any = np) -> list[Any]:
        """Log probabilities (k, 1) of each value that has one, and then of all others together."""
        assert self.masses is not None
        return self.masses.logs(described[:, 2 + 3 * self.parts :], xp)

    def ends_at(self, described: Any, xp: Any = np) -> tuple[Any, Any]:
        """Between which z (k, 1) the mixture lies."""
        assert self.masses is not None
        return ends_of(self.masses.ends, described[:, 0:1], described[:, 1:2], self.units, xp)

    def log_densities(self, described: Any, flat: Any, xp: Any = np) -> Any:
        """Log densities, or probabilities, (k, m) of single elements (k, m)."""
        level = described[:, 0:1], described[:, 1:2]
        if self.masses is None:
            values, slopes = measured(flat, *level, self.units, xp)
            return log_densities(self.parts_at(described, xp), values, xp) + slopes
        if self.masses.levels is not None:
            return self.masses.of_counts(described[:, 2 + 3 * self.parts :], flat, xp)
        logs = self.masses_at(described, xp)
        each = -np.inf + 0.0 * flat
        if self.parts:
            # Where there is no density, it is evaluated elsewhere: its slope is finite.
            inside = self.masses.inside(flat)
            values, slopes = measured(xp.where(inside, flat, self.masses.middle), *level, self.units, xp)
            parts = self.parts_at(described, xp)
            whole = mixture_log_mass(parts, *self.ends_at(described, xp), xp)
            each = xp.where(inside, log_densities(parts, values, xp) + slopes - whole + logs[-1], -np.inf)
        for log, there in zip(logs[: self.masses.size], self.masses.at(flat, xp), strict=True):
            each = xp.where(there, log, each)
        return each

    def distribution(self, described: np.ndarray, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The probability (k, m) of less than each of some elements (k, m), and of itself."""
        values, _ = measured(flat, described[:, :1], described[:, 1:2], self.units)
        if self.masses is None:
            below = distribution(self.parts_at(described), values)
            return below, np.zeros_like(below)
        shares = [np.exp(log) for log in self.masses_at(described)]
        below, at = np.zeros(flat.shape), np.zeros(flat.shape)
        for share, value, there in zip(shares, self.masses.atoms.values, self.masses.at(flat), strict=False):
            below += share * (flat > value) * ~there
            at += share * there
        if self.parts:
            parts, (lower, upper) = self.parts_at(described), self.ends_at(described)
            whole = mixture_log_mass(parts, lower, upper)
            up_to = np.clip(values, np.nextafter(lower, np.inf), upper)
            below += shares[-1] * np.exp(mixture_log_mass(parts, lower, up_to) - whole)
        return below, at

    def log_orders(self, flat: Any, xp: Any = np) -> Any:
        """Log number of orders of elements (..., e): one where they are not sorted."""
        if not self.in_order:
            return 0.0
        orders = float(gammaln(self.size + 1))
        if self.masses is not None and self.masses.levels is not None and xp is np:
            number = self.masses.number(flat)
            counts = counted(number.reshape(-1, self.size), self.masses.size)
            return orders - gammaln(counts + 1).sum(axis=1).reshape(number.shape[:-1])
        if self.masses is not None and self.masses.levels is not None:
            # The product of 1, 2, ... over what is equal: how many of those before it are.
            before = np.tril(np.ones((self.size, self.size)), -1)
            place, _ = self.masses.place(flat, xp)
            same = xp.sum(before * xp.eq(place[..., :, None], place[..., None, :]), axis=-1)
            return orders - xp.sum(xp.log1p(same), axis=-1)
        if self.masses is not None:
            for there in self.masses.at(flat, xp):
                same = xp.sum(1.0 * there, axis=-1)
                orders = orders - (gammaln(same + 1) if xp is np else xp.gammaln(same + 1))
        return orders

    def log_density(self, described: Any, points: Any, xp: Any = np) -> Any:
        """Log densities (k, r): see `Form`."""
        k, r = described.shape[0], points.shape[1]
        if xp is np and self.masses is not None and not self.parts:
            return self._log_probability(described, points)
        # Plus nothing: the shape (k, r, e) also where all parameters have the same points.
        whole = points + 0 * described[:, 0][:, None, None]
        each = self.log_densities(described, xp.reshape(whole, (k, r * self.size)), xp)
        return xp.sum(xp.reshape(each, (k, r, self.size)), axis=2) + self.log_orders(points, xp)

    def _log_probability(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The same where no element has a density: by how many of them have each value."""
        assert self.masses is not None
        number, size = self.masses.number(points), self.masses.size
        counts = counted(number.reshape(-1, self.size), size).reshape(*points.shape[:2], size)
        logs = np.hstack(self.masses_at(described))[:, None, :]
        total = np.sum(counts * logs, axis=2) if len(counts) > 1 else logs[:, 0] @ counts[0].T
        possible = np.all(number < size, axis=2)
        return np.where(possible, total, -np.inf) + self.log_orders(points)

    def draw(self, described: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw (k, e) for each of k parameters."""
        y = np.zeros((len(described), self.size))
        if self.parts:
            ends = None if self.masses is None else self.ends_at(described)
            z = draw_numbers(self.parts_at(described), self.size, rng, ends)
            if self.units.bent:
                z = np.sinh(z)
            y = described[:, 0:1] + np.exp(described[:, 1:2]) * z
            if self.masses is None and self.in_order:
                y.sort(axis=1)
            y = np.exp(y) if self.units.logarithm else y
        if self.masses is not None:
            y = self.masses.put(y, self.masses_at(described), rng)
            if self.in_order:
                y.sort(axis=1)
        return y

    def uniform(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Distribution functions of each element (k, e): at a probability, anywhere in its step."""
        below, at = self.distribution(described, points)
        # Of one seed: the same rows have the same transforms.
        return below + at * np.random.default_rng(20).random(points.shape) if self.masses else below

    def transforms(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Of the sorted elements, each given those before it: see `Form`."""
        above = 1 - np.sort(self.uniform(described, points), axis=1)
        before = np.concatenate([np.ones((len(above), 1)), above[:, :-1]], axis=1)
        # Of n numbers above the last one, the least is above x with the n-th power of the share above x.
        left = np.arange(self.size, 0, -1)
        return 1 - np.clip(above / np.maximum(before, 1e-300), 0.0, 1.0) ** left

    def has_density(self, points: np.ndarray) -> np.ndarray:
        """Which elements of observations (k, e) have a density, and not a probability."""
        return self.number(points) == (0 if self.masses is None else self.masses.size)

    def number(self, points: np.ndarray) -> np.ndarray:
        """The place of the value with a probability that each element has; that after the last of others."""
        return np.zeros(points.shape, dtype=int) if self.masses is None else self.masses.number(points)

    def atoms_above(self, points: np.ndarray) -> np.ndarray:
        """Rows and columns (m, 2) of elements (k, e) that are above the last value."""
        assert self.masses is not None
        last = self.masses.atoms.values[-1]
        return np.argwhere((points > last) & ~np.isclose(points, last, rtol=1e-9))

    def check(self, points: np.ndarray) -> None:
        """Refuse observations (k, e) that no row is like."""
        if self.in_order and len(bad := np.argwhere(np.diff(points, axis=1) < 0)):
            raise ValueError(
                f"the statistics are sorted in every row of the table; in observation {bad[0, 0]} that "
                f"numbered {bad[0, 1] + 1} is below the one before it: sort them as the simulator does"
            )
        # Another model may make it: who compares models gives this one no evidence.
        bad = np.argwhere((points <= 0) & self.has_density(points))
        if self.units.logarithm and len(bad):
            raise ImpossibleObservation(
                np.unique(bad[:, 0]),
                f"all of the table's statistics are positive and enter by their logarithm; that numbered "
                f"{bad[0, 1]} of observation {bad[0, 0]} is not: the model does not make this value; look at "
                "its units",
            )
        if self.masses is not None:
            possible = self.masses.inside(points) if self.parts else np.zeros(points.shape, dtype=bool)
            if len(bad := np.argwhere(~possible & self.has_density(points))):
                raise ImpossibleObservation(
                    np.unique(bad[:, 0]),
                    f"the statistic numbered {bad[0, 1]} of observation {bad[0, 0]} lies beyond the lowest "
                    "or highest value of the table, which many simulations have, or between its few values: "
                    "the model does not make it; look at its units, and at limits",
                )


class Masses(NamedTuple):
    """Values that have probabilities: each, of those that are none before it, by the logit of the others."""

    # Where there is no density the last value is what is left. Of counts all logits are one function of the
    # parameters and of the count's level.
    # Shapes: levels (v - 1,).

    atoms: Atoms
    logits: tuple[Logit, ...]
    ends: tuple[float, float]
    """Between which the density lies: values that have probabilities, or infinite."""
    middle: float
    """Some value that has a density."""
    levels: np.ndarray | None = None

    @property
    def size(self) -> int:
        """Number of values, v."""
        return len(self.atoms.values)

    def describe(self, theta: Any, xp: Any = np) -> Any:
        """The logits at parameters (k, q), shape (k, v) or (k, v - 1)."""
        if self.levels is not None:
            return self.logits[0](theta, self.levels[None, :, None], xp, shared=True)
        nothing = np.zeros((1, 1, 1))
        found = [logit(theta, nothing, xp, shared=True) for logit in self.logits]
        return xp.stack([0.0 * theta[:, 0] + each[:, 0] for each in found], axis=1)

    def logs(self, logits: Any, xp: Any = np) -> list[Any]:
        """Log probabilities (k, 1) of each value, and of the others together where these are."""
        if self.levels is not None:
            return np.split(self.logs_of_counts(logits, xp), self.size, axis=1)
        softplus = (lambda v: np.logaddexp(0.0, v)) if xp is np else xp.softplus
        reached, found = 0.0, []
        for place in range(len(self.logits)):
            found.append(reached - softplus(logits[:, place, None]))
            reached = reached - softplus(-logits[:, place, None])
        return [*found, reached]

    def logs_of_counts(self, logits: Any, xp: Any = np) -> Any:
        """The same in one array (k, v)."""
        softplus = (lambda v: np.logaddexp(0.0, v)) if xp is np else xp.softplus
        reached = -xp.cumsum(softplus(-logits), axis=1)
        ended = xp.concatenate([-softplus(logits), 0.0 * logits[:, :1]], axis=1)
        return ended + xp.concatenate([0.0 * logits[:, :1], reached], axis=1)

    def at(self, points: Any, xp: Any = np) -> list[Any]:
        """Which elements, of any shape, have each of the values."""
        found = [abs(points - float(value)) <= self.atoms.rounding for value in self.atoms.values]
        if self.atoms.higher:
            found[-1] = points >= float(self.atoms.values[-1]) - self.atoms.rounding
        return found

    def number(self, points: np.ndarray) -> np.ndarray:
        """The place of each element's value, of any shape; that after the last where it has a density."""
        if self.levels is None:
            return self.atoms.number(points)
        place, there = self.place(points)
        return np.where(there, place, self.size).astype(int)

    def of_counts(self, logits: Any, points: Any, xp: Any = np) -> Any:
        """Log probabilities of points (k, m) by the logits (k, v - 1) of counts."""
        (place, there), logs = self.place(points, xp), self.logs_of_counts(logits, xp)
        found = logs[np.arange(len(logs))[:, None] if xp is np else xp.arange(logs.shape[0])[:, None], place]
        return xp.where(there, found, -np.inf)

    def place(
        self,
        points: Any,
        xp: Any = np,
        *,
        # Of the step from one count to the next: units are rounded.
        most_off: float = 1e-6,
    ) -> tuple[Any, Any]:
        """The count that each point stands for, the last one for all that are higher, and where it is one."""
        first, last = float(self.atoms.values[0]), float(self.atoms.values[-1])
        step = (last - first) / (self.size - 1)
        place = xp.round((points - first) / step)
        there = (abs((points - first) / step - place) <= most_off) & (place >= 0)
        return xp.clip(place, 0, self.size - 1).astype("int64"), there

    def inside(self, points: Any) -> Any:
        """Which elements, of any shape, may have a density."""
        found = (points > self.ends[0]) & (points < self.ends[1])
        for there in self.at(points):
            found = found & ~there
        return found

    def put(self, y: np.ndarray, logs: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """Draws (k, e) of the density, with values that have probabilities in the place of some."""
        up_to = np.cumsum(np.exp(np.hstack(logs)), axis=1)[:, : len(logs) - 1]
        # One search in the cumulated probabilities of all rows, one above the other.
        above = np.arange(len(y))[:, None]
        found = np.searchsorted((above + up_to).reshape(-1), above + rng.random(y.shape))
        numbers = found - above * up_to.shape[1]
        return np.where(numbers < self.size, np.append(self.atoms.values, 0.0)[numbers], y)


def fit_masses(
    theta: np.ndarray, points: np.ndarray, atoms: Atoms, rng: np.random.Generator, effort: Effort
) -> Masses:
    """Fit the logits by how many elements of a row have each value, of those that have none before."""
    # Shapes: theta (n, q); points (n, e).
    number = atoms.number(points)
    if atoms.higher and len(atoms.values) > 2:  # two values are one logit
        return fit_counts(theta, number, atoms, rng, effort)
    left, logits = np.full(len(points), points.shape[1]), list[Logit]()
    whole = Inputs(theta, np.zeros((len(theta), 1)))
    others = points[number == len(atoms.values)]
    for place in range(len(atoms.values) if len(others) else len(atoms.values) - 1):
        beyond = left - np.sum(number == place, axis=1)
        some = left > 0
        logits.append(fit_part(whole.rows(some), beyond[some], whole, rng, effort, left[some])[0])
        left = beyond
    lowest, highest = float(atoms.values[0]), float(atoms.values[-1])
    ends = (
        lowest if len(others) and lowest < others.min() else -np.inf,
        highest if len(others) and highest > others.max() else np.inf,
    )
    return Masses(atoms, tuple(logits), ends, float(np.median(others)) if len(others) else 0.0)


def counted(number: np.ndarray, size: int) -> np.ndarray:
    """How many elements of each row of places (n, e) have each of so many, shape (n, size)."""
    rows = np.repeat(np.arange(len(number)), number.shape[1])
    inside = number.reshape(-1) < size
    places = rows[inside] * size + number.reshape(-1)[inside]
    return np.bincount(places, minlength=len(number) * size).reshape(len(number), size)


def fit_counts(
    theta: np.ndarray,
    number: np.ndarray,
    atoms: Atoms,
    rng: np.random.Generator,
    effort: Effort,
    *,
    # Counts of a row, on average, at which it is asked how many of its elements are higher: see
    # `tests.statistical.draws_of_counts`.
    counts_of_a_row: int = 4,
    # Of all rows, and rows of which all counts are in memory.
    most_asked: int = 100_000,
    rows_at_once: int = 10_000,
) -> Masses:
    """Fit one function of the parameters and the count to how many elements of a row are higher."""
    # Shapes: number (n, e).
    last = len(atoms.values) - 1
    levels = np.log1p(np.arange(last))
    levels = (levels - levels.mean()) / max(levels.std(), 1e-300)
    # Whatever the row: those that are asked of it must not depend on where its elements end.
    count = min(counts_of_a_row * len(number), most_asked)
    share = count / np.minimum(number.max(axis=1) + 1, last).sum()
    asked = list[np.ndarray]()
    for start in range(0, len(number), rows_at_once):
        part = number[start : start + rows_at_once]
        reached = counted(part, last + 1)[:, ::-1].cumsum(axis=1)[:, ::-1]
        there = (reached[:, :last] > 0) & (rng.random((len(part), last)) < share)
        rows, places = np.nonzero(there)
        asked.append(np.stack([start + rows, places, reached[rows, places], reached[rows, places + 1]]))
    rows, places, of, beyond = np.hstack(asked)
    inputs = Inputs(theta[rows], levels[places, None])
    # A share that is nearly linear may have a logit that is bent: the kernel is chosen again, for logits.
    _, logits = fit_part(inputs, beyond, inputs, rng, effort, of)
    logit, _ = fit_part(inputs, beyond, inputs, rng, effort, of, logits)
    return Masses(atoms, (logit,), (-np.inf, np.inf), 0.0, levels)


def fit_exchangeable(
    theta: np.ndarray,
    points: np.ndarray,
    rng: np.random.Generator,
    *,
    tried: tuple[float, ...] = (1000.0, 100.0, 10.0, 1.0),
    numbers: int = 800_000,
    compared: Form | None = None,
    # Rows on which the number of components and the units are chosen.
    rows_for_choice: int = 2000,
) -> Exchangeable:
    """Fit middle, scale and mixture, with the units and parts under which held-out rows are densest."""
    # Shapes: theta (n, q); points (n, e).
    n, e = points.shape
    atoms = _atoms_of(points, theta.shape[1])
    in_order = bool(np.all(np.diff(points, axis=1) >= 0))
    there, masses, ends = None, None, (-np.inf, np.inf)
    if len(atoms.values):
        # Of seeds of its own: what has a density is fitted as if it were alone.
        own = np.random.default_rng(int(rng.integers(2**63)))
        masses = fit_masses(theta, points, atoms, own, Effort() if numbers else SPARING)
        there, ends = ~atoms.hold(points), masses.ends
        if not np.any(there):
            still = _still(np.zeros(2), theta.shape[1])
            nothing = still[0], np.zeros((len(still[1]), 0))
            return Exchangeable(e, in_order, ElementUnits(False, False, False), *still, *nothing, masses)
    known = compared if isinstance(compared, Exchangeable) and compared.parts else None
    of_density = points if there is None else points[there]
    positive = of_density.min() > 0
    if known and known.units.logarithm and not positive:
        known = None
    logarithm = known.units.logarithm if known else bool(positive and less_skewed(of_density))
    y = points if there is None else np.where(there, points, np.nan)
    y = np.log(y) if logarithm else y
    if masses is not None and logarithm:
        lower, upper = (float(np.log(end)) if end > 0 else -np.inf for end in ends)
        ends = lower, upper
    levels = levels_of(y)
    held_out = hold_out(n, rng)
    seed = int(rng.integers(2**63))
    if known:
        units, parts = known.units, known.parts
        kernels = KnownKernels(units, known.level, known.law)
    else:
        # At random: a table may be in the order of its rounds, or of a parameter.
        some, kernels = rng.permutation(n)[:rows_for_choice], None
        units, parts = _densest(theta[some], y[some], levels[some], held_out[some], seed, logarithm, ends)
    open_simulation = begin(theta, y, levels, units, seed, kernels, ends=ends)
    found = open_simulation.fitted(parts, held_out, seed, tried, numbers)
    law = open_simulation.basis.mix[:, open_simulation.smooth] @ found.coefficients
    level = open_simulation.level, open_simulation.level_coefficients
    basis = open_simulation.basis.landmarks
    return Exchangeable(e, in_order, open_simulation.units, *level, basis, law, masses)


def _atoms_of(
    points: np.ndarray,
    parameters: int,
    *,
    # As where they are recognised: see `seems_exchangeable`.
    fewest: int = 8,
) -> Atoms:
    """Values of rows (n, e) that have probabilities; refused where what is left has no density."""
    if points.shape[1] < fewest:
        raise ValueError(
            f"there are {points.shape[1]} statistics; the form for independent draws of one distribution "
            f"takes at least {fewest} of them: take another form"
        )
    atoms = Atoms.of(points)
    equal = atoms.share_of_equal(np.sort(points, axis=1))
    if equal > MOST_EQUAL:
        raise ValueError(
            f"{equal:.1%} of the neighbours among a row's sorted statistics are equal, and not only at up to "
            "five values; the form for independent draws of one distribution is for counts, or for "
            "continuous ones, some of which may have one of so few values: take another form"
        )
    number, least = int(np.sum(~atoms.hold(points))), fewest_rows(parameters, 1)
    if 0 < number < least:
        raise ValueError(
            f"{number} of the numbers do not have one of the values {atoms.values}; the density of these "
            f"takes at least {least} of them: take another form, or simulate more"
        )
    return atoms


def _densest(
    theta: np.ndarray,
    y: np.ndarray,
    levels: np.ndarray,
    held_out: np.ndarray,
    seed: int,
    logarithm: bool,
    ends: tuple[float, float],
    *,
    # The penalty with which they are tried.
    penalties: tuple[float] = (100.0,),
    # Numbers of parts of the mixture.
    sizes: tuple[int, ...] = (1, 2, 4, 6),
) -> tuple[ElementUnits, int]:
    """Units and number of parts under which held-out rows are densest, by one penalty."""
    # Of few kernels: they are only compared.
    scales, ridges = (0.35, 0.7, 1.4, 2.8), slice(None, None, 2)
    search = MeanSearch(scales, turns=1, landmarks=150, ridges=ridges, walks=True)
    found = list[tuple[float, ElementUnits, int]]()
    each = list[np.ndarray]()
    # Within limits few rows show a level where most numbers are at a limit, and units that move with it would
    # be extrapolated there.
    for moving in (False, True) if ends == (-np.inf, np.inf) else (False,):
        units = ElementUnits(logarithm, moving, False)
        open_simulation = begin(theta, y, levels, units, seed, None, search, bend=True, ends=ends)
        volumes = open_simulation.slopes[held_out].sum(axis=1)
        for parts in sizes:
            fitted = open_simulation.fitted(parts, held_out, seed, penalties, 0)
            found.append((fitted.held_out + float(volumes.mean()), open_simulation.units, parts))
            each.append(fitted.logs + volumes)
    best = max(found)
    if ends == (-np.inf, np.inf):
        return best[1:]
    # What lies within limits is mostly simple beyond them: the simplest within two standard errors, as in a
    # race.
    gains = [each[found.index(best)] - other for other in each]
    near = [gain.mean() <= 2 * gain.std() / np.sqrt(len(gain)) for gain in gains]
    return found[near.index(True)][1:]


# --- some of the order statistics ---


@dataclass(frozen=True, eq=False)
class OrderStatistics:
    """The density of some of e sorted draws, by their places among all."""

    # A gap of g draws has the factor (F(upper) - F(lower))^g / g!: H. David and H. Nagaraja, Order statistics
    # (2003), equation 2.2.2.

    # Shapes: kept (m,).
    whole: Exchangeable
    kept: np.ndarray

    def describe(self, theta: Any, xp: Any = np) -> Any:
        """As of the whole form."""
        return self.whole.describe(theta, xp)

    def log_density(self, described: Any, points: Any, xp: Any = np) -> Any:
        """Log densities (k, r) of points (k, r, m) or (1, r, m): see `Form`."""
        if xp is not np:
            raise NotImplementedError("missing draws are integrated out with NumPy alone")
        k, r, m = len(described), points.shape[1], len(self.kept)
        if self.whole.masses is not None:
            return self._with_masses(described, np.broadcast_to(points, (k, r, m)))
        flat = np.broadcast_to(points, (k, r, m)).reshape(k, r * m)
        values, slopes = measured(flat, described[:, :1], described[:, 1:2], self.whole.units)
        parts = parts_of_numbers(described[:, 2:], self.whole.parts)
        each = (log_densities(parts, values) + slopes).reshape(k, r, m)
        below = distribution(parts, values).reshape(k, r, m)
        shares = np.diff(below, axis=2, prepend=0.0, append=1.0)
        gaps = self._gaps()
        between = np.sum(gaps * np.log(np.maximum(shares, 1e-300)), axis=2)
        orders = gammaln(self.whole.size + 1) - gammaln(gaps + 1).sum()
        return each.sum(axis=2) + between + orders

    def _with_masses(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The same where some values have probabilities, which those that are missing may have, too."""
        # N draws of a value of probability p have the factor p^N / N!; the state is how many have a draw's
        # value so far.
        # Shapes: points (k, r, m).
        k, r, m = points.shape
        flat = points.reshape(k, r * m)
        each = self.whole.log_densities(described, flat).reshape(k, r, m)
        below, at = (one.reshape(k, r, m) for one in self.whole.distribution(described, flat))
        place = self.number(points)
        has_mass, gaps = self.whole.has_density(points) == 0, self._gaps()
        size = self.whole.size

        def factor(log_share: np.ndarray, count: Any) -> np.ndarray:
            with np.errstate(invalid="ignore"):
                return np.where(count > 0, count * log_share, 0.0) - gammaln(count + 1)

        with np.errstate(divide="ignore"):
            apart = np.append(below, np.ones((k, r, 1)), axis=2) - np.concatenate(
                [np.zeros((k, r, 1)), below + at], axis=2
            )
            apart = np.log(np.clip(apart, 0.0, 1.0))
        nothing = np.full((size + 1, k, r), -np.inf)
        # Before the first draw there is no value: a state of its own, of none.
        state = nothing.copy()
        state[0] = 0.0
        for j in range(m + 1):
            gap = int(gaps[j])
            # How many of the gap have the value before it.
            left = nothing[: gap + 1].copy()
            if j == 0:
                left[0] = 0.0
            else:
                before, log = has_mass[:, :, j - 1], each[:, :, j - 1]
                for t in range(gap + 1):
                    total = [state[n] + factor(log, n + t) for n in range(1, size - t + 1)]
                    left[t] = np.where(before, np.logaddexp.reduce(total), -np.inf)
                left[0] = np.where(before, left[0], state[1] + log)
            # How many of it have the value after it: the others lie apart from both.
            right = nothing[: gap + 1].copy()
            for i in range(gap + 1):
                ways = [left[t] + factor(apart[:, :, j], gap - i - t) for t in range(gap - i + 1)]
                right[i] = np.logaddexp.reduce(ways)
            if j == m:
                return right[0] + gammaln(size + 1)
            moved = nothing.copy()
            moved[1 : gap + 2] = right
            moved[2:] = np.where(has_mass[:, :, j], moved[2:], -np.inf)
            if j:
                same = has_mass[:, :, j] & (place[:, :, j] == place[:, :, j - 1])
                stays = nothing.copy()
                stays[gap + 1 :] = state[: size - gap]
                moved = np.where(same, stays, moved)
            state = moved
        raise AssertionError

    def draw(self, described: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw (k, m) for each of k parameters."""
        return self.whole.draw(described, rng)[:, self.kept]

    def transforms(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Each given those before it, (k, m): see `Form`."""
        if self.whole.masses is not None:
            raise NotImplementedError("transforms of some of several draws take a density of each")
        values, _ = measured(points, described[:, :1], described[:, 1:2], self.whole.units)
        below = distribution(parts_of_numbers(described[:, 2:], self.whole.parts), values)
        before = np.concatenate([np.zeros((len(below), 1)), below[:, :-1]], axis=1)
        share = np.clip((below - before) / np.maximum(1 - before, 1e-300), 0.0, 1.0)
        # The b-th smallest of the n draws that are left has a beta distribution of b and n + 1 - b.
        ahead = np.diff(self.kept, prepend=-1)
        return betainc(ahead, self.whole.size - self.kept, share)

    def check(self, points: np.ndarray) -> None:
        """Refuse observations (k, m) that no row is like: see `Exchangeable.check`."""
        self.whole.check(points)

    def has_density(self, points: np.ndarray) -> np.ndarray:
        """Which draws (..., m) have a density: see `Exchangeable.has_density`."""
        return self.whole.has_density(points)

    def number(self, points: np.ndarray) -> np.ndarray:
        """The place of the value that each draw has: see `Exchangeable.number`."""
        return self.whole.number(points)

    def _gaps(self) -> np.ndarray:
        """Numbers of draws missing before each that is kept, and after the last, (m + 1,)."""
        return np.diff(self.kept, prepend=-1, append=self.whole.size) - 1


# --- elements in their units, and functions on which their distribution depends ---


class ElementUnits(NamedTuple):
    """How numbers are measured before a mixture describes them."""

    logarithm: bool
    moving: bool
    bent: bool


def measured(points: Any, middle: Any, log_scale: Any, units: ElementUnits, xp: Any = np) -> tuple[Any, Any]:
    """Numbers (k, m) in some units, and the logs of the slopes from numbers to these."""
    # Shapes: points (k, m); middle, log_scale (k, 1).
    y, slopes = points, -log_scale
    if units.logarithm:
        # So that parameters have a slope everywhere; observations that are not positive are refused before.
        y = xp.log(xp.maximum(points, 1e-300))
        slopes = slopes - y
    z = (y - middle) * xp.exp(-log_scale)
    if not units.bent:
        return z, slopes
    return xp.arcsinh(z), slopes - 0.5 * xp.log(1 + z**2)


def ends_of(
    ends: tuple[float, float], middle: Any, log_scale: Any, units: ElementUnits, xp: Any = np
) -> tuple[Any, Any]:
    """Two numbers, which may be infinite, in some units: each (k, 1)."""
    # Shapes: middle, log_scale (k, 1).
    found = []
    for end, far in zip(ends, (-FAR, FAR), strict=True):
        none = np.isinf(end) or (units.logarithm and end <= 0)
        at = far + 0.0 * middle if none else measured(end + 0.0 * middle, middle, log_scale, units, xp)[0]
        found.append(xp.clip(at, -FAR, FAR))
    return found[0], found[1]


@dataclass(frozen=True, eq=False)
class Elements:
    """Data sets in some units, and the functions of the parameters by which their mixture may move."""

    # Shapes: level_coefficients (1 + q + l, 2); z, slopes, quantiles (n, e); features (n, f); weights (n,).
    units: ElementUnits
    level: Landmarks
    level_coefficients: np.ndarray
    z: np.ndarray
    slopes: np.ndarray
    basis: Basis
    smooth: np.ndarray
    features: np.ndarray
    quantiles: np.ndarray
    """Of each row: its numbers, where all have a density."""
    weights: np.ndarray | None = None
    """Of rows in a first guess, where some numbers have no density."""
    some: Observed | None = None

    def fitted(
        self, parts: int, held_out: np.ndarray, seed: int, tried: tuple[float, ...], numbers: int
    ) -> FittedFunctions:
        """The mixture of so many parts: see `fit_functions`."""
        penalties = self.basis.penalties[self.smooth]
        start = _regressed(self.features, penalties, start_of_groups(self.quantiles, parts), self.weights)
        rng = np.random.default_rng(seed)
        return fit_functions(
            self.z, self.features, penalties, start, held_out, rng, tried, numbers, some=self.some
        )


def _regressed(
    features: np.ndarray, penalties: np.ndarray, points: np.ndarray, weights: np.ndarray | None
) -> np.ndarray:
    """Coefficients (f, e) of a ridge regression of points (n, e), of rows that may have weights (n,)."""
    if weights is None:
        return regress(features, penalties, points).coefficients
    return regress_with_common_weights(features, penalties, points, weights).coefficients


class KnownKernels(NamedTuple):
    """Kernels of middle and scale, and of the distribution, whose settings are reused; and units."""

    units: ElementUnits
    level: Landmarks
    law: Landmarks


def begin(
    theta: np.ndarray,
    y: np.ndarray,
    levels: np.ndarray,
    units: ElementUnits,
    seed: int,
    known: KnownKernels | None = None,
    search: MeanSearch = USUAL,
    bend: bool = False,
    *,
    ends: tuple[float, float] = (-np.inf, np.inf),
    # Landmarks of the kernel of the functions.
    landmarks_of_kernel: int = 300,
    # Functions that are used, the smoothest ones.
    smoothest: int = 150,
    # Groups of a row's numbers whose means and deviations choose the kernel.
    groups_for_kernel: int = 6,
    # Of the numbers: where fewer lie within so many median distances of the middle, asinh is taken.
    bent_share: float = 0.999,
    far: float = 30.0,
) -> Elements:
    """The numbers y (n, e) in units, and a kernel for their density; `bend`: use asinh for long tails."""
    # A number that is NaN has no density, nor has a row a level of which too little is left.
    rng = np.random.default_rng(seed)
    there, shown = ~np.isnan(y), ~np.isnan(levels[:, 0])
    whole = bool(there.all())
    # What is missing has no part in a first guess.
    weights = None if whole else np.where(shown, 1.0, 1e-9)

    def basis_of(points: np.ndarray, kernel: Landmarks | None) -> tuple[Basis, np.ndarray]:
        if whole or kernel is not None:
            return mean_basis(theta, points, landmarks_of_kernel, rng, kernel, search)
        chosen, _ = mean_basis(theta[shown], points[shown], landmarks_of_kernel, rng, None, search)
        # Its landmarks among all rows: elements that have a density are rare where they are needed as well.
        return mean_basis(theta, points, landmarks_of_kernel, rng, chosen.landmarks, search)

    level, coefficients = _still(levels[shown].mean(axis=0), theta.shape[1])
    levels = np.where(shown[:, None], levels, coefficients[0])
    if units.moving:
        of_level, features = basis_of(levels, known and known.level)
        found = _regressed(features, of_level.penalties, levels, weights)
        level, coefficients = of_level.landmarks, of_level.mix @ found
    at = level.combined(theta, coefficients)
    if bend:
        away = np.abs(y - at[:, :1]) * np.exp(-at[:, 1:])
        units = units._replace(bent=bool(np.nanquantile(away, bent_share) > far))
    in_units = units._replace(logarithm=False)
    z, slopes = measured(y, at[:, :1], at[:, 1:], in_units)
    slopes = np.where(there, slopes, 0.0)
    some = None
    if not whole:
        some = Observed(there, np.hstack(ends_of(ends, at[:, :1], at[:, 1:], in_units)))
    quantiles = z if whole else _quantiles(z, shown)
    groups = start_of_groups(quantiles, groups_for_kernel)
    groups = groups[:, np.ptp(groups, axis=0) > 0]  # of one number there is no deviation
    basis, features = basis_of(groups, known and known.law)
    smooth = np.argsort(basis.penalties, kind="stable")[:smoothest]
    z = z if whole else np.where(there, z, 0.0)
    of_basis = basis, smooth, features[:, smooth]
    return Elements(units, level, coefficients, z, slopes, *of_basis, quantiles, weights, some)


def _quantiles(z: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Quantiles (n, e) of the numbers (n, e) of each row that are there; zeros in rows that show no level."""
    e = z.shape[1]
    ordered, counts = np.sort(z, axis=1), np.sum(~np.isnan(z), axis=1)  # what is missing is last
    places = ((np.arange(e) + 0.5) * counts[:, None] / e).astype(int)
    return np.where(shown[:, None], np.take_along_axis(ordered, places, axis=1), 0.0)


def _still(level: np.ndarray, parameters: int) -> tuple[Landmarks, np.ndarray]:
    """A middle and a log scale (2,) that are the same everywhere, as functions of the parameters."""
    coefficients = np.zeros((2 + parameters, 2))
    coefficients[0] = level
    return Landmarks(np.zeros((1, parameters)), np.zeros((1, parameters))), coefficients


def levels_of(
    y: np.ndarray,
    *,
    # A row's median distance from its middle, at least: its logarithm is taken.
    least_distance: float = 1e-9,
    # Numbers of a row of which some are missing, where most rows have as many.
    fewest_there: int = 4,
) -> np.ndarray:
    """Median and log median distance from it of each row, (n, 2); NaN of a row with fewer numbers."""
    counts = np.sum(~np.isnan(y), axis=1)
    found = np.full((len(y), 2), np.nan)
    shown = np.ones(len(y), dtype=bool)
    if counts.min() < y.shape[1]:
        shown = counts >= np.clip(np.median(counts[counts > 0]), 1, fewest_there)
    values = y[shown]
    middle = np.nanmedian(values, axis=1)
    distance = np.nanmedian(np.abs(values - middle[:, None]), axis=1)
    if np.any(counts[shown] == 1):  # by itself a number has no distance
        distance[counts[shown] == 1] = np.nanmedian(np.abs(values - np.nanmedian(values)))
    found[shown] = np.column_stack([middle, np.log(np.maximum(distance, least_distance))])
    return found


def less_skewed(points: np.ndarray) -> bool:
    """Whether logarithms of positive points are less skewed, by their quantiles."""

    def skewed(values: np.ndarray) -> float:
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
        return abs(float(high + low - 2 * middle) / max(float(high - low), 1e-300))

    return skewed(np.log(points)) < skewed(points)
