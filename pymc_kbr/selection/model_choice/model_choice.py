"""Posterior probabilities of models, and how far they can be trusted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import generator_of, shown
from pymc_kbr.posterior.arviz import pack
from pymc_kbr.posterior.posterior import Display, Shown
from pymc_kbr.selection.model_choice.held_out import HeldOutProbabilities
from pymc_kbr.selection.model_choice.methods import Score
from pymc_kbr.selection.model_choice.rows import check_prior


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class ModelChoice(Display):
    """What `compare_models` found.

    Parameters
    ----------
    names : tuple of str
        Of the models.
    prior : ndarray of shape (models,)
    at_observed : ndarray of shape (k, models)
        Posterior probabilities at each observation.
    errors_at_observed : ndarray of shape (k, models)
        Their standard errors, for the rows being those and not others.
    single : bool
        Whether one observation was given, not an array of such.
    method : str
        By which they were computed.
    scores : tuple of Score
        Of the methods that were tried, the best first.
    held_out : HeldOutProbabilities
        Of rows that were not learnt from.
    statistics : tuple of str
    importance : ndarray of shape (statistics,)
        By how much the log score of held-out rows falls where a statistic tells nothing.
    failed : ndarray of shape (models,)
        Share of each model's simulations that failed and are no rows.
    """

    names: tuple[str, ...]
    prior: np.ndarray
    at_observed: np.ndarray
    errors_at_observed: np.ndarray
    single: bool
    method: str
    scores: tuple[Score, ...]
    held_out: HeldOutProbabilities
    statistics: tuple[str, ...]
    importance: np.ndarray
    failed: np.ndarray

    @property
    def probabilities(self) -> Any:
        """Posterior probabilities: a Series for one observation, a DataFrame (k, models) of several."""
        return self._labelled(self.at_observed)

    @property
    def errors(self) -> Any:
        """Monte Carlo standard errors of the probabilities, of their shape."""
        return self._labelled(self.errors_at_observed)

    @property
    def bayes_factors(self) -> Any:
        """Evidence of the model of each line over that of each column: a DataFrame, or one an observation."""
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = self.at_observed / self.prior
            factors = odds[:, :, None] / odds[:, None, :]
        found = [pd.DataFrame(of, index=self.names, columns=self.names) for of in factors]
        return found[0] if self.single else found

    @property
    def confusion(self) -> pd.DataFrame:
        """For held-out rows of the model of each line, how often each model is the most probable one."""
        columns = pd.Index(self.names, name="most probable")
        return pd.DataFrame(
            self.held_out.confusion(), index=pd.Index(self.names, name="simulated by"), columns=columns
        )

    @property
    def calibration_error(self) -> float:
        """Mean distance of probabilities and shares on held-out rows; by chance it is `calibration_noise`."""
        return self.held_out.calibration_error()

    @cached_property
    def calibration_noise(self) -> float:
        """What the calibration error would be by chance alone, if the probabilities were right."""
        # A property has no seed: the same choice always shows the same number.
        return self.held_out.calibration_noise(np.random.default_rng(0))

    def reliability(self, bins: int = 10) -> pd.DataFrame:
        """What held-out probabilities are worth, by bins of probability.

        Parameters
        ----------
        bins : int

        Returns
        -------
        pandas.DataFrame
            Mean probability, share of the bin's rows that are of the model, and the bin's share of all.

        Raises
        ------
        TypeError, ValueError
            If the number of bins is not whole, or below one.
        """
        columns = ["probability", "share_true", "share_of_rows"]
        return pd.DataFrame(self.held_out.reliability(bins), columns=columns)

    def deciding_statistics(self) -> pd.Series:
        """By how much the log score falls with each statistic's values exchanged, the largest first.

        On at most 1,000 held-out rows. A method that is fitted anew for each observation ("local_logistic",
        "evidence") is asked for 100 or 12, and for fewer of more than 20 statistics: there, a hint.

        Returns
        -------
        pandas.Series
            By the statistics' names.
        """
        return pd.Series(self.importance, index=list(self.statistics), name="importance").sort_values(
            ascending=False
        )

    def method_scores(self) -> pd.DataFrame:
        """Log scores of the methods that were tried, on held-out rows, the best first.

        Returns
        -------
        pandas.DataFrame
            By the methods' names.
        """
        return pd.DataFrame([dataclasses.asdict(score) for score in self.scores]).set_index("method")

    def summary(self) -> pd.DataFrame:
        """The models, the most probable first; of several observations, means.

        Returns
        -------
        pandas.DataFrame
            By the models' names.
        """
        mean = self.at_observed.mean(axis=0)
        table = pd.DataFrame(
            {
                "probability": mean,
                "standard_error": self.errors_at_observed.mean(axis=0),
                "prior": self.prior,
                "recognised": np.diag(self.held_out.confusion()),
                "failed": self.failed,
            },
            index=list(self.names),
        )
        if self.single:
            # Against the model of the largest evidence, which under unequal priors may not be the likeliest.
            factors = self.bayes_factors.to_numpy()
            table.insert(2, "bayes_factor", factors[:, int(np.argmax(self.at_observed[0] / self.prior))])
        table = table.sort_values("probability", ascending=False)
        table.insert(0, "rank", np.arange(len(table)))
        return table

    def with_prior(self, prior: Mapping[str, float]) -> ModelChoice:
        """The same under other prior probabilities of the models.

        Parameters
        ----------
        prior : mapping of str to float

        Returns
        -------
        ModelChoice

        Raises
        ------
        ValueError
            If they are not of these models, negative, or do not sum to one.
        """
        new = check_prior(prior, list(self.names))
        ratio = new / self.prior
        probabilities = _reweighted(self.at_observed, ratio)
        held = self.held_out
        weights = held.weights * ratio[held.model]
        # By the slope of the odds: what the old probability is uncertain by, the new one is in proportion.
        slope = probabilities * (1 - probabilities)
        old = self.at_observed * (1 - self.at_observed)
        errors = self.errors_at_observed * np.divide(slope, old, out=np.ones_like(old), where=old > 0)
        return dataclasses.replace(
            self,
            prior=new,
            at_observed=probabilities,
            errors_at_observed=errors,
            held_out=HeldOutProbabilities(
                _reweighted(held.probabilities, ratio), held.model, weights / weights.sum()
            ),
        )

    def average(
        self,
        results: Mapping[str, Any],
        *,
        parameters: list[str] | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Any:
        """Draws of parameters that all models share, mixed by the models' probabilities.

        Parameters
        ----------
        results : dict of str to InferenceData or DataTree
            Of `sample_abc`, one for each model that is not impossible, by its name.
        parameters : list of str, optional
            All that the models share where left out.
        random_seed : int or numpy.random.Generator, optional

        Returns
        -------
        arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
            The group ``posterior``, with ``model`` beside the parameters: the number of the model that a draw
            is of.

        Raises
        ------
        TypeError, ValueError
            If there are several observations, a result is missing or has no posterior, or a parameter is not
            in all models with one shape.
        """
        if not self.single:
            raise ValueError(
                f"there are {len(self.at_observed)} observations with probabilities of their own; compare "
                "models at one of them to average"
            )
        return average_models(results, self.names, self.at_observed[0], parameters, random_seed)

    def _shown(self) -> Shown:
        table = self.summary()
        lines = [
            {"model": name, **dict(zip(table.columns, line, strict=True))}
            for name, line in zip(table.index, table.to_numpy().tolist(), strict=True)
        ]
        several = "" if self.single else f", means over {len(self.at_observed)} observations"
        return Shown(
            f"Choice among {len(self.names)} models by {self.method}{several}",
            lines,
            len(lines),
            [
                f"held-out rows: log score {self.held_out.log_score:.4f}, accuracy "
                f"{self.held_out.accuracy:.1%}",
                f"calibration error {self.calibration_error:.4f}, by chance {self.calibration_noise:.4f}",
            ],
        )

    def _labelled(self, values: np.ndarray) -> Any:
        if self.single:
            return pd.Series(values[0], index=list(self.names))
        return pd.DataFrame(values, columns=list(self.names))


def _reweighted(probabilities: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    found = probabilities * ratio
    return found / found.sum(axis=1, keepdims=True)


# --- model averaging ---


def average_models(
    results: Mapping[str, Any],
    names: tuple[str, ...],
    probabilities: np.ndarray,
    parameters: list[str] | None,
    random_seed: int | np.random.Generator | None,
) -> Any:
    """Mix the draws of models' posteriors: see `ModelChoice.average`."""
    results = _posteriors_of(results)
    unknown = sorted(set(results) - set(names))
    missing = [name for name, p in zip(names, probabilities, strict=True) if p > 0 and name not in results]
    if unknown or missing:
        raise ValueError(
            f"there are results for {sorted(results)}; give one for each of the models {list(names)}"
        )
    posteriors = {name: results[name] for name in names if name in results}
    chosen = _shared(posteriors, parameters)
    first = next(iter(posteriors.values()))  # whose chains and draws the mixture has
    chains, draws = first.sizes["chain"], first.sizes["draw"]
    rng = generator_of(random_seed)
    counts = _counts(chains * draws, probabilities, rng)
    parts: dict[str, list[np.ndarray]] = {name: [] for name in chosen}
    for name, posterior in posteriors.items():
        total = posterior.sizes["chain"] * posterior.sizes["draw"]
        count = int(counts[names.index(name)])
        picked = rng.choice(total, count, replace=count > total)
        for parameter in chosen:
            values = posterior[parameter].to_numpy()
            parts[parameter].append(values.reshape(total, *values.shape[2:])[picked])
    order = rng.permutation(chains * draws)  # so that chains are alike
    dataset = xr.Dataset(coords={"chain": np.arange(chains), "draw": np.arange(draws)})
    for parameter in chosen:
        values = np.concatenate(parts[parameter])[order]
        dataset[parameter] = (first[parameter].dims, values.reshape(chains, draws, *values.shape[1:]))
    model = np.repeat(np.arange(len(names)), counts)[order]
    dataset["model"] = (("chain", "draw"), model.reshape(chains, draws))
    dataset.attrs = {
        "inference_library": "pymc_kbr",
        "models": ", ".join(names),
        "probabilities": ", ".join(f"{p:.6g}" for p in probabilities),
    }
    return pack({"posterior": dataset})


