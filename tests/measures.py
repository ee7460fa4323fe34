"""How large the package is, and what one call enters: ``python -m tests.measures``.

The call is `sample_abc` with its defaults on 10,000 simulations of two parameters and eight statistics.
Seconds are of the processor, after the imports; what the profiler costs is not in them.
"""

import ast
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pymc_kbr"
FORMS = {"location_scale.py": "fit_location_scale", "autoregressive.py": "fit_autoregressive"}


def lines_of(folder: Path) -> tuple[int, int, int]:
    """Files, lines, and lines of code: without docstrings, comments and empty lines."""
    files, lines, code = 0, 0, 0
    for path in folder.rglob("*.py"):
        text = path.read_text()
        files, lines = files + 1, lines + len(text.splitlines())
        spoken = set()
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                spoken |= set(range(node.lineno, node.end_lineno + 1))
        code += sum(
            bool(line.strip()) and not line.strip().startswith("#") and number not in spoken
            for number, line in enumerate(text.splitlines(), 1)
        )
    return files, lines, code


def numeric_constants(folder: Path) -> int:
    """Statements at module level that give a name in capitals a number."""

    def holds_number(node: ast.AST) -> bool:
        return any(
            isinstance(one, ast.Constant)
            and isinstance(one.value, int | float)
            and not isinstance(one.value, bool)
            for one in ast.walk(node)
        )

    found = 0
    for path in folder.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if (
                isinstance(node, ast.Assign | ast.AnnAssign)
                and node.value is not None
                and holds_number(node.value)
            ):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [
                    one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)
                ]
                found += any(name.isupper() for name in names)
    return found


def call() -> None:
    """The call that is measured."""
    import numpy as np
    import pymc as pm

    import pymc_kbr as pk

    def simulator(rng, mean, scale, size=None):
        y = rng.normal(np.asarray(mean)[..., None], np.asarray(scale)[..., None], (*(size or ()), 40))
        return np.quantile(y, np.linspace(0.06, 0.94, 8), axis=-1).T

    with pm.Model(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, scale = pm.Normal("mean", 0, 2), pm.HalfNormal("scale", 2)
        pk.vector_simulator("y", simulator, mean, scale, observed=np.linspace(-1, 2, 8))
        pk.sample_abc(1000, simulations=10_000, random_seed=1, progressbar=False)


def entered() -> dict[str, int]:
    """Files and functions of the package that the call enters, its deepest stack, and fits of each form."""
    functions, depth, deepest = Counter(), [0], [0]
    own = str(PACKAGE)

    def profile(frame, event, _):
        if event in ("call", "return") and frame.f_code.co_filename.startswith(own):
            if event == "call":
                functions[frame.f_code.co_filename, frame.f_code.co_qualname] += 1
                depth[0] += 1
                deepest[0] = max(deepest[0], depth[0])
            else:
                depth[0] -= 1

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    fits = {name: sum(n for (_, called), n in functions.items() if called == name) for name in FORMS.values()}
    files = {file for file, _ in functions}
    return {"files": len(files), "functions": len(functions), "deepest stack": deepest[0], **fits}


def main() -> None:
    """Print them."""
    for folder in (PACKAGE, ROOT / "tests"):
        files, lines, code = lines_of(folder)
        print(f"{folder.name:24s} {files:5d} files {lines:7d} lines {code:7d} of code")
    print(f"numeric constants at module level: {numeric_constants(PACKAGE)}")
    call()  # imports, and what PyTensor compiles
    before = time.process_time()
    call()
    print(f"processor seconds of the call: {time.process_time() - before:.1f}")
    for name, count in entered().items():
        print(f"{name:24s} {count:5d}")


if __name__ == "__main__":
    main()
