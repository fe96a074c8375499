"""Small networks in the manner of ResNet and of Inception, for images of three colours."""

from __future__ import annotations

import torch
from torch import nn


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    """With batch norm and ReLU; keeps the image's size but for ``stride``."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Residual(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.through = nn.Sequential(
            convolution(inputs, outputs, 3, stride),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        same = stride == 1 and inputs == outputs
        self.around = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.through(x) + self.around(x))


class Branches(nn.Module):
    """Four ways beside each other: 1x1, 3x3, 5x5 as two 3x3, and a pool."""

    def __init__(self, inputs: int, each: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            [
                convolution(inputs, each, 1),
                nn.Sequential(convolution(inputs, each, 1), convolution(each, each, 3)),
                nn.Sequential(
                    convolution(inputs, each, 1), convolution(each, each, 3), convolution(each, each, 3)
                ),
                nn.Sequential(nn.AvgPool2d(3, 1, padding=1), convolution(inputs, each, 1)),
            ]
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def resnet(classes: int = 10) -> nn.Module:
    stages = [Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2)]
    return nn.Sequential(
        convolution(3, 16, 3), *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes)
    )


def inception(classes: int = 10) -> nn.Module:
    return nn.Sequential(
        *(convolution(3, 16, 3, stride=2), nn.MaxPool2d(3, 2, padding=1), Branches(16, 8)),
        *(nn.MaxPool2d(3, 2, padding=1), Branches(32, 16), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Linear(64, classes)),
    )
