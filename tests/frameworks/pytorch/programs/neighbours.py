"""One of two students who train at once on slices of one GPU: ``neighbours.py NAME OTHER FOLDER``.

Trains, then fills its slice with a mark while the other's is full too, and looks for the other's mark in
memory that it is given afresh. The two meet by files in FOLDER. Prints what it saw as JSON. Without FOLDER
it trains alone, on the CPU.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from torch import nn

MARKS = {"ada": 0xA5, "bob": 0x5B}
BLOCK = 16 * 2**20
MEETS_WITHIN_S = 900


def losses(name: str, device: str) -> list[float]:
    torch.manual_seed(MARKS[name])
    x = torch.randn(256, 1, 12, 12)
    y = (x[:, :, :6].mean((1, 2, 3)) > x[:, :, 6:].mean((1, 2, 3))).long()
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(200, 2))
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    seen = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen


def meet(folder: Path, name: str, other: str, where: str) -> None:
    """Returns when both have come."""
    (folder / f"{where}-{name}").touch()
    end = time.monotonic() + MEETS_WITHIN_S
    while not (folder / f"{where}-{other}").exists():
        assert time.monotonic() < end, f"{other} does not come to {where}"
        time.sleep(0.05)


def filled(mark: int) -> list[torch.Tensor]:
    """All memory that there is, in blocks full of the mark."""
    blocks = []
    try:
        while True:
            blocks.append(torch.full((BLOCK,), mark, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        return blocks


def main(name: str, other: str, folder: Path) -> dict[str, object]:
    torch.ones(1, device="cuda")
    meet(folder, name, other, "begin")
    seen = losses(name, "cuda")
    meet(folder, name, other, "trained")
    blocks = filled(MARKS[name])
    meet(folder, name, other, "full")
    intact = all(bool((block.cpu() == MARKS[name]).all()) for block in blocks)
    held = len(blocks) * BLOCK
    del blocks
    torch.cuda.empty_cache()
    meet(folder, name, other, "given back")
    fresh = [torch.empty(BLOCK, dtype=torch.uint8, device="cuda") for _ in range(held // BLOCK // 2)]
    found = sum(int((block.cpu() == MARKS[other]).sum()) for block in fresh)
    meet(folder, name, other, "looked")
    return {
        "losses": seen,
        "intact": intact,
        "held_mib": held // 2**20,
        "total_mib": torch.cuda.get_device_properties(0).total_memory // 2**20,
        "of the other": found,
    }


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if len(arguments) == 1:
        said: dict[str, object] = {"losses": losses(arguments[0], "cpu")}
    else:
        said = main(arguments[0], arguments[1], Path(arguments[2]))
    print(json.dumps(said))
