"""Priors whose support PyMC's transforms do not say: no draw of a posterior leaves it."""

import pickle
import warnings

import numpy as np
import pymc as pm
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytensor import tensor as pt

import pymc_kbr as pk
from pymc_kbr.posterior.posterior import PosteriorWarning
from pymc_kbr.simulation import ForwardModel
from pymc_kbr.simulation.model.known import log_density_of

# Of a learned likelihood's forms one is enough: its draws stay in the support whatever the form.
ESTIMATORS = {
    "adjusted": pk.Adjusted(),
    "localised": pk.Localised(),
    "kernel_likelihood": pk.KernelLikelihood("autoregressive"),
}


@pytest.fixture(scope="module", autouse=True)
def short_streams():
    """Many of these priors are drawn value by value, and always as many as a stream has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pymc_kbr.simulation.prior.draws.ROWS_A_STREAM", 128)
        yield


def noisy(rng, theta, size=None):
    return rng.normal(theta, 0.3, size)


def noisy_vector(rng, theta, size=None):
    return rng.normal(np.ravel(theta), 0.2)


def inside_one(value, _):
    return pt.switch(pt.sum(value**2, -1) <= 1, -np.log(np.pi), -np.inf)


def on_disc(_, rng=None, size=None):
    size = () if size is None else tuple(size)
    radius, angle = np.sqrt(rng.uniform(size=size)), rng.uniform(0, 2 * np.pi, size=size)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)


def unit(value):
    return pt.switch((value > 0) & (value < 1), 0.0, -np.inf)


def uniform(rng, size=None):
    return rng.uniform(size=size)


SCALARS = {
    "written density": lambda: pm.CustomDist("x", logp=unit, random=uniform),
    "one less a uniform": lambda: pm.CustomDist("x", dist=lambda size: 1 - pm.Uniform.dist(size=size)),
    "scaled beta": lambda: pm.CustomDist("x", dist=lambda size: 3 + 2 * pm.Beta.dist(2, 2, size=size)),
    "absolute normal": lambda: pm.CustomDist("x", dist=lambda size: pt.abs(pm.Normal.dist(size=size))),
    "nested uniforms": lambda: pm.Mixture("x", [0.5, 0.5], [pm.Uniform.dist(0, 0.5), pm.Uniform.dist(0, 1)]),
    "vector of uniforms": lambda: pm.Mixture("x", [0.5, 0.5], pm.Uniform.dist([0, 0], [0.5, 1])),
    "gap": lambda: pm.Mixture("x", [0.5, 0.5], [pm.Uniform.dist(0, 1), pm.Uniform.dist(2, 3)]),
    "cut half normal": lambda: pm.Truncated("x", pm.HalfNormal.dist(1.0), upper=1),
    "dependent": lambda: pm.CustomDist(
        "x", pm.Uniform("a", 1, 2), dist=lambda a, size: a - pm.Uniform.dist(0, a, size=size)
    ),
}
ENDS = {
    "written density": (0, 1),
    "one less a uniform": (0, 1),
    "scaled beta": (3, 5),
    "absolute normal": (0, np.inf),
    "nested uniforms": (0, 1),
    "vector of uniforms": (0, 1),
    "gap": (0, 3),
    "cut half normal": (0, 1),
}
VECTORS = {
    "disc": lambda: pm.CustomDist("x", np.zeros(2), logp=inside_one, random=on_disc, signature="(k)->(k)"),
    "correlations": lambda: pm.LKJCorr("x", n=3, eta=1.0),
    "packed factor": lambda: pm.LKJCholeskyCov(
        "x", n=2, eta=2.0, sd_dist=pm.Uniform.dist(0, 1), compute_corr=False
    ),
    "shares": lambda: pm.StickBreakingWeights("x", alpha=1.0, K=2),
    "ordered": lambda: pm.Normal("x", 0, 1, shape=3, transform=pm.distributions.transforms.ordered),
    "wishart": lambda: pm.Wishart("x", nu=4, V=np.eye(2)),
}


def model_of(prior, observed):
    """A model whose parameters are seen with noise, at prior quantiles from 0 to 1, or somewhat beyond."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pm.Model() as model:
            x = (SCALARS | VECTORS)[prior]()
            draws = usual_range(model)
            # Beyond the ends, too: it is there that draws would leave.
            at = draws[0] + (draws[1] - draws[0]) * observed
            if prior in SCALARS:
                pm.Simulator("y", noisy, x, observed=float(at[-1]))
            else:
                pk.vector_simulator(
                    "y", noisy_vector, x, observed=np.resize(at, int(np.prod(x.shape.eval())))
                )
    return model


