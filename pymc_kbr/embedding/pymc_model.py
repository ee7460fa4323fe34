"""Bayesian learning of a kernel embedding as a PyMC model: the lengthscale with its posterior."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import SHORTEST, flag, positive, shown
from pymc_kbr.arrays.rows import as_points, refuse_constant
from pymc_kbr.embedding.marginal_likelihood import FlatEmbedding, MarginalLikelihood


@default_arithmetic
def kernel_embedding_model(
    data: Any, *, noise: float = 0.1, prior: str | tuple[float, float] = "gamma(1, 1)", separate: bool = False
) -> pm.Model:
    """A PyMC model of a Gaussian kernel's lengthscale, given a sample.

    Parameters
    ----------
    data : array_like of shape (n,) or (n, D)
    noise : float
        sigma^2, the variance of the empirical embedding about the true one at a point.
    prior : {"gamma(1, 1)", "gamma(0.1, 0.1)"} or (float, float)
        Of the lengthscale: a gamma distribution, by name or by its shape and rate.
    separate : bool
        Whether each dimension has a lengthscale of its own; `lengthscale` is then of shape (D,).

    Returns
    -------
    pymc.Model
        With the free variable `lengthscale` and the Potential `marginal_likelihood`; sample it with
        `pymc.sample`.

    Raises
    ------
    TypeError, ValueError
        If the data are no array of finite numbers, are fewer than three rows, or have a constant column, or
        an argument is out of range.

    Notes
    -----
    The model of appendix B of [1]_: the marginal likelihood of eq. 13 with the normalised Lebesgue measure.
    Its posterior may have several modes far apart, between which chains do not move: start them at different
    values (the default of `pymc.sample` starts all near one), and look at `chain_modes`. The lengthscale and
    so its prior are in the data's own units. Time is n^3 a step of the sampler.

    References
    ----------
    .. [1] S. Flaxman, D. Sejdinovic, J. Cunningham, S. Filippi, Bayesian learning of kernel embeddings, UAI
       (2016).
    """
    positive("noise", noise)
    flag("separate", separate)
    points = as_points("the data", data, least=3)
    refuse_constant("the data", points)
    # Shape and rate: of the paper's text, and of the authors' program.
    priors = {"gamma(1, 1)": (1.0, 1.0), "gamma(0.1, 0.1)": (0.1, 0.1)}
    if isinstance(prior, str) and prior not in priors:
        raise ValueError(
            f"prior is {shown(prior)}; it may be {', '.join(map(repr, priors))}, or (shape, rate)"
        )
    if not isinstance(prior, str) and (not isinstance(prior, tuple) or len(prior) != 2):
        raise ValueError(
            f"prior is {shown(prior)}; give a pair (shape, rate), or {', '.join(map(repr, priors))}"
        )
    shape, rate = priors[prior] if isinstance(prior, str) else prior
    positive("the prior's shape", shape)
    positive("the prior's rate", rate)
    d = points.shape[1]
    likelihood = LogLikelihood(MarginalLikelihood(points, noise))
    with pm.Model(coords={"dimension": np.arange(d)} if separate else None) as model:
        lengthscale = pm.Gamma("lengthscale", shape, rate, dims="dimension" if separate else None)
        pm.Potential("marginal_likelihood", likelihood(pt.ones(d) * lengthscale)[0])
    return model


class LogLikelihood(Op):
    """The log marginal likelihood at lengthscales (D,), and its gradient in their logarithms."""

    __props__ = ()

    def __init__(self, likelihood: MarginalLikelihood) -> None:
        self.likelihood = likelihood

    def __eq__(self, other: object) -> bool:
        """Only what has the same data is the same."""
        return type(self) is type(other) and self.likelihood is getattr(other, "likelihood", None)

    def __hash__(self) -> int:
        return hash((type(self), id(self.likelihood)))

    def make_node(self, lengthscale: Variable) -> Apply:
        """A scalar and (D,) of lengthscales (D,)."""
        return Apply(self, [pt.as_tensor(lengthscale)], [pt.dscalar("value"), pt.dvector("slopes")])

    def perform(self, node: Apply, inputs: list[np.ndarray], output_storage: list[list[Any]]) -> None:
        """As `MarginalLikelihood`; minus infinity where a lengthscale leaves the floats."""
        lengthscale = np.asarray(inputs[0], dtype=float)
        value, slopes = -np.inf, np.zeros(len(lengthscale))
        if np.all((lengthscale > SHORTEST) & (lengthscale < 1 / SHORTEST)):
            with suppress(FlatEmbedding):  # the likelihood is zero there
                value, slopes = self.likelihood(lengthscale)
        output_storage[0][0], output_storage[1][0] = np.asarray(value), slopes

    def pullback(
        self, inputs: list[Variable], outputs: list[Variable], cotangents: list[Variable]
    ) -> list[Variable]:
        """The gradient of the value; the slopes themselves are not differentiated."""
        if not isinstance(cotangents[1].type, DisconnectedType):
            raise NotImplementedError("second derivatives of the marginal likelihood are not there")
        return [cotangents[0] * outputs[1] / inputs[0]]

    L_op = pullback  # its name in earlier versions of PyTensor

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Both outputs depend on the lengthscales."""
        return [[True, True]]
