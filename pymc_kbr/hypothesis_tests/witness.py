"""Where two samples differ: the difference of their embeddings, with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.plotting import BAND, DIVERGING, POSTERIOR, RULE, drawn_on
from pymc_kbr.arrays.refusals import check_seed, generator_of
from pymc_kbr.arrays.refusals import probability as refuse_probability
from pymc_kbr.arrays.rows import as_points, column_names, in_order, refuse_constant, refuse_unequal_columns
from pymc_kbr.embedding.bayesian_embedding import BayesianKernelEmbedding
from pymc_kbr.embedding.learnt_lengthscale import choose_lengthscale
from pymc_kbr.embedding.marginal_likelihood import Measure


@dataclass(frozen=True, eq=False)
class Witness:
    """The posterior of a witness function.

    Parameters
    ----------
    at : ndarray of shape (l, d)
    mean, lower, upper : ndarray of shape (l,)
        Positive where `x` has more mass than `y`; a central interval for each point by itself.
    lengthscale : ndarray of shape (d,) or (s, d)
        Of the kernel; of each draw, where it is integrated out.
    """

    at: np.ndarray
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    lengthscale: np.ndarray

    def __repr__(self) -> str:
        """One line, without the values."""
        apart = int(np.sum((self.lower > 0) | (self.upper < 0)))
        return f"Witness({len(self.at)} points, the interval of {apart} without zero)"

    def plot(self, *, ax: Any = None) -> Any:
        """The function with its intervals over one column, or as colours over two.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
            Of two columns, points whose interval holds zero are small.

        Raises
        ------
        ValueError
            If there are more than two columns.
        """
        columns = self.at.shape[1]
        if columns > 2:
            raise ValueError(f"the witness has {columns} columns; one or two can be drawn")
        (ax,) = drawn_on(ax, 1, (4.8, 3.2))
        if columns == 1:
            order = np.argsort(self.at[:, 0])
            at = self.at[order, 0]
            ax.fill_between(at, self.lower[order], self.upper[order], color=BAND, label="interval")
            ax.plot(at, self.mean[order], color=POSTERIOR, label="mean")
            ax.axhline(0, color=RULE, linewidth=0.8)
            ax.set(xlabel="value", ylabel="more of x above zero, of y below")
            ax.legend(frameon=False, fontsize=8)
            return ax
        sizes = np.where((self.lower <= 0) & (self.upper >= 0), 6, 30)
        # Zero in the middle of the colours, on both sides of which they differ.
        most = np.abs(self.mean).max()
        points = ax.scatter(*self.at.T, c=self.mean, s=sizes, cmap=DIVERGING, vmin=-most, vmax=most)
        ax.figure.colorbar(points, ax=ax, label="more of x above zero, of y below")
        ax.set(xlabel="first column", ylabel="second column")
        return ax


@default_arithmetic
def witness(
    x: Any,
    y: Any,
    at: Any = None,
    *,
    lengthscale: Any = "bayesian",
    noise: float = 0.1,
    measure: Measure | None = None,
    probability: float = 0.8,
    random_seed: int | np.random.Generator | None = None,
) -> Witness:
    """The posterior of the difference of two samples' kernel embeddings.

    Parameters
    ----------
    x, y : array_like of shape (m, d) and (n, d), or (m,) and (n,)
    at : array_like of shape (l, d), optional
        Where it is evaluated; at all rows of both where left out. Columns of data frames are put in the order
        of those of `x`.
    lengthscale : "bayesian", "median", float, sequence of float (d,), or ndarray of shape (s, 1) or (s, d)
        Learnt on both samples together, or given; s draws of it, as of `kernel_embedding_model`, are
        integrated out.
    noise, measure
        As of `BayesianKernelEmbedding`.
    probability : float
        Of the intervals.
    random_seed : int or numpy.random.Generator, optional
        For draws of the function, one for each draw of the lengthscale.

    Returns
    -------
    Witness

    Raises
    ------
    TypeError, ValueError
        If the samples do not fit together, or an argument is out of range.

    Notes
    -----
    The embeddings of both are independent given the kernel, so that means subtract and variances add; figure
    5 of Flaxman et al. 2016. Where the lengthscale is integrated out, the intervals are quantiles of draws.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = witness(rng.normal(0, 1, 100), rng.normal(2, 1, 100), at=[0.0, 2.0], lengthscale=1.0)
    >>> np.sign(found.mean)  # more of the first sample at 0, of the second at 2
    array([ 1., -1.])
    """
    refuse_probability("probability", probability)
    check_seed(random_seed)
    names, name = column_names(x), "the points at which it is evaluated"
    y = as_points("y", in_order("y", y, "x", names))
    x = as_points("x", x)
    refuse_unequal_columns("x", x, "y", y)
    refuse_constant("x", x)
    refuse_constant("y", y)
    pooled = np.vstack([x, y])
    at = pooled if at is None else as_points(name, in_order(name, at, "x", names), least=1)
    tails = np.array([0.5 - probability / 2, 0.5 + probability / 2])
    if np.ndim(lengthscale) == 2:
        drawn = as_points("the draws of the lengthscale", lengthscale, least=1)
        rng = generator_of(random_seed)
        functions = np.array([_drawn(x, y, at, row, noise, measure, rng) for row in drawn])
        lower, upper = np.quantile(functions, tails, axis=0)
        return Witness(at, functions.mean(axis=0), lower, upper, drawn)
    if isinstance(lengthscale, str):
        # Of both samples together: embeddings under kernels of their own would lie in two spaces.
        lengthscale, _ = choose_lengthscale(lengthscale, pooled, separate=False, noise=noise, measure=measure)
    first, second = (BayesianKernelEmbedding(lengthscale, noise, measure).fit(points) for points in (x, y))
    mean = first.mean(at) - second.mean(at)
    deviation = np.hypot(first.deviation(at), second.deviation(at))
    lower, upper = mean + norm.ppf(tails)[:, None] * deviation
    return Witness(at, mean, lower, upper, first.lengthscale_)


def _drawn(
    x: np.ndarray,
    y: np.ndarray,
    at: np.ndarray,
    lengthscale: np.ndarray,
    noise: float,
    measure: Measure | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """A draw of the function at points (l, d) for one lengthscale, shape (l,)."""
    first, second = (
        BayesianKernelEmbedding(lengthscale.tolist(), noise, measure).fit(points).draw(at, 1, rng)[0]
        for points in (x, y)
    )
    return first - second
