"""Kernel sum, chain and Bayes rules: from embeddings and a table's Gram matrices to embeddings.

Rows i of a table are simulations (theta_i, x_i); G_theta and G_x are the Gram matrices of both sides. A rule
is a value: what it makes of a Gram matrix, of the prior's weights and of its regularisation.
"""

from pymc_kbr.embedding.rules.rule import (
    ImportanceWeighted,
    Rule,
    SquaredRule,
    bayes_average,
    chain_rule,
    posterior_decoding,
    prior_values,
    sum_rule,
)

__all__ = [
    "ImportanceWeighted",
    "Rule",
    "SquaredRule",
    "bayes_average",
    "chain_rule",
    "posterior_decoding",
    "prior_values",
    "sum_rule",
]
