"""From a filter's arguments and its training to a fitted filter: scale, features, settings, recursion."""

from __future__ import annotations

from typing import Any

from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.estimators.summaries import is_fitted
from pymc_kbr.filtering.choice import Chosen, choose, steps_held_out
from pymc_kbr.filtering.conditioning import RULES
from pymc_kbr.filtering.fitted import FittedFilter
from pymc_kbr.filtering.given import FREE, GivenSettings
from pymc_kbr.filtering.known import DrawnTransition, check_transition
from pymc_kbr.filtering.points import make_point
from pymc_kbr.filtering.published import choose_as_published
from pymc_kbr.filtering.recursion import How, Recursion
from pymc_kbr.filtering.training import Training
from pymc_kbr.filtering.units import Units
from pymc_kbr.kernels import Linear, parameter_kernel


def learn(
    arguments: Any, training: Training, names: tuple[str, ...], seed: int
) -> tuple[Chosen, FittedFilter]:
    """Settings chosen on the training, and the filter with them on all of it.

    Parameters
    ----------
    arguments : KernelBayesFilter
        Checked.
    training : Training
    names : tuple of str
    seed : int

    Notes
    -----
    Where features of the observations are learnt, settings are chosen with features of the part of the
    training without the steps that are held out: features know the rows they were learnt from, and on these
    every lambda would look too large. They are then learnt again from all rows.
    """
    point = make_point(arguments.point, training.states)
    units = Units.of(training, arguments.scale, arguments.features)
    how, given = _how(arguments, training, units, seed), _given(arguments)
    for_choice, steps = units, steps_held_out(training)
    # A summary that comes fitted is taken as it is, for the choice too.
    if steps and arguments.features is not None and not is_fitted(arguments.features):
        part, _ = training.split(steps)
        for_choice = units.of_features(part, arguments.features)
    choice = choose if arguments.tuning == "held_out" else choose_as_published
    chosen = choice(for_choice.scaled(training), how, given)
    recursion = Recursion(units.scaled(training), chosen.settings, how)
    atoms = Atoms(training.states, parameter_kernel(training.states))
    return chosen, FittedFilter(units, recursion, atoms, point, names, training.labels)


def _how(arguments: Any, training: Training, units: Units, seed: int) -> How:
    controlled, draw = training.controls is not None, None
    if arguments.transition is not None:
        draw = DrawnTransition(
            check_transition(arguments.transition, controlled),
            controlled,
            units.centre,
            units.deviation,
            units.unscaled_controls,
            arguments.transition_draws,
            seed,
        )
    centred = arguments.rule == "iw_kbr" if arguments.centred is None else arguments.centred
    return How(RULES[arguments.rule], centred, arguments.solver, draw, seed)


def _given(arguments: Any) -> GivenSettings:
    given = {name: getattr(arguments, name) for name in FREE}
    if given["observation_kernel"] is None:
        given["observation_kernel"] = "gaussian" if arguments.features is None else Linear()
    return GivenSettings(arguments.rule, **given)
