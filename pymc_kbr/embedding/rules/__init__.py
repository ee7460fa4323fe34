"""Kernel sum, chain and Bayes rules: from embeddings and a table's Gram matrices to embeddings.

Rows i of a table are simulations (theta_i, x_i); G_theta and G_x are the Gram matrices of both sides. A rule
is a value: what it makes of a Gram matrix, of the prior's weights and of its regularisation. All of them are
in `pymc_kbr.rules`.

Examples
--------
A table of parameters and statistics, another prior by draws, and the posterior's mean at an observation:

>>> import numpy as np
>>> from pymc_kbr.gram import DenseGram
>>> from pymc_kbr.kernels import Gaussian
>>> rng = np.random.default_rng(0)
>>> theta = rng.normal(size=(400, 1))
>>> x = theta + 0.5 * rng.normal(size=(400, 1))
>>> prior = Embedding(Atoms(0.5 + 0.6 * rng.normal(size=(300, 1)), Gaussian(1.0)), np.full(300, 1 / 300))
>>> gamma = sum_rule(DenseGram(Gaussian(1.0), theta), prior, 400 * 1e-3)
>>> w = bayes_rule(DenseGram(Gaussian(1.0), x), gamma, np.array([[1.0]]), 1e-4)
>>> bool(abs((w @ theta)[0, 0] - 0.8) < 0.1)  # the exact mean is .795
True
"""

from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.embedding.rules.rule import (
    ImportanceWeighted,
    Rule,
    SquaredRule,
    bayes_average,
    bayes_rule,
    chain_rule,
    posterior_decoding,
    prior_values,
    shrunk_mean_embedding,
    sum_rule,
)

__all__ = [
    "Atoms",
    "Embedding",
    "ImportanceWeighted",
    "Rule",
    "SquaredRule",
    "bayes_average",
    "bayes_rule",
    "chain_rule",
    "posterior_decoding",
    "prior_values",
    "shrunk_mean_embedding",
    "sum_rule",
]
