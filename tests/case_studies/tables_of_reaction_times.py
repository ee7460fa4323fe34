"""Where the figures of the table of the study of reaction times are from."""

from __future__ import annotations

from functools import partial

from tests.case_studies.readme_figures import Table, frame, number, word

REACTION_TIMES = "reaction_times"

LIKELIHOODS = Table(
    partial(frame, REACTION_TIMES, "summary"),
    {"simulations": number(0), "shift": word(1)},
    {2: ["seconds"], 3: ["rms_error", "largest"], 4: ["narrowest", "widest"], 5: ["expected"], 6: ["warned"]},
    of_keys=(0, 1),
)
