"""Bijections between columns with constraints and columns without, as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from pymc_kbr.arrays.refusals import shown

LARGEST_BOUND = 1e100
"""Of an interval's finite ends: shares of a wider one have no digit left for values of usual size."""


class Step(Protocol):
    """One bijection of some columns; `parameters` holds every column that is already known."""

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray: ...
    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray: ...
    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray: ...
    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Interval:
    """Each column between two bounds, either of which may be infinite or depend on other columns.

    Parameters
    ----------
    lower, upper : tuple of float, length k
        The constant part of the bounds of the k columns.
    lower_slopes, upper_slopes : tuple of tuple of float, shape (k, p), optional
        A bound may be an affine function of the table's p parameters, as that of
        ``pm.Uniform("b", 0, a)`` is: ``upper + parameters @ upper_slopes.T``.

    Raises
    ------
    ValueError
        If the constant part of a bound is finite and beyond 1e100.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    lower_slopes: tuple[tuple[float, ...], ...] | None = None
    upper_slopes: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        for end in (*self.lower, *self.upper):
            if np.isfinite(end) and abs(end) > LARGEST_BOUND:
                raise ValueError(
                    f"a bound is {end}; an end beyond {LARGEST_BOUND:g} leaves no digit of what lies "
                    "between: take an infinite one"
                )

    def bounds(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (
            _affine(self.lower, self.lower_slopes, parameters),
            _affine(self.upper, self.upper_slopes, parameters),
        )

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        lower, upper = self.bounds(parameters)
        with np.errstate(divide="ignore"):
            # Beyond an end as at it: infinite, and no logarithm of a negative number.
            above = np.where(np.isfinite(lower), np.log(np.where(values > lower, values - lower, 0)), 0)
            below = np.where(np.isfinite(upper), np.log(np.where(values < upper, upper - values, 0)), 0)
        unbounded = np.isinf(lower) & np.isinf(upper)
        return np.where(unbounded, values, above - below)

    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        lower, upper = self.bounds(parameters)
        both = np.isfinite(lower) & np.isfinite(upper)
        # An interval's share is taken from the nearer end, so that neither end loses digits.
        width = np.where(both, upper, 0) - np.where(both, lower, 0)
        share = width * expit(-np.abs(free))
        inside = np.where(free < 0, lower + share, upper - share)
        if np.all(both):
            return inside
        # Both are made everywhere and the wrong ones thrown away: infinite ends give infinities there.
        with np.errstate(over="ignore", invalid="ignore"):
            from_below = lower + np.exp(free)
            from_above = upper - np.exp(-free)
        return np.select(
            [both, np.isfinite(lower), np.isfinite(upper)], [inside, from_below, from_above], free
        )

    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        lower, upper = self.bounds(parameters)
        return np.all((values >= lower) & (values <= upper), axis=1)

    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Log |d backward / d free|, shape (n,)."""
        lower, upper = self.bounds(parameters)
        with np.errstate(divide="ignore", invalid="ignore"):
            both = np.log(upper - lower) + log_expit(free) + log_expit(-free)
        finite = [np.isfinite(lower) & np.isfinite(upper), np.isfinite(lower), np.isfinite(upper)]
        return np.select(finite, [both, free, -free], 0.0).sum(axis=1)


@dataclass(frozen=True)
class Ordered:
    """Columns that increase from the first to the last: the gaps are taken in logarithms."""

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.hstack([values[:, :1], np.log(np.diff(values, axis=1))])

    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.cumsum(np.hstack([free[:, :1], np.exp(free[:, 1:])]), axis=1)

    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.all(np.diff(values, axis=1) >= 0, axis=1)

    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return free[:, 1:].sum(axis=1)


