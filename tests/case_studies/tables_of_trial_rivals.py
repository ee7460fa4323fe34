"""Where the figures of the table of learned likelihoods of trials, ours and others', are from."""

from __future__ import annotations

from functools import partial

from tests.case_studies.readme_figures import Table, frame, word

TRIAL_RIVALS = "trial_rivals"

LIKELIHOODS = Table(
    partial(frame, TRIAL_RIVALS, "summary"),
    {"problem": word(0), "method": word(1)},
    {
        2: ["seconds"],
        3: ["nats_lost", "standard_error"],
        4: ["rms_error", "largest"],
        5: ["narrowest", "widest"],
    },
    of_keys=(0, 1),
)
