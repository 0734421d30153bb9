"""The data, the networks and the methods of the assignment: to add a method, add a line to `setups`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from credo.core.rng import Stream
from credo.experiments.base import Size
from credo.likelihoods import Gaussian
from credo.methods import (
    HMC,
    MAP,
    NUTS,
    SGHMC,
    SGLD,
    SWAG,
    BayesByBackprop,
    ConcreteDropout,
    Ensemble,
    ImportanceSampling,
    Laplace,
    MaximumLikelihood,
    MCDropout,
    Method,
    Metropolis,
    RMSPreconditioner,
    VariationalDropout,
)
from credo.methods.base import Sampler
from credo.model import Model
from credo.nets import MLP, Net
from credo.priors import Normal, Prior, ScaleMixture
from credo.reports.style import BLUE, GRAY, GREEN, ORANGE, PURPLE, RED, SKY

AMPLITUDE = 10.0
NOISE = 1.0
"""Standard deviation of the noise on y."""

EDGE, MIDDLE, END = 0.5, 1.0, 1.5
"""|x| where the data end, where the far zone begins, and where the test inputs end."""

MIXTURE = ScaleMixture(weight=0.5, scale_1=1.5, scale_2=0.1)
START_SCALE = math.sqrt(MIXTURE.weight * MIXTURE.scale_1**2 + (1 - MIXTURE.weight) * MIXTURE.scale_2**2)
"""Standard deviation of the mixture prior, 1.063: the assignment draws the first means from N(0, 1.063^2)."""


@dataclass(frozen=True)
class SineProblem:
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
    def of(seed: int) -> SineProblem:
        x = torch.linspace(-EDGE, EDGE, 32).unsqueeze(1)
        y = sine(x) + NOISE * Stream(seed, ("sine", "noise")).normal(32, 1)
        return SineProblem(x, y, torch.linspace(-END, END, 1500).unsqueeze(1))

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


@dataclass(frozen=True)
class SineSetup:
    """A method with all that it needs to be run on the sine.

    Attributes:
        name: for files.
        label: for people.
        color: in every figure.
        method: with its numbers.
        net: makes the network.
        prior: of its weights.
        draws: functions drawn for a prediction; None for all that the posterior has.
        caption: what to see in its picture.
        remark: written into the picture.
    """

    name: str
    label: str
    color: str
    method: Method
    net: Net
    prior: Prior
    draws: int | None
    caption: str
    remark: str = ""

    @property
    def model(self) -> Model:
        return Model(self.net, Gaussian(scale=NOISE), self.prior)

    @property
    def samples(self) -> bool:
        """Whether the method is a sampler."""
        return isinstance(self.method, Sampler)

    def repeated(self, runs: int) -> SineSetup:
        """The same method run several times side by side, each with its own first weights and noise."""
        draws = None if self.draws is None else self.draws * runs
        return replace(self, method=Ensemble(self.method, runs), draws=draws)


PRIOR = Normal(scale=START_SCALE)
"""As wide as the assignment's mixture, and smooth, as trajectories need it."""

IMPORTANCE, METROPOLIS, HAMILTONIAN, NO_U_TURN = "importance-sampling", "metropolis", "hmc", "nuts"


def samplers(size: Size) -> tuple[SineSetup, ...]:
    """The methods by which draws come from the posterior, or from the prior and are weighted."""
    full = size is Size.FULL
    epochs, scaled = 12_000 if full else 1_000, RMSPreconditioner()
    langevin = SGLD(epochs, learning_rate=3e-3, batch_size=None, draws=100, chains=4, preconditioner=scaled)
    return (
        _sampler(
            IMPORTANCE,
            "Importance sampling",
            GRAY,
            ImportanceSampling(draws=50_000 if full else 5_000, draws_per_step=1000),
            "draws from the prior, weighted by how well they fit: a handful of them has all the weight.",
            remark="Of all draws from the prior\na handful has all the weight.",
            draws=500,
        ),
        _sampler(
            METROPOLIS,
            "Metropolis",
            ORANGE,
            Metropolis(draws=1000 if full else 50, warmup=1000 if full else 100, chains=4, moves=20),
            "a random walk in 481 dimensions: slow, and its chains still disagree outside when the run is over.",
        ),
        _sampler(
            HAMILTONIAN,
            "Hamiltonian Monte Carlo",
            BLUE,
            _hamiltonian(full),
            "four chains that agree: this is the posterior. It continues the slopes, with growing uncertainty.",
        ),
        _sampler(
            NO_U_TURN,
            "NUTS",
            PURPLE,
            NUTS(draws=200, warmup=200, chains=4) if full else NUTS(draws=30, warmup=50, chains=4, max_depth=6),
            "as Hamiltonian Monte Carlo, with trajectories that find their length themselves.",
        ),
        _sampler("sgld", "SGLD", SKY, langevin, "gradient steps with noise: near, where steps are small enough."),
        _sampler(
            "sghmc",
            "SGHMC",
            RED,
            SGHMC(epochs, learning_rate=1e-3, batch_size=None, draws=100, chains=4),
            "the same with momentum, which takes it further in as many steps.",
        ),
    )


