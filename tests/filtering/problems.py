"""Sequences to filter, and the recursion written out with inverses."""

import numpy as np
from numpy.linalg import inv

from pymc_kbr.filtering import KernelBayesFilter
from pymc_kbr.kernels import Gaussian

SETTINGS = {
    "state_bandwidth": 0.8,
    "observation_bandwidth": 1.1,
    "prior_regularisation": 1e-3,
    "transition_regularisation": 2e-3,
    "backward_regularisation": 3e-3,
}


def turning(steps, rng, noise=0.2):
    """A noisy rotation in the plane, seen with noise."""
    z = np.empty((steps, 2))
    z[0] = rng.normal(size=2)
    for t in range(1, steps):
        angle = np.arctan2(z[t - 1, 1], z[t - 1, 0]) + 0.3
        z[t] = [np.cos(angle), np.sin(angle)] + noise * rng.normal(size=2)
    return z, z + noise * rng.normal(size=(steps, 2))


def fixed(rule="iw_kbr", **more):
    """A filter with nothing left to choose."""
    ridge = 1e-2 if rule == "iw_kbr" else 1e-3
    settings = {**SETTINGS, "regularisation": ridge, "solver": "exact", "scale": False}
    return KernelBayesFilter(rule, **settings | more)


def gram(a, b, bandwidth):
    """Kernel values, one by one."""
    return np.array([[np.exp(-np.sum((p - q) ** 2) / (2 * bandwidth**2)) for q in b] for p in a])


def centring(weights):
    """H with H' f the features less their mean under `weights`: H G H' is the centred Gram matrix."""
    return np.eye(len(weights)) - np.outer(np.ones(len(weights)), weights)


class WrittenOut:
    """The filter's equations with inverses, for one training sequence."""

    def __init__(self, z, x, rule, centred, regularisation, controls=None, control_bandwidth=None):
        s = SETTINGS
        self.z, self.x, self.rule, self.centred, self.ridge = z, x, rule, centred, regularisation
        n = self.n = len(z)
        self.gz, self.gx = gram(z, z, s["state_bandwidth"]), gram(x, x, s["observation_bandwidth"])
        self.near = np.ones((n - 1, n - 1))
        if controls is not None:
            self.controls, self.control_bandwidth = controls, control_bandwidth
            self.near = gram(controls[:-1], controls[:-1], control_bandwidth)

    def predict(self, w, control=None):
        m = self.n - 1
        g = self.gz[:m, :m] * self.near
        values = self.gz[:m] @ w
        if control is not None:
            values = values * gram(self.controls[:m], control[None], self.control_bandwidth)[:, 0]
        ridge = m * SETTINGS["transition_regularisation"] * np.eye(m)
        if not self.centred:
            v = inv(g + ridge) @ values
        else:
            c = np.full(m, 1 / m)
            h = centring(c)
            about = h @ (values - w.sum() * g @ c)
            v = c * w.sum() + h.T @ (inv(h @ g @ h.T + ridge) @ about)
        return np.concatenate([[0.0], v])

    def gamma(self, v):
        ridge = self.n * SETTINGS["prior_regularisation"] * np.eye(self.n)
        own = np.full(self.n, 1 / self.n) * v.sum() if self.centred else np.zeros(self.n)
        return own + inv(self.gz + ridge) @ self.gz @ (v - own)

    def update(self, gamma, observation):
        k = gram(self.x, observation[None], SETTINGS["observation_bandwidth"])[:, 0]
        return conditioned(self.gx, gamma, k, self.ridge, self.rule, self.centred)

    def run(self, observations):
        w, out = None, []
        for observation in observations:
            gamma = np.full(self.n, 1 / self.n) if w is None else self.gamma(self.predict(w))
            w = self.update(gamma, observation)
            out.append(w)
        return np.array(out)


def conditioned(g, gamma, k, ridge, rule, centred, total=1.0):
    """Either rule with inverses, on features about their mean under the prior where `centred`."""
    n, h, base = len(gamma), np.eye(len(gamma)), np.zeros(len(gamma))
    if centred:
        base = np.maximum(gamma, 0) / np.maximum(gamma, 0).sum()
        h, k = centring(base), centring(base) @ (k - total * g @ base)
    about, prior = h @ g @ h.T, gamma / gamma.sum() if centred else gamma
    if rule == "iw_kbr":
        prior = base if centred else prior
        root = np.diag(np.sqrt(np.maximum(prior, 0)))
        w = root @ inv(root @ about @ root + ridge * np.eye(n)) @ root @ k
    else:
        dg = np.diag(prior) @ about
        w = dg @ inv(dg @ dg + ridge * np.eye(n)) @ np.diag(prior) @ k
    return h.T @ w + (total * prior if centred else 0)


def scalar_model(steps, rng):
    """An autoregression seen with noise, stationary from its first step."""
    z = np.empty((steps, 1))
    z[0] = rng.normal(scale=0.3 / np.sqrt(1 - 0.81))
    for t in range(1, steps):
        z[t] = 0.9 * z[t - 1] + 0.3 * rng.normal()
    return z, z + 0.5 * rng.normal(size=(steps, 1))


def kalman(x):
    """Filtered and smoothed means and variances (T,) of `scalar_model`; NaN is a step without observation."""
    mean, variance, filtered, ahead = 0.0, 0.09 / (1 - 0.81), [], []
    for t, seen in enumerate(x[:, 0]):
        if t:
            mean, variance = 0.9 * mean, 0.81 * variance + 0.09
        ahead.append((mean, variance))
        if not np.isnan(seen):
            gain = variance / (variance + 0.25)
            mean, variance = mean + gain * (seen - mean), (1 - gain) * variance
        filtered.append((mean, variance))
    smoothed = [filtered[-1]]
    for (m, v), (m_ahead, v_ahead) in zip(filtered[-2::-1], ahead[:0:-1], strict=True):
        gain = 0.9 * v / v_ahead
        later, later_variance = smoothed[-1]
        smoothed.append((m + gain * (later - m_ahead), v + gain**2 * (later_variance - v_ahead)))
    return np.array(filtered), np.array(smoothed[::-1])


__all__ = [
    "SETTINGS",
    "Gaussian",
    "WrittenOut",
    "conditioned",
    "fixed",
    "gram",
    "kalman",
    "scalar_model",
    "turning",
]
