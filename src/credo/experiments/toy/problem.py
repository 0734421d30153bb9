"""Six points of a curve, and the network that sees no more than these."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import credo
from credo import likelihoods, nets, priors
from credo.methods import BayesByBackprop
from credo.methods.vi import ConstantInit

POINTS = (-2.0, -1.8, -1.0, 1.0, 1.8, 2.0)
NOISE = 0.1
"""Standard deviation of the likelihood; the points themselves have none."""

METHOD = BayesByBackprop(
    epochs=2000,
    learning_rate=0.1,
    batch_size=None,
    initial_mean=ConstantInit(0.0),
    initial_rho=ConstantInit(0.0),
)
"""C. Park's numbers: Adam at 0.1 for 2000 epochs, one draw per step, all means and rho from zero."""


def curve(x: Tensor) -> Tensor:
    """y = -x^4 + 3 x^2 - 5 sin x + 1."""
    return -(x**4) + 3 * x**2 - 5 * torch.sin(x) + 1


@dataclass(frozen=True)
class ToyProblem:
    """The points (6, 1), and a grid (401, 1) from -5 to 5 with its zones.

    Attributes:
        x: inputs.
        y: targets.
        grid: where the functions are looked at.
        gap: places of the grid between the two inner points, at least 0.4 from them.
        outside: places of the grid at least one unit beyond the outer points.
    """

    x: Tensor
    y: Tensor
    grid: Tensor
    gap: Tensor
    outside: Tensor

    @staticmethod
    def given() -> ToyProblem:
        x, grid = torch.tensor(POINTS).unsqueeze(1), torch.linspace(-5.0, 5.0, 401).unsqueeze(1)
        distance = grid.squeeze(1).abs()
        return ToyProblem(x, curve(x), grid, distance <= 0.6, distance >= 3.0)


@dataclass(frozen=True)
class ToySetup:
    """A network of 1 - 16 - 16 - 1 with the prior N(0, 1), and how it is trained."""

    name: str
    activation: str
    method: BayesByBackprop

    @property
    def model(self) -> credo.Model:
        net = nets.MLP(1, 1, (16, 16), activation=self.activation)
        return credo.Model(net, likelihoods.Gaussian(scale=NOISE), priors.Normal(1.0))


SIGMOID = ToySetup("sigmoid", "sigmoid", METHOD)
RELU = ToySetup(
    "relu", "relu", BayesByBackprop(epochs=2000, learning_rate=0.02, batch_size=None, initial_scale=NOISE / 2)
)
"""Ours, to tell the method from the network: ReLU cannot start from means of zero, nor take steps as long."""
