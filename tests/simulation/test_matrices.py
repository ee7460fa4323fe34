"""Correlation and covariance matrices as parameters: in their free space, and whole in the result."""

import warnings

import numpy as np
import pymc as pm
import pytest
from scipy.stats import beta

import pymc_kbr as pk
from pymc_kbr.simulation import ForwardModel
from pymc_kbr.tables.columns import Columns

SEEN, NOISE, SCALE_SEEN, SCALE_NOISE = np.array([0.7, 0.5, 0.6]), 0.15, np.log(2.0), 0.13
"""Three correlations and the logarithm of a scale, with the deviations of their noise."""


def whole(values):
    """Correlation matrices (n, 3, 3): PyMC 5 draws entries above the diagonal, PyMC 6 a Cholesky factor."""
    values = np.asarray(values)
    if values.shape[-1] == 3 and values.shape[-2:] == (3, 3):
        return values @ np.swapaxes(values, -1, -2)
    found = np.zeros((*values.shape[:-1], 3, 3)) + np.eye(3)
    rows, columns = np.triu_indices(3, 1)
    found[..., rows, columns] = found[..., columns, rows] = values
    return found


def seen(rng, corr, scale, size=None):
    matrix = whole(corr) if np.ndim(corr) == 2 else whole(np.asarray(corr)[None])[0]
    above = matrix[np.triu_indices(3, 1)]
    return np.append(rng.normal(above, NOISE), rng.normal(np.log(scale), SCALE_NOISE))


def correlated(eta=2.0):
    with pm.Model() as model:
        corr = pm.LKJCorr("corr", n=3, eta=eta)
        scale = pm.HalfNormal("scale", 3)
        pk.vector_simulator("y", seen, corr, scale, observed=[*SEEN, SCALE_SEEN])
    return model


def exact(eta=2.0, n=100_000):
    """Means and deviations of the correlations and the scale, by importance sampling of the onion's vines."""
    rng = np.random.default_rng(0)
    # Of three variables: two correlations, and a partial one, in the beta laws of Lewandowski et al.
    first = 2 * rng.beta(eta + 0.5, eta + 0.5, size=(n, 2)) - 1
    partial = 2 * beta.rvs(eta, eta, size=n, random_state=rng) - 1
    last = first[:, 0] * first[:, 1] + partial * np.sqrt(np.prod(1 - first**2, axis=1))
    theta = np.column_stack([first, last, np.abs(rng.normal(0, 3, n))])
    logs = -0.5 * (((theta[:, :3] - SEEN) / NOISE) ** 2).sum(axis=1)
    logs -= 0.5 * ((np.log(theta[:, 3]) - SCALE_SEEN) / SCALE_NOISE) ** 2
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ theta
    return mean, np.sqrt(weights @ (theta - mean) ** 2)


@pytest.mark.parametrize(
    ("estimator", "simulations", "apart"),
    [(pk.KernelLikelihood("autoregressive"), 1000, 0.25), ("adjusted", 2000, 0.5)],
    ids=["kernel_likelihood", "adjusted"],
)
def test_correlations_and_the_scale_beside_them(estimator, simulations, apart):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = pk.sample_abc(
            1000,
            model=correlated(),
            estimator=estimator,
            simulations=simulations,
            random_seed=1,
            progressbar=False,
        )
    matrices = whole(idata["posterior"]["corr"].values.reshape(2000, *entries_of(idata)))
    assert np.array_equal(matrices, np.swapaxes(matrices, 1, 2)) or np.allclose(
        matrices, np.swapaxes(matrices, 1, 2), atol=1e-15
    )
    np.testing.assert_allclose(np.einsum("nii->ni", matrices), 1.0, atol=1e-12)
    assert np.linalg.eigvalsh(matrices).min() > -1e-12
    drawn = np.column_stack(
        [matrices[:, *np.triu_indices(3, 1)], idata["posterior"]["scale"].values.reshape(-1)]
    )
    mean, deviation = exact()
    # In deviations of the exact posterior; chance is a tenth of these.
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < apart * deviation)
    assert np.all(np.abs(np.log(drawn.std(axis=0) / deviation)) < apart)


def entries_of(idata):
    return idata["posterior"]["corr"].shape[2:]


def test_rounds_and_calibration_take_correlation_matrices(monkeypatch):
    # Matrices are drawn one by one, and always as many as a stream has.
    monkeypatch.setattr("pymc_kbr.simulation.prior.draws.ROWS_A_STREAM", 128)
    model = correlated()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = pk.refine(240, model=model, rounds=2, estimator="rejection", random_seed=1, progressbar=False)
        whole_prior = pk.simulate(100, model=model, random_seed=1, progressbar=False)
        calibration = pk.calibrate(
            "rejection", whole_prior, rows=20, draws=50, random_seed=1, progressbar=False
        )
        idata = pk.sample_abc(
            draws=200,
            chains=1,
            estimator="rejection",
            reference_table=whole_prior,
            model=model,
            calibration=calibration,
            random_seed=1,
            progressbar=False,
        )
    assert len(calibration.names) == len(table.parameter_names)
    assert np.all(np.isfinite(table.prior_ratio))
    entries = pk.ReferenceTable.from_arviz(idata).parameters
    assert entries.shape[1] == len(calibration.names)
    assert idata["posterior"].attrs["recalibrated"].startswith("marginal quantiles")


@pytest.mark.versions
def test_a_cholesky_factor_has_positive_deviations_and_its_deterministics():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pm.Model() as model:
            chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
            pk.vector_simulator(
                "y",
                lambda rng, c, size=None: rng.normal(np.ravel(c @ c.T), 0.2),
                chol,
                observed=[1.0, 0.5, 0.5, 1.0],
            )
        idata = pk.sample_abc(
            200,
            model=model,
            estimator=pk.KernelLikelihood("location_scale"),
            simulations=300,
            random_seed=1,
            progressbar=False,
        )
    assert all(block.smooth for block in ForwardModel.read(model).support.blocks)
    posterior = idata["posterior"]
    assert posterior["chol_stds"].values.min() > 0
    diagonal = np.einsum("cdii->cdi", posterior["chol_corr"].values)
    np.testing.assert_allclose(diagonal, 1.0, atol=1e-12)
    assert posterior["chol_stds"].values.std() < 0.3  # 0.70 in the prior


@pytest.mark.versions
def test_repeated_and_constant_entries_are_no_columns():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pm.Model() as model:
            cov = pm.Wishart("cov", nu=5, V=np.eye(2))
            pk.vector_simulator(
                "y",
                lambda rng, c, size=None: rng.normal(np.ravel(c), 0.2),
                cov,
                observed=[5.0, 1.0, 1.0, 4.0],
            )
        table = pk.simulate(200, model=model, random_seed=1, progressbar=False)
    assert table.parameter_names == ["cov[0, 0]", "cov[0, 1]", "cov[1, 1]"]
    matrices = table.parameter_columns.split(table.parameters)["cov"]
    assert np.array_equal(matrices, np.swapaxes(matrices, 1, 2))
    assert Columns.from_json(table.parameter_columns.to_json()) == table.parameter_columns
    np.testing.assert_array_equal(table.parameter_columns.stack([matrices]), table.parameters)
