"""``torch.compile`` in its modes on the device: prints what becomes of each, and of training."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

STEPS = 6
MODES: dict[str, dict[str, Any]] = {
    "sizes that change": {"dynamic": True, "fullgraph": True},
    "max-autotune-no-cudagraphs": {"mode": "max-autotune-no-cudagraphs"},
    "reduce-overhead": {"mode": "reduce-overhead"},
}


def main() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).cuda()
    x = torch.randn(8, 16, device="cuda")
    expected = network(x)
    for name, options in MODES.items():
        torch.compiler.reset()
        print(name, tried(torch.compile(network, **options), x, expected))
    print("and on", torch.allclose(network(x), expected))
    torch.compiler.reset()
    eager, compiled = losses(lambda step: step), losses(torch.compile)
    print(
        "trains", all(abs(one - other) <= 1e-4 * abs(one) for one, other in zip(eager, compiled, strict=True))
    )
    print("learns", compiled[-1] < 0.9 * compiled[0])


def tried(compiled: Any, x: torch.Tensor, expected: torch.Tensor) -> str:
    """Graphs are captured from the second or third call on."""
    try:
        for _ in range(3):
            y = compiled(x)
            y.sum().backward()
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}"
    return "agrees" if torch.allclose(y, expected, atol=1e-5) else "differs"


def losses(made: Callable[[Any], Any]) -> list[float]:
    """Of each step of a CNN whose forward, loss, gradients and optimiser's step are one function."""
    torch.manual_seed(1)
    network = nn.Sequential(
        *(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()), nn.Linear(128, 4)
    ).cuda()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    x, y = torch.randn(16, 1, 10, 10).cuda(), torch.arange(16).remainder(4).cuda()

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = made(step)
    return [step().item() for _ in range(STEPS)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
