"""What the gallery's solver tolerance does to its posterior: ``python -m case_studies.simulators.tolerance``.

The exact posterior of the Lotka-Volterra model with the gallery's solver, and with a solver that is accurate.
"""

from __future__ import annotations

from functools import partial

from case_studies.simulators.models import (
    OBSERVED,
    TOLERANCE,
    TRUTH,
    exact_on_a_grid,
    lotka_volterra_exact,
    path,
)


def main() -> None:
    """Print both posteriors, and how far they are apart."""
    mean, deviation = lotka_volterra_exact()
    other, other_deviation = exact_on_a_grid(
        partial(path, tolerance=1e-8), OBSERVED, TOLERANCE, TRUTH, (0.05, 0.01), (33, 33, 65)
    )
    for i, name in enumerate(TRUTH):
        print(
            f"{name}: mean {mean[i]:.5f} and deviation {deviation[i]:.5f} with the gallery's solver, "
            f"{other[i]:.5f} and {other_deviation[i]:.5f} with an accurate one: apart by "
            f"{abs(other[i] - mean[i]) / deviation[i]:.2f} deviations"
        )


if __name__ == "__main__":
    main()
