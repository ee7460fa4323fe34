"""The evidence of a likelihood that is learnt for each model."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from pymc_kbr.estimators import KernelLikelihood
from pymc_kbr.estimators.likelihood.success import weighting_of
from pymc_kbr.estimators.likelihood.tempered import ImpossibleObservation
from pymc_kbr.selection.model_choice.rows import Rows, success_share

EVIDENCE_PARTICLES = 500
"""Of each posterior, whose tempering gives the evidence."""


class Evidence:
    """`KernelLikelihood` on each model's table: probabilities in proportion to prior times evidence."""

    def fit(self, rows: Rows, rng: np.random.Generator) -> Evidence:
        """See `Classifier`."""
        self._fitted = []
        for number, table in enumerate(rows.tables):
            # A model's own prior ratio: the rows' weights hold the shares of models, too.
            mine = rows.own[rows.model == number]
            weighting = weighting_of(table)
            ratio = None if weighting.ratio is None else weighting.ratio[mine]
            given = table.parameters[mine], table.statistics[mine], table.support
            fitted = KernelLikelihood(particles=EVIDENCE_PARTICLES)
            fitted.fit(*given, ratio=ratio, success=weighting.success, random_seed=rng)
            # A value that a model never made would count for it as much as one that it made sometimes.
            fitted.reads_missed = False
            self._fitted.append(fitted)
        # Evidences are of models by themselves: the prior's shares come in by hand. The probability that
        # simulations succeed is in both.
        shares = np.bincount(rows.model, rows.weights, minlength=rows.models)
        self._log_shares = np.log(shares / shares.sum()) - np.log([success_share(t) for t in rows.tables])
        return self

    def probabilities(self, statistics: np.ndarray) -> np.ndarray:
        """See `Classifier`."""
        logs = np.array([_log_evidence(fitted, statistics) for fitted in self._fitted]).T
        # What no model can make says nothing about which it was.
        logs[np.all(logs == -np.inf, axis=1)] = 0.0
        logs = logs + self._log_shares
        found: np.ndarray = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        return found


def _log_evidence(fitted: KernelLikelihood, statistics: np.ndarray) -> np.ndarray:
    """Log evidences (k,) of a model at statistics (k, d), minus infinity where it cannot make them."""
    logs, possible = np.full(len(statistics), -np.inf), np.arange(len(statistics))
    while len(possible):
        try:
            posteriors = fitted.condition(statistics[possible])
        except ImpossibleObservation as error:
            if not len(error.observations):
                raise
            possible = np.delete(possible, error.observations)
            continue
        logs[possible] = [posterior.settings["log_evidence"] for posterior in posteriors]
        break
    return logs
