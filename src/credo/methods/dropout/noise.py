"""Models of normal noise on weights: on each weight as a share of its size, on each by itself, on their inputs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.trees import Layout, Params, Variables
from credo.methods.dropout.log_uniform import cubic_kl, sigmoid_kl
from credo.methods.dropout.placing import PerLayer, Sharing
from credo.methods.vi.layers import Affine, Layer, Perturbation
from credo.methods.vi.local import local_outputs
from credo.model import Model
from credo.posteriors import DiagonalGaussian, Posterior
from credo.posteriors.unit_noise import UnitNoise, units
from credo.priors import LogUniform

SMALLEST_SQUARE = 1e-16
"""Added to theta^2 where its logarithm is taken: a weight may be exactly 0."""


class NoiseModel(Perturbation, ABC):
    """Normal noise on a weight theta, (M, *shape), of which training learns the logarithm of a variance.

    That is `log_noise`: log alpha, or log sigma^2. It is at most 0. As the perturbation of a layer's call a model is
    given standard normal noise and the variance.
    """

    @abstractmethod
    def initial_log_noise(self, weight: Tensor) -> Tensor:
        """Before the first step."""

    @abstractmethod
    def variance(self, weight: Tensor, log_noise: Tensor) -> Tensor:
        """Of what a layer's call puts its noise on."""

    @abstractmethod
    def log_alpha(self, weight: Tensor, log_noise: Tensor) -> Tensor:
        """In the shape in which alphas are shared."""

    @abstractmethod
    def kl(self, weight: Tensor, log_noise: Tensor) -> Tensor:
        """From the log-uniform prior, of each member, (M,)."""

    @abstractmethod
    def noise_shape(self, layer: Layer) -> tuple[int, ...]:
        """Of the standard noise that a layer needs for one example."""

    @abstractmethod
    def draw(self, weight: Tensor, log_noise: Tensor, standard: Tensor) -> Tensor:
        """The weight itself with noise, (M, *shape), for weights that no layer's call takes."""

    @abstractmethod
    def notes(self, layers: Sequence[Layer], layout: Layout) -> tuple[str, ...]:
        """What a person should know of how these layers are treated; refuses those that cannot have such noise."""

    @abstractmethod
    def posterior(self, model: Model, mean: Variables, log_noise: Params) -> Posterior:
        """q."""


class WeightNoise(NoiseModel, ABC):
    """w = theta + sqrt(variance) noise, for each weight; a layer draws its outputs instead,

    h = affine(x; theta) + sqrt(affine(x^2; variance)) noise
    """

    def __call__(
        self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, tensors: Sequence[Tensor]
    ) -> Tensor:
        noise, variance = tensors
        return local_outputs(affine, x, weight, bias, noise, variance)

    def noise_shape(self, layer: Layer) -> tuple[int, ...]:
        return layer.outputs

    def draw(self, weight: Tensor, log_noise: Tensor, standard: Tensor) -> Tensor:
        return weight + _root(self.variance(weight, log_noise)) * standard

    def notes(self, layers: Sequence[Layer], layout: Layout) -> tuple[str, ...]:
        shared = [layer.weight for layer in layers if layer.positions > 1]
        if not shared:
            return ()
        missing = "in training, the correlation between outputs that share weights at several positions is left out: "
        return (missing + listed(shared),)

    def posterior(self, model: Model, mean: Variables, log_noise: Params) -> Posterior:
        scale = {name: self.variance(mean.params[name], values).sqrt() for name, values in log_noise.items()}
        return DiagonalGaussian(under_log_uniform(model, log_noise), mean, scale)


def _root(variance: Tensor) -> Tensor:
    """The standard deviation; where the variance is zero, the root has no gradient."""
    return variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()


