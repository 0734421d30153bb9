"""Dropout as data: where a network drops, and masks that are tensors like any other.

torch draws dropout masks from its global generator inside the layer. Here a network is called with its masks as
arguments, so that a mask can be shared by a batch (one draw = one function), differ between members, and be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from credo.core.rng import Stream
from credo.nets.fed import Fed

CHANNEL_AXES = {F.dropout1d: 1, F.dropout2d: 2, F.dropout3d: 3}
"""Dropout of whole channels, and how many axes a channel has."""
DROPOUTS = {F.dropout, F.alpha_dropout, *CHANNEL_AXES}
_BY_CHANNEL_AXES = {axes: drop for drop, axes in CHANNEL_AXES.items()}
_ALPHA = -1.0507009873554805 * 1.6732632423543772
"""The value that SELU saturates at; alpha dropout sets dropped units to it."""

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
    """One place where a forward pass drops units, or a weight of which entries are dropped.

    Attributes:
        shape: shape of the mask for the probe batch.
        batch_axis: the axis that grows with the batch; None where the mask does not depend on it.
        per_example: how many entries of that axis belong to one example.
        rate: probability that a unit is dropped.
        alpha: alpha dropout (for SELU) rather than the ordinary kind.
        name: of the module in which it happens ("forward" for the network itself); another place in the same module is
            called name:2, and so on.
        fed: the layer whose inputs are dropped; None where no layer, or something else, takes them.
    """

    shape: tuple[int, ...]
    batch_axis: int | None
    per_example: int
    rate: float
    alpha: bool
    name: str = ""
    fed: Fed | None = None

    def mask_shape(self, examples: int | None) -> tuple[int, ...]:
        """Shape of a mask for so many examples; None: one mask that all of them share."""
        if self.batch_axis is None:
            return self.shape
        shape = list(self.shape)
        shape[self.batch_axis] = 1 if examples is None else examples * self.per_example
        return tuple(shape)

    @property
    def told(self) -> str:
        """The place, for a person."""
        return self.name if self.fed is None or self.fed.layer == self.name else f"{self.name} (for {self.fed.layer})"

    def matches(self, pattern: str) -> bool:
        """Whether a pattern means this place: by the name of the module that drops, or of the layer it drops for."""
        return any(fnmatchcase(name, pattern) for name in (self.name, self.fed.layer if self.fed else self.name))


@dataclass(frozen=True)
class DropoutChange:
    """A wish that differs from what the module says.

    Attributes:
        rate: at every place that no pattern means; None for the module's own.
        inserted: the module has no dropout; put it in front of every weight layer but the first, or of those that a
            pattern means.
        rates: rates by pattern; the first pattern that means a place counts.
        drops: what is dropped where dropout is put in.
    """

    rate: float | None
    inserted: bool
    rates: tuple[Pattern, ...] = ()
    drops: Drops = Drops.CHANNELS

    def __post_init__(self) -> None:
        object.__setattr__(self, "drops", Drops(self.drops))

    def rate_at(self, site: Site) -> float:
        """The rate at a place."""
        own = site.rate if self.rate is None else self.rate
        return next((rate for pattern, rate in self.rates if site.matches(pattern)), own)

    def places(self, module: nn.Module) -> list[str]:
        """The layers in front of which dropout is put, or whose weights are dropped."""
        if not self.inserted:
            return []
        names = [name for name, _ in weight_layers(module)]
        if self.rates:
            return [name for name in names if any(fnmatchcase(name, pattern) for pattern, _ in self.rates)]
        return names if self.drops is Drops.WEIGHTS else names[1:]


def draw_masks(
    sites: Sequence[Site],
    stream: Stream,
    lanes: int,
    examples: int | None,
    dtype: torch.dtype,
    device: torch.device | str,
    keeps: Sequence[Tensor] | None = None,
) -> list[Tensor]:
    """Masks of 0 and 1 / (1 - rate) (0 and 1 for alpha dropout), (lanes, *mask shape) for each site.

    Args:
        sites: where masks are needed.
        stream: the noise.
        lanes: number of members or draws; each has masks of its own.
        examples: one mask per example in a batch of this many (training), or None for one mask that all inputs share
            (a drawn function).
        dtype: of the masks.
        device: of the masks.
        keeps: the probability that a unit stays, where that was learned: for each site (lanes or 1, ...), to be
            broadcast over its mask.
    """
    generator = stream.generator(device)
    masks = []
    for index, site in enumerate(sites):
        mask = torch.empty((lanes, *site.mask_shape(examples)), dtype=dtype, device=device)
        if keeps is not None:
            mask.bernoulli_(keeps[index].expand(mask.shape), generator=generator).div_(keeps[index])
        else:
            mask.bernoulli_(1.0 - site.rate, generator=generator)
            if not site.alpha and site.rate < 1.0:
                mask.mul_(1.0 / (1.0 - site.rate))
        masks.append(mask)
    return masks


class Masked(TorchFunctionMode):
    """While active, the k-th dropout call of a forward pass multiplies by the k-th mask.

    Args:
        masks: as `draw_masks` gives them, for one lane.
        rate: those of the masks, one for each or one for all, where they are not the ones that the module says.
    """

    def __init__(self, masks: Sequence[Tensor], rate: float | Sequence[float] | None = None) -> None:
        super().__init__()
        self.masks = iter(masks)
        self.rates = iter([rate] * len(masks) if rate is None or isinstance(rate, float) else rate)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in DROPOUTS:
            return func(*args, **kwargs)
        x, own = input_and_rate(func, args, kwargs)
        if own == 0.0:
            return x
        mask, rate = next(self.masks), next(self.rates)
        if func is F.alpha_dropout:
            return _alpha_dropout(x, mask, own if rate is None else rate)
        return x * mask


class Undropped(TorchFunctionMode):
    """While active, dropout calls do nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in DROPOUTS:
            return input_and_rate(func, args, kwargs or {})[0]
        return func(*args, **(kwargs or {}))


