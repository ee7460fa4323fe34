"""What is refused, and the words of it."""

import numpy as np
import pytest

from pymc_kbr.filtering import KernelBayesFilter
from pymc_kbr.kernels import Gaussian
from tests.filtering.problems import fixed, turning

Z, X = turning(30, np.random.default_rng(5))
NAN = Z.copy()
NAN[4, 1] = np.nan

OF_FIT = {
    "one sequence shorter than its observations": (
        {"states": Z, "observations": X[:20]},
        "sequence 0 has 30 states and 20 rows of observations",
    ),
    "other numbers of sequences": ({"states": [Z, Z], "observations": [X]}, "2 sequences of states and 1 of"),
    "one step": ({"states": [Z, Z[:1]], "observations": [X, X[:1]]}, "sequence 1 of states has 1 step"),
    "other columns": ({"states": [Z, Z[:, :1]], "observations": [X, X]}, r"\[1, 2\] columns"),
    "NaN among the states": ({"states": NAN, "observations": X}, "hold NaN or infinity.*row 4"),
    "NaN among the observations": ({"states": Z, "observations": NAN}, "hold NaN or infinity.*row 4"),
    "a vector": ({"states": Z[:, 0], "observations": X}, "rows of at least one column"),
    "states alone": ({"states": Z}, "either states and observations"),
    "both forms": ({"states": Z, "observations": X, "pairs": (Z, X)}, "either states and observations"),
    "pairs alone": ({"pairs": (Z, X)}, "give the filter a known `transition`"),
    "transitions alone": ({"transitions": (Z, Z)}, "either states and observations"),
    "transitions of other columns": ({"pairs": (Z, X), "transitions": (Z[:, :1], Z[:, :1])}, "2 columns.* 1"),
    "transitions of two lengths": ({"pairs": (Z, X), "transitions": (Z, Z[1:])}, "30 states and 29"),
    "no pair": ({"pairs": Z, "transitions": (Z, Z)}, "pairs must be two arrays"),
    "controls of another length": ({"states": Z, "observations": X, "controls": Z[:9]}, "9 rows of controls"),
    "uneven times": (
        {"states": Z, "observations": X, "times": np.cumsum(np.arange(30.0)) + np.arange(30)},
        "even grid with NaN .* column of `controls`",
    ),
    "other times": ({"states": Z, "observations": X, "times": np.arange(9)}, "30 rows and times of shape"),
}
OF_CONSTRUCTOR = [
    ({"rule": "bayes"}, "it may be 'iw_kbr' or 'kbr'"),
    ({"tuning": "test"}, "'held_out' or 'published'"),
    ({"regularisation": 0.0}, "regularisation is 0.0"),
    ({"state_bandwidth": -1.0}, "state_bandwidth is -1.0"),
    ({"state_kernel": "rbf"}, "state_kernel is 'rbf'; the names are gaussian"),
    ({"observation_kernel": Gaussian(1.0), "observation_bandwidth": 1.0}, "a kernel has its own bandwidth"),
    ({"transition_draws": 0}, "transition_draws is 0"),
    ({"solver": "lu"}, "no solver 'lu'"),
    ({"solver": "subsample"}, "makes blocks of rows"),
    ({"tuning": "published", "regularisation": 1.0}, "tuning is 'published'.*regularisation"),
]


@pytest.mark.parametrize("case", OF_FIT)
def test_training_that_cannot_be_used(case):
    given, words = OF_FIT[case]
    with pytest.raises((TypeError, ValueError), match=f"(?s){words}"):
        fixed().fit(**given)


@pytest.mark.parametrize(("arguments", "words"), OF_CONSTRUCTOR, ids=lambda value: str(value)[:40])
def test_arguments_out_of_range(arguments, words):
    with pytest.raises((TypeError, ValueError), match=words):
        KernelBayesFilter(**arguments).fit(Z, X)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda kbf: kbf.filter(X[:, :1]), "observations of 2 column"),
        (lambda kbf: kbf.filter(X[0]), "observations of 2 column"),
        (lambda kbf: kbf.filter(np.full((3, 2), np.inf)), "put NaN where"),
        (lambda kbf: kbf.filter(X, initial=Z[:, :1]), "1 column.s. and the training states have 2"),
        (lambda kbf: kbf.filter(X, initial=NAN), "initial prior hold NaN"),
        (lambda kbf: kbf.filter(X, initial="first"), "'conditional_mean'"),
        (lambda kbf: kbf.filter(X, initial=fixed().fit(Z, X).filter(X).last), "of another filter"),
        (lambda kbf: kbf.filter(X, controls=X), "fitted without"),
        (lambda kbf: kbf.filter(X, times=np.arange(30.0) ** 2), "even grid"),
        (lambda kbf: kbf.step(None, X[0, :1]), "observations of 2 column"),
        (lambda kbf: kbf.step(Z[0], X[0]), "give a Belief"),
        (lambda kbf: kbf.predict(0), "steps is 0"),
        (lambda kbf: kbf.predict(1.5), "steps is 1.5"),
        (lambda kbf: kbf.filter(X).interval(1.0), "between zero and one"),
    ],
)
def test_calls_that_do_not_fit_the_training(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call(fixed().fit(Z, X))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda kbf: kbf.filter(X), "give a row of them"),
        (lambda kbf: kbf.filter(X, controls=X[:9]), "29 to 30 rows of 1 column"),
        (lambda kbf: kbf.predict(3), "give a row of them"),
        (lambda kbf: kbf.step(kbf.step(None, X[0]), X[1]), "give a row of them"),
    ],
)
def test_controls_are_asked_for(call, words):
    with pytest.raises(ValueError, match=words):
        call(fixed().fit(Z, X, controls=Z[:, :1]))


def test_without_transitions_there_is_no_way_back():
    kbf = fixed(transition=lambda states, rng: states).fit(pairs=(Z, X))
    with pytest.raises(ValueError, match="draws of the known one"):
        kbf.smooth(X)