def usual_range(model):
    drawn = pm.draw(model["x"], 50, random_seed=1).reshape(50, -1)
    return np.quantile(drawn, [0.02, 0.98], axis=0)


def rows_of(graph, idata):
    values = {v.name: np.asarray(idata["posterior"][v.name].values) for v in graph.parameters.variables}
    return graph.parameters.stack([values[v.name].reshape(-1, *v.shape) for v in graph.parameters.variables])


def check_in_support(model, estimator, simulations=300):
    forward = ForwardModel.read(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = pk.sample_abc(
            200,
            model=model,
            estimator=ESTIMATORS[estimator],
            simulations=simulations,
            random_seed=1,
            progressbar=False,
        )
    theta = rows_of(forward.graph, idata)
    assert np.all(log_density_of(forward.graph)(theta) > -np.inf)
    if forward.log_known is not None:
        assert np.all(forward.log_known(theta) > -np.inf)
    return idata


@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    prior=st.sampled_from(sorted(SCALARS | VECTORS)),
    observed=st.floats(-0.2, 1.2),
    estimator=st.sampled_from(sorted(ESTIMATORS)),
)
def test_draws_of_any_prior_stay_in_its_support(prior, observed, estimator):
    check_in_support(model_of(prior, observed), estimator)


@pytest.mark.parametrize("estimator", ["adjusted", "kernel_likelihood"])
def test_draws_stay_off_a_gap_and_below_a_line(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pm.Model() as model:
            a = pm.Mixture("a", [0.5, 0.5], [pm.Uniform.dist(0, 1), pm.Uniform.dist(2, 3)])
            b = pm.Uniform("b", 0, 3)
            pm.Potential("below", pt.switch(a + b < 4, 0.0, -np.inf))
            pk.vector_simulator(
                "y", lambda rng, a, b, size=None: rng.normal([a, b], 0.3), a, b, observed=[2.1, 2.0]
            )
    check_in_support(model, estimator)


@pytest.mark.versions
@pytest.mark.parametrize("prior", ["one less a uniform", "absolute normal", "gap", "cut half normal"])
def test_ends_of_a_density_are_found_to_their_digits(prior):
    support = ForwardModel.read(model_of(prior, 0.5)).support
    (block,) = support.blocks
    (step,) = block.steps
    assert (step.lower, step.upper) == ((ENDS[prior][0],), (ENDS[prior][1],))
    # Of a gap the ends do not say all.
    assert support.inside.columns == ((0,) if prior == "gap" else ())
    assert support.plain().smooth().tolist() == [prior != "gap"]


@pytest.mark.versions
def test_an_end_that_depends_on_another_parameter_is_affine_in_it():
    support = ForwardModel.read(model_of("dependent", 0.5)).support
    step = support.blocks[1].steps[0]
    assert (step.lower, step.upper, step.upper_slopes) == ((0.0,), (0.0,), ((1.0, 0.0),))


DISCRETE = {
    "rounded": lambda: pm.CustomDist("x", dist=lambda size: pt.round(pm.Normal.dist(0, 5, size=size))),
    "quarters": lambda: pm.CustomDist("x", dist=lambda size: pt.floor(pm.Uniform.dist(0, 40, size=size)) / 4),
    "point masses alone": lambda: pm.Mixture(
        "x", [0.3, 0.3, 0.4], [pm.DiracDelta.dist(at) for at in (0.0, 0.5, 1.0)]
    ),
}


@pytest.mark.parametrize(
    ("prior", "estimator"),
    [("rounded", "adjusted"), ("quarters", "localised"), ("point masses alone", "kernel_likelihood")],
)
def test_floats_of_a_discrete_distribution_stay_discrete(prior, estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pm.Model() as model:
            pm.Simulator("y", noisy, DISCRETE[prior](), observed=0.6)
        idata = pk.sample_abc(
            200,
            model=model,
            estimator=ESTIMATORS[estimator],
            simulations=300,
            random_seed=1,
            progressbar=False,
        )
    drawn = idata["posterior"]["x"].values
    step = {"quarters": 0.25, "point masses alone": 0.5}.get(prior, 1.0)
    assert np.array_equal(drawn, step * np.rint(drawn / step))


@pytest.mark.versions
def test_ordinary_priors_are_not_asked():
    with pm.Model() as model:
        x = pm.HalfNormal("x", 2.0)
        y = pm.Normal("z", x, 1)
        pm.Simulator("y", noisy, y, observed=0.5)
    assert ForwardModel.read(model).support.inside is None


def test_what_is_pickled_or_saved_smooths_no_column_that_needs_the_density(tmp_path):
    model = model_of("gap", 0.5)
    table = pk.simulate(400, model=model, random_seed=1, progressbar=False)
    assert not pickle.loads(pickle.dumps(table.support)).smooth().any()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = pk.Adjusted().fit(table)
        loaded = pk.load(pk.save(fitted, tmp_path / "fitted.npz"))
        drawn = loaded.condition([1.4]).draw(200, 1)
    at = np.abs(drawn - table.parameters[:, 0]).min(axis=1) < 1e-9
    assert at.all()


def test_a_large_share_of_an_adjustment_without_mass_is_warned_of():
    with pytest.warns(PosteriorWarning, match="where the prior has no mass"):
        idata = pk.sample_abc(
            200,
            model=model_of("gap", 0.5),
            estimator="adjusted",
            simulations=300,
            random_seed=1,
            progressbar=False,
        )
    assert 0.05 < idata["posterior"].attrs["share_outside_support"] < 1


def truncated_mean(lower, upper, at, sigma):
    grid = np.linspace(lower, upper, 20_001)
    weights = np.exp(-0.5 * ((grid - at) / sigma) ** 2)
    return float(weights @ grid / weights.sum())


@pytest.mark.versions
def test_an_unobserved_simulator_is_a_prior_without_a_density():
    with pm.Model() as model:
        x = pm.Simulator("x", lambda rng, a, size=None: rng.uniform(0, a, size), 1.0)
        pm.Simulator("y", noisy, x, observed=0.1)
    with pytest.raises(NotImplementedError, match="simulators"):
        log_density_of(ForwardModel.read(model).graph)
    idata = pk.sample_abc(
        1000, model=model, estimator="kernel_likelihood", simulations=1000, random_seed=1, progressbar=False
    )
    drawn = idata["posterior"]["x"].values
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    assert abs(drawn.mean() - truncated_mean(0, 1, 0.1, 0.3)) < 0.03


@pytest.mark.versions
def test_an_impossible_row_does_not_make_others_impossible():
    with pm.Model() as model:
        sigma = pm.CustomDist("sigma", random=uniform, logp=unit)
        x = pm.Normal("x", 0, sigma)
        pm.Simulator("y", noisy, x, observed=0.1)
    logs = log_density_of(ForwardModel.read(model).graph)(np.array([[0.5, 0.1], [-1.0, 0.1], [0.2, 0.0]]))
    assert np.isfinite(logs).tolist() == [True, False, True]


@pytest.mark.versions
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, None),
        ({"epsilon": 2.0, "distance": "laplace"}, "epsilon of 'y' and the distance of 'y'"),
        ({"sum_stat": "sort"}, None),
    ],
)
def test_settings_of_a_simulator_that_play_no_part_are_named(given, said):
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        pm.Simulator("y", noisy, mean, observed=[0.1, 0.3], **given)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pk.simulate(50, model=model, random_seed=1, progressbar=False)
    told = [str(one.message) for one in caught if "play no part" in str(one.message)]
    assert len(told) == (said is not None)
    assert all(said in one for one in told)
