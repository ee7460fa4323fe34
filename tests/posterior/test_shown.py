"""What is shown of a value fits on one screen."""

import numpy as np
import pytest

from pymc_kbr.arrays.support import Support
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.posterior import Posterior, Shown


def posterior(m=3000, p=2):
    points = np.random.default_rng(0).normal(size=(m, p)) + np.arange(p)
    weights = np.random.default_rng(1).normal(1 / m, 1 / m, m)
    return Posterior.of(Atoms(points, Gaussian(1.0)), weights, Support.unbounded(p), {"ridge": 0.25})


@pytest.mark.parametrize("p", [2, 11])
def test_a_posterior_fits_on_a_screen(p):
    made = posterior(p=p)
    lines = repr(made).splitlines()
    assert len(lines) <= 20
    assert f"{made.mean()[0]:.4g}" in lines[2]
    assert f"effective sample size {made.effective_sample_size:.1f}" in repr(made)
    assert f"{made.negative_share:.0%} of the weight negative" in repr(made)

    assert (f"... and {p - 10} more" in repr(made)) == (p > 10)


def test_to_show_a_posterior_projects_nothing():
    made = posterior()
    assert made._repr_html_()
    assert "simplex_weights" not in vars(made)


def test_what_stands_in_cells_is_no_html_and_is_short():
    shown = Shown("a < b", [{"name": "<i>", "note": "long " * 100, "none": float("nan")}], 5, ["1 & 2"])
    assert "a &lt; b" in shown.html()
    assert "&lt;i&gt;" in shown.html()
    assert "1 &amp; 2" in shown.html()
    assert len(shown.text()) < 200
    assert "... and 4 more" in shown.text()
    assert "nan" not in shown.text()


def test_a_value_without_lines_is_its_heading():
    assert Shown("nothing", [], 0).text() == "nothing"
    assert "<td>" not in Shown("nothing", [], 0).html()
