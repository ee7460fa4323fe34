"""What a filter is fitted to: states, which of them have observations, and which follow which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pymc_kbr.arrays.labelled import in_order, is_labelled
from pymc_kbr.arrays.names import labels_of
from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.rows import check_finite, check_range, refuse_unlike_labels
from pymc_kbr.arrays.scaling import Scaler, unit_deviations
from pymc_kbr.estimators.summaries import Summary, coordinates, make_summary
from pymc_kbr.gram import (
    AS_EXACT,
    Auto,
    Exact,
    Gram,
    IncompleteCholesky,
    LowRankGram,
    RandomlyPivotedCholesky,
    Solver,
    make_solver,
)
from pymc_kbr.gram.dense import CachedGram
from pymc_kbr.kernels import Gaussian, Kernel, Product, Sum


class Labels(NamedTuple):
    """Names of the columns of states, observations and controls; None where they have none."""

    states: tuple[str, ...] | None = None
    observations: tuple[str, ...] | None = None
    controls: tuple[str, ...] | None = None


UNLABELLED = Labels()


@dataclass(frozen=True, eq=False)
class Training:
    """States with three lists of row numbers into them."""

    # Shapes: states (N, p); pairs (n,); observations (n, d); previous, following (m,); controls (m, c).
    states: np.ndarray
    pairs: np.ndarray
    observations: np.ndarray
    previous: np.ndarray
    following: np.ndarray
    controls: np.ndarray | None = None
    lengths: tuple[int, ...] = ()
    labels: Labels = UNLABELLED

    @classmethod
    def of_sequences(cls, states: Any, observations: Any, controls: Any = None) -> Training:
        """From one training sequence, or a list of them."""
        _refuse_other_labels(states, observations)
        z, z_names = sequences("states", states)
        x, x_names = sequences("observations", observations)
        u, u_names = (None, None) if controls is None else sequences("controls", controls)
        for name, other in (("observations", x), ("controls", u)):
            if other is None:
                continue
            if len(other) != len(z):
                raise ValueError(
                    f"there are {len(z)} sequences of states and {len(other)} of {name}; give one for one"
                )
            for i, (one, two) in enumerate(zip(z, other, strict=True)):
                if len(one) != len(two):
                    raise ValueError(
                        f"sequence {i} has {len(one)} states and {len(two)} rows of {name}; each state has "
                        "one row, and a control acts from the state of its row to the next"
                    )
        lengths = tuple(map(len, z))
        ends = np.cumsum(lengths)
        rows = np.arange(ends[-1])
        # No transition leads from the end of one sequence to the beginning of the next.
        previous = np.setdiff1d(rows, ends - 1)
        return cls(
            np.vstack(z),
            rows,
            np.vstack(x),
            previous,
            previous + 1,
            None if u is None else np.vstack(u)[previous],
            lengths,
            Labels(z_names, x_names, u_names),
        )

    @classmethod
    def of_parts(cls, pairs: Any, transitions: Any, controls: Any = None) -> Training:
        """From observed states and from transitions, which need not be of the same sequences."""
        # Shapes: pairs (n, p) and (n, d); transitions (m, p); controls (m, c).
        (z, x), labels = _two("pairs", pairs, "states", "observations")
        if transitions is None:
            if controls is not None:
                raise ValueError("controls are given without transitions; leave them out, or give both")
            none = np.empty(0, dtype=int)
            return cls(z, np.arange(len(z)), x, none, none, labels=Labels(*labels))
        known = labels[0], labels[0]
        (before, after), of_both = _two(
            "transitions", transitions, "states", "states that follow them", known
        )
        states = labels[0] or of_both[0]
        for name, part in (("states", before), ("states that follow", after)):
            if part.shape[1] != z.shape[1]:
                raise ValueError(
                    f"the pairs' states have {z.shape[1]} columns and the transitions' {name} "
                    f"{part.shape[1]}; they must be the same columns"
                )
        n, m = len(z), len(before)
        u = None if controls is None else rows_of("controls", controls)
        named = Labels(states, labels[1], None if controls is None else labels_of(controls))
        if u is not None and len(u) != m:
            raise ValueError(f"there are {m} transitions and {len(u)} rows of controls; give one for each")
        previous, following = n + np.arange(m), n + m + np.arange(m)
        return cls(np.vstack([z, before, after]), np.arange(n), x, previous, following, u, labels=named)

    def split(self, held_out: int) -> tuple[Training, list[tuple[np.ndarray, np.ndarray, np.ndarray | None]]]:
        """The first part of the sequences, and the last `held_out` steps as sequences of their own."""
        starts = np.cumsum([0, *self.lengths[:-1]])
        u_all = self._controls_of_rows()
        kept: list[tuple[int, int]] = []
        held: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = []
        left = held_out
        for start, length in reversed(list(zip(starts, self.lengths, strict=True))):
            # A sequence of one step is none: what would leave one is taken whole, or not at all.
            taken = 0 if left < 2 else left if length - left >= 2 else length
            first = start + length - taken
            if taken >= 2:
                rows = slice(first, start + length)
                held.append(
                    (self.states[rows], self.observations[rows], None if u_all is None else u_all[rows])
                )
            # One step alone has no transition.
            if length - taken >= 2:
                kept.append((start, first))
            left -= taken
        parts = [slice(a, b) for a, b in reversed(kept)]
        if not parts:
            raise ValueError("no training sequence is left without the held-out steps")
        return Training.of_sequences(
            [self.states[part] for part in parts],
            [self.observations[part] for part in parts],
            None if u_all is None else [u_all[part] for part in parts],
        ), held

    def _controls_of_rows(self) -> np.ndarray | None:
        if self.controls is None:
            return None
        # No control acts after a sequence's last state: what stands there is never read.
        rows = np.zeros((len(self.states), self.controls.shape[1]))
        rows[self.previous] = self.controls
        return rows


def sequences(name: str, value: Any) -> tuple[list[np.ndarray], tuple[str, ...] | None]:
    """One sequence (T, k), or a list of them, as float arrays of two rows or more; names of columns."""
    several = isinstance(value, list | tuple) and len(value) > 0 and all(map(_is_sequence, value))
    parts = list(value) if several else [value]
    names = labels_of(parts[0])
    found = [rows_of(name, part, names) for part in parts]
    columns = {part.shape[1] for part in found}
    if len(columns) > 1:
        raise ValueError(f"the sequences of {name} have {sorted(columns)} columns; all need the same")
    for i, part in enumerate(found):
        if len(part) < 2:
            raise ValueError(
                f"sequence {i} of {name} has {len(part)} step; a transition takes two: leave it out, or give "
                "it as `pairs`"
            )
    return found, names


def _is_sequence(part: Any) -> bool:
    return is_labelled(part) or np.ndim(part) == 2


def rows_of(name: str, value: Any, names: Sequence[str] | None = None) -> np.ndarray:
    """Finite rows of numbers, shape (k, columns), with what is labelled in the order of names."""
    array = in_order(name, value, names, "those of the first training data")
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"{name} have shape {array.shape}; they must be rows of at least one column, a row a time step"
        )
    check_finite(name, array)
    check_range(name, array)
    return array


def evenly_spaced(times: Any, count: int) -> None:
    """Refuse times that are not `count` even steps."""
    if times is None:
        return
    try:
        t = np.asarray(times)
    except Exception as error:
        raise TypeError(f"times is {shown(times)}, which is no array ({shown(error)})") from None
    if t.shape != (count,):
        raise ValueError(f"there are {count} rows and times of shape {t.shape}; give one time a row")
    steps = np.diff(t).astype(float)
    # Times that are floats are even up to rounding.
    if len(steps) and (steps.min() <= 0 or np.ptp(steps) > 1e-6 * np.abs(steps).max()):
        raise ValueError(
            f"the steps between times go from {steps.min():g} to {steps.max():g}; one transition is learnt "
            "for one step: put the observations on an even grid with NaN where there is none, or give the "
            "length of each step as a column of `controls`"
        )


def _refuse_other_labels(states: Any, observations: Any) -> None:
    """Refuse sequences whose rows have different labels."""
    pairs = [(states, observations)]
    if isinstance(states, list | tuple) and isinstance(observations, list | tuple):
        pairs = list(zip(states, observations, strict=False))
    for one, other in pairs:
        refuse_unlike_labels("the states", one, "the observations", other)


def _two(
    name: str, value: Any, first: str, second: str, names: tuple[Any, Any] | None = None
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[Any, Any]]:
    """Two arrays whose rows belong together, with the names of their columns, or in the order of some."""
    if not isinstance(value, Sequence) or len(value) != 2:
        raise TypeError(f"{name} must be two arrays, {first} and {second}")
    refuse_unlike_labels(f"the {first}", value[0], f"the {second}", value[1])
    own = labels_of(value[0]), labels_of(value[1])
    if names is not None and names[0] is None:
        names = own[0] or own[1], own[0] or own[1]
    order = own if names is None else names
    one, two = (
        rows_of(f"{name} ({first})", value[0], order[0]),
        rows_of(f"{name} ({second})", value[1], order[1]),
    )
    if len(one) != len(two):
        raise ValueError(f"{name} has {len(one)} {first} and {len(two)} {second}; each row needs both")
    if len(one) < 2:
        raise ValueError(f"{name} has {len(one)} row; at least two are needed")
    return (one, two), order


# --- Gram matrices, computed once ---


def gram_of(
    solver: Any,
    kernel: Kernel,
    points: np.ndarray,
    rng: np.random.Generator,
    *,
    # Rows from which "auto" tries a factorisation.
    fewest_for_factor: int = 100,
) -> CachedGram | LowRankGram:
    """The Gram matrix of points (n, d), kept in memory, or of finitely many features."""
    solver, n = make_solver(solver), len(points)
    if isinstance(solver, Auto):
        if n >= fewest_for_factor:
            # At a quarter of the rank it costs a sixteenth of the exact factorisation: to look is cheap.
            tried = IncompleteCholesky(max(1, min(n // 4, 500)), AS_EXACT).gram(kernel, points, rng, 0.0)
            if isinstance(tried, LowRankGram) and _left_out(tried, kernel, points) <= AS_EXACT:
                return tried
        exact = Exact().bytes(n) <= solver.memory
        return (
            CachedGram.of(kernel, points)
            if exact
            else _low_rank(RandomlyPivotedCholesky(tolerance=1e-6), kernel, points, rng)
        )
    return (
        CachedGram.of(kernel, points) if isinstance(solver, Exact) else _low_rank(solver, kernel, points, rng)
    )


def _low_rank(solver: Solver, kernel: Kernel, points: np.ndarray, rng: np.random.Generator) -> LowRankGram:
    # Only leverage scores ask for a ridge, before lambda is chosen: that of a usual lambda.
    made: Gram = solver.gram(kernel, points, rng, 1e-3 * len(points))
    if not isinstance(made, LowRankGram):
        raise ValueError(
            f"solver is {shown(solver)}, which makes blocks of rows; a filter takes 'exact', 'auto', "
            "'incomplete_cholesky', 'randomly_pivoted_cholesky', 'nystroem' or 'random_features'"
        )
    return made


def _left_out(gram: LowRankGram, kernel: Kernel, points: np.ndarray) -> float:
    whole = float(kernel.diag(points).sum())
    return (whole - float(np.sum(gram.features**2))) / whole


@dataclass(frozen=True)
class Joint:
    """k(z, z') l(u, u') of rows that hold z in their first columns and u in the others."""

    first: Kernel
    second: Kernel
    columns: int

    def __call__(self, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """The Gram matrix, shape (n, m)."""
        b = a if b is None else b
        k = self.columns
        return self.first(a[:, :k], b[:, :k]) * self.second(a[:, k:], b[:, k:])

    def diag(self, a: np.ndarray) -> np.ndarray:
        """Its diagonal, shape (n,)."""
        return self.first.diag(a[:, : self.columns]) * self.second.diag(a[:, self.columns :])


def of_columns(kernel: Kernel, columns: np.ndarray) -> Kernel:
    """The kernel on some columns alone: where it has a bandwidth for each, on theirs."""
    if isinstance(kernel, Sum | Product):
        return replace(kernel, left=of_columns(kernel.left, columns), right=of_columns(kernel.right, columns))
    if isinstance(kernel, Gaussian) and np.ndim(kernel.bandwidth):
        return Gaussian(tuple(np.asarray(kernel.bandwidth)[columns].tolist()))
    return kernel


# --- units of states, observations and controls ---


@dataclass(frozen=True, eq=False)
class Units:
    """Centres and deviations of the training's columns."""

    # Shapes: centre, deviation (p,); control_centre, control_deviation (c,).
    centre: np.ndarray
    deviation: np.ndarray
    observations: Summary
    control_centre: np.ndarray | None = None
    control_deviation: np.ndarray | None = None

    @classmethod
    def of(cls, training: Training, scaled: bool, features: Any = None) -> Units:
        """Those of a training; deviations are one where nothing is to be scaled."""

        def deviation(rows: np.ndarray) -> np.ndarray:
            return unit_deviations(rows) if scaled else np.ones(rows.shape[1])

        u = training.controls
        return cls(
            training.states.mean(axis=0),
            deviation(training.states),
            make_summary(
                scaled if features is None else features,
                training.observations,
                training.states[training.pairs],
            ),
            None if u is None else u.mean(axis=0),
            None if u is None else deviation(u),
        )

    def of_features(self, training: Training, features: Any) -> Units:
        """The same with features that are learnt from another training."""
        rows = training.states[training.pairs]
        return replace(self, observations=make_summary(features, training.observations, rows))

    @property
    def has_columns(self) -> bool:
        """Whether what is seen of an observation are its own columns, of which some may be missing."""
        return isinstance(self.observations, Scaler)

    def observed(self, rows: np.ndarray) -> np.ndarray:
        """Observations (T, d), scaled, or their features; NaN where they are missing."""
        if self.has_columns:
            return self.observations.transform(rows)
        # A network takes whole observations: nothing is known of the features of a part.
        gaps = np.isnan(rows)
        missing = gaps.all(axis=1)
        partly = gaps.any(axis=1) & ~missing
        if partly.any():
            raise ValueError(
                f"{partly.sum()} observation(s) hold NaN in some columns, the first of them row "
                f"{np.flatnonzero(partly)[0]}; features are of whole observations: make the whole row NaN, "
                "which is a step without an observation, or fit the filter without features"
            )
        # Where nothing was seen nobody asks how many features there are.
        seen = self.observations.transform(rows[~missing]) if not missing.all() else np.zeros((0, 1))
        found = np.full((len(rows), seen.shape[1]), np.nan)
        found[~missing] = seen
        return found

    def of_predictions(
        self, columns: int, labels: tuple[str, ...] | None
    ) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
        """Names, centres and units of predicted observations; features have no other unit than their own."""
        summary = self.observations
        if not isinstance(summary, Scaler):
            return tuple(f"feature_{i}" for i in range(columns)), np.zeros(columns), np.ones(columns)
        names = labels or [f"observation_{i}" for i in range(summary.size)]
        kept = np.flatnonzero(summary.kept)
        return tuple(names[i] for i in kept), summary.centre[kept], summary.scale[kept]

    def states(self, rows: np.ndarray) -> np.ndarray:
        """States (k, p), scaled."""
        return (rows - self.centre) / self.deviation

    def controls(self, rows: np.ndarray) -> np.ndarray:
        """Controls (k, c), scaled."""
        return (rows - self.control_centre) / self.control_deviation

    def unscaled_controls(self, rows: np.ndarray) -> np.ndarray:
        """The inverse of `controls`."""
        return rows * self.control_deviation + self.control_centre

    def scaled(self, training: Training) -> Training:
        """A training in this scale."""
        return replace(
            training,
            states=self.states(training.states),
            # Where estimates stand for observations, training rows have those of a fit without them.
            observations=coordinates(self.observations, training.observations),
            controls=None if training.controls is None else self.controls(training.controls),
        )
