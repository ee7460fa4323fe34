"""The filter and the smoother against ones that know the model: ``python -m case_studies.filtering.systems``.

A line of `systems.csv` is a system (`known_systems.py`) against a particle filter with backward simulation;
one of `linear.csv` is a linear model against Kalman's filter and smoother. ``before`` is a belief by weights
and its step back (``correction=False``), ``after`` is the default.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from case_studies.destination import add_destination, folder_of
from case_studies.filtering.known_systems import SYSTEMS
from case_studies.filtering.lines import add_lines
from pymc_kbr.embedding.rules import SquaredRule
from pymc_kbr.filtering import FilteredStates, KernelBayesFilter
from pymc_kbr.filtering.smoothing import BackwardPass
from pymc_kbr.posterior.posterior import PosteriorWarning

HERE = Path(__file__).parent
NOISES, DIMENSIONS = (0.1, 0.2, 0.4, 0.8), (1, 2, 5)
SLOPE = 0.9
STEP_BACK_KINDS = ("importance_weighted", "squared", "squared_twice", "moments")
STEPS_BACK = (
    *(f"autoregression, {p}, {noise}" for p in (1, 2) for noise in (0.1, 0.4)),
    "rotation",
    "oscillation",
    "pendulum",
    "jumps",
    "two wells",
)
MEASURES = tuple(
    f"{kind}_{measure}"
    for kind in ("filter", "smooth")
    for measure in (
        *(f"{name}{when}" for when in ("before", "after") for name in ("", "coverage_", "width_")),
        "exact_coverage",
    )
)


def beliefs(kbf: KernelBayesFilter, seen: np.ndarray) -> dict[str, FilteredStates]:
    """Filtered and smoothed states; of a belief by weights the step back as it is, without a choice."""
    filtered = kbf.filter(seen)
    if kbf.correction is None:
        return {"filter": filtered, "smooth": kbf.smooth(seen)}
    fitted = kbf._ready
    weights = BackwardPass(fitted.recursion)(filtered.weights)
    return {"filter": filtered, "smooth": fitted.states(weights, "smoothed")}


def compared(
    train: tuple[np.ndarray, np.ndarray], fresh: np.ndarray, seen: np.ndarray, exact: dict[str, Any]
) -> dict[str, float]:
    """Errors and widths over the exact ones, and coverage, of both kinds before and after."""
    found: dict[str, Any] = {}
    for name, correction in (("before", False), ("after", None)):
        kbf = KernelBayesFilter(correction=correction).fit(*train, random_seed=0)
        for kind, states in beliefs(kbf, seen).items():
            mean, bands = exact[kind]
            own = states.interval(0.9)
            error = np.mean(np.sum((states.mean() - fresh) ** 2, axis=1))
            found[f"{kind}_{name}"] = error / np.mean(np.sum((mean - fresh) ** 2, axis=1))
            found[f"{kind}_coverage_{name}"] = np.mean((fresh >= own[:, 0]) & (fresh <= own[:, 1]))
            found[f"{kind}_width_{name}"] = np.mean(own[:, 1] - own[:, 0]) / np.mean(
                bands[:, 1] - bands[:, 0]
            )
            found[f"{kind}_exact_coverage"] = np.mean((fresh >= bands[:, 0]) & (fresh <= bands[:, 1]))
    return {name: round(float(found[name]), 3) for name in MEASURES}


def line_of_system(number: int, name: str, n: int, steps: int, particles: int) -> dict[str, float]:
    """A line of `systems.csv`."""
    system, rng = SYSTEMS[number], np.random.default_rng([55, number])
    train, (fresh, seen) = system.simulate(n, rng), system.simulate(steps, rng)
    many = particles if system.columns < 3 else 4 * particles
    mean, bands, smooth, smooth_bands = system.particles(seen, many, 200, rng)
    return compared(train, fresh, seen, {"filter": (mean, bands), "smooth": (smooth, smooth_bands)})


def kalman(seen: np.ndarray, noise: float) -> dict[str, Any]:
    """Means and 90% bands of Kalman's filter and of Rauch, Tung and Striebel's smoother."""
    mean, variance = np.zeros(seen.shape[1]), 1.0
    filtered, ahead = [], []
    for t, row in enumerate(seen):
        if t:
            mean, variance = SLOPE * mean, SLOPE**2 * variance + 1 - SLOPE**2
        ahead.append((mean, variance))
        gain = variance / (variance + noise**2)
        mean, variance = mean + gain * (row - mean), (1 - gain) * variance
        filtered.append((mean, variance))
    smoothed = [filtered[-1]]
    for (m, v), (m_ahead, v_ahead) in zip(filtered[-2::-1], ahead[:0:-1], strict=True):
        gain = SLOPE * v / v_ahead
        later, later_variance = smoothed[-1]
        smoothed.append((m + gain * (later - m_ahead), v + gain**2 * (later_variance - v_ahead)))
    found = {}
    for kind, those in (("filter", filtered), ("smooth", smoothed[::-1])):
        means = np.array([m for m, _ in those])
        half = 1.6449 * np.sqrt([v for _, v in those])[:, None]
        found[kind] = means, np.stack([means - half, means + half], axis=1)
    return found


def autoregression(steps: int, p: int, noise: float, rng: np.random.Generator) -> tuple[Any, Any]:
    """States of deviation one and observations (steps, p)."""
    states = np.empty((steps, p))
    states[0] = rng.normal(size=p)
    for t in range(1, steps):
        states[t] = SLOPE * states[t - 1] + np.sqrt(1 - SLOPE**2) * rng.normal(size=p)
    return states, states + noise * rng.normal(size=states.shape)


def line_of_linear(p: int, noise: float, n: int, steps: int) -> dict[str, float]:
    """A line of `linear.csv`."""
    rng = np.random.default_rng([55, p, int(10 * noise)])
    states, seen = autoregression(n + steps, p, noise, rng)
    return compared((states[:n], seen[:n]), states[n:], seen[n:], kalman(seen[n:], noise))


def outside() -> pd.DataFrame:
    """Means and bands where the observation stays at a value the training hardly or never had."""
    train = autoregression(500, 1, 0.5, np.random.default_rng(55))
    rows = []
    for value in (1.0, 3.0, 5.0, 8.0, 20.0):
        seen = np.full((40, 1), value)
        row: dict[str, Any] = {"observation": value, "exact": kalman(seen, 0.5)["filter"][0][-1, 0]}
        for name, correction in (("before", False), ("after", None)):
            found = KernelBayesFilter(correction=correction).fit(*train, random_seed=0).filter(seen)
            low, high = found.interval(0.9)[-1, :, 0]
            row |= {f"mean_{name}": found.mean()[-1, 0], f"low_{name}": low, f"high_{name}": high}
            row[f"outside_{name}"] = found.flags["outside"].mean()
        rows.append(row)
    return pd.DataFrame(rows).round(2)


def line_of_step_back(name: str, n: int, steps: int) -> dict[str, float]:
    """A line of `steps_back.csv`: errors of smoothers over that of the filter by weights.

    `squared` is the step back by kernel Bayes' rule, with two deltas.
    """
    rng = np.random.default_rng([77, STEPS_BACK.index(name)])
    if name.startswith("autoregression"):
        _, p, noise = name.split(", ")
        states, seen = autoregression(n + steps, int(p), float(noise), rng)
        train, fresh, seen = (states[:n], seen[:n]), states[n:], seen[n:]
    else:
        system = next(one for one in SYSTEMS if one.name == name)
        train, (fresh, seen) = system.simulate(n, rng), system.simulate(steps, rng)
    kbf = KernelBayesFilter(correction=False).fit(*train, random_seed=0)
    filtered, fitted = kbf.filter(seen), kbf._ready
    ridge = kbf.settings_.backward_regularisation
    means = {"filter": filtered.mean()}
    for kind, delta, rule in (
        ("importance_weighted", ridge, None),
        ("squared", ridge**2, SquaredRule()),
        ("squared_twice", 2 * ridge, SquaredRule()),
    ):
        means[kind] = BackwardPass(fitted.recursion, delta, rule)(filtered.weights) @ fitted.atoms.points
    means["moments"] = KernelBayesFilter().fit(*train, random_seed=0).smooth(seen).mean()
    errors = {kind: np.mean(np.sum((mean - fresh) ** 2, axis=1)) for kind, mean in means.items()}
    return {kind: round(float(errors[kind] / errors["filter"]), 3) for kind in STEP_BACK_KINDS}


def seconds(n: int = 1000, steps: int = 1000) -> str:
    """Seconds of filtering, and of intervals."""
    states, seen = autoregression(n + steps, 2, 0.5, np.random.default_rng(55))
    said = []
    for name, correction in (("before", False), ("after", None)):
        kbf = KernelBayesFilter(correction=correction).fit(states[:n], seen[:n], random_seed=0)
        begun = time.perf_counter()
        found = kbf.filter(seen[n:])
        middle = time.perf_counter()
        found.interval(0.9)
        said.append(f"{name} {middle - begun:.1f} s and {time.perf_counter() - middle:.1f} s")
    return f"{steps:,} steps at n = {n:,}, filter and intervals: {'; '.join(said)}"


def main() -> None:
    """Add what is missing, and print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two systems and short sequences")
    add_destination(parser)
    arguments = parser.parse_args()
    output = folder_of(arguments, HERE)
    n, steps, particles = (90, 40, 300) if arguments.quick else (500, 300, 5000)
    warnings.simplefilter("ignore", PosteriorWarning)
    columns = DIMENSIONS[:1] if arguments.quick else DIMENSIONS
    add_lines(
        output / "linear.csv",
        ("columns", "noise", *MEASURES),
        [(p, noise) for p in columns for noise in NOISES],
        lambda p, noise: line_of_linear(p, noise, n, steps),
    )
    systems = SYSTEMS[:2] if arguments.quick else SYSTEMS
    add_lines(
        output / "systems.csv",
        ("number", "system", *MEASURES),
        [(number, system.name) for number, system in enumerate(systems)],
        lambda number, name: line_of_system(number, name, n, steps, particles),
    )
    for name in ("linear.csv", "systems.csv"):
        table = pd.read_csv(output / name)
        print(table.to_string(index=False))
        print(table[list(MEASURES)].mean().round(3).to_string())
    add_lines(
        output / "steps_back.csv",
        ("system", *STEP_BACK_KINDS),
        [(name,) for name in (STEPS_BACK[:1] if arguments.quick else STEPS_BACK)],
        lambda name: line_of_step_back(name, n, min(steps, 80)),
    )
    print(pd.read_csv(output / "steps_back.csv").to_string(index=False))
    beyond = outside()
    beyond.to_csv(output / "outside.csv", index=False)
    print(beyond.to_string(index=False))
    print(seconds(90, 40) if arguments.quick else seconds())


if __name__ == "__main__":
    main()
