"""The simulator of clusters, drawn backwards in time, against the process itself; R beside us."""

import argparse

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from case_studies.population_genetics import in_r, voight
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


def test_constants_of_tajimas_d_are_those_of_the_paper():
    # Tajima (1989) has them for ten sequences in the text that his test is known by.
    one, first, second = voight.tajima_constants()
    n = 10
    a1, a2 = sum(1 / i for i in range(1, n)), sum(1 / i**2 for i in range(1, n))
    assert one == pytest.approx(a1)
    assert first == pytest.approx(((n + 1) / (3 * (n - 1)) - 1 / a1) / a1)
    c2 = 2 * (n**2 + n + 3) / (9 * n * (n - 1)) - (n + 2) / (a1 * n) + a2 / a1**2
    assert second == pytest.approx(c2 / (a1**2 + a2))


@pytest.mark.statistical
def test_loci_of_a_constant_size_have_their_expected_diversity():
    pytest.importorskip("msprime")
    rng = np.random.default_rng(1)
    past = voight.demography("const", 10_000, 1, 0, 0)
    carried, n = np.arange(1, voight.SEQUENCES), voight.SEQUENCES
    loci = np.concatenate([voight.loci(past, 1e-8, rng) for _ in range(20)])
    differences = loci @ (carried * (n - carried)) / (n * (n - 1) / 2)
    expected = 4 * 10_000 * voight.MUTATION * voight.BASES
    assert abs(differences.mean() - expected) < 4 * differences.std() / np.sqrt(len(differences))
    # Sites that i sequences carry: expected / i.
    wanted = expected / carried
    assert np.all(np.abs(loci.mean(axis=0) - wanted) < 4 * loci.std(axis=0) / np.sqrt(len(loci)))


def test_figures_of_r_are_compared_one_by_one():
    lines = in_r.compared("page.md", 0, "means 0.93 1.8\n", "means 0.93 1.9 \n")
    assert [(line["on_page"], line["printed"], line["same"]) for line in lines] == [
        ("0.93", "0.93", True),
        ("1.8", "1.9", False),
    ]
    with pytest.raises(AssertionError, match="prints"):
        in_r.compared("page.md", 0, "means 0.93", "means 0.93 1.8")


def test_every_r_block_of_the_pages_is_followed_by_what_it_prints():
    for page in in_r.DOCS.glob("*.md"):
        found = in_r.r_blocks(page)
        assert page.read_text().count("```r\n") == len(found), page.name
        assert all("cat(" in block["code"] and block["before"] for block in found)


def test_without_r_there_is_a_reason(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(in_r.NoR, match="Rscript"):
        in_r.found_r(argparse.Namespace(r_library=None, r_sources=None))
    with pytest.raises(in_r.NoR, match="abcrf"):
        in_r.R(None, {"abc": "2.2.2"}).named("abcrf")


def test_what_r_printed_is_what_stands_on_the_pages():
    recorded = pd.read_csv(in_r.HERE / "others_pages.csv", dtype={"on_page": str})
    assert recorded["same"].all()
    now = [
        word
        for page in sorted(in_r.DOCS.glob("*.md"))
        for block in in_r.r_blocks(page)
        for word in block["printed"].split()
        if word[0].isdigit()
    ]
    assert [float(word) for word in now] == [float(word) for word in recorded["on_page"]]
