"""The part of learnt features that is PyTorch's: networks, the loss with its gradient, and its descent.

PyTorch is the extra `neural`; nothing here imports it before it is needed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.arrays.extras import brought_by


def torch_of() -> Any:
    """PyTorch."""
    with brought_by("neural", "torch", "PyTorch"):
        import torch
    return torch


def device_of(name: str | None) -> Any:
    """The device of a name; a GPU where there is one and none is named."""
    torch = torch_of()
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


def default_network(shape: tuple[int, ...], features: int) -> Any:
    """A small network from points of a shape to features."""
    nn = torch_of().nn
    if len(shape) == 1:
        return nn.Sequential(
            nn.Linear(shape[0], 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, features)
        )
    channels, height, width = shape
    for _ in range(3):
        height, width = (height + 1) // 2, (width + 1) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 8, 5, stride=2, padding=2),
        nn.GELU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.GELU(),
        nn.Conv2d(16, 16, 3, stride=2, padding=1),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(16 * height * width, 64),
        nn.GELU(),
        nn.Linear(64, features),
    )


def feature_loss(psi: Any, phi: Any, weights: Any, regularisation: float, centred: bool) -> Any:
    """The least ridge loss of features of the parameters on features of the statistics."""
    # Shapes: psi (n, q); phi (n, r); weights (n,).
    torch = torch_of()
    if centred:
        psi, phi = psi - weights @ psi, phi - weights @ phi
    weighted = weights[:, None] * psi
    inner, cross = psi.T @ weighted, weighted.T @ phi
    factor = torch.linalg.cholesky(inner + regularisation * torch.eye(len(inner), dtype=psi.dtype).to(psi))
    # With A = L L' the trace of C' A^-1 C is the squared norm of L^-1 C: nothing is inverted.
    explained = torch.linalg.solve_triangular(factor, cross, upper=False)
    return (weights * (phi**2).sum(dim=1)).sum() - (explained**2).sum()


@dataclass(frozen=True)
class Descent:
    """How a network is fitted."""

    regularisation: float
    centred: bool
    steps: int
    rows: int
    learning_rate: float
    device: str | None


def descend(
    network: Any,
    points: np.ndarray,
    phi: np.ndarray,
    held: np.ndarray,
    how: Descent,
    seed: int,
    ratio: np.ndarray | None = None,
) -> tuple[Any, list[tuple[int, float, float]]]:
    """A network fitted by Adam, with the weights that had the lowest loss on held-out rows."""
    # Shapes: points (n, *shape); phi (n, r); held (n,); ratio (n,), of mean one.
    torch = torch_of()
    device = device_of(how.device)
    devices = [device.index or 0] if device.type == "cuda" else []
    # The user's own stream of random numbers stays where it is.
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        made = network().to(device)
        dtype = next((p.dtype for p in made.parameters()), torch.float32)
        x, target = (torch.as_tensor(a, dtype=dtype, device=device) for a in (points, phi))
        r = None if ratio is None else torch.as_tensor(ratio, dtype=dtype, device=device)
        own, out = (torch.as_tensor(np.flatnonzero(rows), device=device) for rows in (~held, held))
        lines = _steps(made, x, target, own, out, how, r)
    return made.eval(), lines


def _steps(
    made: Any,
    x: Any,
    target: Any,
    own: Any,
    out: Any,
    how: Descent,
    ratio: Any = None,
    *,
    # How often the loss on held-out rows is computed.
    looks: int = 20,
) -> list[tuple[int, float, float]]:
    torch = torch_of()
    parameters = [p for p in made.parameters() if p.requires_grad]
    if not parameters:
        return []
    adam = torch.optim.Adam(parameters, lr=how.learning_rate)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, how.steps, how.learning_rate / 20)
    best, kept, lines = np.inf, None, []
    order, place = own[torch.randperm(len(own), device=own.device)], 0
    for step in range(1, how.steps + 1):
        made.train()
        if place + how.rows > len(own):  # the rest would not fill a step
            order, place = own[torch.randperm(len(own), device=own.device)], 0
        rows = order[place : place + how.rows]
        place += how.rows
        psi, part = made(x[rows]), None if ratio is None else ratio[rows]
        loss = loss_of(standardised(psi, part) if how.centred else psi, target[rows], how, part)
        adam.zero_grad()
        loss.backward()
        adam.step()
        falling.step()
        if step % max(1, how.steps // looks) == 0 or step == how.steps:
            apart = held_out_loss(made, x, target, own, out, how, ratio) if len(out) else float(loss.detach())
            lines.append((step, float(loss.detach()), apart))
            if apart < best and len(out):
                best, kept = apart, copy.deepcopy(made.state_dict())
    if kept is not None:
        made.load_state_dict(kept)
    return lines


def loss_of(psi: Any, phi: Any, how: Descent, ratio: Any = None) -> Any:
    """`feature_loss` of rows that weigh the same, or as their density ratios (n,) say."""
    weights = torch_of().full((len(psi),), 1 / len(psi), dtype=psi.dtype, device=psi.device)
    weights = weights if ratio is None else weights * ratio
    return feature_loss(psi, phi, weights, how.regularisation, how.centred)


def standardised(psi: Any, ratio: Any = None) -> Any:
    """Features (n, q) about their means, each with the variance 1 / q: the ridge then has a unit."""
    about = psi - mean_of(psi, ratio)
    # A feature that is the same in all rows of a step has no deviation to be divided by.
    return about / (mean_of(about.pow(2), ratio) * psi.shape[1] + 1e-12).sqrt()


def mean_of(rows: Any, ratio: Any) -> Any:
    """The mean (q,) of rows (n, q), weighted where there are ratios (n,)."""
    return rows.mean(dim=0) if ratio is None else ratio @ rows / ratio.sum()


def held_out_loss(made: Any, x: Any, phi: Any, own: Any, out: Any, how: Descent, ratio: Any = None) -> float:
    """Mean squared error of phi at held-out rows by the ridge regression on the others' features."""
    torch = torch_of()
    made.eval()
    with torch.no_grad():
        psi = outputs(made, x)
        weights = torch.ones(len(x), dtype=psi.dtype, device=psi.device) if ratio is None else ratio
        share = None if ratio is None else ratio[own]
        centre: Any = 0.0
        if how.centred:
            mean, centre = mean_of(psi[own], share), mean_of(phi[own], share)
            scale = mean_of((psi[own] - mean) ** 2, share).sqrt()
            psi = (psi - mean) / (scale * psi.shape[1] ** 0.5 + 1e-6)
        weighted = weights[own, None] * psi[own] / len(own)
        inner = psi[own].T @ weighted
        ridge = how.regularisation * torch.eye(len(inner), dtype=psi.dtype, device=psi.device)
        map_ = torch.linalg.solve(inner + ridge, weighted.T @ (phi[own] - centre))
        return float((weights[out] * ((phi[out] - centre - psi[out] @ map_) ** 2).sum(dim=1)).mean())


def outputs(made: Callable[[Any], Any], x: Any, most: int = 500) -> Any:
    """A module's features of many points, a part at a time."""
    return torch_of().cat([made(x[i : i + most]) for i in range(0, len(x), most)])


def features_of(made: Any, points: np.ndarray) -> np.ndarray:
    """A fitted module's features (k, q) of points (k, *shape), as NumPy's numbers."""
    torch = torch_of()
    like = next(iter(made.parameters()), None)
    dtype, device = (torch.float32, "cpu") if like is None else (like.dtype, like.device)
    with torch.no_grad():
        found = outputs(made, torch.as_tensor(points, dtype=dtype, device=device))
    return found.cpu().numpy().astype(float)
