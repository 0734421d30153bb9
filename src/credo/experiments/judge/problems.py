"""Problems that are small enough for a judge: a long run of Hamiltonian Monte Carlo that converges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.data.toys import two_moons
from credo.experiments.sine.problem import EDGE, END, NOISE, Problem, plain_net, sine
from credo.likelihoods import Categorical, Gaussian
from credo.model import Model
from credo.nets import MLP
from credo.priors import Normal

SINE, MOONS = "sine", "moons"
NEW = 1000
"""Examples that no method has seen."""


@dataclass(frozen=True, eq=False)
class Contest:
    """One problem for all methods: the same model, the same data, and the inputs at which they are compared.

    Attributes:
        name: for files and the command line.
        title: what it is.
        model: network, likelihood and prior; the posterior that every method is after is that of this model.
        x: inputs to learn from, (N, F).
        y: their targets.
        inputs: where predictions are compared, (B, F).
        inside: which of these lie among the data, (B,).
        new: inputs and targets that no method has seen.
        pictured: whether the inputs are a line or a grid, over which predictions can be drawn.
    """

    name: str
    title: str
    model: Model
    x: Tensor
    y: Tensor
    inputs: Tensor
    inside: Tensor
    new: tuple[Tensor, Tensor]
    pictured: bool = False


def sine_contest(seed: int) -> Contest:
    """The sine of the TEK5040 assignment with its network, 1-20-20-1 with ReLU, and a standard normal prior."""
    problem, stream = Problem.of(seed), Stream(seed, ("judge", "sine"))
    inputs = torch.linspace(-END, END, 61).unsqueeze(1)
    x = torch.linspace(-EDGE, EDGE, NEW).unsqueeze(1)
    return Contest(
        SINE,
        "32 points of a noisy sine, 1-20-20-1 with ReLU",
        Model(plain_net, Gaussian(scale=NOISE), Normal(scale=1.0)),
        problem.x,
        problem.y,
        inputs,
        inputs.abs().squeeze(1) <= EDGE,
        (x, sine(x) + NOISE * stream.child("new").normal(NEW, 1)),
        pictured=True,
    )


def moons_contest(seed: int) -> Contest:
    """Two moons that overlap a little: 100 points, 2-10-10-2 with tanh, a standard normal prior."""
    noise = 0.25
    x, y = two_moons(100, noise_scale=noise, seed=seed)
    across, up = torch.linspace(-3.0, 4.0, 22), torch.linspace(-2.5, 3.0, 18)
    inputs = torch.cartesian_prod(across, up)
    return Contest(
        MOONS,
        "100 points of two moons, 2-10-10-2 with tanh",
        Model(lambda: MLP(2, 2, hidden=(10, 10), activation="tanh"), Categorical(), Normal(scale=1.0)),
        x,
        y,
        inputs,
        torch.cdist(inputs, x).amin(1) <= 2 * noise,
        two_moons(NEW, noise_scale=noise, seed=seed + 10_000),
        pictured=True,
    )


CONTESTS: dict[str, Callable[[int], Contest]] = {SINE: sine_contest, MOONS: moons_contest}
"""Problems by name, made from a seed."""