@dataclass(frozen=True)
class Simplex:
    """k non-negative columns that sum to one, as k - 1 log ratios to the last of them."""

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            logs = np.log(values)
        return logs[:, :-1] - logs[:, -1:]

    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        logs = np.hstack([free, np.zeros((len(free), 1))])
        return np.exp(logs - logsumexp(logs, axis=1, keepdims=True))

    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.all(values >= 0, axis=1) & (np.abs(values.sum(axis=1) - 1) < 1e-6)

    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Of the first k - 1 columns, which densities on the simplex are given in: the product of all k."""
        logs = np.hstack([free, np.zeros((len(free), 1))])
        return logs.sum(axis=1) - logs.shape[1] * logsumexp(logs, axis=1)


@dataclass(frozen=True)
class ZeroSum:
    """k columns that sum to zero, as the first k - 1 of them."""

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return values[:, :-1]

    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.hstack([free, -free.sum(axis=1, keepdims=True)])

    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.abs(values.sum(axis=1)) <= 1e-6 * (1 + np.abs(values).max(axis=1))

    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Of the first k - 1 columns, which are as they were."""
        return np.zeros(len(free))


@dataclass(frozen=True)
class Circular:
    """Angles, wrapped into [-pi, pi]."""

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return values

    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.arctan2(np.sin(free), np.cos(free))

    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.all(np.abs(values) <= np.pi, axis=1)

    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """One turn of the circle stands for all: minus infinity beyond it, or no density would integrate."""
        return np.where(np.all(np.abs(free) <= np.pi, axis=1), 0.0, -np.inf)


KINDS: dict[str, Any] = {
    "interval": Interval,
    "ordered": Ordered,
    "simplex": Simplex,
    "zero_sum": ZeroSum,
    "circular": Circular,
}


def _affine(
    constant: tuple[float, ...], slopes: tuple[tuple[float, ...], ...] | None, parameters: np.ndarray
) -> np.ndarray:
    base = np.asarray(constant)[None, :]
    return base if slopes is None else base + parameters @ np.asarray(slopes).T


def ends_of(name: str, bounds: Any) -> tuple[float, float]:
    """Both ends of a parameter's bounds, infinite where they are None.

    Raises
    ------
    ValueError
        If they are not two numbers, the lower one below the upper one, or a finite one is too large.
    """
    try:
        a, b = bounds
        lower, upper = -np.inf if a is None else float(a), np.inf if b is None else float(b)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the bounds of {name!r} are {shown(bounds)}; give two numbers, (lower, upper), with None for "
            "an end that is open"
        ) from error
    if not lower < upper:
        raise ValueError(f"the bounds of {name!r} are ({a}, {b}); the lower one must be below the upper one")
    if any(np.isfinite(end) and abs(end) > LARGEST_BOUND for end in (lower, upper)):
        raise ValueError(
            f"the bounds of {name!r} are ({a}, {b}); an end beyond {LARGEST_BOUND:g} leaves no digit of what "
            "lies between: give None for an end that is open"
        )
    return lower, upper


def step_to_json(step: Step) -> dict[str, Any]:
    """A step as plain data: its kind and its fields, infinities as text."""
    kind = next(name for name, cls in KINDS.items() if cls is type(step))
    return {"kind": kind, **_to_text(dataclasses.asdict(step))}  # type: ignore[call-overload]


def step_from_json(document: Mapping[str, Any]) -> Step:
    """The inverse of `step_to_json`."""
    fields = {name: _from_text(value) for name, value in document.items() if name != "kind"}
    step: Step = KINDS[document["kind"]](**fields)
    return step


def _to_text(fields: Any) -> Any:
    if isinstance(fields, dict):
        return {name: _to_text(value) for name, value in fields.items()}
    if isinstance(fields, list | tuple):
        return [_to_text(value) for value in fields]
    # JSON has no infinities.
    return str(fields) if isinstance(fields, float) and np.isinf(fields) else fields


def _from_text(fields: Any) -> Any:
    if isinstance(fields, list):
        return tuple(_from_text(value) for value in fields)
    return float(fields) if isinstance(fields, str) else fields
