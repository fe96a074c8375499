"""What a training step copies and waits for, as the forwarding client counts it. Prints JSON.

A program for the Python that has PyTorch.
"""

from __future__ import annotations

import ctypes
import json
import sys

import torch
from torch import nn

STEPS = 10


class Traffic(ctypes.Structure):
    _fields_ = [("copies", ctypes.c_uint64), ("copied_bytes", ctypes.c_uint64), ("waits", ctypes.c_uint64)]


def traffic() -> tuple[int, int, int]:
    found = Traffic()
    ctypes.CDLL("libcuda.so.1").gkTraffic(ctypes.byref(found))
    return found.copies, found.copied_bytes, found.waits


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Dropout(0.1), nn.Linear(8 * 13 * 13, 10)),
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = torch.randn(32, 1, 28, 28), torch.randint(0, 10, (32,))
    losses = []
    for step in range(STEPS + 2):
        if step == 2:
            before = traffic()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    after = traffic()
    copies, copied, waits = (now - then for now, then in zip(after, before, strict=True))
    json.dump(
        {"all": after[:2], "copies": copies, "bytes": copied, "waits": waits, "losses": losses}, sys.stdout
    )


if __name__ == "__main__":
    main()
