"""What a kernel is, and kernels made of kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.spatial.distance import cdist, pdist
from scipy.special import gamma, kv
from sklearn.gaussian_process import kernels as sklearn_kernels

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.scaling import nonzero, unit_deviations
from pymc_kbr.arrays.weighted import spread_out_varied


class Kernel(Protocol):
    """A positive semi-definite function of two points; scikit-learn's Gaussian-process kernels are some."""

    def __call__(self, a: np.ndarray, b: Any = None) -> np.ndarray:
        """The Gram matrix of the rows of `a` (n, p) and `b` (m, p), or of `a` alone, shape (n, m)."""

    def diag(self, a: np.ndarray) -> np.ndarray:
        """The diagonal of the Gram matrix of `a`, shape (n,)."""


class Composable:
    """Gives a kernel ``+`` and ``*``, with any other kernel."""

    def __add__(self, other: Kernel) -> Sum:
        """The kernel k + l."""
        return Sum(self, other)  # type: ignore[arg-type]

    def __mul__(self, other: Kernel) -> Product:
        """The kernel k * l."""
        return Product(self, other)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Sum(Composable):
    """k(a, b) + l(a, b).

    Examples
    --------
    >>> from pymc_kbr.kernels import Gaussian, Linear
    >>> (Gaussian(1.0) + Linear())(np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.135],
           [0.135, 5.   ]])
    """

    left: Kernel
    right: Kernel

    def __call__(self, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """The Gram matrix, shape (n, m)."""
        return self.left(a, b) + self.right(a, b)

    def diag(self, a: np.ndarray) -> np.ndarray:
        """Its diagonal, shape (n,)."""
        return self.left.diag(a) + self.right.diag(a)


@dataclass(frozen=True)
class Product(Composable):
    """k(a, b) l(a, b)."""

    left: Kernel
    right: Kernel

    def __call__(self, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """The Gram matrix, shape (n, m)."""
        return self.left(a, b) * self.right(a, b)

    def diag(self, a: np.ndarray) -> np.ndarray:
        """Its diagonal, shape (n,)."""
        return self.left.diag(a) * self.right.diag(a)


# --- the mean embedding of a normal distribution ---


def gaussian_mean(
    points: np.ndarray, mean: np.ndarray, covariance: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """E exp(-(y - Z)' V^-1 (y - Z) / 2) of Z ~ N(mean, covariance), V = diag(variance), at points (l, p)."""
    total = covariance + np.diag(variance)
    apart = points - mean
    distances = np.einsum("ij,ij->i", apart, np.linalg.solve(total, apart.T).T)
    # The root of |V| / |V + C|: without a covariance the mean is the kernel itself.
    constant = np.linalg.slogdet(total)[1] - np.log(variance).sum()
    return np.exp(-0.5 * (distances + constant))


# --- smoothing kernels ---


def gaussian(distance: np.ndarray) -> np.ndarray:
    """exp(-u^2 / 2)."""
    return np.exp(-0.5 * distance**2)


def epanechnikov(distance: np.ndarray) -> np.ndarray:
    """1 - u^2 inside one bandwidth, zero outside."""
    return np.maximum(1 - distance**2, 0)


def top_hat(distance: np.ndarray) -> np.ndarray:
    """One up to one bandwidth, edge included, zero outside."""
    return (distance <= 1).astype(float)


PROFILES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gaussian": gaussian,
    "epanechnikov": epanechnikov,
    "top_hat": top_hat,
}


# --- random frequencies (Bochner's theorem) ---


def frequencies(kernel: Kernel, count: int, dimensions: int, rng: np.random.Generator) -> np.ndarray:
    """Draws from a kernel's spectral density, shape (count, dimensions).

    Notes
    -----
    k(a, b) = E cos(f . (a - b)). The Gaussian kernel's frequencies are normal, a Matern kernel's are
    Student's t with 2 nu degrees of freedom, and those of a product are the sums of its factors'.

    Raises
    ------
    ValueError
        If the kernel is not one of these.

    References
    ----------
    .. [1] A. Rahimi, B. Recht, Random features for large-scale kernel machines, NIPS 20 (2007).
    """
    if isinstance(kernel, Product | sklearn_kernels.Product):
        pair = (kernel.left, kernel.right) if isinstance(kernel, Product) else (kernel.k1, kernel.k2)
        return sum(frequencies(factor, count, dimensions, rng) for factor in pair)  # type: ignore[return-value]
    if isinstance(kernel, Gaussian):
        scale, nu = kernel.bandwidth, np.inf
    elif isinstance(kernel, Matern):
        scale, nu = kernel.bandwidth, kernel.nu
    elif isinstance(kernel, sklearn_kernels.Matern):
        scale, nu = kernel.length_scale, kernel.nu
    elif isinstance(kernel, sklearn_kernels.RBF):
        scale, nu = kernel.length_scale, np.inf
    else:
        raise ValueError(
            f"random Fourier features of {kernel!r} are not known; take a Gaussian, Laplace or Matern "
            "kernel, a product of these, or another solver"
        )
    normal = rng.standard_normal((count, dimensions)) / np.asarray(scale)
    if np.isinf(nu):
        return normal
    # One chi-squared draw for all dimensions: one for each would be a product of one-dimensional kernels.
    return normal * np.sqrt(2 * nu / rng.chisquare(2 * nu, (count, 1)))


# --- the Gaussian kernel ---


@dataclass(frozen=True)
class Gaussian(Composable):
    """k(a, b) = exp(-|a - b|^2 / (2 s^2)).

    Parameters
    ----------
    bandwidth : float or tuple of float, length p
        s, one for all dimensions or one for each.

    Examples
    --------
    >>> Gaussian(1.0)(np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    """

    bandwidth: float | tuple[float, ...]

    def __call__(self, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """The Gram matrix of the rows of `a` (n, p) and `b` (m, p), or of `a` alone, shape (n, m)."""
        if np.ndim(self.bandwidth) == 0:
            # All in place: the memory that solvers plan for is one matrix of this size.
            gram = squared_distances(a, b)
            gram *= -0.5 / np.square(self.bandwidth)
        else:
            # With the root of two in the units squared distances are the exponents, and need no factor.
            scale = np.sqrt(2) * np.asarray(self.bandwidth)
            gram = squared_distances(a / scale, None if b is None else b / scale)
            np.negative(gram, out=gram)
        return np.exp(gram, out=gram)

    def columns_of(self, points: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """From a few of points (n, p) to their columns (n, b) of the Gram matrix, for many such calls.

        What all calls share is computed once; a call is one matrix product and the exponentials.
        """
        centre = points.mean(axis=0)

        def augmented(a: np.ndarray, swapped: bool = False) -> np.ndarray:
            scaled = (a - centre) / np.asarray(self.bandwidth)
            half_norms = -0.5 * np.einsum("ij,ij->i", scaled, scaled)[:, None]
            # (a, -|a|^2 / 2, 1) . (b, 1, -|b|^2 / 2) = -|a - b|^2 / 2: the exponent by the product alone
            last = [half_norms, np.ones_like(half_norms)]
            return np.asfortranarray(np.hstack([scaled, *(last[::-1] if swapped else last)]))

        left = augmented(points)
        if _lose_digits(-2 * left[:, -2]):
            scale = np.sqrt(2) * np.asarray(self.bandwidth)
            return lambda chosen: np.exp(-cdist(points / scale, chosen / scale, "sqeuclidean"))

        def columns(chosen: np.ndarray) -> np.ndarray:
            exponents = left @ augmented(chosen, swapped=True).T
            return np.exp(exponents, out=exponents)

        return columns

    def diag(self, a: np.ndarray) -> np.ndarray:
        """The diagonal of the Gram matrix of `a`, shape (n,)."""
        return np.ones(len(a))


def squared_distances(a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
    """Squared Euclidean distances between the rows of `a` (n, p) and `b` (m, p), shape (n, m).

    Computed by one matrix product about a common centre; what rounding makes negative is zero.
    """
    if len(a) == 0:
        return np.empty((0, 0 if b is None else len(b)))
    centre = a.mean(axis=0)  # distances of points far from the origin lose no digits in the product
    same, given = b is None, (a, a if b is None else b)
    a, b = (side - centre for side in given)
    norms_a, norms_b = np.einsum("ij,ij->i", a, a), np.einsum("ij,ij->i", b, b)
    if _lose_digits(norms_a):
        return cdist(*given, "sqeuclidean")
    squares = a @ b.T
    squares *= -2
    squares += norms_a[:, None]
    squares += norms_b[None, :]
    np.maximum(squares, 0, out=squares)
    if same:
        # As `diag` has it: rounding would leave the distance of a point to itself above zero.
        np.fill_diagonal(squares, 0)
    return squares


def _lose_digits(
    norms: np.ndarray,
    *,
    # Smallest squared norm over the median one: below it the points lie on one side of their mean.
    one_sided: float = 1e-6,
) -> bool:
    """Whether a point is so far from all others that their differences are lost to rounding."""
    if len(norms) < 3:
        return False
    middle = np.partition(norms, len(norms) // 2)[len(norms) // 2]
    return bool(middle - norms.min() < one_sided * middle and norms.max() > 2 * middle)


# --- the Matérn and Laplace kernels ---


@dataclass(frozen=True)
class Matern(Composable):
    """The Matern kernel of smoothness nu, a function of u = |a - b| / s.

    Parameters
    ----------
    bandwidth : float or tuple of float, length p
        s, one for all dimensions or one for each.
    nu : float
        Smoothness; 1/2, 3/2 and 5/2 have closed forms and are fast, infinity is the Gaussian kernel.

    Notes
    -----
    k = 2^(1 - nu) / Gamma(nu) * (sqrt(2 nu) u)^nu K_nu(sqrt(2 nu) u), with K_nu the modified Bessel
    function.

    Examples
    --------
    >>> Matern(1.0, nu=0.5)(np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    """

    bandwidth: float | tuple[float, ...]
    nu: float = 1.5

    def __call__(self, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """The Gram matrix of the rows of `a` (n, p) and `b` (m, p), or of `a` alone, shape (n, m)."""
        scale = np.asarray(self.bandwidth)
        u = np.sqrt(squared_distances(a / scale, None if b is None else b / scale))
        if self.nu == 0.5:
            return np.exp(-u)
        if np.isinf(self.nu):
            return np.exp(-0.5 * u**2)
        u *= np.sqrt(2 * self.nu)
        if self.nu == 1.5:
            return (1 + u) * np.exp(-u)
        if self.nu == 2.5:
            return (1 + u + u**2 / 3) * np.exp(-u)
        gram = np.ones_like(u)
        apart = u > 1e-12  # where K_nu is infinite and u^nu zero, their product tends to one
        gram[apart] = 2 ** (1 - self.nu) / gamma(self.nu) * u[apart] ** self.nu * kv(self.nu, u[apart])
        return gram

    def diag(self, a: np.ndarray) -> np.ndarray:
        """The diagonal of the Gram matrix of `a`, shape (n,)."""
        return np.ones(len(a))


@dataclass(frozen=True)
class Laplace(Matern):
    """k(a, b) = exp(-|a - b| / s), with the Euclidean distance: the Matern kernel of smoothness 1/2."""

    nu: float = 0.5


# --- the linear kernel ---


@dataclass(frozen=True)
class Linear(Composable):
    """k(a, b) = a . b + constant.

    On rotation matrices R, S flattened to rows this is the trace kernel tr(R S').

    Parameters
    ----------
    constant : float
    """

    constant: float = 0.0

    def __call__(self, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """The Gram matrix of the rows of `a` (n, p) and `b` (m, p), or of `a` alone, shape (n, m)."""
        return a @ (a if b is None else b).T + self.constant

    def diag(self, a: np.ndarray) -> np.ndarray:
        """The diagonal of the Gram matrix of `a`, shape (n,)."""
        return np.einsum("ij,ij->i", a, a) + self.constant


# --- kernels by name ---


FAMILIES: dict[str, Callable[[float], Kernel]] = {"gaussian": Gaussian, "laplace": Laplace, "matern": Matern}
"""From a name to the kernels of that family, one for each bandwidth."""


def check_kernel(name: str, kernel: Any) -> None:
    """Refuse what is neither a family's name nor a kernel.

    Raises
    ------
    ValueError, TypeError
        What was given, and the names there are.
    """
    if isinstance(kernel, str):
        if kernel not in FAMILIES:
            raise ValueError(
                f"{name} is {shown(kernel)}; the names are {', '.join(FAMILIES)}, or give a kernel"
            )
    # A class is callable and has `diag` as well: `Gaussian`, given for `Gaussian(1.0)`, is refused here.
    elif isinstance(kernel, type) or not (callable(kernel) and callable(getattr(kernel, "diag", None))):
        raise TypeError(
            f"{name} is {shown(kernel)}; give one of the names {', '.join(FAMILIES)}, or a kernel: "
            "something that is called with two arrays of points and has a method diag, as those of "
            "scikit-learn's Gaussian processes"
        )


# --- bandwidths ---


def median_heuristic(points: np.ndarray, most: int = 1000) -> float:
    """The median of the pairwise distances, zeros of the diagonal left out.

    Parameters
    ----------
    points : ndarray of shape (n, d)
    most : int
        Rows used, evenly spread over the table.

    Raises
    ------
    ValueError
        If all rows coincide, or lie so close that squares of their distances are no floats.

    Notes
    -----
    Where more than half of the pairs coincide, as with counts, it is the median of the others.
    """
    distances = pdist(points[spread_out_varied(points, most)])
    median = float(np.median(distances))
    if median == 0:  # most pairs coincide, as with counts: the others tell about the scale
        apart = distances[distances > 0]
        if not len(apart):
            raise ValueError(
                "all rows coincide, or lie so close that squares of their distances are no floats; no "
                "bandwidth can be taken from them"
            )
        median = float(np.median(apart))
    return median


def parameter_kernel(
    parameters: np.ndarray, bandwidth: float | None = None, deviation: np.ndarray | None = None
) -> Gaussian:
    """The kernel on parameters in which embeddings are compared.

    Parameters
    ----------
    parameters : ndarray of shape (n, p)
    bandwidth : float, optional
        In standard deviations of each parameter over the table; where left out, the median heuristic
        on the standardised parameters.
    deviation : ndarray of shape (p,), optional
        The standard deviations, where they are known from more rows than these.

    Notes
    -----
    A bandwidth at the scale of the prior compares distributions by their location and spread first.
    Kernel regression estimates these well; it does not estimate what is much finer than its own
    bandwidth on the statistics, and a narrow kernel here would take its errors for features.
    """
    deviation = unit_deviations(parameters) if deviation is None else nonzero(deviation)
    if bandwidth is None:
        scaled = parameters / deviation
        # Of parameters that do not vary any bandwidth gives the same kernel.
        bandwidth = median_heuristic(scaled) if np.any(np.ptp(scaled, axis=0) > 0) else 1.0
    return Gaussian(tuple((bandwidth * deviation).tolist()))
