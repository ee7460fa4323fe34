"""Where the figures of the table of the field are from."""

from __future__ import annotations

from functools import partial

from tests.case_studies.readme_figures import Table, frame, word

STUDY = "field"

FIELD = Table(
    partial(frame, STUDY, "summary"),
    {"problem": word(0), "method": word(1)},
    {
        2: ["simulations"],
        3: ["seconds"],
        4: ["seconds_of_another"],
        5: ["rms_error", "largest"],
        6: ["typical_width", "narrowest", "widest"],
    },
    of_keys=(0, 1),
)
