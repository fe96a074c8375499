"""Trains small networks on the CPU and on the device, and prints the losses of both as JSON.

A program for the Python that has PyTorch. Both start from the same parameters and see the same data. What
dropout drops is drawn from a seed on both sides: on the device the first draw after a seed is the CPU's.
"""

from __future__ import annotations

import itertools
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import networks
import torch
from torch import nn

STEPS = 20
STEPS_OF_LARGE = 6


class Last(nn.Module):
    """A recurrent network's output at the last step, through a linear layer."""

    def __init__(self, recurrent: nn.Module, hidden: int) -> None:
        super().__init__()
        self.recurrent, self.out = recurrent, nn.Linear(hidden, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.recurrent(x)[0][:, -1])


class SeededDropout(nn.Dropout):
    """Dropout whose draw is the first after a seed of its own, which both sides have alike."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(11)
        return super().forward(x)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))


def cnn() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(2)),
        *(nn.Flatten(), SeededDropout(0.25), nn.Linear(64, 2)),
    )


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    return nn.Sequential(
        nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Flatten(), nn.Linear(256, 2)
    )


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (64, 20)),
    "cnn": (cnn, (16, 1, 20, 20)),
    "transformer": (transformer, (8, 8, 32)),
    "lstm": (lambda: Last(nn.LSTM(12, 24, num_layers=2, batch_first=True), 24), (16, 6, 12)),
    "gru": (lambda: Last(nn.GRU(12, 24, bidirectional=True, batch_first=True), 48), (16, 6, 12)),
}
LARGE: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet": (networks.resnet, (8, 3, 32, 32)),
    "inception": (networks.inception, (8, 3, 32, 32)),
}
OPTIMISERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, fused=True),
}


def train(
    network: str, optimiser: str, device: str, mixed: bool = False, compiled: bool = False
) -> list[float]:
    """The loss of each step."""
    make, shape = (NETWORKS | LARGE)[network]
    torch.manual_seed(1)
    model, x = make(), torch.randn(shape)
    y = (x.flatten(1).sum(1) > 0).long()
    model, x, y = model.to(device), x.to(device), y.to(device)
    forward = torch.compile(model) if compiled else model
    optimizer = OPTIMISERS[optimiser](model.parameters())
    scaler = torch.amp.GradScaler(device, enabled=mixed)
    losses = []
    for _ in range(STEPS_OF_LARGE if network in LARGE else STEPS):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16, enabled=mixed):
            loss = nn.functional.cross_entropy(forward(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    losses: dict[str, tuple[list[float], ...]] = {}
    for network, optimiser in [*itertools.product(NETWORKS, OPTIMISERS), *((each, "sgd") for each in LARGE)]:
        both = tuple(train(network, optimiser, each) for each in ("cpu", "cuda"))
        losses[f"{network} {optimiser}"] = both
    for network in ("mlp", "cnn", "transformer", "gru"):
        both = tuple(train(network, "sgd", each, mixed=True) for each in ("cpu", "cuda"))
        losses[f"{network} autocast"] = both
    losses["mlp compile"] = train("mlp", "adam", "cpu"), train("mlp", "adam", "cuda", compiled=True)
    json.dump(losses, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
