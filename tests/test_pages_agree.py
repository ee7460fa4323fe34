"""The first pages print the same posterior of the same model, and it is the exact one."""

import re
import warnings
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk
from tests.statistical import waiting_times
from tests.statistical.waiting_times import EXACT

DOCS = Path(__file__).parents[1] / "docs"
NUMBER = r"\s+(-?[\d.]+)"
MODEL = 'rate = pm.HalfNormal("rate", 2)\n    shape = pm.Uniform("shape", 0.5, 5)\n'

SUMMARY = re.compile(rf"^(rate|shape){NUMBER}{NUMBER}{NUMBER}{NUMBER}$", re.MULTILINE)
STAGES = re.compile(r"^\('rate', 'shape'\) \[(.*?)\] \[(.*?)\]$", re.MULTILINE)
WIDTHS = re.compile(r"^standard deviations \[(.*?)\]", re.MULTILINE)


def printed(page):
    """Name, mean (NaN where it is not printed) and standard deviation of each posterior of a page."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert MODEL in text
    assert "observed=[1.9, 1.2, 1.7]" in text
    found = [(name, float(mean), float(width)) for name, mean, width, *_ in SUMMARY.findall(text)]
    for means, widths in STAGES.findall(text):
        found += zip(EXACT, map(float, means.split()), map(float, widths.split()), strict=True)
    for widths in WIDTHS.findall(text):
        found += zip(EXACT, (np.nan, np.nan), map(float, widths.split()), strict=True)
    return found


@pytest.mark.parametrize(
    ("page", "posteriors"), {"first_steps": 1, "stages": 1, "calibration": 1, "rounds": 2}.items()
)
def test_what_a_page_prints_is_the_exact_posterior(page, posteriors):
    found = printed(page)
    assert len(found) == 2 * posteriors
    for name, mean, width in found:
        exact_mean, exact_width = EXACT[name]
        # 2,000 draws: errors of 2.2% of a width in a mean and 1.6% in a width. A density learnt from 2,000
        # simulations, or from 1,000 in rounds, adds about as much again as its table is small.
        assert np.isnan(mean) or abs(mean - exact_mean) < 0.2 * exact_width, (name, mean)
        assert width == pytest.approx(exact_width, rel=0.1), name


def test_first_steps_has_no_warning_and_says_so():
    assert "\nno warning\n```" in (DOCS / "first_steps.md").read_text(encoding="utf-8")


def test_the_exact_posterior_is_that_of_the_command():
    # Of fewer simulations: 500 rows have an error of 4.5% of a width in a mean and 3.2% in a width.
    for name, (mean, width) in waiting_times.exact(million=1, nearest=500, seed=3).items():
        exact_mean, exact_width = EXACT[name]
        assert abs(mean - exact_mean) < 4 * 0.045 * exact_width
        assert width == pytest.approx(exact_width, rel=4 * 0.032)


def test_what_a_result_says_explains_every_attribute():
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"`(\w+\*?)`", text))
    model, narrower = pm.Model(), pm.Model()
    for one, width in ((model, 1), (narrower, 0.7)):
        with one:
            mean = pm.Normal("mean", 0, width)
            pm.Simulator("y", lambda rng, m, size: rng.normal(m, 1, size), mean, observed=[0.3, 0.2])
    quiet = {"model": model, "random_seed": 1, "progressbar": False}
    table = pk.simulate(500, **quiet)
    calls = [{"estimator": name} for name in pk.ESTIMATORS] + [{"estimator": "iw_kbr", "prior": narrower}]
    calls += [{"candidates": ["rejection", "localised"]}]
    for call in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = pk.sample_abc(50, reference_table=table, **call, **quiet)
        missing = set(found["posterior"].attrs) - explained
        assert not {name for name in missing if not name.startswith("provenance_")}, call
