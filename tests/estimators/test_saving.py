"""Estimators in one file: what is loaded conditions to the last bit, and no code is run."""

import io
import json
import pickle
import zipfile
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.estimators.saving import CHECKSUM, DOCUMENT, RENAMED
from pymc_kbr.selection.selection import Candidate

EARLIER = Path(__file__).parent / "saved_in_format_1.npz"
KINDS = {name: kind() for name, kind in pk.ESTIMATORS.items() if name != "kernel_likelihood"}
KINDS |= {
    "kernel_likelihood": pk.KernelLikelihood("location_scale", 50),
    "autoregressive": pk.KernelLikelihood("autoregressive", 50),
    "relevance": pk.ConditionalMean(scale="relevance"),
    "posterior_mean": pk.ConditionalMean(scale="posterior_mean", solver="incomplete_cholesky"),
    "transformed": pk.ConditionalMean(scale="transformed", solver="nystroem"),
    "lengthscales": pk.ConditionalMean(scale="bayesian", solver="random_features"),
    "divided": pk.ConditionalMean(solver="divide_and_conquer"),
    "matern": pk.ConditionalMean(kernel="matern", solver="subsample"),
    "joint_neighbours": pk.Adjusted(adjustment="joint_neighbours"),
    "curved": pk.Rejection(20, scale="curved_posterior_mean"),
    "joint": pk.Rejection(20, scale="joint_posterior_mean"),
    "common": pk.KernelLikelihood("location_scale", 50, scale="common"),
    "heteroscedastic": pk.Adjusted(adjustment="heteroscedastic_local_linear"),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(200, 2))
    return theta, np.exp(0.3 * theta @ rng.normal(size=(2, 3)) + 0.3 * rng.normal(size=(200, 3)))


@pytest.mark.parametrize("name", KINDS)
def test_what_is_loaded_conditions_to_the_last_bit(name, rows, tmp_path):
    fitted = KINDS[name].fit(*rows, random_seed=1)
    observed = rows[1][:3] + 0.01
    before = fitted.condition(observed)
    path = pk.save(fitted, tmp_path / "estimator.npz")
    loaded = pk.load(path)
    assert type(loaded) is type(fitted)
    assert loaded.get_params().keys() == fitted.get_params().keys()
    for again in (loaded, pickle.loads(pickle.dumps(fitted))):
        for one, other in zip(before, again.condition(observed), strict=True):
            np.testing.assert_array_equal(one.weights, other.weights)
            np.testing.assert_array_equal(one.atoms, other.atoms)
            np.testing.assert_array_equal(one.draw(20, 1), other.draw(20, 1))
            assert one.settings == other.settings


@pytest.mark.parametrize("how", ["ratio", "prior"])
def test_another_prior_is_kept(how, rows, tmp_path):
    theta, x = rows
    given = {"ratio": np.exp(theta[:, 0])} if how == "ratio" else {"prior": 0.5 * theta[:100]}
    fitted = pk.ImportanceWeightedKernelBayes().fit(theta, x, **given, random_seed=1)
    loaded = pk.load(pk.save(fitted, tmp_path / "e.npz"))
    np.testing.assert_array_equal(loaded.weights(x[0]), fitted.weights(x[0]))


def test_a_loaded_one_can_have_gaps_and_be_saved_again(rows, tmp_path):
    fitted = pk.Adjusted().fit(*rows, random_seed=1)
    gaps = np.array([1.0, np.nan, 0.9])
    loaded = pk.load(pk.save(fitted, tmp_path / "one.npz"))
    again = pk.load(pk.save(loaded, tmp_path / "two.npz"))
    np.testing.assert_array_equal(again.condition(gaps).atoms, fitted.condition(gaps).atoms)


def test_a_selection_is_loaded_as_it_was(tmp_path):
    selection = pk.Selection((Candidate("one", pk.Rejection(20), scores=np.linspace(0, 1, 5)),), 1.5)
    loaded = pk.load(pk.save(selection, tmp_path / "selection.npz"))
    assert isinstance(loaded, pk.Selection)
    np.testing.assert_array_equal(loaded.chosen.scores, selection.chosen.scores)
    assert (loaded.seconds, loaded.seconds_of_fit, repr(loaded)) == (1.5, 0.0, repr(selection))


def test_a_file_of_the_first_format_is_read():
    loaded = pk.load(EARLIER)
    assert isinstance(loaded, pk.Adjusted)
    # By the formula: local-linear adjustment of rows whose parameter is their statistic is the observation.
    np.testing.assert_allclose(loaded.condition([0.25]).atoms, 0.25, atol=1e-8)


def test_objects_that_are_shared_stay_shared(rows, tmp_path):
    fitted = pk.Adjusted().fit(*rows, random_seed=1)
    assert fitted.table_ is fitted.estimator_.table_
    loaded = pk.load(pk.save(fitted, tmp_path / "e.npz"))
    assert loaded.table_ is loaded.estimator_.table_


