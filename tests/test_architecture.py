"""The floors of the house: arrays below, PyMC and ArviZ each in one place."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "pymc_kbr"
ARRAYS_ONLY = [
    "chunks",
    "threads",
    "neighbours",
    "kernels",
    "gram",
    "embedding",
    "rules",
    "density_ratio",
    "posterior",
    "smoothing",
    "regression",
    "summaries",
    "adjustments",
    "estimators",
    "cross_validation",
    "bijections",
    "support",
    "columns",
    "scores",
]
FLOORS = [
    ["errors", "chunks", "threads"],
    [
        "bijections",
        "support",
        "columns",
        "table_file",
        "table_store",
        "neighbours",
        "table_checks",
        "kernels",
        "scores",
        "peak_memory",
        "comparison_file",
    ],
    ["reference_table", "gram", "smoothing"],
    ["stored_table"],
    ["simulation", "embedding", "datasets", "regression"],
    ["posterior", "rules", "summaries", "adjustments"],
    ["density_ratio", "to_arviz", "diagnostics", "posterior_scores"],
    ["estimators", "new_prior"],
    ["cross_validation", "candidates", "trial", "calibration", "predictive_check", "emulator"],
    ["race", "bounds"],
    ["selection"],
    ["sample", "zoom", "emulate", "comparison_line"],
    ["plots", "comparison"],
    ["benchmark"],
]


def modules(part):
    path = PACKAGE / part
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def imported(path):
    """Top-level names and parts of pymc_kbr that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            if node.module == "pymc_kbr":
                names |= {f"pymc_kbr.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("part", ARRAYS_ONLY)
def test_array_floors_import_numpy_scipy_and_scikit_learn_only(part):
    allowed = {"numpy", "scipy", "sklearn", "threadpoolctl", "pymc_kbr"}
    standard = {
        "__future__",
        "abc",
        "collections",
        "concurrent",
        "contextlib",
        "copy",
        "dataclasses",
        "functools",
        "itertools",
    }
    standard |= {"math", "os", "threading", "typing", "warnings"}
    for path in modules(part):
        top = {name.split(".")[0] for name in imported(path)}
        assert top <= allowed | standard, f"{path.name} imports {sorted(top - allowed - standard)}"


def test_no_floor_imports_a_floor_above_or_beside_it():
    floor = {part: level for level, parts in enumerate(FLOORS) for part in parts}
    inside_a_floor = {("support", "bijections"), ("table_checks", "columns")}
    for part, level in floor.items():
        for path in modules(part):
            for name in imported(path):
                pieces = name.split(".")
                if pieces[0] != "pymc_kbr" or len(pieces) < 2 or pieces[1] not in floor:
                    continue
                if pieces[1] != part and (part, pieces[1]) not in inside_a_floor:
                    assert floor[pieces[1]] < level, f"{path.name} imports {name}"


def test_every_module_has_its_floor():
    parts = {p.stem for p in PACKAGE.glob("*.py")} | {p.parent.name for p in PACKAGE.glob("*/__init__.py")}
    assert parts - {"__init__"} == {part for parts in FLOORS for part in parts}


def test_only_to_arviz_imports_arviz():
    users = {p.name for p in PACKAGE.rglob("*.py") if "arviz" in {n.split(".")[0] for n in imported(p)}}
    assert users == {"to_arviz.py"}
