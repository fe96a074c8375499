"""Times PyTorch on a device: ``cpu`` or ``cuda``. A program for the Python that has it; prints JSON.

Forwarded it also counts, by the client's own counters, what a step of the CNN copies and how often it waits
for the worker.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable

import networks
import torch
from torch import nn

DEVICE = torch.device(sys.argv[1])
SMALLEST = "--smallest" in sys.argv


class Traffic(ctypes.Structure):
    """``GkTraffic`` of the client (remoting/native/client/traffic.h)."""

    _fields_ = [("copies", ctypes.c_uint64), ("copied_bytes", ctypes.c_uint64), ("waits", ctypes.c_uint64)]


def traffic() -> Traffic | None:
    """What this process has sent and asked for so far; nothing where it is not forwarded."""
    found = Traffic()
    try:
        ctypes.CDLL("libcuda.so.1").gkTraffic(ctypes.byref(found))
    except (OSError, AttributeError):
        return None
    return found


def counted(act: Callable[[], object], times: int) -> dict[str, float]:
    """Bytes copied and replies waited for, of one ``act``."""
    before = traffic()
    for _ in range(times):
        act()
    after = traffic()
    if DEVICE.type == "cpu" or before is None or after is None:
        return {}
    return {
        "copied_bytes": (after.copied_bytes - before.copied_bytes) / times,
        "waits": (after.waits - before.waits) / times,
    }


def seconds(act: Callable[[], object], times: int) -> float:
    """The median of ``times``, after two that do not count."""
    samples = []
    for _ in range(times + 2):
        start = time.perf_counter()
        act()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples[2:])


def step(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], object]:
    model, x, y = model.to(DEVICE), x.to(DEVICE), y.to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def one() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return one


def main() -> None:
    torch.manual_seed(0)
    small, times = torch.ones(8, device=DEVICE), 3 if SMALLEST else 20

    def operators() -> None:
        for _ in range(100):
            small + small

    cnn = nn.Sequential(
        *(nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Dropout(0.1), nn.Linear(32, 10)),
    )
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.1, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    transformer = nn.Sequential(encoder, nn.Flatten(), nn.Linear(32 * 128, 10))
    labels = torch.randint(0, 10, (32,))
    cnn_step = step(cnn, torch.randn(32, 1, 28, 28), labels)
    figures = {
        "operator_us": seconds(operators, times) / 100 * 1e6,
        "cnn_ms": seconds(cnn_step, times) * 1e3,
        "transformer_ms": seconds(step(transformer, torch.randn(32, 32, 128), labels), times) * 1e3,
    }
    figures |= counted(cnn_step, times)
    images = torch.randn(32, 3, 32, 32)
    for name, network in {"resnet": networks.resnet(), "inception": networks.inception()}.items():
        took = seconds(step(network, images, labels), times)
        figures[f"{name}_images_a_second"] = len(images) / took
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
