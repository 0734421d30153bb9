"""Three ways to put normal noise on weights: on each as a share of its size, on each by itself, on their inputs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.trees import Layout, Params, Variables
from credo.methods.dropout.log_uniform import LogUniform, Polynomial, Sigmoid
from credo.methods.dropout.sharing import PerLayer, Sharing
from credo.methods.vi.layers import Affine, Layer, Perturbation
from credo.methods.vi.local import LocalReparameterization
from credo.model import Model
from credo.posteriors import DiagonalGaussian, Posterior
from credo.posteriors.unit_noise import UnitNoise, units

NOTHING = 1e-16
"""Added to theta^2 where its logarithm is taken: a weight may be exactly 0."""

CEILING = 0.0
"""Largest log variance. A weight whose input is always zero feels the prior alone, which would let it grow forever."""


@dataclass(frozen=True)
class Divergence:
    """The KL of one parameter's weights from the log-uniform prior.

    Attributes:
        kl: of each member, (M,).
        by_weight: slope by the weights, (M, *shape); None for 0.
        by_level: slope by the level.
        log_alpha: in the shape in which alphas are shared.
    """

    kl: Tensor
    by_weight: Tensor | None
    by_level: Tensor
    log_alpha: Tensor


class Noise(ABC):
    """Normal noise on a weight theta, (M, *shape), written in a level that training moves.

    What the network is given of it is a spread: a leaf of the step's graph. What lies behind, down to the level, is
    done by hand: on large layers a graph of it would take as long as the network itself.
    """

    perturbation: Perturbation
    """What takes the place of a layer's call; it is given standard normal noise and the spread."""

    @abstractmethod
    def remarks(self, layers: Sequence[Layer], layout: Layout) -> tuple[str, ...]:
        """What a person should know of how these layers are treated; refuses those that cannot have such noise."""

    @abstractmethod
    def first(self, weight: Tensor, initial: float) -> Tensor:
        """The level before the first step."""

    @abstractmethod
    def spread(self, weight: Tensor, level: Tensor) -> Tensor:
        """What the network is given, a new tensor."""

    @abstractmethod
    def shape(self, layer: Layer) -> tuple[int, ...]:
        """Of the standard noise that the layer needs for one example."""

    @abstractmethod
    def draw(self, weight: Tensor, spread: Tensor, noise: Tensor) -> Tensor:
        """The weight itself with noise, (M, *shape), where no layer can be perturbed."""

    @abstractmethod
    def divergence(self, weight: Tensor, level: Tensor, spread: Tensor) -> Divergence:
        """From the log-uniform prior, with its slopes."""

    @abstractmethod
    def chain(self, weight: Tensor, level: Tensor, spread: Tensor, slope: Tensor) -> tuple[Tensor | None, Tensor]:
        """Slopes by the weights (None for 0) and by the level, from the slope by the spread, which is used up."""

    @abstractmethod
    def confine(self, level: Tensor) -> None:
        """Bring the level back, in place, to where it may be."""

    @abstractmethod
    def posterior(self, model: Model, mean: Variables, level: Params) -> Posterior:
        """What is believed at these levels."""


class WeightNoise(Noise, ABC):
    """Noise of its own on every weight; the spread is its variance, and layers draw their outputs."""

    perturbation = LocalReparameterization()

    def remarks(self, layers: Sequence[Layer], layout: Layout) -> tuple[str, ...]:
        shared = [layer.weight for layer in layers if layer.positions > 1]
        if not shared:
            return ()
        told = "in training, the correlation between outputs that share weights at several positions is left out: "
        return (told + listed(shared),)

    def shape(self, layer: Layer) -> tuple[int, ...]:
        return layer.outputs

    def draw(self, weight: Tensor, spread: Tensor, noise: Tensor) -> Tensor:
        # the root has no slope at zero
        return torch.addcmul(weight, spread.clamp_min(torch.finfo(spread.dtype).tiny).sqrt(), noise)

    def posterior(self, model: Model, mean: Variables, level: Params) -> Posterior:
        scale = {name: self.spread(mean.params[name], values).sqrt_() for name, values in level.items()}
        return DiagonalGaussian(model, mean, scale)


