"""Every warning on purpose: ``python -m case_studies.posterior_draws.doubts``.

Each line makes one mistake on a normal model with 2,000 simulations, and prints the warning that it gets.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from pymc_kbr.checking.diagnostics import diagnose, signs_of
from pymc_kbr.kernels import Gaussian


def table(observed: list[float], noise: float = 0.3) -> pk.ReferenceTable:
    """One parameter, uniform between 0 and 1, and three statistics of that mean."""
    rng = np.random.default_rng(0)
    theta = rng.random((2000, 1))
    x = theta + noise * rng.standard_normal((2000, 3))
    return pk.ReferenceTable.from_dataframe(
        pd.DataFrame(np.hstack([theta, x]), columns=["theta", "s", "t", "u"]),
        parameters=["theta"],
        statistics=["s", "t", "u"],
        observed=observed,
        bounds={"theta": (0, 1)},
    )


def found(observed: list[float], estimator: Any, noise: float = 0.3) -> list[dict[str, str]]:
    """The warnings and notes of `sample_abc`, by name and message."""
    idata = pk.sample_abc(
        1000, reference_table=table(observed, noise), estimator=estimator, random_seed=1, progressbar=False
    )
    attributes = idata["posterior"].attrs
    lines = [*attributes["warnings"].splitlines(), *attributes["notes"].splitlines()]
    return [dict(zip(("name", "message"), line.split(": ", 1), strict=True)) for line in lines]


def too_narrow() -> list[dict[str, str]]:
    """What is said of an estimator whose intervals hold 60% instead of 90%."""
    t = table([0.5, 0.6, 0.4])
    fitted = pk.Rejection(100).fit(t.parameters, t.statistics, t.support)
    posterior, seen = fitted.condition(np.array([0.5, 0.6, 0.4])), signs_of(t, fitted.table_)
    concerns = diagnose(posterior, posterior.draw(500, 0), seen, coverage=np.array([0.6]), held_out=200)
    return [{"name": c.name, "message": c.message} for c in concerns]


TYPICAL = [0.5, 0.6, 0.4]
MISTAKES: dict[str, tuple[str, Callable[[], list[dict[str, str]]]]] = {
    "no mistake": ("", lambda: found(TYPICAL, "adjusted")),
    "an observation that the model cannot make": ("outside", lambda: found([0.5, 3.0, 0.4], "adjusted")),
    "ten rows accepted": ("effective_sample_size", lambda: found(TYPICAL, pk.Rejection(10))),
    "a narrow kernel and hardly a ridge": (
        "negative_share",
        lambda: found(TYPICAL, pk.ConditionalMean(0.5, 1e-12)),
    ),
    "a ridge that rounding errors exceed": (
        "ridge_raised",
        lambda: found(TYPICAL, pk.ConditionalMean(kernel=Gaussian(500.0), regularisation=1e-300)),
    ),
    "a posterior far narrower than the nearest rows": (
        "coarse",
        lambda: found([0.5, 0.501, 0.499], pk.Rejection(200), noise=0.005),
    ),
    "a prior that ends too early": ("edge", lambda: found([1.05, 1.1, 1.0], "adjusted", noise=0.05)),
    "intervals that do not hold": ("coverage", too_narrow),
}


def main() -> None:
    """Print each mistake and what is said about it."""
    warnings.simplefilter("ignore")
    for mistake, (expected, run) in MISTAKES.items():
        concerns = run()
        print(f"{mistake}:")
        for concern in concerns:
            mark = "" if concern["name"] == expected else " (too)"
            print(f"  {concern['name']}{mark}: {concern['message']}")
        if not concerns:
            print("  no warning")
        if (not expected and concerns) or (expected and expected not in [c["name"] for c in concerns]):
            raise SystemExit(f"expected {expected or 'no warning'}")


if __name__ == "__main__":
    main()
