"""Problems small enough for a judge, and the methods that are compared: to add one, add a line to `CANDIDATES`."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.optimizers import Cosine
from credo.core.rng import Stream
from credo.data.toys import two_moons
from credo.experiments.base import Size
from credo.experiments.sine.problem import EDGE, END, NOISE, SineProblem, plain_net, sine
from credo.likelihoods import Categorical, Gaussian
from credo.methods import (
    HMC,
    MAP,
    MCLMC,
    SGHMC,
    SGLD,
    SWAG,
    BayesByBackprop,
    ConcreteDropout,
    DeepEnsemble,
    ImportanceSampling,
    Laplace,
    MCDropout,
    Method,
    Metropolis,
    RMSPreconditioner,
)
from credo.model import Model
from credo.nets import MLP
from credo.priors import Normal
from credo.reports.style import BLUE, GRAY, GREEN, ORANGE, PURPLE, RED, SKY

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
    problem, stream = SineProblem.of(seed), Stream(seed, ("judge", "sine"))
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


QUARTER = math.pi / 2
"""Length of a trajectory: a quarter of the period of a standard normal, after which its first momentum is forgotten."""

SHORTEST = 50
"""Iterations of warm-up at least."""
SWAG_BATCH = 8
"""Examples of a step whose noise makes SWAG's path."""
QUICK_DRAWS, FULL_DRAWS = 30, 500
"""Of each of the judge's chains."""


@dataclass(frozen=True)
class Candidate:
    """A method that is compared with the judge.

    Attributes:
        name: for the command line.
        label: for people.
        color: in figures.
        make: the method with its numbers, for a problem by name and a size.
        draws: functions drawn for a prediction; None for all that the posterior has.
    """

    name: str
    label: str
    color: str
    make: Callable[[str, Size], Method]
    draws: int | None = None


def the_judge(draws: int) -> HMC:
    """The judge: four chains of Hamiltonian Monte Carlo, with so many draws of each."""
    return HMC(draws=draws, warmup=max(draws, SHORTEST), chains=4, length=QUARTER)


def _epochs(problem: str, size: Size) -> int:
    return (600 if problem == SINE else 400) if size is Size.QUICK else (3000 if problem == SINE else 1500)


def _map(problem: str, size: Size) -> MAP:
    return MAP(_epochs(problem, size), learning_rate=0.01, batch_size=None, schedule=Cosine())


def _ensemble(problem: str, size: Size) -> Method:
    members = 10 if size is Size.QUICK else 20
    epochs = _epochs(problem, size)
    return DeepEnsemble(members, epochs=epochs, learning_rate=0.01, batch_size=None, schedule=Cosine())


def _laplace(problem: str, size: Size) -> Method:
    # the prior of the contest is part of the problem: the evidence must not change it
    return Laplace("dense", precision="model", batch_size=None, after=_map(problem, size))


def _swag(problem: str, size: Size) -> Method:
    epochs = _epochs(problem, size) // 4
    first = MAP(epochs, learning_rate=0.01, batch_size=SWAG_BATCH, schedule=Cosine())
    return SWAG(epochs, learning_rate=1e-3 if problem == SINE else 0.1, batch_size=SWAG_BATCH, after=first)


def _variational(problem: str, size: Size) -> Method:
    epochs = 2 * _epochs(problem, size)
    return BayesByBackprop(epochs, learning_rate=0.02, batch_size=None, schedule=Cosine(), initial_scale=0.05)


def _dropout(problem: str, size: Size) -> Method:
    return MCDropout(_epochs(problem, size), learning_rate=0.01, batch_size=None, schedule=Cosine(), rate=0.1)


def _concrete(problem: str, size: Size) -> Method:
    return ConcreteDropout(_epochs(problem, size), learning_rate=0.01, batch_size=None)


def _langevin(problem: str, size: Size) -> Method:
    # gradients by the sine's weights differ so much in size that one step for all of them would take far too long
    rate, scaled = (0.1, None) if problem == MOONS else (3e-3, RMSPreconditioner())
    epochs = 4 * _epochs(problem, size)
    return SGLD(epochs, learning_rate=rate, batch_size=None, draws=100, chains=4, preconditioner=scaled)


def _stochastic(problem: str, size: Size) -> Method:
    rate = 0.1 if problem == MOONS else 1e-3
    return SGHMC(4 * _epochs(problem, size), learning_rate=rate, batch_size=None, draws=100, chains=4)


def _metropolis(problem: str, size: Size) -> Method:
    count = 100 if size is Size.QUICK else 1000
    return Metropolis(draws=count, warmup=count, chains=4, moves=20)


def _microcanonical(problem: str, size: Size) -> Method:
    count = 50 if size is Size.QUICK else 500
    return MCLMC(draws=count, warmup=count, chains=4)


def _importance(problem: str, size: Size) -> Method:
    return ImportanceSampling(draws=2000 if size is Size.QUICK else 50_000, draws_per_step=1000)


CANDIDATES = (
    Candidate("map", "MAP", PURPLE, _map),
    Candidate("ensemble", "deep ensemble", GREEN, _ensemble),
    Candidate("laplace", "Laplace", ORANGE, _laplace, draws=500),
    Candidate("swag", "SWAG", RED, _swag, draws=500),
    Candidate("vi", "Bayes by Backprop", BLUE, _variational, draws=500),
    Candidate("dropout", "MC dropout", RED, _dropout, draws=500),
    Candidate("concrete", "concrete dropout", ORANGE, _concrete, draws=500),
    Candidate("sgld", "SGLD", SKY, _langevin),
    Candidate("sghmc", "SGHMC", SKY, _stochastic),
    Candidate("mclmc", "MCLMC", SKY, _microcanonical),
    Candidate("metropolis", "Metropolis", GRAY, _metropolis),
    Candidate("importance", "importance sampling", GRAY, _importance, draws=1000),
)
"""Every method that is compared, in the order of the table."""


def chosen(names: Sequence[str]) -> tuple[Candidate, ...]:
    """The methods of these names, in the order of the table.

    Raises:
        ValueError: there is no such method; the sentence names the nearest ones.
    """
    known = {candidate.name: candidate for candidate in CANDIDATES}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name.lower(), known, n=1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"there is no method {name!r} to compare: {advice}")
    return tuple(candidate for candidate in CANDIDATES if candidate.name in names)
