"""What `fit` is given, in whatever form, as the table that an estimator is fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.arrays.chunks import is_chunked
from pymc_kbr.arrays.labelled import refuse_unknown_lengths
from pymc_kbr.arrays.names import Names, is_table, labels_of
from pymc_kbr.arrays.rows import as_rows, read_pair
from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators.checks import refuse_both
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.likelihood.success import Success, weighting_of
from pymc_kbr.estimators.prior_weights import ratio_of_draws, weighted_draws
from pymc_kbr.estimators.streamed_table import StreamedTable
from pymc_kbr.estimators.tabulate import tabulate


@dataclass(frozen=True, eq=False)
class Given:
    """Both sides of a table, what is known of the prior, and names.

    Parameters
    ----------
    parameters, statistics : array_like of shape (n, p), (n, d)
        In memory or read a part at a time.
    support : Support, optional
    ratio : ndarray of shape (n,), optional
    prior : draws, optional
    names : Names
    success : Success, optional
    """

    parameters: Any
    statistics: Any
    support: Support | None
    ratio: np.ndarray | None
    prior: Any
    names: Names
    success: Success | None = None

    @classmethod
    def of(
        cls,
        parameters: Any,
        statistics: Any,
        support: Support | None,
        ratio: np.ndarray | None,
        prior: Any,
        estimator: Any,
        success: Success | None = None,
    ) -> Given:
        """From the arguments of `Estimator.fit`.

        Raises
        ------
        TypeError, ValueError
            If there is a table and statistics beside it, or neither, or two forms of another prior.
        """
        own = getattr(estimator, "prior", None)
        refuse_both(ratio, prior, own)
        if not is_table(parameters):
            if statistics is None:
                raise TypeError(
                    f"there are no statistics; give fit(parameters, statistics), or a ReferenceTable or "
                    f"StoredTable alone, and not a {type(parameters).__name__}"
                )
            if is_chunked(parameters) or is_chunked(statistics):
                names = Names(labels_of(parameters), labels_of(statistics))
                theta, x = (
                    side if is_chunked(side) else as_rows(name, side)
                    for name, side in (("the parameters", parameters), ("the statistics", statistics))
                )
                refuse_unknown_lengths("the parameters", theta)
                refuse_unknown_lengths("the statistics", x)
                return cls(theta, x, support, ratio, prior, names, success)
            theta, x = read_pair(parameters, statistics)
            return cls(theta.values, x.values, support, ratio, prior, Names.of_sides(theta, x), success)
        table, theta = parameters, parameters.parameters
        if statistics is not None:
            raise TypeError(
                "a reference table is given and statistics beside it; the table has its own: give "
                "fit(table), or fit(table.parameters, statistics, table.support)"
            )
        if table.prior_ratio is not None and ratio is not None:
            raise ValueError(
                "a density ratio is given, and the rows of the table have one of their own (its "
                "prior_ratio); give arrays, and the ratio to what the rows were drawn from: "
                "fit(table.parameters, table.statistics, table.support, ratio=ratio * table.prior_ratio)"
            )
        # Other draws, or draws of the estimator's own, are compared with the rows as they are.
        weighting, given_prior, given_ratio = weighting_of(table), prior, ratio
        if prior is None and own is None and ratio is None:
            if estimator.needs_draws and weighting.ratio is not None:
                prior = theta, weighting.ratio
            else:
                ratio = weighting.ratio
        elif ratio is not None and weighting.weighted_for_success:
            assert weighting.ratio is not None
            ratio = ratio * weighting.ratio
        held = table.support if support is None else support
        found = weighting.success if success is None else success
        if found is not None and given_ratio is not None and success is None:
            found = found.at_rows()
        if prior is not None and prior is not given_prior:  # rows that succeeded stand for it already
            found = None
        return cls(theta, table.statistics, held, ratio, prior, Names.of_table(table), found)

    @property
    def streamed(self) -> bool:
        """Whether a side is read a part at a time."""
        return is_chunked(self.parameters) or is_chunked(self.statistics)

    def tabulated(self, estimator: Any, rng: np.random.Generator) -> FittedTable:
        """The table in the scale of an estimator."""
        scale = estimator.scale_of_statistics()
        if self.streamed:
            estimator.refuse_unless_it_streams()
            if self.ratio is not None or self.prior is not None:
                raise ValueError(
                    "another prior is given, or the rows are no draws of their own, and these rows are read "
                    "a part at a time; load them or some of them (`stored.load(20_000)`)"
                )
            # Before the pass over all rows, which may take long.
            estimator.check(int(self.parameters.shape[0]), streamed=True)
            return StreamedTable.of(self.parameters, self.statistics, self.support, scale, self.success)
        ratio, draws = self.ratio, None
        if self.prior is not None:
            draws = weighted_draws(self.prior, self.names.parameters)
        if draws is not None and not estimator.takes_draws:
            theta = as_rows("the parameters", self.parameters)
            inside = Support.unbounded(theta.shape[1]) if self.support is None else self.support
            seen = draws if self.success is None else self.success.seen(draws)
            ratio, draws = ratio_of_draws(theta, seen, inside, rng), None
        return tabulate(
            self.parameters,
            self.statistics,
            self.support,
            scale,
            ratio,
            draws,
            estimator.check,
            self.success,
        )
