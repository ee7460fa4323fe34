"""Errors and seconds of conditional mean embeddings as functions of the sample's size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from case_studies.embedding_errors import METHODS, Draw, averaged, draft_ridge, methods, score


def over_sizes(
    draw: Draw, trials: dict[int, int], exact: dict[int, int], chosen_up_to: int, partial: Path
) -> pd.DataFrame:
    """Errors and seconds as functions of n, at the draft's bandwidth 1 and lambda = 0.001 / sqrt(n).

    `exact` is the number of trials in which the exact estimator takes part at each size; with settings of
    its own it does so up to a size. Lines are kept in the file `partial`, and those that are there are not
    computed again. `share_of_exact` compares the trials in which the exact estimator took part.
    """
    lines: list[dict[str, Any]] = []
    if partial.exists():
        lines += [dict(line) for _, line in pd.read_csv(partial).iterrows()]
    done = {(line["n"], line["trial"]) for line in lines}
    for number in range(max(trials.values())):  # all sizes in turn: what is stopped has equal numbers
        for n in (n for n, repeats in trials.items() if number < repeats and (n, number) not in done):
            names = [
                name
                for name in METHODS
                if (name != "exact" or number < exact.get(n, 0))
                and (name != "exact, by default" or n <= chosen_up_to)
            ]
            trial = draw(2, n, np.random.default_rng([number, n]))
            scored = score(trial, methods(n, 1.0, draft_ridge, names))
            lines += [{"n": n, "trial": number, **line} for line in scored]
            pd.DataFrame(lines).to_csv(partial, index=False)
            print(pd.DataFrame(lines[-len(names) :]).to_string(index=False), flush=True)
    found = pd.DataFrame(lines).sort_values(["n", "trial"], kind="stable")
    found["method"] = pd.Categorical(found["method"], METHODS)
    found = found.sort_values(["n", "method"], kind="stable")
    found["method"] = found["method"].astype(str)
    return shares_of_exact(found, averaged(found, ["n", "method"]))


def shares_of_exact(lines: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The table with each method's RKHS error over the exact one's, in the trials that both have."""
    wide = lines.pivot_table(index=["n", "trial"], columns="method", values="rkhs_error")
    shares = {}
    if "exact" in wide:
        both = wide[wide["exact"].notna()].groupby(level="n").mean()
        shares = both.div(both["exact"], axis=0).stack().to_dict()
    table["share_of_exact"] = [
        shares.get(key, np.nan) for key in zip(table["n"], table["method"], strict=True)
    ]
    return table
