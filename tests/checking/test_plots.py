import ast
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

import pymc_kbr as pk


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_weights_are_drawn_with_their_sign(linear):
    posterior = pk.ConditionalMean(2.0, 1e-4).fit(*linear).condition([0.5, -1.0, 0.3])
    axes = pk.plot_posterior_weights(posterior, names=["a", "b"])
    assert [axis.get_xlabel() for axis in axes] == ["a", "b"]
    drawn = sum(len(points.get_offsets()) for points in axes[0].collections)
    assert drawn == len(posterior.atoms)
    assert "negative" in axes[0].get_legend().get_texts()[1].get_text()


@pytest.mark.parametrize("missing", ["matplotlib", "matplotlib.pyplot"])
def test_without_matplotlib_the_extra_is_named(missing, monkeypatch, small_table):
    for name in [n for n in sys.modules if n.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=r"pip install 'pymc_kbr\[plots\]'"):
        pk.plot_observation_support(small_table)
    comparison = pd.DataFrame(
        {
            "estimator": ["a"],
            "budget": [1],
            "repetition": [0],
            "amortised": [True],
            "energy_score": [1.0],
            "seconds_simulate": [1.0],
            "seconds_fit": [1.0],
            "seconds_condition": [1.0],
        }
    )
    with pytest.raises(ImportError, match=r"pip install 'pymc_kbr\[plots\]'"):
        pk.plot_accuracy_runtime(comparison)


@pytest.mark.parametrize("room", ["checking", "comparison"])
def test_matplotlib_is_imported_where_a_picture_is_drawn_only(room):
    """By the text of the files: what other packages import does not count."""
    for path in (Path(pk.__file__).parent / room).glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.startswith("matplotlib")], path


def test_calibration_is_drawn_with_bands(small_table):
    from pymc_kbr.checking.calibration import Calibration

    calibration = Calibration(
        np.random.default_rng(0).random((200, 2)),
        np.zeros((200, 2)),
        np.zeros(200),
        small_table.parameter_columns,
        100,
    )
    axes = pk.plot_calibration(calibration)
    assert len(axes[0].lines) == 3  # two parameters and zero
    assert "probability" in axes[0].get_xlabel()


def test_the_observations_place_is_drawn(small_table):
    axes = pk.plot_observation_support(small_table)
    assert [label.get_text() for label in axes[1].get_yticklabels()] in (["s", "t"], ["t", "s"])
    with pytest.raises(ValueError, match="1 axes were given; 2 are needed"):
        pk.plot_observation_support(small_table, ax=plt.figure().gca())


@pytest.mark.parametrize(("shift", "away"), [(0.0, False), (100.0, True), (1e6, True)])
def test_the_histogram_stays_wide_beside_a_far_observation(shift, away, small_table):
    axis = pk.plot_observation_support(small_table.with_observed(small_table.observed + shift))[0]
    left, right = axis.get_xlim()
    bars = max(bar.get_x() + bar.get_width() for bar in axis.patches)
    assert bars - min(bar.get_x() for bar in axis.patches) > 0.2 * (right - left)
    words = [text.get_text() for text in axis.get_legend().get_texts()]
    assert any(word.startswith("observation, beyond this at") for word in words) == away
    assert ("observation" in words) != away
