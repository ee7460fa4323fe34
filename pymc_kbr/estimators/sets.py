"""Columns that summarise a data set, so that every estimator works on data of any size."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.preprocessing import QuantileTransformer

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.data_sets import DataSets
from pymc_kbr.arrays.names import labels_of
from pymc_kbr.arrays.refusals import shown, whole
from pymc_kbr.arrays.rows import as_points
from pymc_kbr.arrays.scaling import nonzero
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.estimators.summaries import PosteriorMean
from pymc_kbr.gram.low_rank import FourierFeatures
from pymc_kbr.kernels import Gaussian, frequencies


@default_arithmetic
class SetFeatures(BaseEstimator):
    """Columns of data sets: what regression on their features estimates of the parameters, and their size.

    Features are the mean embedding of a data set, its moments, and its shape along directions.

    Parameters
    ----------
    embedding : int
        Columns of the mean embedding, an even number; zero for none. Rows are first brought to a normal
        distribution, column by column, by their ranks among the rows of all data sets.
    quantiles : int
        Quantiles along each direction; zero for none. They stand as the median, the logarithm of half the
        distance of the quartiles, and the quantiles in these units, less the median, by the inverse
        hyperbolic sine: where a data set lies, how wide it is and its shape are separated.
    directions : int
        Onto which rows are projected: their own columns first, then differences and sums at random.
    estimates : bool
        Whether regression estimates of the parameters, by kernels on the features, replace these: one
        column a parameter. Where parameters are not known to `fit`, or it is false, all features do.
    random_seed : int
        Of frequencies and directions.

    Attributes
    ----------
    names_ : list of str
        Of the columns.
    feature_names_ : list of str
        Of the features.
    sizes_ : tuple of int
        The smallest and the largest data set of the table.

    Notes
    -----
    Distances between the first features are maximum mean discrepancies between data sets, with random Fourier
    features [1]_ [2]_ of Gaussian kernels of three bandwidths; those between moments, of rows and of their
    normal ranks, are those of polynomial kernels. The last hold the quantile functions whose distances in L2
    are sliced Wasserstein distances [3]_, in units of each data set's own. A Gaussian kernel on the features
    is thus a kernel between data sets. Estimates are those of `PosteriorMean`. Where the number of rows
    varies its logarithm is a column, too: it says how informative a data set is, which no estimate does.

    References
    ----------
    .. [1] M. Park, W. Jitkrittum, D. Sejdinovic, K2-ABC: approximate Bayesian computation with kernel
       embeddings, AISTATS (2016).
    .. [2] A. Rahimi, B. Recht, Random features for large-scale kernel machines, NIPS 20 (2007).
    .. [3] K. Nadjahi, V. De Bortoli, A. Durmus, R. Badeau, U. Şimşekli, Approximate Bayesian computation with
       the sliced-Wasserstein distance, ICASSP (2020).

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> sets = [rng.normal(mean, 1.0, 20 + 10 * i) for i, mean in enumerate([0.0, 1.0, 2.0])]
    >>> SetFeatures(embedding=6, quantiles=3).fit(sets)(sets).shape
    (3, 16)
    """

    names_: list[str]
    sizes_: tuple[int, int]
    _set_labels: tuple[str, ...] | None = None

    def __init__(
        self,
        embedding: int = 48,
        quantiles: int = 17,
        directions: int = 4,
        estimates: bool = True,
        random_seed: int = 0,
    ) -> None:
        self.embedding = embedding
        self.quantiles = quantiles
        self.directions = directions
        self.estimates = estimates
        self.random_seed = random_seed

    def fit(self, sets: Any, parameters: Any = None, *, variable: str | None = None) -> Self:
        """Take scales, curves, frequencies and directions from data sets, and regress parameters on them.

        Parameters
        ----------
        sets : ReferenceTable, or sequence of array_like of shape (n_i, q) or (n_i,)
        parameters : array_like of shape (n, p), optional
            By which each data set was simulated; those of the table where there is one.
        variable : str, optional
            Which statistic of the table, where several hold data sets.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If a data set is empty, has NaN or other columns than the others, a column is constant in all,
            there are not as many parameters as data sets, or an argument is out of range.
        """
        self._check()
        names = getattr(sets, "parameter_names", labels_of(parameters))
        if hasattr(sets, "data_sets"):
            parameters = sets.parameters
            sets = sets.data_sets(variable)
        sets = DataSets.of(sets)
        # Scales and curves are known by some rows of all data sets together.
        rows = sets.rows[spread_out(len(sets.rows), 100_000)]
        constant = np.flatnonzero(np.ptp(rows, axis=0) == 0)
        if len(constant):
            raise ValueError(
                f"columns {constant.tolist()} are constant in all data sets; they say nothing: leave them out"
            )
        rng = np.random.default_rng(self.random_seed)
        self.columns_ = sets.columns
        self._set_labels = sets.names
        self.centre_ = np.median(rows, axis=0)
        self.scale_ = _spread(rows)
        self.ranked_ = np.quantile(rows, np.linspace(0, 1, min(1000, len(rows))), axis=0)
        self.frequencies_ = _frequencies(self.embedding // 2, sets.columns, rng)
        self.directions_ = directions(self.directions, sets.columns, rng)
        # Levels are closer in the tails, where they tell most of shapes.
        self.levels_ = 0.5 - 0.5 * np.cos(np.pi * (np.arange(self.quantiles) + 0.5) / max(1, self.quantiles))
        self.sizes_ = int(sets.sizes.min()), int(sets.sizes.max())
        self.feature_names_ = self._feature_names()
        self.estimated_ = None
        size = ["log_size"] if self.sizes_[0] < self.sizes_[1] else []
        self.names_ = [*self.feature_names_, *size]
        if parameters is not None and self.estimates:
            theta = as_points("the parameters", parameters, squared=False)
            if len(theta) != len(sets):
                raise ValueError(f"there are {len(theta)} rows of parameters and {len(sets)} data sets")
            self.estimated_ = PosteriorMean.fit(self._with_size(self.features(sets), sets), theta)
            known = names or range(theta.shape[1])
            self.names_ = [*(f"estimate_{name}" for name in known), *size]
        return self

    def __call__(self, sets: Any) -> np.ndarray:
        """The columns of data sets, shape (k, d).

        Of the data sets that were fitted, all of them together, estimates are those without each of them.

        Parameters
        ----------
        sets : sequence of array_like of shape (k_i, q) or (k_i,), or DataSets

        Raises
        ------
        TypeError, ValueError
            As `fit`, and if they have other columns than those that were fitted.

        Warns
        -----
        UserWarning
            If one has fewer rows than all that were fitted, or more, by over a tenth.
        """
        sets = DataSets.of(sets, self.columns_, self._set_labels)
        low, high = int(sets.sizes.min()), int(sets.sizes.max())
        # Posteriors change slowly with the size.
        if low < 0.9 * self.sizes_[0] or high > 1.1 * self.sizes_[1]:
            warnings.warn(
                f"data sets have {low} to {high} rows, and those of the table {self.sizes_[0]} to "
                f"{self.sizes_[1]}: the posterior would be one for other sizes; simulate data sets of these "
                "sizes, too",
                UserWarning,
                stacklevel=users_line(),
            )
        columns = self.features(sets)
        if self.estimated_ is not None:
            columns = self.estimated_.coordinates(self._with_size(columns, sets))
        return self._with_size(columns, sets)

    def features(self, sets: Any) -> np.ndarray:
        """Embedding, moments and shapes of data sets.

        Parameters
        ----------
        sets : sequence of array_like of shape (k_i, q) or (k_i,), or DataSets

        Returns
        -------
        ndarray of shape (k, f)
            Its f columns are called `feature_names_`.

        Raises
        ------
        TypeError, ValueError
            If a data set is empty, has NaN, or other columns than those that were fitted.
        """
        sets = DataSets.of(sets, self.columns_, self._set_labels)
        # Of numbers alone, so that a file can hold them: the quantiles of quantiles are these.
        curve = QuantileTransformer(
            n_quantiles=len(self.ranked_), output_distribution="normal", subsample=len(self.ranked_)
        ).fit(self.ranked_)
        ranks = curve.transform(sets.rows)
        rows = (sets.rows - self.centre_) / self.scale_
        moments = [moments_of(sets, rows), moments_of(sets, ranks)]
        lines = shapes_of(sets, rows, self.directions_, self.levels_)
        return np.hstack([self._embedding(sets, ranks), *moments, lines])

    def _with_size(self, columns: np.ndarray, sets: DataSets) -> np.ndarray:
        if self.sizes_[0] == self.sizes_[1]:
            return columns
        return np.hstack([columns, np.log(sets.sizes)[:, None]])

    def _embedding(
        self, sets: DataSets, ranks: np.ndarray, *, entries_at_once: int = 20_000_000
    ) -> np.ndarray:
        """Means of the random features over the rows of each data set, shape (k, embedding)."""
        found = np.empty((len(sets), 2 * len(self.frequencies_)))
        if not found.size:
            return found
        features, step = FourierFeatures(self.frequencies_), max(1, entries_at_once // found.shape[1])
        ends = np.cumsum(sets.sizes)
        start = 0
        while start < len(sets):
            # Whole data sets, as many as have their rows in one part.
            before = int(sets.starts[start])
            stop = max(start + 1, int(np.searchsorted(ends, before + step, side="right")))
            values = features(ranks[before : ends[stop - 1]])
            sums = np.add.reduceat(values, sets.starts[start:stop] - before, axis=0)
            found[start:stop] = sums / sets.sizes[start:stop, None]
            start = stop
        return found

    def _feature_names(self) -> list[str]:
        embedding = [f"embedding_{i}" for i in range(2 * len(self.frequencies_))]
        of_moments = moment_names(self.columns_)
        moments = [*of_moments, *(f"rank_{name}" for name in of_moments)]
        return [*embedding, *moments, *shape_names(len(self.directions_), self.levels_)]

    def _check(self) -> None:
        for name in ("embedding", "quantiles", "directions"):
            value = getattr(self, name)
            if value != 0 or name == "directions":
                whole(name, value)
        if self.embedding % 2:
            raise ValueError(f"embedding is {self.embedding}; it is an even number: cosines and sines")
        if not isinstance(self.estimates, bool):
            raise TypeError(f"estimates is {shown(self.estimates)}; it may be True or False")


def _spread(rows: np.ndarray) -> np.ndarray:
    """Half the distance between the quartiles of rows (N, q), or their deviation where it is none, (q,)."""
    low, high = np.quantile(rows, [0.25, 0.75], axis=0)
    return np.where(high > low, (high - low) / 2, nonzero(rows.std(axis=0)))


def _frequencies(
    count: int,
    columns: int,
    rng: np.random.Generator,
    *,
    # Bandwidths of the kernel between rows, in deviations of all transformed rows: means, shapes, details.
    set_bandwidths: tuple[float, float, float] = (1.0, 0.5, 0.25),
) -> np.ndarray:
    """Frequencies (count, q), of each bandwidth in turn."""
    if not count:
        return np.empty((0, columns))
    # In turn: however few there are, none of the bandwidths has them all.
    each = -(-count // len(set_bandwidths))
    parts = [frequencies(Gaussian(s), each, columns, rng) for s in set_bandwidths]
    return np.stack(parts, axis=1).reshape(-1, columns)[:count]


# --- moments of all data sets ---


def means_of(sets: DataSets, rows: np.ndarray) -> np.ndarray:
    """Means (n, q) of numbers (N, q), one row for each of the rows of the data sets."""
    return np.add.reduceat(rows, sets.starts, axis=0) / sets.sizes[:, None]


def moments_of(
    sets: DataSets,
    rows: np.ndarray,
    *,
    # Variance of a data set's column, over that of all rows, at least: its logarithm is taken.
    least_variance: float = 1e-6,
) -> np.ndarray:
    """Means, log deviations and correlations of numbers (N, q), shape (n, 2 q + q (q - 1) / 2)."""
    means = means_of(sets, rows)
    centred = rows - np.repeat(means, sets.sizes, axis=0)
    # In units of the farthest row: squares of heavy tails are within range.
    unit = np.maximum(np.maximum.reduceat(np.abs(centred), sets.starts, axis=0), 1.0)
    centred /= np.repeat(unit, sets.sizes, axis=0)
    variances = means_of(sets, centred**2) + least_variance / unit / unit
    below = np.tril_indices(rows.shape[1], -1)
    products = means_of(sets, centred[:, below[0]] * centred[:, below[1]])
    correlations = products / np.sqrt(variances[:, below[0]] * variances[:, below[1]])
    # Means of heavy tails are heavy-tailed: by the inverse hyperbolic sine they are near a logarithm.
    return np.hstack([np.arcsinh(means), 0.5 * np.log(variances) + np.log(unit), correlations])


def moment_names(columns: int) -> list[str]:
    """Of the columns of `moments_of`."""
    own = [f"{what}_{i}" for what in ("mean", "log_deviation") for i in range(columns)]
    return [*own, *(f"correlation_{i}_{j}" for i, j in zip(*np.tril_indices(columns, -1), strict=True))]


# --- shapes along directions ---


def shapes_of(
    sets: DataSets,
    rows: np.ndarray,
    lines: np.ndarray,
    levels: np.ndarray,
    *,
    # Spread of a data set, over that of all rows, at least: its shape is divided by it.
    least_spread: float = 1e-3,
) -> np.ndarray:
    """Place, log width and shape of numbers (N, q) along each line (m, q), shape (n, m (2 + levels))."""
    if not len(levels):
        return np.empty((len(sets), 0))
    parts = []
    for direction in lines:
        found = quantiles_of(sets, rows @ direction, np.r_[0.25, 0.5, 0.75, levels])
        place, width = found[:, [1]], (found[:, [2]] - found[:, [0]]) / 2
        width = np.sqrt(width**2 + least_spread**2)
        parts += [place, np.log(width), np.arcsinh((found[:, 3:] - place) / width)]
    return np.hstack(parts)


def shape_names(lines: int, levels: np.ndarray) -> list[str]:
    """Of the columns of `shapes_of`."""
    shape = ["median", "log_width", *(f"shape_{100 * level:.3g}" for level in levels)]
    return [f"line_{i}_{name}" for i in range(lines if len(levels) else 0) for name in shape]


def directions(count: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    """Unit vectors (m, q): the axes, then random ones; one line has one direction."""
    if columns == 1:
        return np.ones((1, 1))
    more = rng.standard_normal((max(0, count - columns), columns))
    return np.vstack([np.eye(columns), more / np.linalg.norm(more, axis=1, keepdims=True)])


# --- columns of a table of data sets ---


def columns_of_sets(table: Any) -> Any:
    """A table whose data sets, if it has any, are columns by `SetFeatures` with its defaults."""
    for name in table.set_names:
        table = table.with_features(SetFeatures().fit(table, variable=name), name)
    return table


def most_columns(statistics: Any, parameters: int) -> int:
    """How many statistics `columns_of_sets` makes at most of the variables of a table's statistics."""
    # An estimate of each parameter, and the size.
    return sum(parameters + 1 if one.set_columns else one.size for one in statistics.variables)


# --- quantiles of all data sets ---


def quantiles_of(sets: DataSets, values: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Quantiles of one number a row, for each data set."""
    # Shapes: values (N,); levels (l,); returned: (n, l).
    # By data set first, which is the last key, and by value within it.
    ordered = values[np.lexsort((values, sets.numbers))]
    place = (sets.sizes[:, None] - 1) * levels
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, sets.sizes[:, None] - 1)
    low, high = (ordered[sets.starts[:, None] + at] for at in (below, above))
    return low + (place - below) * (high - low)
