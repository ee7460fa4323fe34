"""The simulator of clusters, drawn backwards in time, against the process itself."""

import numpy as np
import pytest
from scipy.stats import norm

from case_studies.population_genetics import tuberculosis as tb


def forwards(rng, birth, death, mutation, population, sample):
    """Sizes of the sample's clusters, event by event."""
    while True:
        cases, new = [0], 1
        while 0 < len(cases) < population:
            event, one = rng.random() * (birth + death + mutation), int(rng.integers(len(cases)))
            if event < birth:
                cases.append(cases[one])
            elif event < birth + death:
                cases[one] = cases[-1]
                cases.pop()
            else:
                cases[one], new = new, new + 1
        if cases:
            return np.unique(rng.choice(cases, sample, replace=False), return_counts=True)[1]


@pytest.mark.parametrize("rates", [(1.0, 0.2, 0.3), (2.0, 1.6, 0.2)])
def test_clusters_are_those_of_the_process(rates):
    rng, size = np.random.default_rng(1), (50, 20)
    one = [forwards(rng, *rates, *size) for _ in range(800)]
    other = [tb.clusters(rng, *rates, *size) for _ in range(800)]
    assert all(sizes.sum() == 20 for sizes in other)
    for of in (len, max, lambda x: np.sum(x == 1), lambda x: np.sum(x**2)):
        a, b = (np.array([of(sizes) for sizes in each], dtype=float) for each in (one, other))
        away = (a.mean() - b.mean()) / np.sqrt((a.var() + b.var()) / 800)
        assert abs(away) < norm.isf(1e-4)


def test_sizes_begin_with_one_case_and_end_with_the_population():
    sizes = tb.sizes_of_population(0.9, np.random.default_rng(1), 500)
    assert sizes[0] == 1
    assert sizes[-1] == 500
    assert np.all(np.abs(np.diff(sizes)) == 1)
    assert np.all((sizes[:-1] > 0) & (sizes[:-1] < 500))


def test_the_data_are_473_cases_in_326_clusters():
    found = tb.observed()
    assert tb.SAMPLE == 473
    assert found[0] == pytest.approx(326 / 473)
    assert found[1] == pytest.approx(0.9892, abs=1e-4)
    np.testing.assert_array_equal(found[2:], [282, 20, 13, 4, 2, 3, 2, 30])
