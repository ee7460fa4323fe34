"""What is read from an installed `sbibm`: observations, true parameters, reference posteriors.

The package is found without being imported, since importing it needs PyTorch and Pyro.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

OBSERVATIONS = range(1, 11)
"""Numbers of the observations that each task has."""

INSTALL = (
    "the observations and reference posteriors of the tasks are read from the package sbibm, which is not "
    "installed here; install it without what it needs to run: pip install --no-deps sbibm"
)


def installed() -> bool:
    """Whether `sbibm` can be found."""
    return importlib.util.find_spec("sbibm") is not None


def version() -> str:
    """The installed version of `sbibm`, "unknown" where it lies on the path without its metadata."""
    try:
        return importlib.metadata.version("sbibm")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@cache
def read(task: str, number: int, name: str) -> np.ndarray:
    """A CSV file of one observation, read-only.

    Parameters
    ----------
    task : str
        Folder of the task.
    number : int
        Of the observation, 1 to 10.
    name : str
        Of the file, as "observation.csv".

    Returns
    -------
    ndarray of shape (rows, columns)

    Raises
    ------
    ModuleNotFoundError
        If `sbibm` is not installed.
    ValueError
        If there is no such observation.
    """
    if number not in OBSERVATIONS:
        raise ValueError(f"observation {number}: the tasks have observations 1 to {OBSERVATIONS[-1]}")
    spec = importlib.util.find_spec("sbibm")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(INSTALL)
    package = Path(next(iter(spec.submodule_search_locations)))
    rows = pd.read_csv(package / "tasks" / task / "files" / f"num_observation_{number}" / name).to_numpy(
        float
    )
    rows.flags.writeable = False
    return rows
