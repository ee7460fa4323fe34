"""Random streams that do not depend on how the work is cut up.

Every row, and every block of rows, has streams of its own, made from the user's seed and the row's
number alone. So neither the number of cores nor the order of the work can change a bit of a table.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pymc_kbr.arrays.refusals import check_seed

PRIOR_STREAM, ROW_STREAM, BATCH_STREAM, PILOT_STREAM, PROPOSAL_STREAM = range(5)
"""What a stream is for: the first number of its key."""

ROWS_A_STREAM = 1024
"""Rows drawn from one stream where draws are made in batches. Part of what a seed means."""


def entropy_of(random_seed: Any) -> int:
    """The number that all streams of one simulation are made from."""
    check_seed(random_seed)
    if random_seed is None:
        return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
    if isinstance(random_seed, int | np.integer):
        return int(random_seed)
    # Of a generator one number is drawn, so that the next table from it is another one.
    return int(np.random.default_rng(random_seed).integers(2**63))


def streams(entropy: int, purpose: int, number: int, count: int) -> list[np.random.Generator]:
    """`count` independent generators for one row (or block) and one purpose."""
    return [
        np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy, spawn_key=(purpose, number, k))))
        for k in range(count)
    ]


class NotRowByRow(Exception):
    """A batch asked its generator for something that does not fall into one part a row."""


class RowStreams(np.random.Generator):
    """A generator for a batch that draws row i from the generator of row i."""

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        # NumPy's generator wants bits of its own; nothing is ever drawn from these.
        super().__init__(np.random.PCG64(0))
        self._generators = list(generators)

    @property
    def bit_generator(self) -> Any:
        """Refused: its bits belong to no row."""
        raise NotRowByRow("it used the generator's bit generator")


def _by_row(name: str) -> Callable[..., np.ndarray]:
    signature = inspect.signature(getattr(np.random.Generator, name))

    def draw(self: RowStreams, *args: Any, **kwargs: Any) -> np.ndarray:
        given = dict(signature.bind(self, *args, **kwargs).arguments)
        given.pop("self")
        size = given.pop("size", None)
        plain = {k: given.pop(k) for k in ("dtype", "endpoint", "method") if k in given}
        if "out" in given:
            raise NotRowByRow(f"it drew {name} into an array of its own")
        arrays = {k: np.asarray(v) for k, v in given.items() if v is not None}
        shape = np.broadcast_shapes(*(a.shape for a in arrays.values()))
        if size is not None:
            shape = tuple(np.atleast_1d(size).tolist())
        # Without a leading axis of rows there is no telling which row a number belongs to.
        rows = len(self._generators)
        if not shape or shape[0] != rows:
            raise NotRowByRow(f"it drew {name} of shape {shape} for a batch of {rows} rows")

        def of_row(array: np.ndarray, row: int) -> np.ndarray:
            if array.ndim < len(shape):
                return array
            return array[row if len(array) == rows else 0]

        return np.stack(
            [
                getattr(generator, name)(
                    **{k: of_row(a, row) for k, a in arrays.items()}, **plain, size=shape[1:]
                )
                for row, generator in enumerate(self._generators)
            ]
        )

    return draw


def _refused(name: str) -> Callable[..., Any]:
    def refuse(self: RowStreams, *args: Any, **kwargs: Any) -> Any:
        raise NotRowByRow(f"it used {name}, which does not draw one part a row")

    return refuse


# What joins numbers of several rows, or shuffles, cannot be handed out row by row.
for _name in dir(np.random.Generator):
    _method = getattr(np.random.Generator, _name)
    if not _name.startswith("_") and callable(_method):
        _elementwise = "size" in inspect.signature(_method).parameters and _name not in {
            "choice",
            "dirichlet",
            "multinomial",
            "multivariate_hypergeometric",
            "multivariate_normal",
        }
        setattr(RowStreams, _name, _by_row(_name) if _elementwise else _refused(_name))
