"""p-values of hyppo, recorded by ``python -m tests.hypothesis_tests.hyppo``; printed only with ``--print``.

What it compiles when it is imported takes minutes: with ``NUMBA_DISABLE_JIT=1`` it is as slow as Python,
which on these samples is a second.
"""

import csv
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

PATH = Path(__file__).with_name("hyppo.csv")
BANDWIDTH, PERMUTATIONS, SEEDS = 1.3, 1000, range(4)


def pair(test, seed):
    """Two samples of two columns; from the third seed on they differ, or depend on each other."""
    rng = np.random.default_rng([41, seed])
    x, y = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    if seed >= 2:
        y = 1.4 * y + 0.3 if test == "mmd" else y + 0.5 * x**2
    return x, y


def pvalue(test, x, y):
    """hyppo's, with the kernel of our bandwidth."""
    gamma = 1 / (2 * BANDWIDTH**2)
    np.random.seed(1)  # noqa: NPY002 - it takes no other
    if test == "hsic":
        found = import_module("hyppo.independence").Hsic(gamma=gamma).test(x, y, PERMUTATIONS, auto=False)
    else:
        found = import_module("hyppo.ksample").MMD(gamma=gamma).test(x, y, PERMUTATIONS, auto=False)
    return found.pvalue


def write(file):
    """Both tests on all samples."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["test", "seed", "permutations", "pvalue"])
    for test in ("hsic", "mmd"):
        for seed in SEEDS:
            writer.writerow([test, seed, PERMUTATIONS, round(pvalue(test, *pair(test, seed)), 6)])


if __name__ == "__main__":
    if "--print" in sys.argv:
        write(sys.stdout)
    else:
        with PATH.open("w", newline="") as file:
            write(file)
