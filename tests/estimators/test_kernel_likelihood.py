"""The learned likelihood against exact ones: densities, evidence, posteriors, trials, counts."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import stats

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood.tempered import ImpossibleObservation

ROWS = 1000
SD = 0.5
MIX = np.array([[1.0, 0.4, 0.0], [-0.3, 1.0, 0.5]])


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    theta = rng.normal(size=(ROWS, 2))
    return theta, theta @ MIX + SD * rng.normal(size=(ROWS, 3))


def log_prior(theta):
    return stats.norm.logpdf(theta).sum(axis=1)


@pytest.fixture(scope="module")
def fitted(table):
    learnt = pk.KernelLikelihood("location_scale", 1000)
    return learnt.fit(*table, log_prior=log_prior, random_seed=1)


def exact(x, trials=1):
    """Mean and covariance of the posterior, given the mean of so many trials."""
    precision = np.eye(2) + trials * MIX @ MIX.T / SD**2
    return np.linalg.solve(precision, trials * MIX @ x / SD**2), np.linalg.inv(precision)


@pytest.mark.statistical
def test_log_likelihoods_are_near_the_exact_ones(fitted):
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(400, 2))
    x = theta @ MIX + SD * rng.normal(size=(400, 3))
    found = np.array([fitted.log_likelihood(t[None], o)[0] for t, o in zip(theta, x, strict=True)])
    gap = stats.norm.logpdf(x, theta @ MIX, SD).sum(axis=1) - found
    assert -0.05 < gap.mean() < 0.1


def test_posterior_and_evidence_are_near_the_exact_ones(fitted):
    x = np.array([0.5, -1.0, 0.3])
    posterior, (mean, cov) = fitted.condition(x), exact(x)
    deviation = np.sqrt(np.diag(cov))
    assert np.all(np.abs(posterior.mean() - mean) < 0.25 * deviation)
    assert np.all(np.abs(np.sqrt(np.diag(posterior.cov())) / deviation - 1) < 0.15)
    evidence = stats.multivariate_normal.logpdf(x, np.zeros(3), MIX.T @ MIX + SD**2 * np.eye(3))
    assert abs(posterior.settings["log_evidence"] - evidence) < 0.4


def test_likelihoods_of_trials_add_up(fitted, table):
    theta, x = table
    each = [fitted.log_likelihood(theta[:5], one) for one in x[:4]]
    np.testing.assert_allclose(fitted.log_likelihood(theta[:5], x[:4]), np.sum(each, axis=0), rtol=1e-9)
    assert fitted.log_likelihoods(theta[:4], np.empty((0, x.shape[1]))).shape == (4, 0)


def test_trials_narrow_the_posterior_as_they_should(fitted):
    rng = np.random.default_rng(8)
    truth = np.array([0.4, -0.6])
    sets = [truth @ MIX + SD * rng.normal(size=(r, 3)) for r in (3, 12)]
    for data, posterior in zip(sets, fitted.condition(sets, trials=True), strict=True):
        mean, cov = exact(data.mean(axis=0), len(data))
        deviation = np.sqrt(np.diag(cov))
        assert np.all(np.abs(posterior.mean() - mean) < 0.5 * deviation)
        assert np.all(np.abs(np.sqrt(np.diag(posterior.cov())) / deviation - 1) < 0.25)
    alone = fitted.condition(sets[0], trials=True)
    np.testing.assert_allclose(alone.mean(), fitted.condition(sets, trials=True)[0].mean())


@pytest.mark.statistical
def test_another_prior_is_multiplied(table):
    x = np.array([0.5, -1.0, 0.3])
    draws = np.random.default_rng(2).normal(1.0, 0.3, size=(4000, 2))
    learnt = pk.KernelLikelihood("location_scale", 1000).fit(*table, prior=draws, random_seed=1)
    precision = np.eye(2) / 0.09 + MIX @ MIX.T / SD**2
    mean = np.linalg.solve(precision, np.ones(2) / 0.09 + MIX @ x / SD**2)
    deviation = np.sqrt(np.diag(np.linalg.inv(precision)))
    posterior = learnt.condition(x)
    assert posterior.settings["prior_estimated"] == 1
    assert np.all(np.abs(posterior.mean() - mean) < 0.3 * deviation)


def test_weights_are_of_the_draws_of_another_prior(table):
    theta, x = (side[:150] for side in table)
    draws = np.random.default_rng(2).normal(1.0, 0.3, size=(40, 2))
    weights = (
        pk.KernelLikelihood("location_scale", 20).fit(theta, x, prior=draws, random_seed=1).weights(x[0])
    )
    assert weights.shape == (40,)
    assert weights.sum() == pytest.approx(1)


def test_draws_do_not_repeat_and_statistics_come_back(fitted, table):
    posterior = fitted.condition(table[1][0])
    assert len(np.unique(posterior.draw(1000, 1), axis=0)) == 1000
    lowest, highest = table[0].min(axis=0), table[0].max(axis=0)
    outside = np.any((posterior.atoms < lowest) | (posterior.atoms > highest), axis=1)
    assert posterior.settings["share_beyond_rows"] == pytest.approx(outside.mean(), rel=1e-12)
    assert len(np.unique(posterior.draw(1500, 1), axis=0)) == 1500
    drawn = fitted.draw_statistics(np.tile([[1.0, -1.0]], (4000, 1)), 4)
    assert np.all(np.abs(drawn.mean(axis=0) - [1.3, -0.6, -0.5]) < 0.15)
    assert np.all(np.abs(drawn.std(axis=0) / SD - 1) < 0.1)


def test_as_many_particles_as_draws_are_asked_for(fitted):
    x = np.array([0.5, -1.0, 0.3])
    assert len(fitted.for_draws(1500).condition(x).atoms) == 1500
    assert len(fitted.for_draws(10).condition(x).atoms) == fitted.particles == 1000


def test_an_estimator_with_the_prior_in_its_rows_refuses_its_density(table):
    with pytest.raises(ValueError, match="Rejection has the prior in its rows; leave `log_prior` out"):
        pk.Rejection().fit(*table, log_prior=log_prior)


def test_counts_have_probabilities():
    rng = np.random.default_rng(6)
    theta = rng.normal(0, 0.7, size=(1500, 1))
    x = rng.poisson(np.exp(1 + theta) * [1.0, 0.5]).astype(float)
    learnt = pk.KernelLikelihood("location_scale", 500).fit(theta, x, log_prior=log_prior, random_seed=1)
    assert all(cell is not None for cell in learnt.table_.scaler.cells)
    at = np.array([[0.3]])
    grid = np.array([[i, j] for i in range(25) for j in range(20)], dtype=float)
    logs = np.array([learnt.log_likelihood(at, one)[0] for one in grid])
    exact_logs = stats.poisson.logpmf(grid, np.exp(1.3) * np.array([1.0, 0.5])).sum(axis=1)
    assert abs(np.exp(logs).sum() - 1) < 0.05
    assert np.sum(np.exp(exact_logs) * (exact_logs - logs)) < 0.1
    drawn = learnt.draw_statistics(np.tile(at, (500, 1)), 1)
    np.testing.assert_array_equal(drawn, np.round(drawn))


def test_positive_statistics_over_many_orders_enter_by_logarithms():
    rng = np.random.default_rng(7)
    theta = rng.normal(size=(800, 1))
    x = np.exp(3 * theta + 0.1 * rng.normal(size=(800, 1)))
    learnt = pk.KernelLikelihood("location_scale", 500).fit(theta, x, log_prior=log_prior, random_seed=1)
    assert learnt.table_.scaler.curves[0].kind == "log"
    draws = learnt.condition(np.array([np.exp(1.5)])).draw(500, 1)
    assert abs(draws.mean() - 0.5) < 0.03
    with pytest.raises(ValueError, match="the model does not make this value"):
        learnt.condition(np.array([-1.0]))


def test_a_discrete_parameter_weights_rows():
    rng = np.random.default_rng(9)
    theta = rng.integers(0, 3, size=(600, 1)).astype(float)
    x = theta + 0.5 * rng.normal(size=(600, 1))
    from pymc_kbr.arrays.support import Block

    support = pk.Support(1, (Block((0,), smooth=False),))
    learnt = pk.KernelLikelihood("location_scale").fit(theta, x, support, random_seed=1)
    likelihood = stats.norm.pdf(1.4, np.arange(3), 0.5)
    posterior = learnt.condition(np.array([1.4]))
    shares = [posterior.weights[posterior.atoms[:, 0] == v].sum() for v in range(3)]
    np.testing.assert_allclose(shares, likelihood / likelihood.sum(), atol=0.06)


def test_a_fitted_one_is_pickled(fitted):
    x = np.array([0.5, -1.0, 0.3])
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.condition(x).atoms, fitted.condition(x).atoms)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.zeros((3, 2)), "shape"),
        ([np.zeros((3, 3)), np.zeros((2, 4))], "data set 1 has shape"),
        ([], "the list is empty"),
        (np.array([[0.0, 0, 0], [0, np.inf, 0]]), "trial 1, statistic 1"),
    ],
)
def test_trials_that_do_not_fit_are_refused(fitted, data, words):
    with pytest.raises(ValueError, match=words):
        fitted.condition(data, trials=True)


def test_an_observation_beyond_measure_is_refused_by_its_value(fitted):
    far, words = [0.0, 1e300, 0.0], r"1e\+300 in statistic 1, .* look at its units"
    for asked in (far, [[0.0, 0.0, 0.0], far]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # squares of such numbers overflow
            with pytest.raises(ImpossibleObservation, match=words) as told:
                fitted.condition(asked)
            assert told.value.observations.tolist() == [np.ndim(asked) - 1]
            with pytest.raises(ValueError, match=words):
                fitted.condition(np.atleast_2d(asked), trials=True)


def test_a_count_below_its_origin_is_refused_beside_others(table):
    """Counts enter by their root: there is none of a negative one."""
    theta = table[0]
    x = np.random.default_rng(5).poisson(np.exp(1 + theta[:, :1]), (len(theta), 2))
    fitted = pk.KernelLikelihood("location_scale", particles=50).fit(theta, x)
    for asked in ([2.0, -3.0], [[2.0, 1.0], [2.0, -3.0], [-3.0, 1e300]]):
        with pytest.raises(ImpossibleObservation, match=r"value -3 in row .* enter by their root") as told:
            fitted.condition(asked)
        assert told.value.observations.tolist() == ([0] if np.ndim(asked) == 1 else [1, 2])


@pytest.mark.parametrize("reads", [True, False])
def test_a_value_below_a_rare_one_is_placed_as_it_is_read(reads):
    """The curve of these counts is a logarithm that begins at four."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=600)
    x = np.column_stack([a + rng.normal(size=600), rng.choice([5.0, 6, 7, 8], 600, p=[0.04, 0.7, 0.2, 0.06])])
    fitted = pk.KernelLikelihood(particles=50).fit(a[:, None], x, random_seed=1)
    fitted.reads_missed = reads
    asked = [[0.3, 6.0], [0.3, 4.0]]
    if reads:
        with pytest.warns(pk.PosteriorWarning, match="likelihood is that of the neighbouring value 5"):
            fitted.condition(asked)
    else:
        with pytest.raises(ImpossibleObservation) as told:
            fitted.condition(asked)
        assert told.value.observations.tolist() == [1]