@dataclass(frozen=True)
class AlphaNoise(NoiseModel, ABC):
    """Learned as log alpha, which is at most 0: beyond an alpha of 1 the cubic is no KL any more."""

    sharing: Sharing = PerLayer()
    initial_alpha: float = 0.25

    def initial_log_noise(self, weight: Tensor) -> Tensor:
        shape = (len(weight), *self.sharing.shape(tuple(weight.shape[1:])))
        return weight.new_full(shape, math.log(self.initial_alpha))

    def log_alpha(self, weight: Tensor, log_noise: Tensor) -> Tensor:
        return log_noise


@dataclass(frozen=True)
class RelativeNoise(AlphaNoise, WeightNoise):
    """w = theta (1 + sqrt(alpha) noise)."""

    def variance(self, weight: Tensor, log_noise: Tensor) -> Tensor:
        return log_noise.exp() * weight.square()

    def kl(self, weight: Tensor, log_noise: Tensor) -> Tensor:
        weights_per_alpha = weight[0].numel() // log_noise[0].numel()
        return weights_per_alpha * cubic_kl(log_noise)


@dataclass(frozen=True)
class AdditiveNoise(WeightNoise):
    """w = theta + sigma noise, in log sigma^2: the gradient by theta is free of the noise at large alpha.

    sigma <= 1: a weight whose input is always zero is moved by the prior alone, which would let it grow forever.
    """

    initial_scale: float = 0.01

    def initial_log_noise(self, weight: Tensor) -> Tensor:
        return torch.full_like(weight, 2.0 * math.log(self.initial_scale))

    def variance(self, weight: Tensor, log_noise: Tensor) -> Tensor:
        return log_noise.exp()

    def log_alpha(self, weight: Tensor, log_noise: Tensor) -> Tensor:
        return log_noise - (weight.square() + SMALLEST_SQUARE).log()

    def kl(self, weight: Tensor, log_noise: Tensor) -> Tensor:
        return sigmoid_kl(self.log_alpha(weight, log_noise))


@dataclass(frozen=True)
class CorrelatedNoise(AlphaNoise):
    """w_oi = theta_oi s_i, s_i = 1 + sqrt(alpha_i) noise_i: one noise for all the weights that leave an input unit.

    h = affine(x s; theta).  The log-uniform prior is that of the s_i, so the KL counts units, not weights.
    """

    def __call__(
        self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, tensors: Sequence[Tensor]
    ) -> Tensor:
        noise, alpha = tensors
        return affine(x * (1.0 + _root(alpha) * noise), weight, bias)

    def variance(self, weight: Tensor, log_noise: Tensor) -> Tensor:
        return log_noise.exp()

    def kl(self, weight: Tensor, log_noise: Tensor) -> Tensor:
        units_per_alpha = weight.shape[2] // log_noise[0].numel()
        return units_per_alpha * cubic_kl(log_noise)

    def noise_shape(self, layer: Layer) -> tuple[int, ...]:
        return layer.per_channel(layer.inputs)

    def draw(self, weight: Tensor, log_noise: Tensor, standard: Tensor) -> Tensor:
        return weight * (1.0 + (0.5 * log_noise).exp() * units(standard))

    def notes(self, layers: Sequence[Layer], layout: Layout) -> tuple[str, ...]:
        channels = {layer.weight: math.prod(layer.per_channel(layer.inputs)) for layer in layers}
        grouped = [name for name, count in channels.items() if count != layout[name].shape[1]]
        if grouped:
            raise ValueError(
                f"{grouped[0]!r} is the weight of a convolution with groups, where an input channel does not feed "
                "all outputs: use correlated=False, or leave it out by noisy="
            )
        return ()

    def posterior(self, model: Model, mean: Variables, log_noise: Params) -> Posterior:
        scale = {name: (0.5 * values).exp() for name, values in log_noise.items()}
        return UnitNoise(under_log_uniform(model, log_noise), mean, scale)


def under_log_uniform(model: Model, noisy: Params) -> Model:
    """The model with the log-uniform prior for the noisy weights, and its own for all others."""
    return model.with_prior(LogUniform(tuple(noisy), model.prior))


def listed(names: Sequence[str]) -> str:
    """Some names for a note, the first five of many."""
    return f"{', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