def _sampler(
    name: str, label: str, color: str, method: Method, caption: str, *, remark: str = "", draws: int | None = None
) -> SineSetup:
    return SineSetup(name, label, color, method, variational_net, PRIOR, draws, caption, remark)


def _hamiltonian(full: bool) -> HMC:
    if full:
        return HMC(draws=300, warmup=300, chains=4, length=math.pi / 2)
    return HMC(draws=30, warmup=50, chains=4, length=0.4)


FLAT = Normal(scale=1e6)
"""So wide that it does nothing: the assignment has no weight decay.

Adam divides a gradient by its own size, so where the data give none (a unit that is silent on all of them) even the
gradient of a prior of scale 1000 moves weights at full speed, and a third of MC dropout's doubt far from the data is
gone. At 1e6 that gradient is far below Adam's epsilon.
"""

MAXIMUM_LIKELIHOOD = "maximum-likelihood"
DEEP_ENSEMBLE = "deep-ensemble"
MC_DROPOUT = "mc-dropout"
BAYES_BY_BACKPROP = "bayes-by-backprop"
CONCRETE_DROPOUT = "concrete-dropout"
VARIATIONAL_DROPOUT = "variational-dropout"
LAPLACE = "laplace"
STOCHASTIC_AVERAGING = "swag"


def setups(size: Size) -> tuple[SineSetup, ...]:
    """The methods. Bayes by Backprop and MC dropout have the assignment's numbers at full size."""
    full = size is Size.FULL
    draws = 500
    dropout = MCDropout(epochs=5000 if full else 1500, learning_rate=0.08, batch_size=None, rate=0.1)
    variational = BayesByBackprop(epochs=1500, learning_rate=0.08, batch_size=None, initial_scale=math.log(2.0))
    likelihood = MaximumLikelihood(epochs=1500 if full else 600, learning_rate=0.01, batch_size=None)
    ensemble = Ensemble(likelihood, members=20 if full else 10)
    return (
        SineSetup(
            MAXIMUM_LIKELIHOOD,
            "Maximum likelihood",
            PURPLE,
            likelihood,
            plain_net,
            FLAT,
            None,
            "a plain network: the band is the noise alone, and as narrow far from the data as among them.",
            remark="One function: no epistemic part.\nThe band is the noise alone.",
        ),
        SineSetup(
            DEEP_ENSEMBLE,
            "Deep ensemble",
            GREEN,
            ensemble,
            plain_net,
            FLAT,
            None,
            "the members agree among the data and part ways at once outside.",
        ),
        SineSetup(
            MC_DROPOUT,
            "MC dropout",
            RED,
            dropout,
            keras_net,
            FLAT,
            draws,
            "one run; dropping units shakes the function everywhere, among the data too.",
        ),
        SineSetup(
            BAYES_BY_BACKPROP,
            "Bayes by Backprop",
            BLUE,
            variational,
            variational_net,
            MIXTURE,
            draws,
            "one run; doubt of the size of the noise among the data, and a smooth cone outside.",
        ),
        *around_a_mode(size),
        *learned_dropouts(size),
        *samplers(size),
    )


def around_a_mode(size: Size) -> tuple[SineSetup, ...]:
    """Normal weights around one network, with numbers of ours."""
    epochs = 1500 if size is Size.FULL else 600
    first = MAP(epochs=epochs, learning_rate=0.01, batch_size=None)
    noisy = MAP(epochs=epochs // 2, learning_rate=0.01, batch_size=8)
    return (
        SineSetup(
            LAPLACE,
            "Laplace",
            ORANGE,
            Laplace(structure="dense", batch_size=None, after=first),
            plain_net,
            PRIOR,
            500,
            "one network made linear in its weights; its doubt grows outside, in straight lines.",
        ),
        SineSetup(
            STOCHASTIC_AVERAGING,
            "SWAG",
            GRAY,
            SWAG(epochs=epochs // 2, learning_rate=1e-3, batch_size=8, after=noisy),
            plain_net,
            PRIOR,
            500,
            "the path of one network's training; how wide it is depends on the learning rate.",
        ),
    )


def learned_dropouts(size: Size) -> tuple[SineSetup, ...]:
    """Dropout whose noise is learned, with numbers of ours."""
    short: dict[str, Any] = {"epochs": 1500 if size is Size.FULL else 800, "learning_rate": 0.02, "batch_size": None}
    return (
        SineSetup(
            CONCRETE_DROPOUT,
            "Concrete dropout",
            ORANGE,
            ConcreteDropout(**short),
            keras_net,
            Normal(3.0, fan_in=True),
            500,
            "one run; the learned rates fall to nothing, since each of 20 units matters too much to be dropped.",
            remark="The learned rates are nearly zero:\nthe draws are one function.",
        ),
        SineSetup(
            VARIATIONAL_DROPOUT,
            "Variational dropout",
            SKY,
            VariationalDropout(**short),
            keras_net,
            FLAT,
            500,
            "one run; noise in proportion to each weight, its size learned.",
        ),
    )