def test_what_is_fitted_anew_reads_no_value_either():
    """Beside a gap: the others are fitted again, by a form that cannot integrate the first one out."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=600)
    x = np.column_stack([a + rng.normal(size=600), rng.choice([5.0, 6, 7, 8], 600, p=[0.04, 0.7, 0.2, 0.06])])
    fitted = pk.KernelLikelihood("autoregressive", particles=50).fit(a[:, None], x, random_seed=1)
    assert fitted.marginal(np.array([1])) is None
    with pytest.warns(pk.PosteriorWarning, match="likelihood is that of the neighbouring value 5"):
        fitted.condition([np.nan, 4.0])
    fitted.reads_missed = False
    with pytest.raises(ImpossibleObservation):
        fitted.condition([np.nan, 4.0])


def test_bad_tables_and_arguments_are_refused(table):
    theta, x = table
    with pytest.raises(ValueError, match="simulate more"):
        pk.KernelLikelihood().fit(theta[:20], x[:20])
    with pytest.raises(ValueError, match="linear function of those before it"):
        pk.KernelLikelihood(scale=False).fit(theta, np.column_stack([x, x[:, 0] - 2 * x[:, 1]]))
    with pytest.raises(ValueError, match="form is 'flow'"):
        pk.KernelLikelihood("flow").fit(theta, x)
    with pytest.raises(ValueError, match="at least 10"):
        pk.KernelLikelihood(particles=5).fit(theta, x)
    with pytest.raises(ValueError, match="not fitted"):
        pk.KernelLikelihood().condition(x[0])


def test_parameters_of_another_number_are_refused(fitted):
    with pytest.raises(ValueError, match=r"give \(k, 2\)"):
        fitted.log_likelihood(np.zeros((4, 3)), np.zeros(3))
