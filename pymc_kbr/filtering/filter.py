"""The kernel Bayes filter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import generator_of, shown, whole
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.estimators.summaries import is_fitted
from pymc_kbr.filtering.choice import (
    LAST_STEPS,
    Chosen,
    Search,
    choose,
    finished,
    predictions,
    prior_ridge,
    steps_held_out,
)
from pymc_kbr.filtering.filtered_states import FilteredStates
from pymc_kbr.filtering.fitted import FittedFilter
from pymc_kbr.filtering.gaussian import GaussianFilter, applies
from pymc_kbr.filtering.predicted_observations import PredictedObservations
from pymc_kbr.filtering.recursion import Belief, How, Recursion
from pymc_kbr.filtering.settings import FREE, FilterSettings, GivenSettings, of_family
from pymc_kbr.filtering.smoothing import choose_belief
from pymc_kbr.filtering.training import Training, Units, evenly_spaced
from pymc_kbr.filtering.transition_parameters import Candidates, TransitionParameters, learnt_parameters
from pymc_kbr.filtering.transitions import RULES
from pymc_kbr.filtering.validation import (
    NUMBERS,
    check_arguments,
    make_point,
    training_of,
    unlabelled_rows,
    warn_of_outliers,
)
from pymc_kbr.gram import Solver
from pymc_kbr.kernels import Kernel, Linear, parameter_kernel


@default_arithmetic
class KernelBayesFilter:
    """A hidden state from observations, by examples of states with their observations.

    Neither the observation's density nor its simulator is needed: only training sequences of states and
    observations. The transition is learnt from them, or known.

    Parameters
    ----------
    rule : {"iw_kbr", "kbr"}
        Importance-weighted (Xu 2022, Algorithm 2) or original (Fukumizu 2013, eq. 17 and 18).
    state_kernel, observation_kernel, control_kernel : str or Kernel
        A family's name, with a bandwidth that is chosen or given, or a kernel on scaled columns. On the
        observations Gaussian where left out, and linear on learnt features.
    features : str or summary, optional
        Features of the observations in their columns' place, learnt with the training: the name of one of
        `estimators.summaries`, a value such as ``NeuralFeatures(shape=(36, 48, 3))`` (Xu 2022, section 3.3),
        or a fitted one.
    state_bandwidth, observation_bandwidth : float, optional
        Of scaled columns; chosen where left out.
    regularisation : float, optional
        lambda of "iw_kbr", delta of "kbr", for weights of sum one (see Notes).
    prior_regularisation : float, optional
        eta, of a belief's weights on the observed states.
    transition_regularisation : float, optional
        lambda', of the learnt transition.
    backward_regularisation : float, optional
        Of the step back in `smooth`.
    transition : callable or pymc.Model, optional
        A known transition: from states (k, p) and a generator (with controls (k, c) in between, where there
        are some) to next states (k, p); or a PyMC model of one step, see `pymc_kbr.simulation.one_step`.
    transition_draws : int
        Of a known transition, for each training state.
    centred : bool, optional
        Whether features are regressed about their means, so that weights sum to one; False gives the
        equations as printed. Where left out, True for "iw_kbr" and False for "kbr", whose signed weights have
        no centre.
    scale : bool
        Whether columns of states, observations and controls are divided by their deviations.
    solver : str or Solver
        How Gram matrices are applied; "auto" takes a low rank where nothing is lost by it.
    tuning : {"held_out", "published"}
        How settings are chosen that are not given: `choice.choose`, or as in the papers,
        `choose_as_published`.
    point : {"mean", "rotation"} or callable
        What is reported as the mean: the weighted mean, the nearest rotation, or a projection (p,) -> (p,).

    correction : bool, optional
        Whether the belief is one by its moments: the Gaussian filter and smoother [3]_ on kernel regressions
        of the next state and of the observation, with their errors as mixtures of normal components. Where
        left out, it is taken unless the weights have a lower error on the held-out training steps, by two
        standard errors; it is not taken with ``tuning="published"``, where all numbers are given, or without
        held-out steps. False leaves the papers' equations alone.

    Attributes
    ----------
    settings_ : FilterSettings
    validation_error_ : float
        Squared error a step, in scaled units, of the settings on held-out training steps, or their kernel
        score on unlabelled observations; NaN without either.

    Notes
    -----
    A belief is sum_i w_i k(., z_i) on training states. Prediction: v = (G_z + m lambda' I)^-1 h on the states
    that follow, with h the belief's values at the previous states. Then gamma = (G_z + n eta I)^-1 of the
    prediction's values at the observed states, and the rule's update with gamma as the prior's weights. These
    sum to about one, so that lambda and delta are in the scale of weights of sum one: Xu 2022, Algorithm 1,
    prints weights of mean one, for which lambda is n times as large; Fukumizu's delta_T is the one here,
    since eq. 17 keeps a sum of one (his first belief has a factor T too many: eq. 8 has none).
    `FilterSettings.printed` converts.

    References
    ----------
    .. [1] K. Fukumizu, L. Song, A. Gretton, Kernel Bayes' rule, JMLR 14 (2013), section 4.3.
    .. [2] L. Xu, Y. Chen, A. Doucet, A. Gretton, Importance weighting approach in kernel Bayes' rule,
       arXiv:2202.02474 (2022), section 4.
    .. [3] S. Särkkä, L. Svensson, Bayesian Filtering and Smoothing, 2nd edition (2023), chapters 8 and 14.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> states = np.cumsum(rng.normal(size=(150, 1)), axis=0) % 10
    >>> observations = np.exp(states / 5) + 0.1 * rng.normal(size=(150, 1))
    >>> kbf = KernelBayesFilter().fit(states[:120], observations[:120])
    >>> kbf.filter(observations[120:]).mean().shape
    (30, 1)
    """

    def __init__(
        self,
        rule: str = "iw_kbr",
        *,
        state_kernel: str | Kernel = "gaussian",
        observation_kernel: str | Kernel | None = None,
        control_kernel: str | Kernel = "gaussian",
        state_bandwidth: float | None = None,
        observation_bandwidth: float | None = None,
        regularisation: float | None = None,
        prior_regularisation: float | None = None,
        transition_regularisation: float | None = None,
        backward_regularisation: float | None = None,
        transition: Any = None,
        transition_draws: int = 20,
        centred: bool | None = None,
        scale: bool = True,
        features: Any = None,
        solver: str | Solver = "auto",
        tuning: str = "held_out",
        point: Any = "mean",
        correction: bool | None = None,
    ) -> None:
        self.rule = rule
        self.state_kernel = state_kernel
        self.observation_kernel = observation_kernel
        self.control_kernel = control_kernel
        self.state_bandwidth = state_bandwidth
        self.observation_bandwidth = observation_bandwidth
        self.regularisation = regularisation
        self.prior_regularisation = prior_regularisation
        self.transition_regularisation = transition_regularisation
        self.backward_regularisation = backward_regularisation
        self.transition = transition
        self.transition_draws = transition_draws
        self.centred = centred
        self.scale = scale
        self.features = features
        self.solver = solver
        self.tuning = tuning
        self.point = point
        self.correction = correction

    def fit(
        self,
        states: Any = None,
        observations: Any = None,
        *,
        pairs: Any = None,
        transitions: Any = None,
        controls: Any = None,
        times: Any = None,
        unlabelled: Any = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Self:
        """Learn from training sequences, or from pairs and transitions given apart.

        Parameters
        ----------
        states : array_like of shape (T, p), or list of such
            One sequence of states at even time steps, or several.
        observations : array_like of shape (T, d), or list of such
        pairs : pair of array_like, (n, p) and (n, d)
            States with their observations, in place of sequences.
        transitions : pair of array_like, both (m, p)
            States with those that follow them; needed beside `pairs` unless the transition is known.
        controls : array_like of shape (T, c), or list of such
            Inputs or known parameters: row t acts from state t to the next. With `transitions`, (m, c).
        times : array_like of shape (T,), optional
            Of one sequence, to have its even spacing checked.
        unlabelled : array_like of shape (T, d), or list of such, optional
            Observed sequences whose states are unknown. Settings and the kind of belief are then those whose
            predictions of each observation from those before it have the lowest kernel score here, in the
            place of held-out states: all states are learnt from.
        random_seed : int, numpy.random.Generator or None
            Of a known transition's draws, and of solvers that draw.

        Returns
        -------
        KernelBayesFilter

        Raises
        ------
        TypeError, ValueError
            If something is given that cannot be used, with what to give instead.
        """
        check_arguments(self)
        training, names = training_of(
            states, observations, pairs, transitions, controls, self.transition is not None
        )
        evenly_spaced(times, len(training.states))
        if self.scale and self.features is None:
            warn_of_outliers(training)
        # One number, from which a known transition draws the same in every call.
        seed = int(generator_of(random_seed).integers(2**32))
        chosen, self._fitted = learn(self, training, names, seed, unlabelled)
        self.settings_: FilterSettings = chosen.settings
        self.validation_error_ = chosen.error
        return self

    def filter(
        self, observations: Any, *, initial: Any = None, controls: Any = None, times: Any = None
    ) -> FilteredStates:
        """The state at each time given the observations up to it.

        Parameters
        ----------
        observations : array_like of shape (T, d)
            Rows of NaN are steps without an observation; of a row with some NaN the other columns are used.
        initial : array_like of shape (l, p), Belief, "conditional_mean" or "published", optional
            Of the first state, before its observation: draws of its prior, or the prediction from a belief
            about the state one step before; "conditional_mean" takes the state given the first
            observation alone. Where left out, the training states, 1 / n each. "published" is the start as
            printed: of "iw_kbr" the embedding of all training states through KuLSIF (Xu 2022, Algorithm 2),
            of "kbr" the conditional mean with epsilon, here eta, as its ridge (Fukumizu 2013, eq. 8).
        controls : array_like of shape (T, c) or (T - 1, c)
            Row t acts from time t to the next.
        times : array_like of shape (T,), optional
            Labels of the times; their spacing has to be even.

        Returns
        -------
        FilteredStates

        Raises
        ------
        TypeError, ValueError
            If it is not fitted, an array does not fit the training or is infinite, times are not even, or
            `initial` is a belief of another filter.

        Warns
        -----
        PosteriorWarning
            If steps are unreliable: see `FilteredStates.flags`.
        """
        return self._ready.run(observations, initial, controls, times)

    def smooth(
        self, observations: Any, *, initial: Any = None, controls: Any = None, times: Any = None
    ) -> FilteredStates:
        """The state at each time given all observations: see `smoothing.BackwardPass`.

        Parameters
        ----------
        observations, initial, controls, times
            As in `filter`.

        Returns
        -------
        FilteredStates

        Raises
        ------
        TypeError, ValueError
            As `filter`, and if there are no training transitions to learn the step back from.
        """
        return self._ready.run(observations, initial, controls, times, smooth=True)

    def predict_observations(
        self, observations: Any, *, initial: Any = None, controls: Any = None, times: Any = None
    ) -> PredictedObservations:
        """Each observation given those before it, with scores that need no states.

        Parameters
        ----------
        observations, initial, controls, times
            As in `filter`; the first observation is predicted from `initial`, or from the training.

        Returns
        -------
        PredictedObservations
            With features, of these, in their scale.

        Raises
        ------
        TypeError, ValueError
            As `filter`.

        Warns
        -----
        PosteriorWarning
            If observations, or what is expected of them, lie beyond those of the training.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> states = np.cumsum(rng.normal(size=(150, 1)), axis=0) % 10
        >>> observations = np.exp(states / 5) + 0.1 * rng.normal(size=(150, 1))
        >>> kbf = KernelBayesFilter().fit(states[:120], observations[:120])
        >>> kbf.predict_observations(observations[120:]).log_score.shape
        (30,)
        """
        return self._ready.predicted_observations(observations, initial, controls, times)

    def predict(self, steps: int, belief: Belief | None = None, *, controls: Any = None) -> FilteredStates:
        """The state 1 to `steps` steps after a belief, without observations.

        Parameters
        ----------
        steps : int
        belief : Belief, optional
            Such as `FilteredStates.last`; the training states, 1 / n each, where left out.
        controls : array_like of shape (steps, c)
            Row 0 acts from the belief's time to the next.

        Returns
        -------
        FilteredStates

        Raises
        ------
        TypeError, ValueError
            If it is not fitted, steps are not whole or below one, or belief or controls do not fit.
        """
        return self._ready.predicted(steps, belief, controls)

    def step(self, belief: Belief | None, observation: Any, *, control: Any = None) -> Belief:
        """One time step of a stream: a prediction from the last belief, and its update.

        Parameters
        ----------
        belief : Belief or None
            About the time before; None at the first time.
        observation : array_like of shape (d,)
        control : array_like of shape (c,), optional
            What acted between the two times.

        Returns
        -------
        Belief

        Raises
        ------
        TypeError, ValueError
            As `filter`.
        """
        return self._ready.stepped(belief, observation, control)

    def learn_transition(
        self,
        transition: Any,
        parameters: Any,
        observations: Any,
        *,
        weights: Any = None,
        support: Any = None,
        draws: int = 100,
        initial: Any = None,
        controls: Any = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> TransitionParameters:
        """Parameters of a transition of known form, from observations whose states are unknown.

        Each value is weighted by the product of the predictive densities of all observations (see
        `predict_observations`) with the transition at this value in the place of the filter's own; the rest
        of the filter stays as it was fitted.

        Parameters
        ----------
        transition : callable or pymc.Model
            From states (k, p), parameters (k, q), controls (k, c) where there are some, and a generator to
            next states (k, p); or a PyMC model of one step.
        parameters : array_like of shape (m, q), or list of str
            Draws of their prior, or a grid; of a PyMC model, names of its random variables that are the
            same at all steps: `draws` of their prior are made.
        observations : array_like of shape (T, d)
        weights : array_like of shape (m,), optional
            The prior's, of a grid; even where left out.
        support : Support, optional
            Of the parameters, to which the posterior's draws are kept.
        draws : int
            Of a PyMC model's parameters. Each takes about as long as filtering does, twice.
        initial, controls
            As in `filter`.
        random_seed : int, numpy.random.Generator or None
            The same draws of steps are made for all values, so that their scores differ by the parameters
            alone.

        Returns
        -------
        TransitionParameters

        Raises
        ------
        TypeError, ValueError
            As `filter`, if the parameters or their weights do not fit, and if steps are so large at some of
            them that predictions are not finite.

        Warns
        -----
        PosteriorWarning
            If one value has more than half of the weight, or observations lie beyond those of the training.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> states = rng.normal(size=(300, 1))
        >>> kbf = KernelBayesFilter(transition=lambda z, rng: z)
        >>> kbf = kbf.fit(pairs=(states, states + 0.3 * rng.normal(size=(300, 1))), random_seed=0)
        >>> seen = np.zeros((100, 1))
        >>> for t in range(1, 100):
        ...     seen[t] = 0.8 * seen[t - 1] + 0.5 * rng.normal()
        >>> def step(z, slope, rng):
        ...     return slope * z + 0.5 * rng.normal(size=z.shape)
        >>> found = kbf.learn_transition(step, np.linspace(0, 1, 11), seen + 0.3 * rng.normal(size=(100, 1)))
        >>> bool(found.posterior.mean()[0] > 0.5)
        True
        """
        fitted, seed = self._ready, int(generator_of(random_seed).integers(2**32))
        controlled = fitted.recursion.controlled
        if hasattr(transition, "named_vars"):
            from pymc_kbr.simulation.one_step import OneStep

            whole("draws", draws)
            model = OneStep(transition, controlled, parameters)
            values, names = model.prior(draws, seed)
            function: Callable[..., Any] = model
            candidates = Candidates.of(values, weights, names)
        else:
            function = check_transition(transition, controlled, 1)
            candidates = Candidates.of(parameters, weights)
        units = fitted.units

        def drawn(step: Any) -> DrawnTransition:
            return DrawnTransition(
                step,
                controlled,
                units.centre,
                units.deviation,
                units.unscaled_controls,
                self.transition_draws,
                seed,
            )

        return learnt_parameters(
            fitted, drawn, function, candidates, observations, initial, controls, support
        )

    @property
    def _ready(self) -> FittedFilter:
        if not hasattr(self, "_fitted"):
            raise ValueError("the filter is not fitted; call `fit` with training sequences first")
        return self._fitted


# --- fitting ---


def learn(
    arguments: Any, training: Training, names: tuple[str, ...], seed: int, unlabelled: Any = None
) -> tuple[Chosen, FittedFilter]:
    """Settings chosen on the training, and the filter with them on all of it."""
    point = make_point(arguments.point, training.states)
    units = Units.of(training, arguments.scale, arguments.features)
    how, given = _how(arguments, training, units, seed), _given(arguments)
    sequences = unlabelled_rows(units, training, unlabelled, arguments.tuning)
    for_choice, steps = units, 0 if sequences else steps_held_out(training)
    # A summary that comes fitted is taken as it is, for the choice too.
    if steps and arguments.features is not None and not is_fitted(arguments.features):
        part, _ = training.split(steps)
        for_choice = units.of_features(part, arguments.features)
    scaled = units.scaled(training)
    for_search = scaled if for_choice is units else for_choice.scaled(training)
    if arguments.tuning == "held_out":
        chosen = choose(for_search, how, given, sequences)
    else:
        chosen = choose_as_published(for_search, how, given)
    final, correction = None, corrected(arguments, scaled, bool(sequences))
    if correction is not False:
        final = GaussianFilter(scaled, how.draw, seed)
    belief = choose_belief(chosen, correction, final)
    recursion = Recursion(scaled, chosen.settings, how)
    atoms = Atoms(training.states, parameter_kernel(training.states))
    return chosen, FittedFilter(units, recursion, atoms, point, names, training.labels, belief)


def corrected(arguments: Any, training: Training, unlabelled: bool = False) -> bool | None:
    """Whether a belief by its moments is taken; None where held-out steps decide."""
    if arguments.correction is None:
        given = all(getattr(arguments, name) is not None for name in NUMBERS)
        blind = not (training.lengths or unlabelled)
        known = blind or arguments.tuning == "published" or given
        return False if known or not applies(training) else None
    if arguments.correction and not applies(training):
        raise ValueError(
            f"correction is True, and {len(training.pairs)} training rows are too few for regressions of "
            f"states of {training.states.shape[1]} columns and observations of "
            f"{training.observations.shape[1]}; ten rows for each column are needed: leave it out, or give "
            "features of the observations"
        )
    return arguments.correction


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


# --- known transitions ---


@dataclass(frozen=True, eq=False)
class DrawnTransition:
    """Draws of next states in the filter's scale."""

    # Shapes: centre, scale (p,).
    function: Callable[..., Any]
    controlled: bool
    centre: np.ndarray
    scale: np.ndarray
    unscale_controls: Callable[[np.ndarray], np.ndarray]
    draws: int
    seed: int

    def __call__(self, control: np.ndarray | None, states: np.ndarray) -> np.ndarray:
        """Draws (n, draws, p), scaled, of the states after scaled states (n, p)."""
        n, p = states.shape
        rows = np.repeat(states * self.scale + self.centre, self.draws, axis=0)
        given: list[Any] = [rows]
        if self.controlled:
            assert control is not None
            known = self.unscale_controls(control)
            # One control for all states, or one for each.
            given.append(
                np.repeat(np.broadcast_to(known, (n, known.shape[-1])), self.draws, axis=0)
            )  # the function may write into what it is given
        # The same seed at each step: a filter is a function of the observations.
        found = np.asarray(self.function(*given, np.random.default_rng(self.seed)), dtype=float)
        if found.shape != rows.shape:
            raise ValueError(
                f"the transition function returned shape {found.shape} for states of shape {rows.shape}; it "
                "must return one next state for each row"
            )
        bad = ~np.isfinite(found).all(axis=1)
        if np.any(bad):
            raise ValueError(
                f"the transition function returned NaN or infinity for {bad.sum()} of {len(rows)} states, "
                f"the first of them {rows[np.flatnonzero(bad)[0]].tolist()}; it must return a finite next "
                "state for every training state"
            )
        return ((found - self.centre) / self.scale).reshape(n, self.draws, p)


def check_transition(transition: Any, controlled: bool, more: int = 0) -> Callable[..., Any]:
    """A transition as a function of states, parameters and controls where there are some, and a generator."""
    if hasattr(transition, "free_RVs") and hasattr(transition, "named_vars"):
        from pymc_kbr.simulation.one_step import OneStep

        return OneStep(transition, controlled)
    if not callable(transition):
        raise TypeError(
            f"transition is {shown(transition)}; give a function of states (k, p) and a generator that "
            "returns next states (k, p), or a PyMC model of one step"
        )
    named = ["states", *["parameters"] * more, *["controls"] * controlled]
    wanted = len(named) + 1
    try:
        inspect.signature(transition).bind(*[None] * wanted)
    except ValueError:  # a compiled function tells nothing of its arguments
        return transition
    except TypeError:
        raise TypeError(
            f"the transition function must take {wanted} arguments: {', '.join(named)} and a generator"
        ) from None
    return transition


# --- settings as in the papers' experiments ---


BETAS = (0.5, 1.0, 2.0)
"""Bandwidths that are tried, in medians of the distances; one number for states and observations."""

PUBLISHED_REGULARISATIONS = (1e-1, 1e-2, 1e-3, 1e-4)
"""lambda of the importance-weighted rule, or epsilon of the original one."""


def choose_as_published(training: Training, how: How, given: GivenSettings) -> Chosen:
    """Settings as in the papers: Fukumizu 2013, section 5.3, for "kbr", Xu 2022, 5.2, for "iw_kbr"."""
    _check(training, how, given)
    # Fukumizu 2013 validates on the second half, Xu 2022 on the last steps.
    steps = sum(training.lengths) // 2
    if given.rule == "iw_kbr":
        steps = min(LAST_STEPS, steps)
    search = Search(training, how, given, steps)
    best: tuple[float, tuple[float, float]] = (np.inf, (1.0, 1e-2))
    part = None
    for beta in BETAS:
        base = _of_beta(search.part, how, given, beta)
        for ridge in PUBLISHED_REGULARISATIONS:
            error = search.error(_with(base, given.rule, ridge))
            if error < best[0]:
                best, part = (error, (beta, ridge)), search.last
    beta, ridge = best[1]
    settings = _with(_of_beta(training, how, given, beta), given.rule, ridge)
    return Chosen(finished(settings, search), best[0], search.tried, search, part)


def _of_beta(data: Training, how: How, given: GivenSettings, beta: float) -> FilterSettings:
    """Kernels of one beta, and for "iw_kbr" eta and lambda'."""
    kernel = of_family("gaussian", None, beta, data.states)
    observed = of_family("gaussian", None, beta, data.observations)
    if given.rule == "kbr":
        return FilterSettings(kernel, observed, np.nan, np.nan, np.nan)
    before, after = data.states[data.previous], data.states[data.following]
    # lambda' is to be eta, which is chosen on predictions made with it: one step of a fixed point.
    eta = 1e-2
    for _ in range(2):
        eta = prior_ridge(
            data.states[data.pairs], predictions(before, after, kernel, eta, how.centred), kernel, how.centred
        )
    return FilterSettings(kernel, observed, np.nan, eta, eta)


def _with(settings: FilterSettings, rule: str, ridge: float) -> FilterSettings:
    if rule == "iw_kbr":
        return replace(settings, regularisation=ridge)
    return replace(
        settings, regularisation=2 * ridge, prior_regularisation=ridge, transition_regularisation=ridge
    )


def _check(training: Training, how: How, given: GivenSettings) -> None:
    fixed = [name for name in NUMBERS[:-1] if getattr(given, name) is not None]
    if fixed or given.state_kernel != "gaussian" or given.observation_kernel != "gaussian":
        raise ValueError(
            "tuning is 'published', which chooses Gaussian kernels and all settings, and "
            f"{fixed or 'kernels'} are given; leave them out, or take tuning='held_out'"
        )
    if not training.lengths or training.controls is not None or how.draw is not None:
        raise ValueError(
            "tuning is 'published', which is for training sequences without controls and with a learnt "
            "transition; take tuning='held_out'"
        )
    if min(training.lengths) < 8:
        raise ValueError(
            f"a training sequence has {min(training.lengths)} steps; 'published' needs 8 of each"
        )
