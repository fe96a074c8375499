"""``torch.compile`` in its modes on the device: prints what becomes of each."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

MODES: dict[str, dict[str, Any]] = {
    "default": {},
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


def tried(compiled: Any, x: torch.Tensor, expected: torch.Tensor) -> str:
    """Graphs are captured from the second or third call on."""
    try:
        for _ in range(3):
            y = compiled(x)
            y.sum().backward()
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}"
    return "agrees" if torch.allclose(y, expected, atol=1e-5) else "differs"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
