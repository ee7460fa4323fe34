"""The density of all elements of z: a normal mixture, the same everywhere or depending on the parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from pymc_kbr.estimators.likelihood.conditional_mixture import ConditionalMixture, fit_conditional_mixture
from pymc_kbr.estimators.likelihood.normal_mixture import (
    LOG_ROOT_2PI,
    NormalMixture,
    ResidualShape,
    fit_mixture,
)
from pymc_kbr.estimators.likelihood.smooth_function import Inputs

PooledDensity = NormalMixture | ConditionalMixture


def fit_distribution(
    z: np.ndarray,
    theta: np.ndarray,
    levels: tuple[np.ndarray, np.ndarray],
    held_out: np.ndarray,
    seed: int,
    rng: np.random.Generator,
    pooled: int = 60_000,
    *,
    # Parts of the mixture that is the same everywhere,
    sizes: tuple[int, ...] = (1, 2, 3, 4),
    # and elements that it is fitted to.
    searched: int = 20_000,
) -> PooledDensity:
    """The mixture of all elements, and where held-out ones are denser, with parts that move.

    A shape that is off a little in each of e elements moves the posterior by the root of e as much, such as
    that of skewed counts of which one mixture serves all parameters. The law of a count hangs on its own
    mean, too, so that elements at one place of the parameters have several.
    """
    # Shapes: z (n, e); theta (n, q); levels (n, e); held_out (n,).
    n, e = z.shape
    order = rng.permutation(n * e)
    some, more = order[:searched], order[:pooled]
    law = fit_mixture(z.reshape(-1, 1)[some], held_out[some // e], seed, sizes)
    base = ResidualShape(np.log(law.weights), law.means[:, 0], 1 / law.factors[:, 0, 0])
    inputs = Inputs(theta[more // e], np.column_stack([each.reshape(-1)[more] for each in levels]))
    again = np.random.default_rng(seed)
    moved = fit_conditional_mixture(
        base, inputs, z.reshape(-1)[more], again, searched=searched, learnt=pooled
    )
    return moved if isinstance(moved, ConditionalMixture) else law


def size_of(law: PooledDensity) -> int:
    """Number of its parts."""
    return len(law) if isinstance(law, NormalMixture) else len(law.base.means)


def describe_distribution(law: ConditionalMixture, theta: Any, means: Any, logs: Any, xp: Any = np) -> Any:
    """Log shares, means and log deviations of c parts: (k, 3 c), or of each of e elements (k, 3 c e)."""
    # Shapes: theta (k, q); means, logs (k, e).
    past = xp.stack([means, logs], axis=2)
    return xp.concatenate([number for part in law.parts(theta, past, xp) for number in part], axis=1)


def parts_of(law: PooledDensity, numbers: Any, xp: Any = np) -> list[tuple[Any, Any, Any]]:
    """Log height, mean and precision root of each part, as numbers, (k, 1, 1) or (k, 1, e)."""
    # Shapes: numbers (k, 3 c) or (k, 3 c e).
    if isinstance(law, NormalMixture):
        means, roots = law.means[:, 0], law.factors[:, 0, 0]
        levels = np.log(law.weights * roots) - LOG_ROOT_2PI
        return list(zip(levels, means, roots, strict=True))
    each = [number[:, None, :] for number in _each(law, numbers)]
    return [
        (share - log - LOG_ROOT_2PI, mean, xp.exp(-log))
        for share, mean, log in zip(each[0::3], each[1::3], each[2::3], strict=True)
    ]


def _each(law: ConditionalMixture, numbers: Any) -> list[Any]:
    """The 3 c numbers of a density, each (k, 1) or (k, e)."""
    count = 3 * size_of(law)
    wide = numbers.shape[1] // count
    return [numbers[:, i * wide : (i + 1) * wide] for i in range(count)]


def draw_elements(law: PooledDensity, numbers: np.ndarray, e: int, rng: np.random.Generator) -> np.ndarray:
    """Elements z (k, e) for k parameters, with the numbers of `describe_distribution`."""
    if isinstance(law, NormalMixture):
        return law.draw(len(numbers) * e, rng).reshape(-1, e)
    each = [np.broadcast_to(number, (len(numbers), e)) for number in _each(law, numbers)]
    shares, means, logs = (np.stack(each[i::3], axis=2) for i in range(3))
    # The largest of logits with Gumbel noise is a draw of a part.
    chosen = np.argmax(shares + rng.gumbel(size=shares.shape), axis=2)[:, :, None]
    means, logs = (np.take_along_axis(one, chosen, axis=2)[:, :, 0] for one in (means, logs))
    return means + np.exp(logs) * rng.standard_normal(means.shape)


def transforms_of(law: PooledDensity, numbers: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Distribution functions of elements z (k, e)."""
    if isinstance(law, NormalMixture):
        return law.transforms(z.reshape(-1, 1)).reshape(z.shape)
    each = _each(law, numbers)
    parts = zip(each[0::3], each[1::3], each[2::3], strict=True)
    return sum(np.exp(share) * ndtr((z - mean) * np.exp(-log)) for share, mean, log in parts)
