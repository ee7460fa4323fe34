"""What cannot be used is refused with words, or warned of, by filters, tests and choices, too."""

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(60, 1))
X = Z + 0.3 * RNG.normal(size=(60, 1))
FRAME, TURNED = pd.DataFrame(Z, columns=["z"]), pd.DataFrame(X, columns=["x"]).iloc[::-1]


@pytest.mark.parametrize(
    "call",
    [
        lambda: pk.KernelBayesFilter().fit(FRAME, TURNED),
        lambda: pk.KernelBayesFilter().fit([FRAME], [TURNED]),
        lambda: pk.KernelBayesFilter().fit(pairs=(FRAME, TURNED), transitions=(Z[:-1], Z[1:])),
        lambda: pk.hsic_test(FRAME, TURNED),
        lambda: pk.conditional_hsic_test(FRAME, TURNED, Z),
        lambda: pk.conditional_hsic_test(FRAME, X, TURNED),
        lambda: pk.kci_test(FRAME, TURNED, Z),
        lambda: pk.kci_test(FRAME, X, TURNED),
    ],
)
def test_rows_that_belong_together_and_are_labelled_otherwise_are_refused(call):
    with pytest.raises(ValueError, match="another order"):
        call()


def test_the_same_labels_are_taken():
    given = pk.hsic_test(FRAME, TURNED.iloc[::-1], random_seed=1)
    assert given.pvalue == pk.hsic_test(Z, X, random_seed=1).pvalue


def test_a_row_far_from_all_others_does_not_decide_a_test_of_independence():
    """Sums of squares lose all digits of the other rows' distances there."""
    far, noise = X.copy(), RNG.normal(size=(60, 1))
    far[7] = 1e12
    found = {name: pk.hsic_test(side, far, random_seed=1) for name, side in (("same", Z), ("noise", noise))}
    assert np.isfinite(found["noise"].statistic)
    assert found["noise"].pvalue > 0.05
    assert found["same"].pvalue < 0.01


def test_a_filter_names_the_row_that_makes_a_deviation_and_refuses_what_is_beyond_measure():
    far = X.copy()
    far[7] = 1e12
    with pytest.warns(UserWarning, match=r"column 0 of the observations is that of 1 of 60 rows \(7\)"):
        pk.KernelBayesFilter(regularisation=0.1, transition_regularisation=0.1).fit(Z, far)
    fitted = pk.KernelBayesFilter(regularisation=0.1, transition_regularisation=0.1).fit(Z, X)
    with pytest.raises(ValueError, match=r"1e\+300 in statistic 0, more than 1e\+100 deviations"):
        fitted.filter([[0.1], [1e300]])
    assert fitted.filter([[0.1], [np.nan]]).mean().shape == (2, 1)


def test_select_says_what_it_takes():
    with pytest.raises(TypeError, match="a tuple is given; select takes a ReferenceTable"):
        pk.select((Z, X))
