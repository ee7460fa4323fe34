"""What is asked of a table's history, as values; its provenance says the same, and more, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Origin:
    """Where a table's rows come from.

    Parameters
    ----------
    simulations : int, optional
        How many were run, where this is not the number of rows and failures.
    noise : tuple of float
        Deviations of normal noise on the observation that the table is without: none, one for all
        statistics, or one for each.
    between_bounds : bool
        Whether the prior was drawn between bounds narrower than its own.
    seeds : tuple of int or None
        Of the tables that were appended to each other, where there are several.
    proposed : bool
        Whether rows were drawn elsewhere than from the prior, or are weighted by a likelihood that is known:
        `ReferenceTable.prior_ratio` says by how much.
    known : tuple of str
        Observed variables and Potentials whose densities are in `prior_ratio`.
    """

    simulations: int | None = None
    noise: tuple[float, ...] = ()
    between_bounds: bool = False
    seeds: tuple[int | None, ...] = ()
    proposed: bool = False
    known: tuple[str, ...] = ()

    @property
    def words(self) -> dict[str, str]:
        """What it adds to the provenance that is shown."""
        words = {
            "simulations": "" if self.simulations is None else str(self.simulations),
            "noise": " ".join(map(repr, self.noise)),
            "appended_seeds": ", ".join(map(str, self.seeds)),
            "known_densities": ", ".join(self.known),
        }
        return {name: text for name, text in words.items() if text}

    def to_json(self) -> dict[str, Any]:
        """Plain lists, numbers and, for seeds that have more digits than a float, strings."""
        return asdict(self) | {"seeds": [None if seed is None else str(seed) for seed in self.seeds]}

    @classmethod
    def from_documents(cls, documents: Mapping[str, Any]) -> Origin:
        """From the documents of a file or a store; earlier versions wrote it in the provenance alone."""
        if "origin" in documents:
            fields = documents["origin"]
            seeds = tuple(None if seed is None else int(seed) for seed in fields["seeds"])
            of_strings = tuple(fields.get("known", ()))
            return cls(**{**fields, "noise": tuple(fields["noise"]), "seeds": seeds, "known": of_strings})
        words = documents["provenance"]
        seeds_of = words.get("appended_seeds", "").split(", ") if words.get("appended_seeds") else []
        return cls(
            simulations=int(words["simulations"]) if "simulations" in words else None,
            noise=tuple(float(number) for number in words.get("noise", "").split()),
            between_bounds="prior_truncated" in words,
            seeds=tuple(None if seed == "None" else int(seed) for seed in seeds_of),
        )
