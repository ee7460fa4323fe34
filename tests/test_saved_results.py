"""What a choice, a calibration and a choice among models say, after a file as before it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk
from pymc_kbr.estimators.saving import DOCUMENT, FORMAT
from tests.saved_files import MADE, arithmetic, told

pytestmark = pytest.mark.versions

SAVED = Path(__file__).parent / "saved"
KINDS = [*MADE, "choice", "calibration"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(300, 2))
    x = theta + 0.5 * rng.normal(size=(300, 2))
    frame = pd.DataFrame(np.hstack([theta, x]), columns=["a", "b", "s", "t"])
    return pk.ReferenceTable.from_dataframe(frame, parameters=["a", "b"], statistics=["s", "t"])


def test_a_chosen_estimator_with_its_choice(table, tmp_path):
    chosen = pk.select(table, candidates=["rejection", "adjusted"], random_seed=1, progressbar=False)
    loaded = pk.load(pk.save(chosen, tmp_path / "chosen.npz"))
    np.testing.assert_array_equal(
        loaded.condition([0.3, 0.4]).draw(50, 1), chosen.condition([0.3, 0.4]).draw(50, 1)
    )
    assert loaded.selection_.table() == chosen.selection_.table()
    alone = pk.load(pk.save(chosen.selection_, tmp_path / "selection.npz"))
    assert repr(alone) == repr(chosen.selection_)


def test_gaps_after_a_file_as_before_it(table, tmp_path):
    """The fit to what is there does not see how arrays lay in memory, which no file keeps."""
    fitted = pk.KernelDensity().fit(table, random_seed=1)
    loaded = pk.load(pk.save(fitted, tmp_path / "fitted.npz"))
    gaps = [np.nan, 0.4]
    np.testing.assert_array_equal(loaded.condition(gaps).draw(50, 1), fitted.condition(gaps).draw(50, 1))


def test_a_calibration(table, tmp_path):
    found = pk.calibrate("rejection", table, rows=60, random_seed=1, progressbar=False)
    loaded = pk.load(pk.save(found, tmp_path / "calibration.npz"))
    assert loaded.summary() == found.summary()
    assert loaded.joint_summary() == found.joint_summary()
    np.testing.assert_array_equal(loaded.recovery.quantiles, found.recovery.quantiles)


def test_a_choice_among_models(table, tmp_path):
    other = pk.ReferenceTable.from_dataframe(
        table.to_dataframe() * [1, 1, 1.5, 1.5], parameters=["a", "b"], statistics=["s", "t"]
    )
    tables = {"one": table, "two": other}
    found = pk.compare_models(tables, [[0.1, 0.2]], method="logistic", random_seed=1)
    loaded = pk.load(pk.save(found, tmp_path / "choice.npz"))
    pd.testing.assert_frame_equal(loaded.probabilities, found.probabilities)
    pd.testing.assert_frame_equal(loaded.confusion, found.confusion)
    moved = {"one": 0.2, "two": 0.8}
    pd.testing.assert_frame_equal(
        loaded.with_prior(moved).probabilities, found.with_prior(moved).probabilities
    )


# --- files that are kept, each read on every version ---


@pytest.mark.parametrize("writer", ["pymc_5", "pymc_6"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_either_pymc_says_what_it_said_there(kind, writer):
    """To the last bit with the same arithmetic, whatever the versions of Python, PyMC and NumPy.

    Sums of other kernels of BLAS or NumPy differ in their last bits, those of draws by 2e-12 of the largest
    value at most (OpenBLAS for Prescott and SkylakeX, NumPy without AVX).
    """
    with np.load(SAVED / writer / "told.npz") as file:
        before = {name.split(":")[1]: file[name] for name in file.files if name.startswith(f"{kind}:")}
        same = kind == "rejection" or str(file["arithmetic"]) == arithmetic()
    after = told(kind, pk.load(SAVED / writer / f"{kind}.npz"))
    assert after.keys() == before.keys()
    for name, array in after.items():
        if same:
            np.testing.assert_array_equal(array, before[name], err_msg=name)
        else:
            assert np.abs(array - before[name]).max() <= 1e-10 * np.abs(before[name]).max(), name


def test_a_file_of_a_later_format_is_refused_with_words(tmp_path):
    path = SAVED / "pymc_6" / "rejection.npz"
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    later = document(path) | {"format": FORMAT + 1, "version": "9.1"}
    # What a later format is made of, this version does not know.
    later["nodes"] = [{"of_a_later_kind": node} for node in later["nodes"]]
    arrays[DOCUMENT] = np.frombuffer(json.dumps(later).encode(), dtype=np.uint8)
    np.savez(tmp_path / "later.npz", **arrays)
    with pytest.raises(ValueError, match=rf"pymc_kbr 9\.1, in format {FORMAT + 1}; this version reads up to"):
        pk.load(tmp_path / "later.npz")


def document(path):
    """The structure of a file."""
    with np.load(path) as file:
        return json.loads(file[DOCUMENT].tobytes())
