"""Files of fitted estimators and choices, and what they said: ``python -m tests.saved_files FOLDER``.

`tests/test_saved_results.py` reads those in `tests/saved/`, each written once by either PyMC. They stay
as they are, since a later version must read them. Of another format, write others beside them.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import threadpoolctl

import pymc_kbr as pk

OBSERVED = np.array([[0.3, 0.4], [-0.5, 0.1]])
MADE = {
    "rejection": lambda: pk.Rejection(5),
    "localised": lambda: pk.Localised(neighbours=12),
    "adjusted": pk.Adjusted,
    "kernel_likelihood": lambda: pk.KernelLikelihood("location_scale", particles=20),
}


def tables():
    """One of 50 rows, and those of two models."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(50, 2))
    frame = pd.DataFrame(
        np.hstack([theta, theta + 0.5 * rng.normal(size=(50, 2))]), columns=["a", "b", "s", "t"]
    )
    names = {"parameters": ["a", "b"], "statistics": ["s", "t"]}
    other = frame * [1, 1, 1.5, 1.5] + [0, 0, 0.5, 0]
    return [pk.ReferenceTable.from_dataframe(of, **names) for of in (frame, other)]


def told(name, value):
    """The arrays that a value is asked for, by name."""
    if name == "choice":
        moved = value.with_prior({"one": 0.2, "two": 0.8})
        return {"at": value.at_observed, "errors": value.errors_at_observed, "moved": moved.at_observed}
    if name == "calibration":
        return {
            "pit": value.pit,
            "quantiles": value.recovery.quantiles,
            "coverage": value.coverage([0.5, 0.9]),
        }
    found = {}
    for number, posterior in enumerate(value.condition(OBSERVED)):
        found |= {f"weights_{number}": posterior.weights, f"atoms_{number}": posterior.atoms}
        found[f"draws_{number}"] = posterior.draw(10, 1)
    return found


def arithmetic():
    """The kernels of BLAS and of NumPy that this processor gets, of which the last bits are."""
    blas = {str(library.get("architecture")) for library in threadpoolctl.threadpool_info()}
    return " ".join(
        [*sorted(blas), *sorted(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))]
    )


def main(folder):
    """Write one file for each, and `told.npz` with what each says."""
    table, other = tables()
    values = {
        name: make().fit(table.parameters, table.statistics, random_seed=1) for name, make in MADE.items()
    }
    values["choice"] = pk.compare_models(
        {"one": table, "two": other}, OBSERVED, method="logistic", random_seed=1
    )
    values["calibration"] = pk.calibrate("adjusted", table, rows=10, random_seed=1, progressbar=False)
    folder.mkdir(parents=True, exist_ok=True)
    said = {"arithmetic": np.array(arithmetic())}
    for name, value in values.items():
        pk.save(value, folder / f"{name}.npz")
        said |= {f"{name}:{key}": array for key, array in told(name, value).items()}
    np.savez_compressed(folder / "told.npz", **said)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
