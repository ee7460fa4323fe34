"""Features learnt by a network: the loss against its closed form, its gradient, and what is learnt."""

import sys

import numpy as np
import pytest

from pymc_kbr.estimators import ConditionalMean, Rejection
from pymc_kbr.estimators.saving import save
from pymc_kbr.estimators.summaries import LearntFeatures, NeuralFeatures, make_summary
from pymc_kbr.estimators.summaries.networks import (
    Descent,
    default_network,
    feature_loss,
    loss_of,
    standardised,
)

SMALL = {"features": 4, "random_features": 12, "steps": 40, "learning_rate": 1e-2}


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    theta = rng.uniform(-2, 2, size=(200, 1))
    return theta, np.hstack([theta**3 + 0.1 * rng.normal(size=(200, 1)), 3 * rng.normal(size=(200, 2))])


def closed_form(psi, phi, weights, ridge, centred):
    """tr(G_Z (D - D Psi' (Psi D Psi' + lambda I)^-1 Psi D)), Psi with a column a row of data."""
    if centred:
        about = np.eye(len(psi)) - np.outer(np.ones(len(psi)), weights)
        psi, phi = about @ psi, about @ phi
    d, columns = np.diag(weights), psi.T
    inner = np.linalg.inv(columns @ d @ columns.T + ridge * np.eye(len(columns)))
    return np.trace(phi @ phi.T @ (d - d @ columns.T @ inner @ columns @ d))


@pytest.mark.parametrize("centred", [True, False])
def test_the_loss_is_its_closed_form_and_the_least_ridge_loss(centred, torch, rng):
    psi, phi, weights = rng.normal(size=(30, 4)), rng.normal(size=(30, 6)), rng.dirichlet(np.ones(30))
    found = feature_loss(*map(torch.as_tensor, (psi, phi, weights)), 0.1, centred).item()
    assert found == pytest.approx(closed_form(psi, phi, weights, 0.1, centred), rel=1e-10)
    if centred:
        psi, phi = psi - weights @ psi, phi - weights @ phi
    inner = psi.T @ (weights[:, None] * psi) + 0.1 * np.eye(4)
    best = np.linalg.solve(inner, psi.T @ (weights[:, None] * phi))

    def ridge_loss(matrix):
        return weights @ np.sum((phi - psi @ matrix) ** 2, axis=1) + 0.1 * np.sum(matrix**2)

    assert found == pytest.approx(ridge_loss(best), rel=1e-10)
    assert found < ridge_loss(best + 0.01 * rng.normal(size=best.shape))


@pytest.mark.parametrize("shape", [(3,), (2, 7, 6)])
def test_gradients_are_the_slopes_of_the_loss(shape, torch, rng):
    torch.manual_seed(0)
    network = default_network(shape, 3).double()
    x, phi = torch.as_tensor(rng.normal(size=(12, *shape))), torch.as_tensor(rng.normal(size=(12, 5)))
    how = Descent(0.1, True, 1, 12, 1e-3, "cpu")

    def loss():
        return loss_of(standardised(network(x)), phi, how)

    loss().backward()
    for parameter in network.parameters():
        place = int(rng.integers(parameter.numel()))
        slope, ends = parameter.grad.reshape(-1)[place].item(), []
        for step in (1e-5, -2e-5):
            with torch.no_grad():
                parameter.view(-1)[place] += step
            ends.append(loss().item())
        with torch.no_grad():
            parameter.view(-1)[place] += 1e-5
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope, rel=1e-4, abs=1e-8)


