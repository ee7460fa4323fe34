"""A PyMC model that is read, checked and compiled once, for any number of tables."""

from __future__ import annotations

import dataclasses
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from pymc.distributions.simulator import gaussian
from pytensor.graph.basic import Constant

from pymc_kbr.arrays.bijections import ZeroSum
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.simulation.first_rows import FirstRows, check_signatures, decide_batches
from pymc_kbr.simulation.model.graphs import Program
from pymc_kbr.simulation.model.known import LogLikelihood, known_log_likelihood
from pymc_kbr.simulation.model.read import ModelGraph, is_simulator, read_model
from pymc_kbr.simulation.prior.draws import DrawnPrior, PriorSampler
from pymc_kbr.simulation.prior.log_density import LogDensity, log_density_of
from pymc_kbr.simulation.prior.mass import support_of_model
from pymc_kbr.simulation.prior.proposal import Proposal, ProposalSampler
from pymc_kbr.simulation.prior.support import ROWS_FOR_BOUNDS
from pymc_kbr.simulation.prior.truncated import (
    TruncatedSampler,
    Within,
    check_can_be_truncated,
    truncated_support,
)
from pymc_kbr.simulation.progress import say
from pymc_kbr.simulation.provenance import Clock
from pymc_kbr.simulation.workers.row_simulator import RowSimulator
from pymc_kbr.tables.checks import check_varies

if TYPE_CHECKING:
    import pymc as pm

MASS_BLOCKS = 100
"""Blocks of draws from which the prior's mass in its support is found, where it is not one."""


