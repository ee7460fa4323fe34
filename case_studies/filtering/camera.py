"""A camera's rotation from its frames: ``python -m case_studies.filtering.camera``.

Fukumizu 2013, section 5.3, Table 1, with the room of `room.py`: 1,800 frames to learn from and 1,800 to
filter, noise of variance 1e-4 or 1e-3 on each colour. A line of `camera.csv` is one method in one run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.spatial.transform import Rotation
from sklearn.covariance import ledoit_wolf

from case_studies.destination import add_destination, folder_of
from case_studies.filtering import room
from case_studies.filtering.lines import add_lines
from pymc_kbr.filtering import KernelBayesFilter
from pymc_kbr.filtering.choice import OBSERVATION_SCALES, PRIOR_STRENGTH, START
from pymc_kbr.filtering.validation import nearest_rotation
from pymc_kbr.gram import IncompleteCholesky
from pymc_kbr.kernels import Gaussian, Kernel, median_heuristic
from pymc_kbr.regression.choose_ridge import choose_kernel_and_ridge

HERE = Path(__file__).parent
FRAMES, RUNS, NOISES, SEED = 1800, 10, (1e-3, 1e-4), 97
RANK = 400
"""Of the Gram matrices: a step of the exact rule on 1,800 frames takes many times as long."""

COLUMNS = ("noise", "run", "method", "error", "error_of_rotation", "seconds")


@dataclass(frozen=True)
class Trace:
    """tr(R S') of rotations given as rows of nine, less a mean (9,) as the filter's scale leaves them."""

    mean: tuple[float, ...]

    def __call__(self, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """The Gram matrix, shape (n, m)."""
        return (a + self.mean) @ ((a if b is None else b) + self.mean).T

    def diag(self, a: np.ndarray) -> np.ndarray:
        """Its diagonal, shape (n,)."""
        return np.sum((a + self.mean) ** 2, axis=1)


def kernel_filter(rule: str, trace: bool, states: np.ndarray, seen: np.ndarray) -> KernelBayesFilter:
    """A filter of states (n, 9) and frames (n, 1200), whose lambda or delta alone is chosen by filtering.

    The bandwidth on the frames is that of the regression of rotations on them, by leave-one-out; the one on
    the states is 0.3 medians, where the package starts from, too. Lambda has the lowest error on the last
    200 frames of the training.
    """
    about = seen - seen.mean(axis=0)
    kernels = [Gaussian(scale * median_heuristic(seen)) for scale in OBSERVATION_SCALES]
    found = choose_kernel_and_ridge(about, states, kernels)
    state: Kernel = Trace(tuple(states.mean(axis=0).tolist()))
    if not trace:
        state = Gaussian(START[rule][0] * median_heuristic(states))
    return KernelBayesFilter(
        rule,
        state_kernel=state,
        observation_kernel=found.kernel,
        prior_regularisation=PRIOR_STRENGTH / len(states),
        scale=False,
        solver=IncompleteCholesky(RANK),
    )


def kalman(states: np.ndarray, seen: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """Kalman's filtered means (T, p) at frames (T, d): all of it by least squares on the training.

    Notes
    -----
    The noise of 1,200 colours has the residuals' covariance, shrunk as Ledoit and Wolf do. Of a frame x the
    filter needs C' R^-1 (x - c) alone, of p numbers, whose noise has the covariance C' R^-1 C.
    """
    from pykalman import KalmanFilter

    centre, mean = states.mean(axis=0), seen.mean(axis=0)
    z, x = states - centre, seen - mean
    step = np.linalg.lstsq(z[:-1], z[1:], rcond=None)[0].T
    noise = np.cov((z[1:] - z[:-1] @ step.T).T)
    image = np.linalg.lstsq(z, x, rcond=None)[0].T
    precision_image = np.linalg.solve(ledoit_wolf(x - z @ image.T)[0], image)
    information = image.T @ precision_image
    made = KalmanFilter(
        transition_matrices=step,
        observation_matrices=information,
        transition_covariance=noise,
        observation_covariance=information,
        initial_state_mean=np.zeros(len(centre)),
        initial_state_covariance=np.cov(z.T),
    )
    return made.filter((fresh - mean) @ precision_image)[0] + centre


def quaternions(rotations: np.ndarray) -> np.ndarray:
    """Quaternions (T, 4) of rotations (T, 9), each of the sign nearer to the axis that most of them share.

    Notes
    -----
    A frame says nothing of the sign. With signs that follow each other in time a long walk sees every
    rotation with both, so that the least-squares image of a quaternion is nil and Kalman's filter is blind.
    """
    found = Rotation.from_matrix(rotations.reshape(-1, 3, 3)).as_quat()
    shared = np.linalg.eigh(found.T @ found)[1][:, -1]
    return found * np.where(found @ shared < 0, -1, 1)[:, None]


@lru_cache(maxsize=1)
def sequence(noise: float, run: int, frames: int) -> tuple[np.ndarray, np.ndarray]:
    """Rotations (T, 9) and frames (T, 1200) of a run, for training and test."""
    rng = np.random.default_rng([SEED, run])
    rotations = room.walk(2 * frames, rng)
    seen = room.frames(rotations).reshape(2 * frames, -1)
    return rotations.reshape(-1, 9), seen + np.sqrt(noise) * rng.normal(size=seen.shape)


METHODS = ("iw_kbr gaussian", "iw_kbr trace", "kbr gaussian", "kbr trace", "kalman 9", "kalman quaternion")


def run(noise: float, number: int, method: str, frames: int = FRAMES) -> dict[str, object]:
    """Mean Frobenius norm of the errors of one method, of its means and of the rotations nearest to them."""
    states, seen = sequence(noise, number, frames)
    z, x, truth, fresh = states[:frames], seen[:frames], states[frames:], seen[frames:]
    started = time.process_time()
    if method == "kalman quaternion":
        means = Rotation.from_quat(kalman(quaternions(z), x, fresh)).as_matrix().reshape(-1, 9)
    elif method == "kalman 9":
        means = kalman(z, x, fresh)
    else:
        rule, kernel = method.split()
        kbf = kernel_filter(rule, kernel == "trace", z, x).fit(z, x, random_seed=number)
        means = kbf.filter(fresh).mean()
    rotations = np.array([nearest_rotation(mean) for mean in means])
    return {
        "error": float(np.linalg.norm(means - truth, axis=1).mean()),
        "error_of_rotation": float(np.linalg.norm(rotations - truth, axis=1).mean()),
        "seconds": time.process_time() - started,
    }


def jobs(runs: int, methods: Iterable[str] = METHODS) -> Iterable[tuple[float, int, str]]:
    """Run by run."""
    return [(noise, number, method) for number in range(runs) for noise in NOISES for method in methods]


def summary(lines: pd.DataFrame) -> pd.DataFrame:
    """Means over the runs that all methods have, a line a noise and method, with standard errors."""
    counts = lines.groupby(["noise", "run"])["method"].transform("nunique")
    whole = lines[counts == lines["method"].nunique()]
    groups = whole.groupby(["noise", "method"], sort=False)
    found = groups[["error", "error_of_rotation", "seconds"]].mean()
    found["error_standard_error"] = groups["error"].sem()
    found["rotation_standard_error"] = groups["error_of_rotation"].sem()
    found.insert(0, "runs", groups["run"].nunique())
    return found.reset_index()


def picture(path: Path) -> None:
    """Frames of a walk, every fifth."""
    from matplotlib import pyplot as plt

    shown = room.frames(room.walk(120, np.random.default_rng(0))[::5])
    figure, axes = plt.subplots(2, 12, figsize=(9, 1.6), constrained_layout=True)
    for axis, frame in zip(axes.ravel(), shown, strict=True):
        axis.imshow(frame)
        axis.axis("off")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Add what is missing, and write the table and the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one run of 60 frames")
    parser.add_argument("--runs", type=int, default=RUNS)
    add_destination(parser)
    arguments = parser.parse_args()
    output = folder_of(arguments, HERE)
    frames, runs = (60, 2) if arguments.quick else (FRAMES, arguments.runs)
    add_lines(
        output / "camera.csv",
        COLUMNS,
        jobs(runs),
        lambda noise, number, method: run(noise, number, method, frames),
    )
    lines = pd.read_csv(output / "camera.csv")
    summary(lines).round(5).to_csv(output / "camera_means.csv", index=False)
    picture(output / "camera.png")


if __name__ == "__main__":
    main()
