"""The ten tasks, one family a file; `TASKS` has them by name, with sbibm's values of every constant."""

from __future__ import annotations

from case_studies.sbi_benchmark.task import Task
from case_studies.sbi_benchmark.tasks.bernoulli_glm import BERNOULLI_GLM, BERNOULLI_GLM_RAW
from case_studies.sbi_benchmark.tasks.gaussian_linear import GAUSSIAN_LINEAR, GAUSSIAN_LINEAR_UNIFORM
from case_studies.sbi_benchmark.tasks.gaussian_mixture import GAUSSIAN_MIXTURE
from case_studies.sbi_benchmark.tasks.lotka_volterra import LOTKA_VOLTERRA
from case_studies.sbi_benchmark.tasks.sir import SIR
from case_studies.sbi_benchmark.tasks.slcp import SLCP, SLCP_DISTRACTORS
from case_studies.sbi_benchmark.tasks.two_moons import TWO_MOONS

__all__ = ["TASKS", "Task"]

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        GAUSSIAN_LINEAR,
        GAUSSIAN_LINEAR_UNIFORM,
        SLCP,
        SLCP_DISTRACTORS,
        BERNOULLI_GLM,
        BERNOULLI_GLM_RAW,
        GAUSSIAN_MIXTURE,
        TWO_MOONS,
        SIR,
        LOTKA_VOLTERRA,
    )
}
