"""What is asked of a rule that makes a posterior's weights."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pymc_kbr.gram import Gram, Operator


class Rule(Protocol):
    """From the Gram matrix of the statistics and weights of the prior to weights of the posterior.

    Weights of the prior have the sum one; None stands for 1 / n each, a table that is a sample of the prior.
    """

    def operator(self, gram: Gram, gamma: np.ndarray | None, regularisation: float) -> Operator:
        """The rule, factored once; its `weights` at observations x (k, d) are those of the rows, (k, n)."""

    def ridge(self, regularisation: float) -> float:
        """The lambda of a ridge regression to which the rule's regularisation corresponds."""

    def regularisation(self, ridge: float, spectrum: np.ndarray) -> float:
        """The regularisation with as many degrees of freedom as a ridge regression of this lambda has.

        Parameters
        ----------
        ridge : float
            lambda.
        spectrum : ndarray of shape (n,)
            Eigenvalues of D^(1/2) G_x D^(1/2), none negative, with D = diag(max(gamma, 0)) of sum one.
        """
