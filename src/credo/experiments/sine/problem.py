"""The data, the networks and the zones of the assignment."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from credo.core.rng import Stream
from credo.nets import MLP
from credo.priors import ScaleMixture

AMPLITUDE = 10.0
NOISE = 1.0
"""Standard deviation of the noise on y."""

EDGE, MIDDLE, END = 0.5, 1.0, 1.5
"""|x| where the data end, where the far zone begins, and where the test inputs end."""

MIXTURE = ScaleMixture(weight=0.5, scale_1=1.5, scale_2=0.1)
START_SCALE = math.sqrt(MIXTURE.weight * MIXTURE.scale_1**2 + (1 - MIXTURE.weight) * MIXTURE.scale_2**2)
"""Standard deviation of the mixture prior, 1.063: the assignment draws the first means from N(0, 1.063^2)."""


@dataclass(frozen=True)
class Problem:
    """The data of the assignment.

    Attributes:
        x: 32 inputs from -0.5 to 0.5, (32, 1).
        y: 10 sin(2 pi x) plus noise, (32, 1).
        grid: test inputs from -1.5 to 1.5, (1500, 1).
    """

    x: Tensor
    y: Tensor
    grid: Tensor

    @staticmethod
    def of(seed: int) -> Problem:
        x = torch.linspace(-EDGE, EDGE, 32).unsqueeze(1)
        y = sine(x) + NOISE * Stream(seed, ("sine", "noise")).normal(32, 1)
        return Problem(x, y, torch.linspace(-END, END, 1500).unsqueeze(1))

    @property
    def truth(self) -> Tensor:
        """The sine at the test inputs, (1500,)."""
        return sine(self.grid).squeeze(1)

    @property
    def inside(self) -> Tensor:
        """Which test inputs lie among the data, (1500,)."""
        return self._distance <= EDGE

    @property
    def near(self) -> Tensor:
        """Which lie outside the data, in 0.5 < |x| <= 1.0, (1500,)."""
        return (self._distance > EDGE) & (self._distance <= MIDDLE)

    @property
    def far(self) -> Tensor:
        """Which lie further out, in 1.0 < |x| <= 1.5, (1500,)."""
        return self._distance > MIDDLE

    @property
    def _distance(self) -> Tensor:
        return self.grid.abs().squeeze(1)


def sine(x: Tensor) -> Tensor:
    """The function behind the data."""
    return AMPLITUDE * torch.sin(2 * math.pi * x)


def plain_net() -> nn.Module:
    """1-20-20-1 with ReLU, started as torch does."""
    return MLP(1, 1, hidden=(20, 20))


def keras_net() -> nn.Module:
    """The same net, started as Keras does, which the assignment uses: Glorot's uniform weights, biases zero."""
    net = plain_net()
    for layer in net.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    return net


def variational_net() -> nn.Module:
    """The same net, all weights and biases started from N(0, 1.063^2)."""
    net = plain_net()
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=START_SCALE)
    return net
