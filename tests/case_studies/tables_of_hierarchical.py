"""Where the figures of the tables of the hierarchical study are from."""

from __future__ import annotations

from functools import partial

from tests.case_studies.readme_figures import Table, frame, number, word

HIERARCHICAL = "hierarchical"

SAMPLERS = {
    1: ["simulations"],
    2: ["seconds_simulating", "seconds_fit", "seconds_sampling"],
    3: ["divergences"],
    4: ["fewest_effective"],
    5: ["error_of_means", "error_of_deviations"],
    6: ["rms_error_members", "largest_error_members"],
    7: ["ratio_group", "ratio_members"],
}


def samplers(name: str) -> Table:
    """A line a sampler; what `sample_smc` does not have is left out."""
    return Table(partial(frame, HIERARCHICAL, name), {"method": word(0)}, SAMPLERS)


def shortest(cells: list[str]) -> float:
    """The fewest trials of a cell "1 to 200"."""
    return float(cells[1].split(" to ")[0])


def longest(cells: list[str]) -> float:
    """The most trials of a cell "1 to 200"."""
    return float(cells[1].split(" to ")[1])


TRIALS = Table(
    partial(frame, HIERARCHICAL, "trials"),
    {"parameter": word(0), "fewest": shortest, "most": longest},
    {
        2: ["data_sets"],
        3: ["inside"],
        4: ["inside_exact"],
        5: ["band_low", "band_high"],
        6: ["mean_error", "rms_error"],
        7: ["ratio"],
    },
    of_keys=(0, 1),
)

DENSITY = Table(
    partial(frame, HIERARCHICAL, "density"),
    {"lapses": number(0), "form": word(1), "simulations": number(2)},
    {
        3: ["seconds_fit"],
        4: ["divergence", "error_of_divergence"],
        5: ["mean_learnt", "mean_chance"],
        6: ["spread_learnt", "spread_chance"],
        7: ["skewness_learnt", "skewness_chance"],
    },
    of_keys=(0, 1, 2),
)

TABLES = [samplers("waiting"), samplers("epidemic"), TRIALS, DENSITY]
