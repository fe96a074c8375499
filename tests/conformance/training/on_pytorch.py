"""Trains ResNet-50 and a small transformer on PyTorch's CUDA device."""

from __future__ import annotations

from collections.abc import Callable

import timing
import torch
from torch import nn

SIZE, BATCH = (32, 2) if timing.SMALLEST else (224, 32)
WORDS, LENGTH, SEQUENCES = (50, 16, 4) if timing.SMALLEST else (1000, 128, 64)
WIDTH = 64 if timing.SMALLEST else 256
RATE = 1e-3


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1, and a way around them; four times as many channels come out."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.through = nn.Sequential(
            *(nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)),
            *(nn.Conv2d(width, width, 3, stride, padding=1, bias=False), nn.BatchNorm2d(width)),
            *(nn.ReLU(inplace=True), nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)),
        )
        self.around: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.through(x) + self.around(x))


def resnet50(classes: int = 1000) -> nn.Module:
    blocks: list[nn.Module] = []
    inputs = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(count):
            blocks.append(Bottleneck(inputs, width, stride if index == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)),
        *(nn.MaxPool2d(3, 2, padding=1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Linear(inputs, classes),
    )


def transformer() -> nn.Module:
    """Tells a sequence's class: its first word."""
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
    return nn.Sequential(
        nn.Embedding(WORDS, WIDTH),
        nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
        nn.Flatten(),
        nn.Linear(LENGTH * WIDTH, WORDS),
    )


def step_of(
    make: Callable[[], nn.Module], x: torch.Tensor, y: torch.Tensor
) -> Callable[[], Callable[[], float]]:
    def prepare() -> Callable[[], float]:
        torch.manual_seed(0)
        model = make().cuda()
        inputs, labels = x.cuda(), y.cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)

        def step() -> float:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            return loss.item()

        return step

    return prepare


def main() -> None:
    numbers = torch.Generator().manual_seed(1)
    images = torch.randn(BATCH, 3, SIZE, SIZE, generator=numbers)
    labels = torch.randint(0, 1000, (BATCH,), generator=numbers)
    timing.train("PyTorch: ResNet-50, images", BATCH, step_of(resnet50, images, labels))
    words = torch.randint(0, WORDS, (SEQUENCES, LENGTH), generator=numbers)
    timing.train("PyTorch: transformer, sequences", SEQUENCES, step_of(transformer, words, words[:, 0]))


if __name__ == "__main__":
    main()