def _posteriors_of(results: Any) -> dict[str, Any]:
    """The group ``posterior`` of each result, by the model's name as a text."""
    if not isinstance(results, Mapping):
        raise TypeError(f"results is {type(results).__name__}; give a dict of model names to results")
    found = {}
    for name, result in results.items():
        try:
            found[str(name)] = result["posterior"]
        except (TypeError, LookupError):
            raise TypeError(
                f"the result of {name!r} is {type(result).__name__} without a group `posterior`; give what "
                "`sample_abc` returned"
            ) from None
    return found


def _shared(posteriors: dict[str, Any], asked: list[str] | None) -> list[str]:
    """Parameters that all posteriors have with one shape."""
    if isinstance(asked, str):
        raise TypeError(f"parameters is {shown(asked)}; give a list of names: {[asked]}")
    first, *others = posteriors.values()
    shared = [
        str(name)
        for name in first.data_vars
        if all(name in other and other[name].shape[2:] == first[name].shape[2:] for other in others)
    ]
    if not shared:
        raise ValueError("the models share no parameter of one name and shape; there is nothing to average")
    if asked is not None and not asked:
        raise ValueError(f"parameters names nothing; the models share {shared}")
    strangers = [name for name in asked or [] if name not in shared]
    if strangers:
        raise ValueError(f"{strangers} are not in all models with one shape; the models share {shared}")
    return shared if asked is None else list(asked)


def _counts(total: int, probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws of each model, of sum `total`: systematic, less than one from their mean."""
    # Without the last of the sums, which rounding may leave below a place.
    places = (np.arange(total) + rng.random()) / total
    return np.bincount(
        np.searchsorted(np.cumsum(probabilities)[:-1], places, side="right"), minlength=len(probabilities)
    )
