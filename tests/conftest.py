import hypothesis
import numpy as np
import pytest

import pymc_kbr as pk

# A busy machine is no counterexample.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.fixture(scope="session")
def linear():
    """theta ~ N(0, I) in two dimensions, three noisy linear statistics: (parameters, statistics)."""
    rng = np.random.default_rng(11)
    theta = rng.normal(size=(600, 2))
    mix = np.array([[1.0, 0.0, 0.5], [0.0, 2.0, -0.5]])
    return theta, theta @ mix + 0.5 * rng.normal(size=(600, 3))


@pytest.fixture
def small_table(rng):
    """A table of ten rows without a model."""
    import pandas as pd

    frame = pd.DataFrame(rng.random((10, 4)), columns=["a", "b", "s", "t"])
    return pk.ReferenceTable.from_dataframe(
        frame, parameters=["a", "b"], statistics=["s", "t"], observed=[0.5, 0.5], bounds={"a": (0, 1)}
    )