def _alpha_dropout(x: Tensor, mask: Tensor, rate: float) -> Tensor:
    # Klambauer et al. 2017, "Self-normalizing neural networks": an affine map that keeps mean 0 and variance 1
    keep = 1.0 - rate
    if keep == 0.0:
        return x * mask
    gain = (keep + _ALPHA**2 * keep * rate) ** -0.5
    return gain * (x * mask + _ALPHA * (1.0 - mask)) - gain * _ALPHA * rate


def input_and_rate(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Tensor, float]:
    """What a dropout call is given, by the signature that all of them share; rate 0 where it is told not to drop."""
    x = args[0] if args else kwargs["input"]
    rate = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
    training = args[2] if len(args) > 2 else kwargs.get("training", func is not F.alpha_dropout)
    return x, float(rate) if training else 0.0


PROBE = 0.5
"""The rate that a dropout call which was put in is made with: any but 0, since masks bring the rate that is meant."""


def put_in(module: nn.Module, change: DropoutChange) -> None:
    """Put dropout on the inputs of the layers that a change means, in place.

    For a plain stack this is dropout after each hidden layer. Forward hooks do it, so no parameter changes its name.
    """

    def drop(layer: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        function = F.dropout
        if change.drops is Drops.CHANNELS and isinstance(layer, nn.modules.conv._ConvNd):
            function = _BY_CHANNEL_AXES[len(layer.kernel_size)]
        return function(args[0], PROBE, training=layer.training), *args[1:]

    for name in change.places(module):
        module.get_submodule(name).register_forward_pre_hook(drop)


def weight_layers(module: nn.Module) -> Iterable[tuple[str, nn.Module]]:
    """The linear and convolutional layers by name, in the order of registration."""
    convolution = nn.modules.conv._ConvNd
    return ((name, m) for name, m in module.named_modules() if isinstance(m, nn.Linear | nn.Bilinear | convolution))
