"""Features learnt by a network: those on which ridge regression has the least loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pymc_kbr.arrays.refusals import positive, shown, whole
from pymc_kbr.arrays.scaling import Scaler, unit_deviations
from pymc_kbr.estimators.summaries.relevance import ByColumns
from pymc_kbr.gram.low_rank import FourierFeatures
from pymc_kbr.kernels import frequencies, parameter_kernel


@dataclass(frozen=True, eq=False)
class NeuralFeatures:
    """How features are to be learnt: adaptive features of kernel Bayes' rule.

    Parameters
    ----------
    features : int
        q, that are learnt.
    shape : tuple of int, optional
        ``(height, width)`` or ``(height, width, channels)`` of images, given as flattened rows.
    network : torch.nn.Module, optional
        From points to features: of rows (k, d), or where there is a `shape`, of images (k, channels, height,
        width). A copy of it is fitted. Where left out, a small network for vectors, or a small convolutional
        one for images.
    regularisation : float
        lambda of the loss, for features whose variances sum to one.
    random_features : int
        Of the parameters: random Fourier features of a Gaussian kernel of median bandwidth.
    centred : bool
        Whether the loss has an intercept, and features are scaled in it; False is the loss as printed, of the
        network's own features, which `transform` then returns as they are.
    steps, rows : int
        Of gradient descent at most, and of the table in each.
    learning_rate : float
    held_out : float
        Share of the rows on which the loss is watched: the weights that were best there are kept.
    random_seed : int
    device : str, optional
        Such as ``"cpu"``; a GPU where there is one and none is named.

    Notes
    -----
    Minimises tr(G_Z (D - D Psi' (Psi D Psi' + lambda I)^-1 Psi D)) over the network, [1]_, section 3.3, with
    G_Z = Phi Phi' of random Fourier features of the parameters and D = I / n: one map for every prior, as in
    the paper's section 5.3; or D = diag(r) / n with density ratios r that `fit` is given, for one prior. The
    gradient goes through the ridge regression inside. Features are scaled to the variance 1 / q each, without
    which a network could evade the ridge.

    References
    ----------
    .. [1] L. Xu, Y. Chen, A. Doucet, A. Gretton, Importance weighting approach in kernel Bayes' rule,
       arXiv:2202.02474 (2022).
    """

    features: int = 32
    shape: tuple[int, ...] | None = None
    network: Any = None
    regularisation: float = 1e-2
    random_features: int = 100
    centred: bool = True
    steps: int = 200
    rows: int = 256
    learning_rate: float = 3e-3
    held_out: float = 0.15
    random_seed: int = 0
    device: str | None = None

    def __post_init__(self) -> None:
        for name in ("features", "random_features", "steps", "rows"):
            whole(name, getattr(self, name))
        for name in ("regularisation", "learning_rate"):
            positive(name, getattr(self, name))
        if not 0 <= self.held_out < 1:
            raise ValueError(
                f"held_out is {shown(self.held_out)}; it is a share of the rows, from 0 to below 1"
            )
        if self.network is not None and not hasattr(self.network, "parameters"):
            raise TypeError(f"network is {shown(self.network)}; give a torch.nn.Module, or leave it out")
        if self.shape is not None and (
            len(self.shape) not in (2, 3) or any(int(side) != side or side < 1 for side in self.shape)
        ):
            raise ValueError(
                f"shape is {shown(self.shape)}; it may be (height, width) or (height, width, channels) of "
                "images"
            )

    def fit(
        self, statistics: np.ndarray, parameters: np.ndarray, weights: np.ndarray | None = None
    ) -> LearntFeatures:
        """Learn from rows of statistics (n, d) and parameters (n, p).

        Parameters
        ----------
        statistics : ndarray of shape (n, d)
        parameters : ndarray of shape (n, p)
        weights : ndarray of shape (n,), optional
            Density ratios of another prior at the rows, or its weights of sum one: their scale is taken out.

        Returns
        -------
        LearntFeatures

        Raises
        ------
        ImportError
            If PyTorch is not installed.
        ValueError
            If rows are no images of `shape`, are fewer than four, weights are negative or not one a row, or
            the network returns another number of features.
        """
        from pymc_kbr.estimators.summaries.networks import Descent, descend, features_of

        statistics, parameters = np.asarray(statistics, float), np.asarray(parameters, float)
        self._check(statistics)
        ratio = None if weights is None else _ratio(weights, len(statistics))
        rng = np.random.default_rng(self.random_seed)
        scaler = self._scaler(statistics)
        points = shaped(scaler.transform(statistics), self.shape)
        held = np.zeros(len(points), bool)
        held[rng.permutation(len(points))[: int(self.held_out * len(points))]] = True
        phi = self._of_parameters(parameters, rng)
        how = Descent(
            self.regularisation, self.centred, self.steps, self.rows, self.learning_rate, self.device
        )
        made, lines = descend(
            lambda: self._network(points.shape[1:]), points, phi, held, how, self.random_seed, ratio
        )
        raw = features_of(made, points)
        self._check_features(raw, len(points))
        if not self.centred:
            q = raw.shape[1]
            return LearntFeatures(made, scaler, self.shape, np.zeros(q), np.ones(q), tuple(lines))
        # Variances that add up to one: the unit in which the ridge was given.
        deviation = unit_deviations(raw) * np.sqrt(raw.shape[1])
        return LearntFeatures(made, scaler, self.shape, raw.mean(axis=0), deviation, tuple(lines))

    def _check(self, statistics: np.ndarray) -> None:
        if self.shape is not None and statistics.shape[1] != np.prod(self.shape):
            raise ValueError(
                f"the rows have {statistics.shape[1]} columns and shape is {self.shape}, which are "
                f"{np.prod(self.shape)} numbers; give images as flattened rows"
            )
        if len(statistics) < 4:
            raise ValueError(f"there are {len(statistics)} rows; features are learnt from four or more")

    def _scaler(self, statistics: np.ndarray) -> Scaler:
        if self.shape is None:
            return Scaler.fit(statistics)
        # A pixel that hardly varies is not made as loud as the others: images have one scale.
        centre = statistics.mean(axis=0)
        scale = float(np.sqrt(np.mean((statistics - centre) ** 2))) or 1.0
        d = statistics.shape[1]
        return Scaler(centre, np.full(d, scale), np.ones(d, bool))

    def _of_parameters(self, parameters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        kernel = parameter_kernel(parameters)
        count = max(1, self.random_features // 2)  # each frequency has a cosine and a sine
        return FourierFeatures(frequencies(kernel, count, parameters.shape[1], rng))(parameters)

    def _network(self, shape: tuple[int, ...]) -> Any:
        import copy

        from pymc_kbr.estimators.summaries.networks import default_network

        if self.network is None:
            return default_network(shape, self.features)
        return copy.deepcopy(self.network)

    def _check_features(self, raw: np.ndarray, count: int) -> None:
        if raw.ndim != 2 or len(raw) != count:
            raise ValueError(
                f"the network made an array of shape {raw.shape} of {count} points; it must return a row of "
                "features for each"
            )
        if not np.all(np.isfinite(raw)):
            raise ValueError(
                "the network's features are NaN or infinite; lower learning_rate, or look at the network"
            )


@dataclass(frozen=True, eq=False)
class LearntFeatures(ByColumns):
    """A fitted feature map."""

    # Shapes: centre, deviation (q,).
    # losses: Step, loss of that step's rows, and squared error at the held-out rows.
    network: Any
    scaler: Scaler
    shape: tuple[int, ...] | None
    centre: np.ndarray
    deviation: np.ndarray
    losses: tuple[tuple[int, float, float], ...] = field(repr=False)

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Features of rows of statistics (k, d), shape (k, q): of variance 1 / q each over the table."""
        from pymc_kbr.estimators.summaries.networks import features_of

        raw = features_of(self.network, shaped(self.scaler.transform(statistics), self.shape))
        return (raw - self.centre) / self.deviation


def _ratio(weights: np.ndarray, count: int) -> np.ndarray:
    """Weights of rows, of mean one."""
    given = np.asarray(weights, dtype=float)
    if given.shape != (count,) or not np.all(given >= 0) or not 0 < given.sum() < np.inf:
        raise ValueError(
            f"weights are {shown(weights)}; give one for each of the {count} rows, none negative, and some "
            "positive: `np.maximum(gamma, 0)` of the sum rule's"
        )
    return given * count / given.sum()


def shaped(rows: np.ndarray, shape: tuple[int, ...] | None) -> np.ndarray:
    """Rows (k, d) as they are, or as images (k, channels, height, width)."""
    if shape is None:
        return rows
    images = rows.reshape(len(rows), *shape)
    return images[:, None] if len(shape) == 2 else images.transpose(0, 3, 1, 2)
