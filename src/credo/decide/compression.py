"""Weights that are more noise than signal, a posterior without them, and how much smaller that makes a network."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from credo.core.trees import Params, Variables
from credo.methods.dropout.variational import THRESHOLD
from credo.posteriors import DiagonalGaussian, UnitNoise
from credo.posteriors.gaussian import independent_normals


def log_alpha(posterior: DiagonalGaussian | UnitNoise) -> Params:
    """log(scale^2 / mean^2) of every uncertain weight of the network, (M, *shape) each; infinity for removed weights.

    The noise of variational dropout, which acts like a dropout rate of alpha / (1 + alpha). Where weights share the
    noise of their input unit it has the shape in which it is shared, to be broadcast.
    """
    if isinstance(posterior, UnitNoise):
        return {name: 2.0 * scale.log() for name, scale in posterior.relative_scale.items()}
    posterior = independent_normals(posterior, "log_alpha")
    layout = posterior.model.network.layout
    mean = {name: posterior.mean.params[name] for name in posterior.scale if name in layout}
    return {
        name: torch.where(w == 0, math.inf, 2.0 * (posterior.scale[name].log() - w.abs().log()))
        for name, w in mean.items()
    }


def prune_noise(posterior: DiagonalGaussian, threshold: float = THRESHOLD) -> DiagonalGaussian:
    """The posterior without the weights whose log alpha is above a threshold: they become points at zero.

    Args:
        posterior: as a rule of `SparseVariationalDropout`.
        threshold: of log alpha.

    Reference: D. Molchanov, A. Ashukha, D. Vetrov, "Variational dropout sparsifies deep neural networks", 2017,
        https://arxiv.org/abs/1701.05369
    """
    posterior = independent_normals(posterior, "prune_noise")
    removed = {name: a > threshold for name, a in log_alpha(posterior).items()}

    def without(tree: Params) -> Params:
        return {name: t.masked_fill(removed[name], 0.0) if name in removed else t for name, t in tree.items()}

    mean = Variables(without(posterior.mean.params), posterior.mean.buffers)
    return replace(posterior, mean=mean, scale=without(posterior.scale))


@dataclass(frozen=True)
class LayerCompression:
    """How many weights of a parameter are not zero."""

    name: str
    weights: int
    kept: int

    @property
    def sparsity(self) -> float:
        """The part that is zero."""
        return 1.0 - self.kept / self.weights


@dataclass(frozen=True)
class Compression:
    """How many weights a network can do without.

    Attributes:
        layers: in the order of the network; parameters that were uncertain, so not biases that are points.
    """

    layers: tuple[LayerCompression, ...]

    @property
    def weights(self) -> int:
        return sum(layer.weights for layer in self.layers)

    @property
    def kept(self) -> int:
        return sum(layer.kept for layer in self.layers)

    @property
    def ratio(self) -> float:
        """How many times fewer weights there are; infinity where none is left."""
        return self.weights / self.kept if self.kept else math.inf

    @property
    def verdict(self) -> str:
        """A sentence for a person."""
        if self.kept == 0:
            return (
                f"all {self.weights:,} weights are removed, so every input gets the same answer: the KL won before "
                "the data counted. Start from a trained net (start=...), or let the KL come later (annealing=WarmUp)"
            )
        empty = [layer.name for layer in self.layers if layer.kept == 0]
        if empty:
            return (
                f"{self._figure}, but nothing is left of {', '.join(empty)}, so nothing passes there. Start from a "
                "trained net (start=...), or let the KL come later (annealing=WarmUp)"
            )
        if self.kept == self.weights:
            return (
                f"none of the {self.weights:,} weights can be removed: the noise is still small. Train longer, with a "
                "larger noise_learning_rate; SparseVariationalDropout alone lets noise outgrow the weights"
            )
        return self._figure

    @property
    def _figure(self) -> str:
        return f"{self.kept:,} of {self.weights:,} weights are left, {self.ratio:.3g} times fewer"


def compression(posterior: DiagonalGaussian, member: int = 0) -> Compression:
    """Counts the weights that are not zero.

    Args:
        posterior: pruned.
        member: whose network, where there are several.
    """
    posterior = independent_normals(posterior, "compression")
    check_member(member, posterior.mean.members)
    layout = posterior.model.network.layout
    means = {name: posterior.mean.params[name][member] for name in posterior.scale if name in layout}
    return Compression(tuple(LayerCompression(name, w.numel(), int(w.count_nonzero())) for name, w in means.items()))


def check_member(member: int, members: int) -> None:
    """Refuse the number of a member that there is not; as in lists, -1 is the last."""
    if member not in range(-members, members):
        count = f"{members} members, 0 to {members - 1}" if members > 1 else "one member, 0"
        raise ValueError(f"member={member!r} is not there: the posterior has {count}")
