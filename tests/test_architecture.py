"""Layers of the package: no import upwards, no circles, PyMC and ArviZ each in one place, extras optional."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import pymc_kbr as pk

PACKAGE = Path(__file__).parents[1] / "pymc_kbr"
LAYERS = [
    ["arrays"],
    ["kernels", "tables"],
    ["gram", "simulation"],
    ["regression", "embedding"],
    ["posterior", "hypothesis_tests"],
    ["estimators"],
    ["selection", "checking", "rounds"],
    ["comparison", "filtering", "popgen", "sample"],
]
ARRAYS = [
    "arrays",
    "kernels",
    "gram",
    "regression",
    "embedding",
    "hypothesis_tests",
    "posterior",
    "estimators",
]
"""Folders that know arrays only; `nox -s arrays` runs their tests where nothing else is installed."""

ARVIZ = "posterior/arviz.py"
CAUSAL = "hypothesis_tests/causal_learn.py"
EMBEDDING_MODEL = "embedding/pymc_model.py"
FRAMES = "arrays/frames.py"
NETWORKS = "estimators/summaries/networks.py"
PLOTTING = "arrays/plotting.py"
SLOPES = "estimators/likelihood/slopes.py"
OPTIONAL = {ARVIZ, CAUSAL, EMBEDDING_MODEL, FRAMES, NETWORKS, PLOTTING, SLOPES}
"""Files of array folders that are imported by themselves, by those who have more than arrays."""

KNOW_PYMC = {ARVIZ, EMBEDDING_MODEL, "popgen/demography.py"}
"""Deterministic variables of draws; a lengthscale with its posterior; coords and parameters by name."""

HEAVY = {"arviz", "matplotlib", "pandas", "pymc", "pytensor", "xarray", "zarr"}
FILES = sorted(PACKAGE.rglob("*.py"))
READMES = [PACKAGE.parent / "README.md", *sorted(PACKAGE.parent.glob("case_studies/**/README.md"))]


def inside(path):
    return path.relative_to(PACKAGE).as_posix()


def statements(node):
    """Everything beneath a node that runs: what only type checkers read is left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from statements(child)


def module_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


@cache
def imported(path):
    """Names of the modules that a file imports, at its top or later."""
    names = set()
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                names.add(whole if whole in MODULES else node.module)
    return names


def users_of(*packages):
    return {inside(path) for path in FILES if {name.split(".")[0] for name in imported(path)} & set(packages)}


def folder_of(module):
    return module.split(".")[1] if "." in module else ""


def folders_used(folder):
    used = {
        folder_of(name)
        for module, path in MODULES.items()
        if folder_of(module) == folder
        for name in imported(path)
        if name in MODULES
    }
    return used - {folder}


def test_every_folder_has_its_layer():
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    files = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    assert folders | files == {folder for folders in LAYERS for folder in folders}


@pytest.mark.parametrize("level", range(len(LAYERS)))
def test_a_folder_uses_only_the_layers_beneath_it(level):
    beneath = {folder for folders in LAYERS[:level] for folder in folders}
    for folder in LAYERS[level]:
        assert folders_used(folder) <= beneath, f"{folder} is in layer {level + 1}"


def test_no_circle_between_files():
    arrows = {module: imported(path) & MODULES.keys() for module, path in MODULES.items()}
    assert len(list(TopologicalSorter(arrows).static_order())) == len(MODULES)


def test_only_simulation_imports_pymc():
    outside = {name for name in users_of("pymc", "pytensor") if not name.startswith("simulation/")}
    assert outside == KNOW_PYMC


def test_only_one_file_imports_arviz():
    assert users_of("arviz", "arviz_base", "arviz_stats", "arviz_plots") == {ARVIZ}


@pytest.mark.parametrize("folder", ARRAYS)
def test_array_folders_import_numpy_scipy_and_scikit_learn_only(folder):
    allowed = {"numpy", "scipy", "sklearn", "joblib", "threadpoolctl"} | sys.stdlib_module_names
    for path in set((PACKAGE / folder).rglob("*.py")) - {PACKAGE / name for name in OPTIONAL}:
        names = imported(path)
        assert {folder_of(name) for name in names if name in MODULES} <= set(ARRAYS), inside(path)
        assert {name.split(".")[0] for name in names} - {"pymc_kbr"} <= allowed, inside(path)


@pytest.mark.parametrize("folder", ARRAYS)
def test_tests_of_array_folders_need_no_more_than_the_folders(folder):
    allowed = {
        "numpy",
        "scipy",
        "sklearn",
        "joblib",
        "threadpoolctl",
        "pytest",
        "hypothesis",
        "pymc_kbr",
        "tests",
    }
    for path in (Path(__file__).parent / folder).rglob("*.py"):
        top = {name.split(".")[0] for name in imported(path)}
        assert top <= allowed | sys.stdlib_module_names, path.name


def loaded_by(modules):
    """Which heavy packages are in memory after these modules were imported, in a process of their own."""
    code = f"import sys, importlib\nfor m in {modules!r}: importlib.import_module(m)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


def test_the_package_itself_imports_nothing():
    loaded = loaded_by(["pymc_kbr"])
    assert not loaded & (HEAVY | {"numpy", "scipy", "sklearn"})


def test_array_folders_load_nothing_heavy():
    modules = [m for m, path in MODULES.items() if folder_of(m) in ARRAYS and inside(path) not in OPTIONAL]
    own = loaded_by(["sklearn.base"])  # scikit-learn takes pandas along where it is installed
    assert loaded_by(modules) & HEAVY <= own & {"pandas"}


def test_public_names_resolve_and_are_listed():
    assert set(pk.__all__) <= set(dir(pk))
    for name in pk.__all__:
        assert getattr(pk, name) is not None
    assert pk.kernels.Gaussian(1.0).bandwidth == 1.0
    with pytest.raises(AttributeError, match="no attribute 'localized'"):
        _ = pk.localized


def test_type_checkers_read_the_same_names_from_the_same_places():
    names = {}
    for node in ast.parse((PACKAGE / "__init__.pyi").read_text()).body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.name: node.module.removeprefix("pymc_kbr").lstrip(".") for alias in node.names}
        else:
            listed = {literal.value for literal in node.value.elts}
    folders = {folder for folder, home in names.items() if not home}
    assert folders == {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == pk._FOLDERS
    assert {name: home for name, home in names.items() if home} == pk._HOMES
    assert listed == set(pk.__all__)


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.parent.name)
def test_commands_and_links_of_the_readmes_lead_somewhere(readme):
    text, root = readme.read_text(), PACKAGE.parent
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert "://" in link or (readme.parent / link).exists(), link
    for module in re.findall(r"python3? -m ((?:case_studies|tests|pymc_kbr)[\w.]*)", text):
        path = root.joinpath(*module.rstrip(".").split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