@dataclass(eq=False)
class Forward:
    """A model's prior and its simulators.

    Attributes
    ----------
    graph : ModelGraph
    prior : PriorSampler
        Of the whole prior, from a seed of its own.
    support : Support
        Of the whole prior.
    log_known : callable or None
        From parameters (n, p) to the log-likelihoods (n,) of the observed variables whose density is known,
        with the model's Potentials; None where there is nothing of the kind.
    """

    graph: ModelGraph
    prior: PriorSampler
    support: Support
    log_known: LogLikelihood | None
    _simulator: RowSimulator
    _seconds: float = 0.0
    _batches: dict[bool | None, tuple[Program | None, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, model: pm.Model | None) -> Forward:
        """Read a model, that of the surrounding ``with`` block where it is None.

        Raises
        ------
        TypeError, ValueError
            If no model is found, or it cannot be simulated forward.
        """
        clock = Clock()
        graph = read_model(model)
        check_signatures(graph)
        _warn_of_unused(graph)
        # Bounds are read from draws of a fixed seed: the same model has the same support in every table.
        prior = PriorSampler(graph, 0)
        draws = prior.block(0)
        check_varies(draws[:ROWS_FOR_BOUNDS], graph.parameters)
        log_known = known_log_likelihood(graph)
        support = support_of_model(graph, draws, log_known)
        simulator = RowSimulator.of(graph, 0)
        clock.lap("compile")
        return cls(graph, prior, support, log_known, simulator, clock.laps["compile"])

    @classmethod
    def of_columns(cls, model: pm.Model | None) -> Forward:
        """Read a model whose statistics are columns, as predictions of statistics need them.

        Raises
        ------
        TypeError, ValueError
            As `read`, and if a statistic holds data sets.
        """
        forward = cls.read(model)
        forward.check_has_columns()
        return forward

    def check_has_columns(self) -> None:
        """Refuse statistics that hold data sets.

        Raises
        ------
        ValueError
            If there are some.
        """
        sets = self.graph.statistics.set_names
        if sets:
            raise ValueError(
                f"{sets} are data sets, of which columns are made when the table is there; their rows are "
                "not predicted, and have the noise that the simulator gives them: take `zoom` without "
                "`noise`, or `refine`"
            )

    def take_seconds(self) -> float:
        """Seconds that reading took; the first table has them on its account, later ones none."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def check_can_be_truncated(self) -> None:
        """Refuse a prior that cannot be drawn between bounds.

        Raises
        ------
        ValueError
            If it cannot.
        """
        check_can_be_truncated(self.seen_support(), self.graph.parameters)
        self._refuse_without_density("draws between bounds")

    def seen_support(self) -> Support:
        """The support, with what draws of the prior show of whole numbers and point masses."""
        return self.support.of_rows(self.prior.block(0))

    def sampler(
        self, entropy: int, within: Within | None, even: bool = False, proposal: Proposal | None = None
    ) -> tuple[PriorSampler | TruncatedSampler | ProposalSampler, Support]:
        """Draws of the prior, of all of it or between bounds, or of a proposal; and their support.

        `even` is that of `TruncatedSampler`; draws of the whole prior are always independent.

        Raises
        ------
        TypeError, ValueError
            As `truncated_support` and `TruncatedSampler`.
        """
        whole = self.prior.with_entropy(entropy)
        if proposal is not None:
            return ProposalSampler(whole, proposal, entropy), self.support
        if within is None:
            return whole, self.support
        self._refuse_without_density("draws between bounds")
        support = truncated_support(self.support, self.graph.parameters, within)
        return TruncatedSampler(whole, self._log_density, support, entropy, even), support

    def draw(
        self, count: int, entropy: int, within: Within | None, even: bool = False
    ) -> tuple[np.ndarray, Support]:
        """Draws (count, p) of the prior, of all of it or between bounds, and their support: as `sampler`.

        Raises
        ------
        TypeError, ValueError
            As `sampler`, and if the prior has next to no mass in its support.
        """
        sampler, support = self.sampler(entropy, within, even)
        return DrawnPrior(sampler, support)[:count], support

    def row_simulator(self, entropy: int, timeout: float | None) -> RowSimulator:
        """The row simulator, without batches."""
        return dataclasses.replace(self._simulator, entropy=entropy, timeout=timeout)

    def in_batches(
        self, simulator: RowSimulator, first_rows: FirstRows, batched: bool | None, progressbar: bool = False
    ) -> tuple[RowSimulator, str]:
        """The simulator in batches where it may be, and the reason: found out at the first table.

        Where it may not be although nobody asked for rows, and there is a `progressbar`, a line says so.

        Raises
        ------
        ValueError
            As `decide_batches`.
        """
        # Rounds simulate one model many times; what was found out once holds for all of them.
        if batched not in self._batches:
            decided, reason = decide_batches(self.graph, simulator, first_rows, batched)
            self._batches[batched] = decided.batch, reason
            asked = batched is not None or self.graph.statistics.set_names
            if decided.batch is None and not asked and simulator.timeout is None and progressbar:
                say(f"Simulating row by row, which is slower than in batches: {reason}")
        program, reason = self._batches[batched]
        return dataclasses.replace(simulator, batch=program), reason

    def log_prior(self, parameters: np.ndarray) -> np.ndarray:
        """Log density (n,) of the prior at parameters (n, p), of integral one over its support.

        Volume is measured as `Support.log_jacobian` does.

        Raises
        ------
        ValueError
            If PyMC knows no density of one of its distributions.
        """
        self._refuse_without_density("rounds that draw elsewhere than from the prior")
        density = self._log_density
        inside = self.support.contains(parameters)
        return np.where(inside, density(parameters) + _hyperplanes(self.support) - self._log_mass, -np.inf)

    def log_target(self, parameters: np.ndarray) -> np.ndarray:
        """Log density (n,) of the prior times the likelihood of what is known, not of integral one."""
        log_prior = self.log_prior(parameters)
        if self.log_known is None:
            return log_prior
        inside = np.isfinite(log_prior)
        log_prior[inside] += self.log_known(parameters[inside])
        return log_prior

    def _refuse_without_density(self, what: str) -> None:
        try:
            _ = self._log_density
        except NotImplementedError as error:
            raise ValueError(
                f"the prior of {self.graph.parameters.names} has no density that PyMC knows ({error}); "
                f"{what} need it: give these parameters distributions of PyMC"
            ) from error

    @cached_property
    def _log_density(self) -> LogDensity:
        return log_density_of(self.graph)

    @cached_property
    def _log_mass(self) -> float:
        """Log of the share of the prior that lies in its support: a transform may confine it to less."""
        inside = self.support.contains(self.prior.block(0))
        if inside.all():
            return 0.0
        others = [self.support.contains(self.prior.block(number)) for number in range(1, MASS_BLOCKS)]
        return float(np.log(np.mean([inside, *others])))


def _warn_of_unused(graph: ModelGraph) -> None:
    """Say which settings of a `pm.Simulator` play no part: estimators have distances of their own."""
    unused = []
    for rv in graph.simulated:
        if not is_simulator(rv):
            continue
        op = type(rv.owner.op)
        epsilon = op.epsilon
        if not (isinstance(epsilon, Constant) and np.all(epsilon.data == 1)):
            unused.append(f"epsilon of {rv.name!r}")
        if op.__dict__["_distance"] is not gaussian:
            unused.append(f"distance of {rv.name!r}")
    if unused:
        warnings.warn(
            f"the {' and the '.join(unused)} belong to PyMC's own SMC-ABC and play no part here: estimators "
            "measure distances of statistics by themselves; `sum_stat` is used",
            UnusedSettingWarning,
            stacklevel=users_line(),
        )


class UnusedSettingWarning(UserWarning):
    """A `pm.Simulator` was given settings that play no part."""


def _hyperplanes(support: Support) -> float:
    """Log of the volume in hyperplanes, as PyMC's densities measure it, over that of all columns but one."""
    # Columns that sum to zero: their hyperplane is as steep to each axis as to the others.
    sums = [
        len(block.columns) for block in support.blocks for step in block.steps if isinstance(step, ZeroSum)
    ]
    return 0.5 * float(np.sum(np.log(sums)))
