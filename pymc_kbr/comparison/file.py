"""The lines of a comparison in a CSV file, each written as soon as it is known."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.comparison.scores import KEYS


class ComparisonFile:
    """A CSV file of lines that are found again by their keys.

    Parameters
    ----------
    path : Path
        Read where it is there. A last line that was not finished is computed again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[dict[str, Any]] = []
        self.columns: list[str] | None = None
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            return
        if path.is_dir():
            raise ValueError(f"{path} is a folder; give the name of a CSV file")
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole:
            try:
                frame = _frame(content[:whole])
            except ValueError as error:  # also those of pandas' parser and of texts that are none
                raise ValueError(f"{path} is not a comparison's file: {error}") from None
            if not {*KEYS, "settings"} <= set(frame.columns):
                raise ValueError(
                    f"{path} has the columns {list(frame.columns)[:5]}, ...; it is not a comparison's file"
                )
            self.columns, self.lines = list(frame.columns), frame.to_dict("records")  # type: ignore[assignment]
        elif not ",".join(KEYS).encode().startswith(content[: len(",".join(KEYS))]):
            raise ValueError(f"{path} is not a comparison's file: it has no line of columns")
        # Only of what is known to be a comparison's: what a killed process left of a line would be joined to
        # the next one.
        if whole < len(content):
            warnings.warn(
                f"the last line of {path} was not finished and is computed again", stacklevel=users_line()
            )
            with path.open("r+b") as file:
                file.truncate(whole)

    def find(self, key: dict[str, Any], settings: str) -> dict[str, Any] | None:
        """The line of a key, if it was computed.

        Raises
        ------
        ValueError
            If it was computed with other settings.
        """
        for line in self.lines:
            if all(line[name] == value for name, value in key.items()):
                if line["settings"] != settings:
                    raise ValueError(
                        f"{self.path} holds {key} of another model, seed, number of draws or observations, "
                        "budget of 'auto', or estimator; give another file, or the arguments of the first "
                        "call"
                    )
                return line
        return None

    def append(self, line: dict[str, Any]) -> None:
        """Write a line, and see it to the disk."""
        columns = list(line)
        if self.columns is not None and self.columns != columns:
            raise ValueError(
                f"{self.path} has the columns {self.columns}; this comparison has {columns}; give "
                "another file"
            )
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, columns)
            if self.columns is None:
                writer.writeheader()
            writer.writerow(line)
            file.flush()
            os.fsync(file.fileno())
        self.columns = columns
        self.lines.append(line)


def _frame(content: bytes) -> pd.DataFrame:
    """The lines, whose texts stay texts: labels such as "1" or "nan", and notes that are empty."""
    texts = ("estimator", "note", "settings")
    numbers = set(pd.read_csv(io.BytesIO(content), nrows=0).columns) - set(texts)
    return pd.read_csv(
        io.BytesIO(content),
        dtype=dict.fromkeys(texts, str),
        keep_default_na=False,
        na_values={name: ["", "nan"] for name in numbers},
    )


def fingerprint(estimator: Any, truth: np.ndarray, observed: np.ndarray, settings: str) -> str:
    """What a line depends on besides its key, in sixteen letters."""
    # scikit-learn breaks long descriptions into lines: words count, and not where they break.
    digest = hashlib.sha256(f"{' '.join(repr(estimator).split())} {settings}".encode())
    for array in (truth, observed):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]
