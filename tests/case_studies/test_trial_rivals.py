"""The study of learned likelihoods of trials, ours and others': its densities, posteriors and bookkeeping."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from case_studies.trial_rivals.comparison import added, summary
from case_studies.trial_rivals.likelihoods import METHODS, Neural, methods_of, noise_of
from case_studies.trial_rivals.posteriors import moments
from case_studies.trial_rivals.problems import PROBLEMS


@pytest.mark.parametrize("name", ["g-and-k pairs", "normal"])
def test_draws_of_a_problem_have_its_density(name, rng):
    """The score of the density, by differences, has mean zero at draws of it."""
    problem = PROBLEMS[name]
    theta = 0.6 * problem.lower + 0.4 * problem.upper
    x = problem.draw(np.repeat(theta[None], 2000, axis=0), rng)
    for step in 1e-5 * np.eye(len(theta)):
        up, down = (problem.log_density((theta + sign * step)[None], x)[0] for sign in (1, -1))
        score = (up - down) / 2e-5
        assert abs(score.mean()) < 4 * score.std() / np.sqrt(len(x))


@pytest.mark.parametrize("p", [1, 2, 3])
def test_a_normal_posterior_has_its_moments(p, rng):
    """On the grid, and by proposals, 3,584 draws of which count for 1,000 at the least."""
    centre, deviations = np.array([0.2, -0.3, 0.1])[:p], np.array([0.05, 0.1, 0.02])[:p]
    mean, found, taken = moments(
        lambda theta: stats.norm.logpdf(theta, centre, deviations).sum(axis=1),
        np.full(p, -1.0),
        np.ones(p),
        np.zeros(p),
        rng,
    )
    np.testing.assert_allclose((mean - centre) / deviations, 0, atol=4 / np.sqrt(1000))
    np.testing.assert_allclose(found / deviations, 1, atol=4 / np.sqrt(2000))
    assert taken > 0.5


def exactly(problem, columns_of):
    """A neural likelihood that is exact: only logarithms and noise are to be undone."""

    def of_pairs(theta, x):
        trials, more = columns_of(x)
        each = [problem.log_density(t[None], y[None])[0, 0] for t, y in zip(theta, trials, strict=True)]
        return np.array(each) + more

    return of_pairs


def of_drift(x):
    return np.column_stack([np.exp(x[:, 0]), np.floor(x[:, 1])]), x[:, 0]


def of_counts(x):
    return np.floor(x[:, :1]), stats.norm.logpdf(x[:, 1])


@pytest.mark.parametrize(("name", "columns_of"), [("drift diffusion", of_drift), ("counts", of_counts)])
def test_noise_and_logarithms_change_no_density(name, columns_of, rng, monkeypatch):
    monkeypatch.setattr("case_studies.trial_rivals.likelihoods.CHUNK", 4)
    problem = PROBLEMS[name]
    theta = problem.draw_prior(3, rng, margin=0.4)
    x = problem.draw(np.repeat(theta, 2, axis=0), rng)
    learned = Neural(problem, whole=False, single=False)
    learned.of_pairs = exactly(problem, columns_of)
    found = learned.log_density(theta, learned.columns(x, rng))
    expected = problem.log_density(theta, x)
    inside = np.isfinite(expected)
    np.testing.assert_allclose(found[inside], expected[inside], rtol=1e-9)
    assert found.shape == (3, 6)


def test_noise_tells_nothing_of_parameters_of_the_same_seed():
    noise, parameters = noise_of(1).random(2000), np.random.default_rng(1).random(2000)
    assert abs(np.corrcoef(noise, parameters)[0, 1]) < 4 / np.sqrt(2000)


def test_only_times_have_a_shift():
    assert methods_of(PROBLEMS["drift diffusion"]) == list(METHODS)
    assert methods_of(PROBLEMS["counts"]) == ["ours", "setu", "sbi", "BayesFlow"]


def test_a_later_run_takes_the_place_of_its_own_lines(tmp_path):
    keys, path = ["problem", "method"], tmp_path / "fits.csv"
    added(
        pd.DataFrame({"problem": ["normal"] * 2, "method": ["sbi", "ours"], "seconds": [1.0, 2.0]}),
        path,
        keys,
    )
    added(pd.DataFrame({"problem": ["normal", "counts"], "method": "sbi", "seconds": [3.0, 4.0]}), path, keys)
    found = pd.read_csv(path)
    assert found["problem"].tolist() == ["counts", "normal", "normal"]
    assert found["seconds"].tolist() == [4.0, 2.0, 3.0]
    errors = found.assign(error=[1.0, -2.0, 3.0], width=1.0).drop(columns="seconds")
    assert summary(found, errors)["largest"].tolist() == [1.0, 2.0, 3.0]