def test_what_is_learnt_tells_of_the_parameters(torch, table):
    theta, x = table
    learnt = NeuralFeatures(**SMALL).fit(x, theta)
    assert isinstance(learnt, LearntFeatures)
    first, best = learnt.losses[0][2], min(line[2] for line in learnt.losses)
    assert best < 0.7 * first
    psi = learnt.transform(x)
    np.testing.assert_allclose(psi.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(psi.var(axis=0), 1 / 4, rtol=1e-6)
    rng = np.random.default_rng(4)
    fresh = rng.uniform(-2, 2, size=(200, 1))
    seen = np.hstack([fresh**3 + 0.1 * rng.normal(size=(200, 1)), 3 * rng.normal(size=(200, 2))])
    errors = [
        np.mean((np.array([p.mean() for p in made.condition(seen)]) - fresh) ** 2)
        for made in (ConditionalMean(scale=learnt).fit(theta, x), ConditionalMean().fit(theta, x))
    ]
    assert errors[0] < errors[1]


def test_uncentred_features_have_the_loss_as_printed_with_the_weights_of_another_prior(torch, table):
    theta, x = table
    ratio = np.exp(-((theta[:, 0] - 1) ** 2))
    start = torch.nn.Linear(3, 2).double()
    options = {
        "network": start,
        "centred": False,
        "regularisation": 0.1,
        "held_out": 0.0,
        "random_features": 12,
    }
    for given in (None, ratio):
        made = NeuralFeatures(**options, steps=1, rows=200, learning_rate=1e-12).fit(x, theta, given)
        weights = np.full(200, 1 / 200) if given is None else given / given.sum()
        scaled = made.scaler.transform(x)
        psi = scaled @ start.weight.detach().numpy().T + start.bias.detach().numpy()
        # The same generator draws the rows that are held out before the frequencies.
        rng = np.random.default_rng(0)
        rng.permutation(200)
        phi = NeuralFeatures(**options)._of_parameters(theta, rng)
        expected = closed_form(psi, phi, weights, 0.1, False)
        assert made.losses[0][1] == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(made.transform(x), psi, atol=1e-9)
    for wrong in (ratio[:5], -ratio, np.zeros(200)):
        with pytest.raises(ValueError, match="one for each of the 200 rows"):
            NeuralFeatures(**options).fit(x, theta, wrong)


def test_weights_direct_features_to_where_the_prior_is(torch):
    rng = np.random.default_rng(0)
    theta = rng.uniform(-2, 2, size=(400, 1))
    # Below zero the first statistic tells of the parameter, above it the second.
    x = np.where(theta < 0, [1.0, 0.0], [0.0, 1.0]) * theta + 0.05 * rng.normal(size=(400, 2))
    x[theta[:, 0] < 0, 1] = rng.normal(size=np.sum(theta < 0))
    x[theta[:, 0] >= 0, 0] = rng.normal(size=np.sum(theta >= 0))
    errors = []
    torch.manual_seed(0)
    for side in (theta[:, 0] > 0, theta[:, 0] < 0):
        made = NeuralFeatures(features=1, network=torch.nn.Linear(2, 1), learning_rate=3e-2)
        psi = made.fit(x, theta, side.astype(float)).transform(x)[side]
        errors.append(1 - np.corrcoef(psi[:, 0], theta[side, 0])[0, 1] ** 2)
    assert max(errors) < 0.1


def test_a_seed_decides_and_nothing_of_the_callers_changes(torch, table):
    theta, x = table
    own = torch.nn.Linear(3, 2)
    before, state = own.weight.detach().clone(), torch.get_rng_state()
    one, other = (NeuralFeatures(network=own, steps=5, random_seed=1).fit(x, theta) for _ in range(2))
    np.testing.assert_array_equal(one.transform(x), other.transform(x))
    assert torch.equal(own.weight, before)
    assert not torch.equal(one.network.weight, before)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("shape", [(5, 6), (5, 6, 3)])
def test_images_are_flattened_rows(shape, torch, rng):
    count = int(np.prod(shape))
    images = rng.normal(size=(20, count))
    seen = []

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))

        def forward(self, x):
            seen.append(x.detach().numpy())
            return self.scale * x.flatten(1)[:, :2]

    made = NeuralFeatures(shape=shape, network=Network(), steps=1, held_out=0.0).fit(images, images[:, :1])
    made.transform(images)
    centred = images - images.mean(axis=0)
    expected = (centred / np.sqrt(np.mean(centred**2))).reshape(20, 5, 6, -1).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(seen[-1], expected, rtol=1e-5, atol=1e-6)
    assert NeuralFeatures(shape=shape, steps=1).fit(images, images[:, :1]).transform(images).shape == (20, 32)


def test_images_have_one_scale_and_vectors_one_a_column(rng):
    pixels = rng.normal(size=(50, 4)) * [1.0, 2.0, 5.0, 0.0]
    scaled = NeuralFeatures(shape=(2, 2))._scaler(pixels).transform(pixels)
    assert scaled.std() == pytest.approx(1)
    np.testing.assert_allclose(
        scaled.std(axis=0) / scaled[:, 0].std(), pixels.std(axis=0) / pixels[:, 0].std()
    )
    np.testing.assert_allclose(
        NeuralFeatures()._scaler(pixels[:, :3]).transform(pixels[:, :3]).std(axis=0), 1
    )


def test_estimators_take_what_is_to_be_fitted_and_what_was(torch, table):
    theta, x = table
    to_be, observed = NeuralFeatures(**SMALL | {"steps": 3}), x[0] + 0.01
    fitted = make_summary(to_be, x, theta)
    one, other = (Rejection(10, scale=scale).fit(theta, x) for scale in (to_be, fitted))
    np.testing.assert_array_equal(one.weights(observed), other.weights(observed))
    with pytest.raises(ValueError, match="fitted on 3 statistics; there are 2"):
        Rejection(10, scale=fitted).fit(theta, x[:, :2])


def test_a_file_cannot_hold_a_network(torch, table, tmp_path):
    theta, x = table
    fitted = Rejection(10, scale=NeuralFeatures(**SMALL | {"steps": 1})).fit(theta, x)
    with pytest.raises(TypeError, match="cannot be saved"):
        save(fitted, tmp_path / "one.npz")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"features": 0}, "features is 0"),
        ({"regularisation": -1.0}, "regularisation is -1"),
        ({"held_out": 1.0}, "held_out is 1.0"),
        ({"network": "resnet"}, "give a torch.nn.Module"),
        ({"shape": (3,)}, r"\(height, width\)"),
        ({"shape": (0, 3)}, r"\(height, width\)"),
    ],
)
def test_arguments_out_of_range(arguments, words):
    with pytest.raises((TypeError, ValueError), match=words):
        NeuralFeatures(**arguments)


def test_rows_and_networks_that_do_not_fit(torch, table):
    theta, x = table
    with pytest.raises(ValueError, match=r"3 columns and shape is \(2, 2\)"):
        NeuralFeatures(shape=(2, 2)).fit(x, theta)
    with pytest.raises(ValueError, match="four or more"):
        NeuralFeatures().fit(x[:3], theta[:3])
    with pytest.raises(ValueError, match="a row of features for each"):
        NeuralFeatures(network=torch.nn.Flatten(0), steps=1, held_out=0.0).fit(x, theta)


def test_without_pytorch_the_error_names_the_extra(monkeypatch, table):
    theta, x = table
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pymc_kbr\[neural\]"):
        NeuralFeatures().fit(x, theta)
