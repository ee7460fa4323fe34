"""A recurrent network on the last ten frames, with the network of learnt features: Xu 2022, section 5.3.

PyTorch is the extra `neural`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_kbr.estimators.summaries.networks import default_network, torch_of
from pymc_kbr.estimators.summaries.neural_features import shaped

WINDOW, FEATURES, HIDDEN = 10, 32, 32
STEPS, ROWS, LEARNING_RATE, LOOKS, HELD_OUT = 150, 128, 3e-3, 15, 0.15


def module(shape: tuple[int, ...], states: int) -> Any:
    """Features of each frame, a long short-term memory over windows of them, and a linear map."""
    torch = torch_of()

    class Recurrent(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.features = default_network(shape, FEATURES)
            self.memory = torch.nn.LSTM(FEATURES, HIDDEN, batch_first=True)
            self.last = torch.nn.Linear(HIDDEN, states)

        def forward(self, frames: Any) -> Any:
            """States (k, p) at the ends of the k windows in a row of frames (k + WINDOW - 1, ...)."""
            windows = self.features(frames).unfold(0, WINDOW, 1).transpose(1, 2)
            return self.last(self.memory(windows)[0][:, -1])

    return Recurrent()


def predicted(
    states: np.ndarray, seen: np.ndarray, fresh: np.ndarray, shape: tuple[int, ...] | None, seed: int
) -> np.ndarray:
    """States (T, p) at frames (T, d) by a network fitted to states (n, p) and frames (n, d).

    The test goes on where the training ends, so that the first windows hold frames of the training. The last
    share of the training is held out, and the weights that were best there are kept, as for learnt features.
    """
    torch = torch_of()
    centre, scale = seen.mean(axis=0), np.sqrt(np.mean((seen - seen.mean(axis=0)) ** 2))
    rows = np.concatenate([seen, fresh])
    x = torch.as_tensor(shaped((rows - centre) / scale, shape), dtype=torch.float32)
    mean, deviation = states.mean(axis=0), states.std(axis=0)
    z = torch.as_tensor((states - mean) / deviation, dtype=torch.float32)
    n, rng = len(states), np.random.default_rng(seed)
    own = n - int(HELD_OUT * n)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = module(tuple(x.shape[1:]), states.shape[1])
        adam = torch.optim.Adam(made.parameters(), lr=LEARNING_RATE)
        falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, STEPS, LEARNING_RATE / 20)
        best, kept = np.inf, None
        for step in range(1, STEPS + 1):
            start = int(rng.integers(max(1, own - ROWS - WINDOW + 2)))
            stop = min(own, start + ROWS + WINDOW - 1)
            loss = ((made(x[start:stop]) - z[start + WINDOW - 1 : stop]) ** 2).sum(dim=1).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
            falling.step()
            if step % (STEPS // LOOKS) == 0:
                with torch.no_grad():
                    apart = float(((made(x[own - WINDOW + 1 : n]) - z[own:]) ** 2).sum(dim=1).mean())
                if apart < best:
                    best, kept = apart, {k: v.clone() for k, v in made.state_dict().items()}
        made.load_state_dict(kept)
        with torch.no_grad():
            found = made(x[n - WINDOW + 1 :])
    return found.numpy().astype(float) * deviation + mean
