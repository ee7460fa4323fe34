"""Reference tables of other programs of population genetics: DIYABC, ABCtoolbox and fastsimcoal."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.refusals import path_of
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.tables.reference_table import ReferenceTable

if TYPE_CHECKING:
    import pandas as pd

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"

# --- DIYABC ---


def read_diyabc(
    reftable: str | Path, header: str | Path, statobs: str | Path | None = None
) -> dict[int, ReferenceTable]:
    """The reference tables of DIYABC Random Forest, one a scenario.

    Parameters
    ----------
    reftable : str or Path
        The binary file, ``reftableRF.bin``.
    header : str or Path
        The text that describes it, ``headerRF.txt``.
    statobs : str or Path, optional
        The observed statistics, ``statobsRF.txt``.

    Returns
    -------
    dict of int to ReferenceTable
        By the scenarios' numbers: `compare_models` takes it as it is. Parameters are those of the scenario,
        within the bounds of their priors, and satisfy its conditions (`constraints`). Whole numbers are
        taken as numbers.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the binary is truncated, or has more than the records that it counts, the header does not match
        it, conditions contradict each other, or a record lies outside of its prior.

    Warns
    -----
    UserWarning
        If a scenario has fewer than two records, and therefore no table.
    """
    reftable = _file("reftable", reftable)
    described = Header.read(header)
    # A file without its last bytes has no whole numbers in it, and is counted in bytes.
    data = reftable.read_bytes()
    counts, own, statistics, start = _counts(data, reftable)
    if len(own) != len(described.scenarios):
        raise ValueError(
            f"{reftable} has {len(own)} scenarios and {header} describes {len(described.scenarios)}: the "
            "header does not match the binary; give the two of one project"
        )
    names = [described.parameters_of(number, statistics) for number in range(len(own))]
    wrong = [
        f"scenario {i + 1} has {own[i]} there and {len(names[i])} here ({', '.join(names[i])})"
        for i in range(len(own))
        if own[i] != len(names[i])
    ]
    if wrong:
        raise ValueError(
            f"the parameters in {reftable} and in {header} differ: {'; '.join(wrong)}: the header does not "
            "match the binary; give the two of one project"
        )
    labels = described.columns[len(described.columns) - statistics :]
    observed = None if statobs is None else _observed(statobs, labels)
    tables = {}
    for i, rows in enumerate(_records(data, start, counts, own, statistics, reftable)):
        if len(rows) < 2:
            warnings.warn(
                f"scenario {i + 1} has {len(rows)} record(s) in {reftable}, and no table is made of it",
                UserWarning,
                stacklevel=users_line(),
            )
            continue
        tables[i + 1] = _table(names[i], labels, rows, observed, described, f"scenario {i + 1} of {reftable}")
    return tables


def _table(
    names: list[str], labels: list[str], rows: np.ndarray, observed: Any, described: Header, where: str
) -> ReferenceTable:
    """One scenario's table from its records (n, p + d)."""
    import pandas as pd

    frame = pd.DataFrame(rows, columns=[*names, *labels])
    try:
        return ReferenceTable.from_dataframe(
            frame,
            parameters=names,
            statistics=labels,
            observed=observed,
            bounds={name: described.bounds[name] for name in names if name in described.bounds},
            discrete=[],
            constraints=[text for text, of in described.conditions.items() if of <= set(names)],
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _counts(data: bytes, path: Any) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Records and parameters of each scenario, the number of statistics, the word where records begin."""
    words = np.frombuffer(data, "<i4", len(data) // 4)
    scenarios = int(words[1]) if len(words) > 1 else 0
    start = 3 + 2 * scenarios
    if scenarios < 1 or len(words) < start:
        raise ValueError(
            f"{path} has {len(data)} bytes, in which there is no count of records for each scenario: it is "
            "truncated, or no reftableRF.bin"
        )
    counts, own = words[2 : 2 + scenarios].astype(int), words[2 + scenarios : start - 1].astype(int)
    statistics = int(words[start - 1])
    if counts.min() < 0 or own.min() < 0 or statistics < 1 or counts.sum() != words[0]:
        raise ValueError(
            f"{path} counts {words[0]} records, {counts.tolist()} of its scenarios, with {own.tolist()} "
            f"parameters and {statistics} statistics, which is not possible: it is no reftableRF.bin, or is "
            "damaged"
        )
    return counts, own, statistics, start


def _records(
    data: bytes, start: int, counts: np.ndarray, own: np.ndarray, statistics: int, path: Any
) -> list[np.ndarray]:
    """The records (n, p + d) of each scenario, without its number."""
    expected = 4 * (start + int(np.sum(counts * (1 + own + statistics))))
    if len(data) != expected:
        what = "it is truncated" if len(data) < expected else "something follows its records"
        raise ValueError(
            f"{path} has {len(data)} bytes; its {counts.sum()} records need {expected}: {what}; copy it "
            "again, or let DIYABC write it anew"
        )
    words = np.frombuffer(data, "<i4")
    lengths = 1 + own + statistics
    if len(set(lengths.tolist())) == 1:
        at = start + np.arange(counts.sum()) * int(lengths[0])
    else:
        at, place, size = np.zeros(counts.sum(), dtype=int), start, [0, *lengths.tolist()]
        for row in range(len(at)):
            at[row] = place
            scenario = int(words[place]) if place < len(words) else 0
            if not 0 < scenario < len(size):
                raise ValueError(_misplaced(path, row, scenario, len(own)))
            place += size[scenario]
    which = words[np.minimum(at, len(words) - 1)]
    strange = np.flatnonzero((which < 1) | (which > len(own)))
    if len(strange):
        raise ValueError(_misplaced(path, strange[0], int(which[strange[0]]), len(own)))
    found = np.bincount(which, minlength=len(own) + 1)[1:]
    if np.any(found != counts):
        raise ValueError(
            f"{path} counts {counts.tolist()} records of its scenarios and holds {found.tolist()}: it is "
            "damaged"
        )
    numbers = np.frombuffer(data, "<f4")
    return [_gathered(numbers, at[which == i + 1] + 1, int(lengths[i]) - 1) for i in range(len(own))]


def _gathered(numbers: np.ndarray, starts: np.ndarray, width: int, rows: int = 10_000) -> np.ndarray:
    """So many numbers from each start, shape (n, width), some rows at once: places need more memory."""
    found = np.empty((len(starts), width))
    for first in range(0, len(starts), rows):
        part = slice(first, first + rows)
        found[part] = numbers[starts[part, None] + np.arange(width)]
    return found


def _misplaced(path: Any, row: int, scenario: int, scenarios: int) -> str:
    return (
        f"record {row} of {path} is of scenario {scenario}, and there are {scenarios}: the file is damaged, "
        "or no reftableRF.bin"
    )


@dataclass(frozen=True)
class Header:
    """What DIYABC's header says."""

    path: Path
    scenarios: list[list[str]]  # the words of each description
    historical: list[str]
    bounds: dict[str, tuple[float, float]]
    conditions: dict[str, set[str]]
    columns: list[str]

    @classmethod
    def read(cls, header: str | Path) -> Header:
        """From ``headerRF.txt``."""
        path = _file("header", header)
        lines = _text(path).splitlines()
        # The last such line names the columns; those before it describe scenarios.
        named = [i for i, line in enumerate(lines) if re.match(r"\s*scenario\s", line)]
        blocks = {
            int(found[1]): i for i in named[:-1] if (found := re.match(r"\s*scenario\s+(\d+)\s+\[", lines[i]))
        }
        priors = next((i for i, line in enumerate(lines) if "historical parameters priors" in line), None)
        if not named or not blocks or priors is None or sorted(blocks) != list(range(1, len(blocks) + 1)):
            raise ValueError(
                f"{path} is no headerRF.txt: it needs a description of each scenario, 'historical parameters "
                "priors', and a last line 'scenario' with the names of all columns"
            )
        scenarios = []
        for number in sorted(blocks):
            words: list[str] = []
            for line in lines[blocks[number] + 1 : priors]:
                if not line.strip() or re.match(r"\s*scenario\s", line):
                    break
                words += re.findall(r"[^\s+*/()-]+", line)
            scenarios.append(words)
        historical, bounds, conditions = _priors(path, lines, priors)
        columns = lines[named[-1]].split()[1:]
        return cls(path, scenarios, historical, bounds | _mutation(lines, columns), conditions, columns)

    def parameters_of(self, scenario: int, statistics: int) -> list[str]:
        """Names in the order of a scenario's records."""
        parameters = self.columns[: len(self.columns) - statistics]
        if not parameters:
            raise ValueError(
                f"the last line of {self.path} names {len(self.columns)} columns, and the binary has "
                f"{statistics} statistics beside parameters: the header does not match the binary"
            )
        # Constants have a prior there and no column.
        varying = [name for name in self.historical if name in parameters]
        own = [word for word in dict.fromkeys(self.scenarios[scenario]) if word in varying]
        return own + [name for name in parameters if name not in varying]


def _priors(
    path: Path, lines: list[str], at: int
) -> tuple[list[str], dict[str, tuple[float, float]], dict[str, set[str]]]:
    """Names, bounds and conditions of the historical parameters."""
    count = re.search(r"\((\d+)", lines[at])
    bounds: dict[str, tuple[float, float]] = {}
    conditions: dict[str, set[str]] = {}
    for line in lines[at + 1 :]:
        prior = re.match(rf"\s*(\S+)\s+(\w)\s+(\w+)\s*\[\s*({NUMBER})\s*,\s*({NUMBER})", line)
        if prior:
            if prior[3] not in ("UN", "LU", "NO", "LN"):
                raise ValueError(
                    f"{path} has the prior {line.strip()!r}; it may be UN, LU, NO or LN with its bounds"
                )
            bounds[prior[1]] = _as_stored(float(prior[4]), float(prior[5]), whole=prior[2] in "NT")
        elif re.search(r"[<>=]", line):
            conditions[line.strip()] = set(re.split(r"\s*[<>]=?\s*", line.strip()))
        elif line.strip():
            break
    if count is None or int(count[1]) != len(bounds):
        raise ValueError(
            f"{path} has {len(bounds)} priors of the form 'name N UN[lower,upper,0,0]' beneath "
            f"{lines[at].strip()!r}; it is damaged, or of another version"
        )
    unknown = {text: sorted(of - set(bounds)) for text, of in conditions.items() if of - set(bounds)}
    if unknown:
        raise ValueError(
            f"{path} has conditions on {unknown}, which have no prior; the parameters are {list(bounds)}"
        )
    return list(bounds), bounds, conditions


def _as_stored(lower: float, upper: float, whole: bool) -> tuple[float, float]:
    """Bounds that hold for what the binary has: numbers of 32 bits; sizes and times are rounded before."""
    ends = [(lower, upper), (float(np.float32(lower)), float(np.float32(upper)))]
    if whole:
        ends.append((round(lower), round(upper)))
    return min(a for a, _ in ends), max(b for _, b in ends)


def _mutation(lines: list[str], columns: list[str]) -> dict[str, tuple[float, float]]:
    """Bounds of the mutation parameters of each group of loci, which the columns have as ``µmic_1``."""
    bounds, group = {}, ""
    letters = {"MU": ("µ", "μ", "mu"), "P": ("p",), "SNI": ("sni",), "K1": ("k1",), "K2": ("k2",)}
    for line in lines:
        if found := re.match(r"\s*group\s+G(\d+)\s+\[", line):
            group = found[1]
        prior = re.match(rf"\s*MEAN(MU|P|SNI|K1|K2)\s+\w\w\[\s*({NUMBER})\s*,\s*({NUMBER})", line)
        for name in columns if prior and group else ():
            if prior and re.fullmatch(rf"(?:{'|'.join(letters[prior[1]])})(?:mic|seq)_{group}", name):
                bounds[name] = _as_stored(float(prior[2]), float(prior[3]), whole=False)
    return {name: ends for name, ends in bounds.items() if ends[0] < ends[1]}


def _observed(path: str | Path, labels: list[str]) -> dict[str, float] | list[float]:
    """Observed statistics from a line of names and one of numbers."""
    lines = [line.split() for line in _text(_file("statobs", path)).splitlines() if line.strip()]
    try:
        values = [float(word) for word in lines[-1]]
    except (IndexError, ValueError):
        raise ValueError(f"{path} has no last line of numbers; give the observed statistics") from None
    names = lines[-2] if len(lines) > 1 else labels
    if len(values) != len(labels) or sorted(names) != sorted(labels):
        lacking = [name for name in labels if name not in names]
        raise ValueError(
            f"{path} has {len(values)} numbers with {len(names)} names, and the table {len(labels)} "
            f"statistics{f', of which {lacking[:6]} are not there' if lacking else ''}; give the observed "
            "statistics of the same project"
        )
    return dict(zip(names, values, strict=True))


# --- tables of text ---


def read_table(
    path: str | Path | Sequence[str | Path],
    *,
    statistics: Sequence[str] | None = None,
    parameters: Sequence[str] | None = None,
    est: str | Path | None = None,
    observed: str | Path | None = None,
) -> ReferenceTable:
    """A table of text, as ABCtoolbox writes it, or the parameters and statistics of fastsimcoal.

    Parameters
    ----------
    path : str, Path or sequence of such
        Columns between white space beneath a line of their names; of several files the columns are joined,
        row by row.
    statistics, parameters : sequence of str, optional
        Columns on either side. Where left out, parameters are those of the `est` file that are columns, and
        statistics all others but a first column that counts the rows ("Sim").
    est : str or Path, optional
        Priors and rules, in the form that both programs read: bounds, and `constraints` of the rules.
    observed : str or Path, optional
        The observed statistics, a line of names and one of numbers.

    Returns
    -------
    ReferenceTable

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a line has another number of columns, a value is no number, neither `parameters` nor `est` is
        given, or as `ReferenceTable.from_dataframe`.
    """
    frame = _frame([path] if isinstance(path, str | Path) else list(path))
    bounds, rules = ({}, []) if est is None else _est(_file("est", est))
    if parameters is None:
        if est is None:
            raise ValueError("`parameters` and `est` are left out; name the columns that are parameters")
        parameters = [name for name in bounds if name in frame.columns]
    own = list(parameters)
    if statistics is None:
        counted = [frame.columns[0]] if frame.columns[0].lower() in ("sim", "simulation", "#sim") else []
        statistics = [name for name in frame.columns if name not in (*own, *counted)]
    return ReferenceTable.from_dataframe(
        frame,
        parameters=own,
        statistics=list(statistics),
        observed=None if observed is None else _chosen(_observation(observed), list(statistics)),
        bounds={name: ends for name, ends in bounds.items() if name in own and ends[0] < ends[1]},
        discrete=[],
        constraints=None if est is None else [text for text, of in rules if of <= set(own)],
    )


def _frame(paths: list[Any]) -> pd.DataFrame:
    import pandas as pd

    parts = []
    for path in paths:
        lines = [line.split() for line in _text(_file("path", path)).splitlines() if line.strip()]
        if len(lines) < 2:
            raise ValueError(f"{path} has {len(lines)} line(s); give a line of names, and one for each row")
        names, rows = lines[0], lines[1:]
        short = next((i for i, row in enumerate(rows) if len(row) != len(names)), None)
        if short is not None:
            raise ValueError(
                f"row {short} of {path} has {len(rows[short])} columns, and there are {len(names)} names: it "
                "is truncated, or a name has white space in it"
            )
        try:
            parts.append(pd.DataFrame(np.array(rows, dtype=float), columns=names))
        except ValueError as error:
            raise ValueError(f"{path} has a value that is no number ({error})") from None
    if len({len(part) for part in parts}) > 1:
        raise ValueError(f"the files have {[len(part) for part in parts]} rows; give files of the same rows")
    return pd.concat(parts, axis=1)


def _est(path: Path) -> tuple[dict[str, tuple[float, float]], list[tuple[str, set[str]]]]:
    """Bounds and rules of an ``.est`` file."""
    section, bounds, rules = "", dict[str, tuple[float, float]](), list[tuple[str, set[str]]]()
    for line in _text(path).splitlines():
        words = line.split("//")[0].split()
        if not words:
            continue
        if words[0].startswith("["):
            section = " ".join(words).strip("[]").upper()
        elif section == "PARAMETERS":
            found = re.match(rf"\s*[01]\s+(\S+)\s+(\w+)\s+({NUMBER})\s+({NUMBER})", line)
            if not found:
                raise ValueError(
                    f"{path} has the parameter {line.strip()!r}; it must be '0 or 1, name, distribution, "
                    "lower, upper'"
                )
            bounds[found[1]] = float(found[3]), float(found[4])
        elif section == "RULES" and re.search(r"[<>]", line):
            text = line.split("//")[0].strip()
            rules.append((text, set(re.findall(r"[A-Za-z_][\w.$]*\$?", text))))
    if not bounds:
        raise ValueError(f"{path} has no parameters beneath a line '[PARAMETERS]'")
    return bounds, rules


def _observation(path: str | Path) -> dict[str, float]:
    frame = _frame([path])
    return {str(name): float(frame[name].iloc[0]) for name in frame.columns}


def _chosen(observed: dict[str, float], statistics: Iterable[str]) -> dict[str, float]:
    lacking = [name for name in statistics if name not in observed]
    if lacking:
        raise ValueError(
            f"the observed statistics have no {lacking[:6]}; they have {list(observed)[:12]}: give the same "
            "columns, or name those to use by `statistics`"
        )
    return {name: observed[name] for name in statistics}


# --- files ---


def _file(name: str, path: Any) -> Path:
    found = path_of(name, path, "a file")
    if not found.is_file():
        raise FileNotFoundError(f"there is no file {found}")
    return found


def _text(path: Path) -> str:
    """A text in UTF-8, or in the older encoding in which DIYABC writes its Greek letters."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")