def test_a_function_is_refused(rows, tmp_path):
    fitted = pk.KernelLikelihood("location_scale", 50).fit(*rows, log_prior=lambda theta: -(theta[:, 0] ** 2))
    with pytest.raises(TypeError, match="cannot be saved without running code"):
        pk.save(fitted, tmp_path / "e.npz")
    assert not list(tmp_path.iterdir())


def changed(path, change, checked=True):
    """The file with another document, and with the checksum that it had or without one."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if checked or name != CHECKSUM}
    document = json.loads(arrays[DOCUMENT].tobytes())
    change(document)
    arrays[DOCUMENT] = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
    np.savez(path, **arrays)
    return path


@pytest.fixture
def saved(rows, tmp_path):
    return pk.save(pk.Rejection(20).fit(*rows), tmp_path / "rejection.npz")


def root(document):
    return document["nodes"][document["root"][0]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(format=2), "take a later one"),
        (lambda d: d.pop("format"), "no file of a fitted estimator"),
        (lambda d: d.update(format=0), "no file of a fitted estimator"),
        (lambda d: d.update(format=True), "no file of a fitted estimator"),
        (lambda d: root(d).update(object="os:system"), "no value of this package"),
        (
            lambda d: root(d).update(object="pymc_kbr.simulation.simulate:simulate"),
            "no value of this package",
        ),
        (lambda d: root(d).update(object="pymc_kbr.estimators.gone:Gone"), "does not have"),
        (lambda d: root(d).update(object="pymc_kbr.estimators.checks:check_scaled"), "no class"),
        (lambda d: d.update(root=[10_000]), "broken"),
        (lambda d: d.pop("nodes"), "broken"),
        (lambda d: root(d).update(dict=[[d["root"], 1]], object=3), "broken"),
        (lambda d: root(d).update(object=3), "broken"),
    ],
)
def test_files_that_were_changed_are_refused(change, words, saved):
    with pytest.raises(ValueError, match=words):
        pk.load(changed(saved, change))


@pytest.mark.parametrize("before", RENAMED)
def test_files_that_name_a_class_as_it_was_called_before_are_read(before, saved):
    module, _, name = RENAMED[before].partition(":")
    now = getattr(import_module(module), name)
    fields = getattr(now, "_fields", None)
    state = dict.fromkeys(getattr(now, "__dataclass_fields__", {}), 1.5)

    def as_before(document):
        value = (
            {"object": before, "state": state} if fields is None else {"named": before, "items": [*fields]}
        )
        document["nodes"].append(value)
        root(document)["state"]["before"] = [len(document["nodes"]) - 1]

    found = pk.load(changed(saved, as_before, checked=False)).before
    assert type(found) is now
    assert vars(found) == state if fields is None else found == fields


def test_a_class_that_was_moved_is_found_where_it_was(saved):
    """Under the name of a module that imports it now; a class of another package is not."""

    def moved(document):
        root(document).update(object="pymc_kbr.estimators.adjusted:Rejection")

    assert type(pk.load(changed(saved, moved, checked=False))) is pk.Rejection


@pytest.mark.parametrize(
    "before", ["pymc_kbr.estimators.rejection:Rejection", "pymc_kbr.estimators.gone:Rejection"]
)
def test_a_class_is_found_by_its_name_where_its_module_is_gone(before, saved):
    found = pk.load(changed(saved, lambda document: root(document).update(object=before), checked=False))
    assert type(found) is pk.Rejection


@pytest.mark.parametrize("name", ["pymc_kbr.tables.columns:TableStore", "pymc_kbr.arrays.gone:ProcessWide"])
def test_a_class_that_is_no_value_is_not_found_by_its_name(name, saved):
    with pytest.raises(ValueError, match="is no value"):
        pk.load(changed(saved, lambda document: root(document).update(object=name), checked=False))


def test_files_that_are_none_are_refused(saved, tmp_path):
    with pytest.raises(FileExistsError, match="overwrite=True"):
        pk.save(pk.load(saved), saved)
    assert pk.save(pk.load(saved), saved, overwrite=True) == saved
    cut = tmp_path / "cut.npz"
    cut.write_bytes(saved.read_bytes()[:-200])
    text = tmp_path / "text.npz"
    text.write_text("nothing")
    plain = tmp_path / "plain.npz"
    np.savez(plain, a=np.zeros(3))
    for path in (cut, text, plain):
        with pytest.raises(ValueError, match="no file of a fitted estimator"):
            pk.load(path)
    with pytest.raises(FileNotFoundError):
        pk.load(tmp_path / "gone.npz")
    with pytest.raises(TypeError, match="int"):
        pk.load(3)  # which Python would take for a file that is open


def test_a_pickle_in_the_file_is_not_read(saved):
    """NumPy's reader would run it, were it allowed to."""
    held = io.BytesIO()
    np.save(held, np.array([{}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(saved, "a") as file:
        file.writestr("harm.npy", held.getvalue())
    with pytest.raises(ValueError, match="allow_pickle"):
        pk.load(saved)
