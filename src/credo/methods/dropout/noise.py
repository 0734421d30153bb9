"""Three ways to put normal noise on weights: on each as a share of its size, on each by itself, on their inputs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.trees import Layout, Params, Variables
from credo.methods.dropout.log_uniform import Polynomial, Sigmoid
from credo.methods.dropout.sharing import PerLayer, Sharing
from credo.methods.vi.layers import Affine, Layer, Perturbation
from credo.methods.vi.local import LocalReparameterization, OutputNoise
from credo.model import Model
from credo.nets.walk import Passed, Rule, Sink
from credo.posteriors import DiagonalGaussian, Posterior
from credo.posteriors.unit_noise import UnitNoise, units

NOTHING = 1e-16
"""Added to theta^2 where its logarithm is taken: a weight may be exactly 0."""

CEILING = 0.0
"""Largest log variance. A weight whose input is always zero feels the prior alone, which would let it grow forever."""


class Spread(NamedTuple):
    """What a network is given of the noise on a weight.

    Attributes:
        values: a leaf of the step's graph.
        kept: of what they were made of, what the slopes need again.
    """

    values: Tensor
    kept: tuple[Tensor, ...] = ()


class Noise(ABC):
    """Normal noise on a weight theta, (M, *shape), written in a level that training moves.

    What the network is given of it is a spread: a leaf of the step's graph. What lies behind, down to the level, is
    done by hand: on large layers a graph of it would take as long as the network itself.
    """

    perturbation: Perturbation
    """What takes the place of a layer's call; it is given standard normal noise, the spread and the constants."""

    @abstractmethod
    def remarks(self, layers: Sequence[Layer], layout: Layout) -> tuple[str, ...]:
        """What a person should know of how these layers are treated; refuses those that cannot have such noise."""

    @abstractmethod
    def first(self, weight: Tensor, initial: float) -> Tensor:
        """The level before the first step."""

    @abstractmethod
    def spread(self, weight: Tensor, level: Tensor) -> Spread:
        """What the network is given, a new tensor, and what the slopes will need."""

    def constants(self, layer: Layer, level: Tensor) -> list[Tensor]:
        """What else it is given, (M, ...) each, and nobody differentiates by."""
        return []

    @abstractmethod
    def shape(self, layer: Layer) -> tuple[int, ...]:
        """Of the standard noise that the layer needs for one example."""

    @abstractmethod
    def draw(self, weight: Tensor, spread: Tensor, level: Tensor, noise: Tensor) -> Tensor:
        """The weight itself with noise, (M, *shape), where no layer can be perturbed."""

    @abstractmethod
    def log_alpha(self, weight: Tensor, level: Tensor) -> Tensor:
        """In the shape in which alphas are shared."""

    @abstractmethod
    def kl(self, weight: Tensor, level: Tensor) -> Tensor:
        """From the log-uniform prior, of each member, (M,)."""

    @abstractmethod
    def slopes(
        self, weight: Tensor, level: Tensor, spread: Spread, by_weight: Tensor, by_spread: Tensor, share: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        """By the weights and by the level, of a loss and a share of the divergence.

        Args:
            weight: theta.
            level: of its noise.
            spread: what the network was given.
            by_weight: the slope of the loss by theta where the spread stands still, which is used up.
            by_spread: its slope by the spread, which is used up.
            share: of the divergence.
        """

    @abstractmethod
    def confine(self, level: Tensor) -> None:
        """Bring the level back, in place, to where it may be."""

    @abstractmethod
    def posterior(self, model: Model, mean: Variables, level: Params) -> Posterior:
        """What is believed at these levels."""


class WeightNoise(Noise, ABC):
    """Noise of its own on every weight: layers draw their outputs."""

    perturbation: Perturbation = LocalReparameterization()

    @abstractmethod
    def variance(self, weight: Tensor, level: Tensor) -> Tensor:
        """Of every weight, a new tensor."""

    def spread(self, weight: Tensor, level: Tensor) -> Spread:
        return Spread(self.variance(weight, level))

    def remarks(self, layers: Sequence[Layer], layout: Layout) -> tuple[str, ...]:
        shared = [layer.weight for layer in layers if layer.positions > 1]
        if not shared:
            return ()
        told = "in training, the correlation between outputs that share weights at several positions is left out: "
        return (told + listed(shared),)

    def shape(self, layer: Layer) -> tuple[int, ...]:
        return layer.outputs

    def draw(self, weight: Tensor, spread: Tensor, level: Tensor, noise: Tensor) -> Tensor:
        # the root has no slope at zero
        return torch.addcmul(weight, spread.clamp_min(torch.finfo(spread.dtype).tiny).sqrt(), noise)

    def posterior(self, model: Model, mean: Variables, level: Params) -> Posterior:
        scale = {name: self.variance(mean.params[name], values).sqrt_() for name, values in level.items()}
        return DiagonalGaussian(model, mean, scale)


@dataclass(frozen=True)
class AlphaNoise(Noise, ABC):
    """Written in log alpha, which is at most 0: beyond an alpha of 1 the cubic is no divergence any more."""

    sharing: Sharing = PerLayer()
    prior: Polynomial = Polynomial()

    @abstractmethod
    def times(self, weight: Tensor, level: Tensor) -> int:
        """How many noises share an alpha."""

    def first(self, weight: Tensor, initial: float) -> Tensor:
        shape = (len(weight), *self.sharing.shape(tuple(weight.shape[1:])))
        return torch.full(shape, math.log(initial), dtype=weight.dtype, device=weight.device)

    def log_alpha(self, weight: Tensor, level: Tensor) -> Tensor:
        return level

    def kl(self, weight: Tensor, level: Tensor) -> Tensor:
        return self.prior.kl(level).flatten(1).sum(1) * self.times(weight, level)

    def confine(self, level: Tensor) -> None:
        level.clamp_(max=0.0)


@dataclass(frozen=True)
class RelativeNoise(AlphaNoise, WeightNoise, ABC):
    """w = theta (1 + sqrt(alpha) noise)."""

    def times(self, weight: Tensor, level: Tensor) -> int:
        return weight[0].numel() // level[0].numel()

    def variance(self, weight: Tensor, level: Tensor) -> Tensor:
        return weight.square().mul_(level.exp())


@dataclass(frozen=True)
class Multiplicative(RelativeNoise):
    """Alphas shared in any way: the spread is alpha theta^2, the variance of every weight."""

    def spread(self, weight: Tensor, level: Tensor) -> Spread:
        alpha = level.exp()
        scaled = alpha * weight
        return Spread(scaled * weight, (alpha, scaled))

    def slopes(
        self, weight: Tensor, level: Tensor, spread: Spread, by_weight: Tensor, by_spread: Tensor, share: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        alpha, scaled = spread.kept
        own = self.prior.slope_at(alpha, share * self.times(weight, level))
        passed = by_spread.mul_(scaled)
        of_weight = by_weight.add_(passed, alpha=2.0)
        if level.shape == weight.shape:
            return of_weight, own.addcmul_(passed, weight)
        return of_weight, own.add_(passed.mul_(weight).sum_to_size(level.shape))


class _Scaled(OutputNoise):
    """Draws the outputs where alpha is the same for all weights of an input: it multiplies x^2 instead of theta^2."""

    def given(self, own: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        noise, squares, alpha = own
        return noise, squares, None, alpha


@dataclass(frozen=True)
class ByInput(RelativeNoise):
    """One alpha for all weights that leave an input: the spread is theta^2, and inputs bear the alpha.

    The loss depends on theta^2 and alpha by their product alone, so the slope by log alpha is that by log theta^2.
    """

    perturbation = _Scaled()

    def spread(self, weight: Tensor, level: Tensor) -> Spread:
        return Spread(weight.square())

    def constants(self, layer: Layer, level: Tensor) -> list[Tensor]:
        alpha, channels = level.exp().flatten(1), layer.per_channel(layer.inputs)
        if alpha.shape[1] == 1:
            return [alpha.view(-1, *(1,) * len(channels))]
        groups = math.prod(channels) // alpha.shape[1]  # of a convolution: each has the same inputs of its weight
        return [alpha.repeat(1, groups).view(-1, *channels)]

    def draw(self, weight: Tensor, spread: Tensor, level: Tensor, noise: Tensor) -> Tensor:
        return super().draw(weight, spread * level.exp(), level, noise)

    def slopes(
        self, weight: Tensor, level: Tensor, spread: Spread, by_weight: Tensor, by_spread: Tensor, share: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        own = self.prior.slope_at(level.exp(), share * self.times(weight, level))
        by_weight.addcmul_(by_spread, weight, value=2.0)
        return by_weight, own.add_(by_spread.mul_(spread.values).sum_to_size(level.shape))


@dataclass(frozen=True)
class Additive(WeightNoise):
    """w = theta + sigma noise, written in log sigma^2: the gradient by theta is free of the noise at large alpha."""

    prior: Sigmoid = Sigmoid()

    def first(self, weight: Tensor, initial: float) -> Tensor:
        return torch.full_like(weight, 2.0 * math.log(initial))

    def variance(self, weight: Tensor, level: Tensor) -> Tensor:
        return level.exp()

    def log_alpha(self, weight: Tensor, level: Tensor) -> Tensor:
        return level - weight.square().add_(NOTHING).log_()

    def kl(self, weight: Tensor, level: Tensor) -> Tensor:
        return self.prior.kl(self.log_alpha(weight, level)).flatten(1).sum(1)

    def slopes(
        self, weight: Tensor, level: Tensor, spread: Spread, by_weight: Tensor, by_spread: Tensor, share: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        # few passes and few new tensors: logarithms and fresh memory cost as much as the network itself
        size = torch.addcmul(weight.new_full((), NOTHING), weight, weight)
        log_alpha = size.log()
        torch.sub(level, log_alpha, out=log_alpha)
        noiseless = torch.add(size, spread.values)
        torch.div(size, noiseless, out=noiseless)  # 1 / (1 + alpha)
        own = self.prior.bell(self.prior.rest(log_alpha), out=log_alpha).sub_(noiseless, alpha=0.5).mul_(share)
        of_weight = by_weight.addcmul_(torch.div(weight, size, out=size), own, value=-2.0)
        return of_weight, own.addcmul_(by_spread, spread.values)

    def confine(self, level: Tensor) -> None:
        level.clamp_(max=CEILING)


class _OnInputs(Perturbation, Rule):
    """affine(x (1 + spread noise)): a single product, and one set of weights for all positions of an example."""

    def __call__(self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, own: Sequence[Tensor]) -> Tensor:
        noise, spread = own
        return affine(x * torch.addcmul(torch.ones_like(noise), noise, spread), weight, bias)

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None, own: Sequence[Tensor]) -> tuple[Tensor, Any]:
        noise, spread = own
        noisy = (noise * spread).add_(1.0).mul_(x)
        return F.linear(noisy, weight, bias), noisy

    def backward(self, slopes: Tensor, passed: Passed, by_params: Sink, by_brought: Sink, *, by_input: bool) -> Tensor:
        (noise, spread), name = passed.own, passed.layer.weight
        by_noisy = slopes @ passed.weight
        by_params.product(name, slopes, passed.kept)
        by_params.total(passed.layer.bias, slopes)
        by_brought.add(name, (by_noisy * passed.x).mul_(noise).sum_to_size(spread.shape))
        return by_noisy.addcmul_(by_noisy * noise, spread) if by_input else slopes


@dataclass(frozen=True)
class Correlated(AlphaNoise):
    """w_oi = theta_oi s_i, s_i = 1 + sqrt(alpha_i) noise_i: one noise for all the weights that leave an input unit.

    The log-uniform prior is that of the s_i, so the divergence counts units, not weights.
    """

    perturbation = _OnInputs()

    def remarks(self, layers: Sequence[Layer], layout: Layout) -> tuple[str, ...]:
        grouped = [
            layer.weight
            for layer in layers
            if math.prod(layer.per_channel(layer.inputs)) != layout[layer.weight].shape[1]
        ]
        if grouped:
            raise ValueError(
                f"{grouped[0]!r} is the weight of a convolution with groups, where an input channel does not feed "
                "all outputs: use correlated=False, or leave it out by noisy="
            )
        return ()

    def spread(self, weight: Tensor, level: Tensor) -> Spread:
        return Spread(level.mul(0.5).exp_())

    def shape(self, layer: Layer) -> tuple[int, ...]:
        return layer.per_channel(layer.inputs)

    def draw(self, weight: Tensor, spread: Tensor, level: Tensor, noise: Tensor) -> Tensor:
        return torch.addcmul(weight, weight * spread, units(noise))

    def slopes(
        self, weight: Tensor, level: Tensor, spread: Spread, by_weight: Tensor, by_spread: Tensor, share: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        own = self.prior.slope_at(level.exp(), share * self.times(weight, level))
        return by_weight, own.addcmul_(by_spread, spread.values, value=0.5)

    def times(self, weight: Tensor, level: Tensor) -> int:
        return weight.shape[2] // level[0].numel()

    def posterior(self, model: Model, mean: Variables, level: Params) -> Posterior:
        scale = {name: self.spread(mean.params[name], values).values for name, values in level.items()}
        return UnitNoise(model, mean, scale)


def listed(names: Sequence[str]) -> str:
    """Some names for a note, the first five of many."""
    return f"{', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
