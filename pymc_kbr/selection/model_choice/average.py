"""Model averaging: draws of parameters that all models share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from pymc_kbr.arrays.refusals import generator_of, shown
from pymc_kbr.posterior.arviz import pack


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
