"""What is asked of a table's history, as values; its provenance says the same, and more, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

EDGE_TAIL = 0.01
"""Share of the prior beyond which its edges are."""


@dataclass(frozen=True)
class Origin:
    """Where a table's rows come from."""

    simulations: int | None = None
    noise: tuple[float, ...] = ()
    between_bounds: bool = False
    seeds: tuple[int | None, ...] = ()
    from_proposal: bool = False
    known: tuple[str, ...] = ()
    prior_mass: float | None = 1.0
    rounds: str = ""
    left_out: int = 0
    prior_edges: tuple[tuple[float, ...], ...] = ()
    cut_edges: tuple[tuple[float | None, ...], ...] = ()
    on_failure: str = "drop"
    inputs: tuple[tuple[str, str], ...] = ()

    @property
    def whole_prior(self) -> bool:
        """Whether rows, however many, are draws of the whole prior and of nothing else."""
        return not (self.between_bounds or self.weighted)

    def of_whole_prior(self, posterior: Any, other: Any = None) -> Any:
        """A `Posterior` with the evidence of the whole prior, or with none where that is not known."""
        settings = dict(posterior.settings)
        evidence = settings.pop("log_evidence", None)
        mass = self.prior_mass if other is None else 1.0
        if evidence is not None and mass and not self.known:
            settings["log_evidence"] = evidence + float(np.log(mass))
        return replace(posterior, settings=settings)

    @property
    def weighted(self) -> bool:
        """Whether a table of this origin has a `prior_ratio`."""
        return self.from_proposal or bool(self.known)

    @property
    def words(self) -> dict[str, str]:
        """What it adds to the provenance that is shown."""
        words = {
            "simulations": "" if self.simulations is None else str(self.simulations),
            "noise": " ".join(map(repr, self.noise)),
            "appended_seeds": ", ".join(map(str, self.seeds)),
            "known_densities": ", ".join(self.known),
            "rounds": self.rounds,
            "on_failure": "" if self.on_failure == "drop" else self.on_failure,
        }
        return {name: text for name, text in words.items() if text}

    def to_json(self) -> dict[str, Any]:
        """Plain lists, numbers and, for seeds that have more digits than a float, strings."""
        return asdict(self) | {"seeds": [None if seed is None else str(seed) for seed in self.seeds]}

    @classmethod
    def from_documents(cls, documents: Mapping[str, Any]) -> Origin:
        """From the documents of a file or a store; earlier versions wrote it in the provenance alone."""
        words = documents["provenance"]
        if "origin" not in documents:
            return cls._from_words(words)
        fields = dict(documents["origin"])
        known = tuple(fields.get("known", ()))
        # Version 0.1 had one mark for rows from a proposal and for rows that a known likelihood weights.
        marked = fields.pop("proposed", False)
        recorded = "refined" in words or documents.get("proposal") is not None
        elsewhere = fields.get("between_bounds") or recorded
        return cls(
            **{
                "prior_mass": None if elsewhere else 1.0,  # which earlier versions did not keep
                "from_proposal": marked and (recorded or not known),
                "rounds": words.get("rounds", ""),
                **fields,
                "noise": tuple(fields["noise"]),
                "seeds": tuple(None if seed is None else int(seed) for seed in fields["seeds"]),
                "known": known,
                "inputs": tuple((str(name), str(digest)) for name, digest in fields.get("inputs", ())),
                "prior_edges": tuple(map(tuple, fields.get("prior_edges", ()))),
                "cut_edges": tuple(map(tuple, fields.get("cut_edges", ()))),
            }
        )

    @classmethod
    def _from_words(cls, words: Mapping[str, str]) -> Origin:
        """From the provenance of a file that has nothing else."""
        seeds = words.get("appended_seeds", "").split(", ") if words.get("appended_seeds") else []
        return cls(
            simulations=int(words["simulations"]) if "simulations" in words else None,
            noise=tuple(float(number) for number in words.get("noise", "").split()),
            between_bounds="prior_truncated" in words,
            seeds=tuple(None if seed == "None" else int(seed) for seed in seeds),
            from_proposal="refined" in words,
            known=tuple(words["known_densities"].split(", ")) if "known_densities" in words else (),
            prior_mass=None if "prior_truncated" in words or "refined" in words else 1.0,
            rounds=words.get("rounds", ""),
        )


# --- failed simulations ---


ON_FAILURE = ("raise", "drop", "condition")
"""What becomes of a table when a simulation fails."""


@dataclass(frozen=True, eq=False)
class Failures:
    """The simulations that gave no usable statistics."""

    # Shapes: rows (f,); parameters (f, p); prior_ratio (f,).
    rows: np.ndarray
    parameters: np.ndarray
    messages: tuple[str, ...]
    prior_ratio: np.ndarray | None = None

    @classmethod
    def none(cls, size: int) -> Failures:
        """No failures, of draws with `size` parameters."""
        return cls(np.empty(0, dtype=np.int64), np.empty((0, size)), ())

    def __len__(self) -> int:
        return len(self.rows)

    def some(self, chosen: np.ndarray) -> Failures:
        """Some of them, by their places."""
        ratio = None if self.prior_ratio is None else self.prior_ratio[chosen]
        messages = tuple(self.messages[place] for place in chosen.tolist())
        return Failures(self.rows[chosen], self.parameters[chosen], messages, ratio)


def provenance_with(provenance: dict[str, str], origin: Any) -> dict[str, str]:
    """A provenance that says of failures what the origin of the table says."""
    words = {name: text for name, text in provenance.items() if name != "on_failure"}
    return {**words, **origin.words}