@dataclass(frozen=True)
class Multiplicative(WeightNoise):
    """w = theta (1 + sqrt(alpha) noise), with log alpha at most 0: beyond 1 the cubic is no divergence any more."""

    sharing: Sharing = PerLayer()
    prior: LogUniform = Polynomial()

    def first(self, weight: Tensor, initial: float) -> Tensor:
        return _shared(weight, self.sharing, initial)

    def spread(self, weight: Tensor, level: Tensor) -> Tensor:
        return weight.square().mul_(level.exp())

    def divergence(self, weight: Tensor, level: Tensor, spread: Tensor) -> Divergence:
        return _counted(self.prior, level, weight[0].numel() // level[0].numel())

    def chain(self, weight: Tensor, level: Tensor, spread: Tensor, slope: Tensor) -> tuple[Tensor | None, Tensor]:
        by_level = (spread * slope).sum_to_size(level.shape)
        return slope.mul_(weight).mul_(level.exp().mul_(2.0)), by_level

    def confine(self, level: Tensor) -> None:
        level.clamp_(max=0.0)


@dataclass(frozen=True)
class Additive(WeightNoise):
    """w = theta + sigma noise, written in log sigma^2: the gradient by theta is free of the noise at large alpha."""

    prior: Sigmoid = Sigmoid()

    def first(self, weight: Tensor, initial: float) -> Tensor:
        return torch.full_like(weight, 2.0 * math.log(initial))

    def spread(self, weight: Tensor, level: Tensor) -> Tensor:
        return level.exp()

    def divergence(self, weight: Tensor, level: Tensor, spread: Tensor) -> Divergence:
        # few passes and few new tensors: exponentials, logarithms and fresh memory cost as much as the network itself
        prior, size = self.prior, weight.square().add_(NOTHING)
        log_alpha = size.log().neg_().add_(level)
        rest = prior.rest(log_alpha)
        whole = size + spread
        each = whole.log().sub_(level).mul_(0.5).add_(rest, alpha=prior.k1)
        kl = each.flatten(1).sum(1)
        by_level = prior.bell(rest, out=each).sub_(whole.reciprocal_().mul_(size), alpha=0.5)
        return Divergence(kl, size.reciprocal_().mul_(weight).mul_(by_level).mul_(-2.0), by_level, log_alpha)

    def chain(self, weight: Tensor, level: Tensor, spread: Tensor, slope: Tensor) -> tuple[Tensor | None, Tensor]:
        return None, slope.mul_(spread)

    def confine(self, level: Tensor) -> None:
        level.clamp_(max=CEILING)


class _OnInputs(Perturbation):
    """affine(x (1 + spread noise)): a single product, and one set of weights for all positions of an example."""

    def __call__(self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, own: Sequence[Tensor]) -> Tensor:
        noise, spread = own
        return affine(x * torch.addcmul(torch.ones_like(noise), noise, spread), weight, bias)


@dataclass(frozen=True)
class Correlated(Noise):
    """w_oi = theta_oi s_i, s_i = 1 + sqrt(alpha_i) noise_i: one noise for all the weights that leave an input unit.

    The log-uniform prior is that of the s_i, so the divergence counts units, not weights.
    """

    sharing: Sharing = PerLayer()
    prior: LogUniform = Polynomial()
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

    def first(self, weight: Tensor, initial: float) -> Tensor:
        return _shared(weight, self.sharing, initial)

    def spread(self, weight: Tensor, level: Tensor) -> Tensor:
        return level.mul(0.5).exp_()

    def shape(self, layer: Layer) -> tuple[int, ...]:
        return layer.per_channel(layer.inputs)

    def draw(self, weight: Tensor, spread: Tensor, noise: Tensor) -> Tensor:
        return torch.addcmul(weight, weight * spread, units(noise))

    def divergence(self, weight: Tensor, level: Tensor, spread: Tensor) -> Divergence:
        return _counted(self.prior, level, weight.shape[2] // level[0].numel())

    def chain(self, weight: Tensor, level: Tensor, spread: Tensor, slope: Tensor) -> tuple[Tensor | None, Tensor]:
        return None, slope.mul(spread).mul_(0.5)

    def confine(self, level: Tensor) -> None:
        level.clamp_(max=0.0)

    def posterior(self, model: Model, mean: Variables, level: Params) -> Posterior:
        return UnitNoise(model, mean, {name: self.spread(mean.params[name], values) for name, values in level.items()})


def _shared(weight: Tensor, sharing: Sharing, alpha: float) -> Tensor:
    """log alpha in the shape in which it is shared."""
    shape = (len(weight), *sharing.shape(tuple(weight.shape[1:])))
    return torch.full(shape, math.log(alpha), dtype=weight.dtype, device=weight.device)


def _counted(prior: LogUniform, log_alpha: Tensor, times: int) -> Divergence:
    """Each alpha counts for as many noises as it is shared by."""
    kl = prior.kl(log_alpha).flatten(1).sum(1) * times
    return Divergence(kl, None, prior.slope(log_alpha).mul_(times), log_alpha)


def listed(names: Sequence[str]) -> str:
    """Some names for a note, the first five of many."""
    return f"{', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
