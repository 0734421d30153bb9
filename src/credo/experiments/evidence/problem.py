"""Models to choose between: polynomials, whose evidence is exact, and networks of different width and depth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from credo.core.optimizers import Cosine
from credo.core.rng import Stream
from credo.exact import GaussianWeights, LinearRegression
from credo.experiments.base import Size
from credo.likelihoods import Gaussian, LearnedGaussian
from credo.methods import MAP, AnnealedImportanceSampling, Ensemble, Laplace, Method
from credo.model import Model
from credo.nets import MLP
from credo.priors import Normal

DEGREES = range(10)
COEFFICIENTS = (0.5, -1.5, 0.0, 2.0)
"""Of the polynomial behind the data, from the constant up."""
NOISE, PRIOR = 0.3, 1.5
"""Standard deviations of the noise and of the coefficients before the data."""
POINTS = 40

SHAPES: dict[Size, tuple[tuple[int, ...], ...]] = {
    Size.QUICK: ((), (2,), (8,), (8, 8)),
    Size.FULL: ((), (1,), (2,), (4,), (8,), (32,), (8, 8), (32, 32)),
}
"""Hidden layers of the networks."""
SMALL = {Size.QUICK: (1, 2), Size.FULL: (1, 2, 3)}
"""Units of networks that annealed importance sampling can do."""
WAVE_NOISE, SMALL_NOISE = 0.15, 0.5
"""Standard deviations of the noise of the data, and of that which small networks take for known."""


@dataclass(frozen=True)
class Sets:
    """Inputs and targets to learn from, and others, (N, 1) each."""

    x: Tensor
    y: Tensor
    x_new: Tensor
    y_new: Tensor


def polynomial_data(seed: int) -> tuple[Tensor, Tensor]:
    """Inputs from -1 to 1 and a cubic with noise, (N,) each in float64."""
    x = torch.linspace(-1.0, 1.0, POINTS, dtype=torch.float64)
    stream = Stream(seed, ("evidence", "polynomial"))
    powers = powers_of(x, len(COEFFICIENTS) - 1)
    y = powers @ torch.tensor(COEFFICIENTS, dtype=torch.float64)
    return x, y + NOISE * stream.normal(POINTS, dtype=torch.float64)


def powers_of(x: Tensor, degree: int) -> Tensor:
    """1, x, ... x^degree, (N, degree + 1)."""
    return torch.stack([x**k for k in range(degree + 1)], dim=1)


def regression(x: Tensor, y: Tensor, degree: int) -> LinearRegression:
    """The exact model of a polynomial."""
    return LinearRegression(powers_of(x, degree), y, NOISE, GaussianWeights.isotropic(degree + 1, PRIOR))


def polynomial(exact: LinearRegression) -> Model:
    """The same as a network without hidden layers, at the most probable coefficients."""
    net = nn.Linear(exact.prior.size, 1, bias=False).double()
    with torch.no_grad():
        net.weight.copy_(exact.map_weights.unsqueeze(0))
    return Model(net, Gaussian(scale=NOISE), Normal(scale=PRIOR))


def wave(seed: int) -> Sets:
    """A wave and a bit, in float64."""
    stream = Stream(seed, ("evidence", "wave"))
    x, x_new = torch.linspace(-1.0, 1.0, 80).double(), torch.linspace(-1.0, 1.0, 1000).double()
    noise = [stream.child(name).normal(len(t), dtype=torch.float64) for name, t in (("old", x), ("new", x_new))]
    y, y_new = (torch.sin(4.0 * t) + WAVE_NOISE * e for t, e in zip((x, x_new), noise, strict=True))
    return Sets(*(t.unsqueeze(1) for t in (x, y, x_new, y_new)))


def network(shape: tuple[int, ...]) -> Model:
    """A network with these hidden layers, of which noise and prior are found with the weights."""
    return Model(lambda: MLP(1, 1, shape, activation="tanh").double(), LearnedGaussian(0.3), Normal(scale=2.0))


def trained(size: Size) -> Method:
    """Several runs of Laplace: the best one counts."""
    epochs = 800 if size is Size.QUICK else 4000
    first = MAP(epochs=epochs, learning_rate=0.02, batch_size=None, schedule=Cosine())
    return Ensemble(Laplace(structure="dense", batch_size=None, after=first), 2 if size is Size.QUICK else 6)


def small(units: int) -> Model:
    """A small network whose noise and prior are known."""
    return Model(
        lambda: MLP(1, 1, (units,), activation="tanh").double(), Gaussian(scale=SMALL_NOISE), Normal(scale=2.0)
    )


def small_laplace(size: Size) -> Method:
    """Of which the best run counts, with the prior as it is."""
    epochs = 800 if size is Size.QUICK else 4000
    first = MAP(epochs=epochs, learning_rate=0.03, batch_size=None, schedule=Cosine())
    return Ensemble(Laplace(structure="dense", precision="model", batch_size=None, after=first), 6)


def annealed(size: Size) -> Method:
    """The other estimate."""
    draws, temperatures = (20, 300) if size is Size.QUICK else (200, 4000)
    return AnnealedImportanceSampling(draws=draws, temperatures=temperatures)


def log_symmetries(units: int) -> float:
    """Log of the number of modes that are the same function: units may change places, and signs: 2^h h!."""
    return units * math.log(2.0) + math.lgamma(units + 1)
