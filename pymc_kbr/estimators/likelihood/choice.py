"""Which form holds, by the density of rows that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import kstest

from pymc_kbr.estimators.likelihood.autoregressive import fit_autoregressive
from pymc_kbr.estimators.likelihood.form import Form
from pymc_kbr.estimators.likelihood.location_scale import fit_location_scale

Fit = Callable[[np.ndarray, np.ndarray, np.random.Generator], Form]

FORMS: dict[str, Fit] = {"location_scale": fit_location_scale, "autoregressive": fit_autoregressive}
"""The fit of each form, by its name."""

ROWS_COMPARED, MOST_HELD_OUT = 2500, 1000
"""Rows to which forms are fitted that are compared, and rows that they are compared on."""


class Choice(NamedTuple):
    """The form that was taken, and what held-out rows said.

    Attributes
    ----------
    name : str
    form : Form
        Fitted to those fewer rows.
    densities : dict of str to float
        Mean log density of held-out rows under each form that was fitted to fewer rows.
    pvalue : float
        Of the hypothesis that held-out rows' transforms are uniform, whatever the parameters: the smallest
        over statistics, and over all rows and those with one parameter below or above its median, times the
        number of these hypotheses.
    worst : int
        That statistic's column.
    """

    name: str
    form: Form
    densities: dict[str, float]
    pvalue: float
    worst: int


def choose_form(theta: np.ndarray, points: np.ndarray, names: list[str], rng: np.random.Generator) -> Choice:
    """Fit forms to some rows, and take the one under which the others have the highest density.

    Parameters
    ----------
    theta : ndarray of shape (n, q)
    points : ndarray of shape (n, e)
    names : list of str
    rng : numpy.random.Generator
    """
    n = len(theta)
    order = rng.permutation(n)
    count = min(n // 5, MOST_HELD_OUT)
    held_out, rest = order[:count], order[count : count + ROWS_COMPARED]
    densities, fitted = {}, {}
    for name in names:
        form = FORMS[name](theta[rest], points[rest], np.random.default_rng(rng.integers(2**63)))
        logs = form.log_density(form.describe(theta[held_out]), points[held_out][:, None, :])[:, 0]
        densities[name], fitted[name] = float(np.mean(logs)), form
    best = max(names, key=lambda name: densities[name])
    form = fitted[best]
    transforms = form.transforms(form.describe(theta[held_out]), points[held_out])
    pvalues = _uniform(transforms, theta[held_out])
    worst = int(np.argmin(pvalues.min(axis=0)))
    return Choice(best, form, densities, min(1.0, pvalues.size * pvalues.min()), worst)


def _uniform(transforms: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """p-values (1 + 2 q, e) of the transforms being uniform: among all rows, and among halves of them."""
    below = theta <= np.median(theta, axis=0)
    groups = [np.ones(len(theta), dtype=bool), *below.T, *~below.T]
    return np.array([[kstest(column[rows], "uniform").pvalue for column in transforms.T] for rows in groups])
