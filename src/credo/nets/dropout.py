"""Dropout as data: where a network drops, and masks that are tensors like any other.

torch draws dropout masks from its global generator inside the layer. Here a network is called with its masks as
arguments, so that a mask can be shared by a batch (one draw = one function), differ between members, and be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from credo.core.rng import Stream
from credo.nets.layer import Layer

_BY_CHANNEL_AXES = {1: F.dropout1d, 2: F.dropout2d, 3: F.dropout3d}
"""Dropout of whole channels, by how many axes a channel has."""

Pattern = tuple[str, float]
"""A pattern for names of layers, as in file names, and a rate."""


class Drops(StrEnum):
    """What is dropped where dropout is put into a network."""

    UNITS = "units"
    """Single entries of a layer's input: a unit of a dense layer, a pixel of a channel."""
    CHANNELS = "channels"
    """Whole channels in front of a convolution, units in front of a dense layer."""
    WEIGHTS = "weights"
    """Single weights (DropConnect)."""


@dataclass(frozen=True)
class Site:
    """One place where a forward pass drops units, or a weight of which entries are dropped."""

    shape: tuple[int, ...]  # shape of the mask for the probe batch
    batch_axis: int | None  # the axis that grows with the batch; None where the mask does not depend on it
    per_example: int  # how many entries of that axis belong to one example
    rate: float  # probability that a unit is dropped
    alpha: bool  # alpha dropout (for SELU) rather than the ordinary kind
    # of the module in which it happens ("forward" for the network itself); another place in the same module is called
    # name:2, and so on
    name: str = ""
    # the layer whose inputs are dropped; None where no layer, or something else, takes them
    consumer: Layer | None = None
    fills: bool = False  # whether the module fills a mask of its own, which is more than to multiply by it

    @property
    def has_own_meaning(self) -> bool:
        """Whether ones in its mask are the exception, so that they are what is dropped (drop block)."""
        return self.fills and self.rate > 0.5

    def mask_shape(self, examples: int | None) -> tuple[int, ...]:
        """Shape of a mask for so many examples; None: one mask that all of them share."""
        if self.batch_axis is None:
            return self.shape
        shape = list(self.shape)
        shape[self.batch_axis] = 1 if examples is None else examples * self.per_example
        return tuple(shape)

    @property
    def label(self) -> str:
        """The place, for a person."""
        layer = (self.consumer or self).name
        return self.name if layer == self.name else f"{self.name} (for {layer})"

    def matches(self, pattern: str) -> bool:
        """Whether a pattern means this place: by the name of the module that drops, or of the layer it drops for."""
        return any(fnmatchcase(name, pattern) for name in (self.name, (self.consumer or self).name))


@dataclass(frozen=True)
class DropoutChange:
    """Dropout that differs from the module's own."""

    rate: float | None  # at every place that no pattern means; None for the module's own
    # the module has no dropout; put it in front of every weight layer but the first, or of those that a pattern means
    inserted: bool
    rates: tuple[Pattern, ...] = ()  # rates by pattern; the first pattern that means a place counts
    drops: Drops = Drops.CHANNELS  # what is dropped where dropout is put in

    def __post_init__(self) -> None:
        object.__setattr__(self, "drops", Drops(self.drops))

    def rate_at(self, site: Site) -> float:
        """The rate at a place; a mask that means something else keeps its own."""
        if site.has_own_meaning:
            return site.rate
        everywhere = site.rate if self.rate is None else self.rate
        return next((rate for pattern, rate in self.rates if site.matches(pattern)), everywhere)

    def layer_names(self, module: nn.Module) -> list[str]:
        """The layers in front of which dropout is put, or whose weights are dropped."""
        if not self.inserted:
            return []
        names = [name for name, _ in weight_layers(module)]
        if self.rates:
            return [name for name in names if any(fnmatchcase(name, pattern) for pattern, _ in self.rates)]
        return names if self.drops is Drops.WEIGHTS else names[1:]


def weight_sites(shapes: Mapping[str, tuple[int, ...]]) -> tuple[Site, ...]:
    """Weights of which entries are dropped, by name and shape: masks of their own shape, the same for all examples."""
    sites = []
    for name, shape in shapes.items():
        kernel = (1,) * (len(shape) - 2)
        layer = Layer(name, None, (shape[1], *kernel), (shape[0], *kernel), len(kernel))
        sites.append(Site(shape, None, 0, 0.0, False, layer.name, layer))
    return tuple(sites)


def draw_masks(
    sites: Sequence[Site],
    stream: Stream,
    count: int,
    examples: int | None,
    dtype: torch.dtype,
    device: torch.device | str,
    keeps: Sequence[Tensor] | None = None,
) -> list[Tensor]:
    """Masks of 0 and 1 / (1 - rate) (0 and 1 for alpha dropout), (count, *mask shape) for each site.

    Args:
        sites: where masks are needed.
        stream: the noise.
        count: number of members or draws, each with other masks.
        examples: one mask per example in a batch of this many (training), or None for one mask that all inputs share
            (a drawn function).
        dtype: of the masks.
        device: of the masks.
        keeps: the probability that a unit stays, where that was learned: for each site (count or 1, ...), to be
            broadcast over its mask.
    """
    generator = stream.generator(device)
    masks = []
    for index, site in enumerate(sites):
        mask = torch.empty((count, *site.mask_shape(examples)), dtype=dtype, device=device)
        if keeps is not None:
            mask.bernoulli_(keeps[index].expand(mask.shape), generator=generator).div_(keeps[index])
        else:
            mask.bernoulli_(1.0 - site.rate, generator=generator)
            if not site.alpha and site.rate < 1.0:
                mask.mul_(1.0 / (1.0 - site.rate))
        masks.append(mask)
    return masks


PROBE = 0.5
"""The rate that a dropout call which was put in is made with: any but 0, since masks bring the rate that is meant."""


def insert_dropout(module: nn.Module, change: DropoutChange) -> None:
    """Put dropout on the inputs of the layers that a change means, in place.

    For a plain stack this is dropout after each hidden layer. Forward hooks do it, so no parameter changes its name.
    """

    def drop(layer: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        function = F.dropout
        if change.drops is Drops.CHANNELS and isinstance(layer, nn.modules.conv._ConvNd):
            function = _BY_CHANNEL_AXES[len(layer.kernel_size)]
        return function(args[0], PROBE, training=layer.training), *args[1:]

    for name in change.layer_names(module):
        module.get_submodule(name).register_forward_pre_hook(drop)


def weight_layers(module: nn.Module) -> Iterable[tuple[str, nn.Module]]:
    """The linear and convolutional layers by name, in the order of registration."""
    convolution = nn.modules.conv._ConvNd
    return ((name, m) for name, m in module.named_modules() if isinstance(m, nn.Linear | nn.Bilinear | convolution))
