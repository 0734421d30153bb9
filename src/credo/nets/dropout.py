"""Dropout as data: where a network drops, and masks that are tensors like any other.

torch draws dropout masks from its global generator inside the layer. Here a network is called with its masks as
arguments, so that a mask can be shared by a batch (one draw = one function), differ between members, and be repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from credo.core.rng import GLOBAL_GENERATOR, Stream

_CHANNEL_AXES = {F.dropout1d: 1, F.dropout2d: 2, F.dropout3d: 3}
_DROPOUTS = {F.dropout, F.alpha_dropout, *_CHANNEL_AXES}
_ALPHA = -1.0507009873554805 * 1.6732632423543772
"""The value that SELU saturates at; alpha dropout sets dropped units to it."""


@dataclass(frozen=True)
class Site:
    """One place where a forward pass drops units.

    Attributes:
        shape: shape of the mask for the probe batch.
        batch_axis: the axis that grows with the batch; None where the mask does not depend on it.
        per_example: how many entries of that axis belong to one example.
        rate: probability that a unit is dropped.
        alpha: alpha dropout (for SELU) rather than the ordinary kind.
    """

    shape: tuple[int, ...]
    batch_axis: int | None
    per_example: int
    rate: float
    alpha: bool

    def mask_shape(self, examples: int | None) -> tuple[int, ...]:
        """Shape of a mask for so many examples; None: one mask that all of them share."""
        if self.batch_axis is None:
            return self.shape
        shape = list(self.shape)
        shape[self.batch_axis] = 1 if examples is None else examples * self.per_example
        return tuple(shape)


@dataclass(frozen=True)
class DropoutChange:
    """A wish that differs from what the module says.

    Attributes:
        rate: the rate at every site.
        inserted: the module has no dropout; put it in front of every weight layer but the first.
    """

    rate: float
    inserted: bool


@dataclass(frozen=True)
class Trace:
    """What one look at a forward pass shows.

    Attributes:
        sites: the places where it drops units, in the order of the calls.
        output: shape of the outputs for one example.
        activations: entries of the largest intermediate tensor, per example.
    """

    sites: tuple[Site, ...]
    output: tuple[int, ...]
    activations: int


def draw_masks(
    sites: Sequence[Site],
    stream: Stream,
    lanes: int,
    examples: int | None,
    dtype: torch.dtype,
    device: torch.device | str,
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
    """
    generator = stream.generator(device)
    masks = []
    for site in sites:
        keep = torch.empty((lanes, *site.mask_shape(examples)), dtype=dtype, device=device)
        keep.bernoulli_(1.0 - site.rate, generator=generator)
        if not site.alpha and site.rate < 1.0:
            keep.mul_(1.0 / (1.0 - site.rate))
        masks.append(keep)
    return masks


class Masked(TorchFunctionMode):
    """While active, the k-th dropout call of a forward pass multiplies by the k-th mask.

    Args:
        masks: as `draw_masks` gives them, for one lane.
        rate: that of the masks, where it is not the one that the module says.
    """

    def __init__(self, masks: Sequence[Tensor], rate: float | None = None) -> None:
        super().__init__()
        self.masks, self.rate = iter(masks), rate

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in _DROPOUTS:
            return func(*args, **kwargs)
        x, rate = _input_and_rate(func, args, kwargs)
        if rate == 0.0:
            return x
        mask = next(self.masks)
        if func is F.alpha_dropout:
            return _alpha_dropout(x, mask, rate if self.rate is None else self.rate)
        return x * mask


class Undropped(TorchFunctionMode):
    """While active, dropout calls do nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _DROPOUTS:
            return _input_and_rate(func, args, kwargs or {})[0]
        return func(*args, **(kwargs or {}))


def _alpha_dropout(x: Tensor, mask: Tensor, rate: float) -> Tensor:
    # Klambauer et al. 2017, "Self-normalizing neural networks": an affine map that keeps mean 0 and variance 1
    keep = 1.0 - rate
    if keep == 0.0:
        return x * mask
    gain = (keep + _ALPHA**2 * keep * rate) ** -0.5
    return gain * (x * mask + _ALPHA * (1.0 - mask)) - gain * _ALPHA * rate


def _input_and_rate(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Tensor, float]:
    """What a dropout call is given, by the signature that all of them share; rate 0 where it is told not to drop."""
    x = args[0] if args else kwargs["input"]
    rate = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
    training = args[2] if len(args) > 2 else kwargs.get("training", func is not F.alpha_dropout)
    return x, float(rate) if training else 0.0


class _Recorder(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[tuple[int, ...], float, bool]] = []
        self.largest = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _DROPOUTS:
            x, rate = _input_and_rate(func, args, kwargs)
            if rate > 0.0:
                self.calls.append((_mask_shape(func, x), rate, func is F.alpha_dropout))
            return x
        result = func(*args, **kwargs)
        if isinstance(result, Tensor):
            self.largest = max(self.largest, result.numel())
        return result


def _mask_shape(func: Callable[..., Tensor], x: Tensor) -> tuple[int, ...]:
    spatial = _CHANNEL_AXES.get(func, 0)
    kept = x.ndim - spatial
    return (*x.shape[:kept], *([1] * spatial))


def trace(forward: Callable[[int], Tensor]) -> Trace:
    """Watch a forward pass with two and with three examples.

    Args:
        forward: runs the network on so many examples and returns its outputs.
    """
    seen = []
    for examples in (2, 3):
        recorder = _Recorder()
        with recorder, _no_hidden_noise():
            outputs = forward(examples)
        if not isinstance(outputs, Tensor):
            raise ValueError(
                f"the network returns a {type(outputs).__name__}: it must return one tensor (B, outputs); wrap it in a "
                "module that picks the part you want"
            )
        if outputs.shape[:1] != (examples,):
            raise ValueError(
                f"the network gave outputs of shape {tuple(outputs.shape)} for {examples} examples: "
                "the first axis must be the batch"
            )
        seen.append((recorder, outputs))
    (two, outputs), (three, _) = seen
    if len(two.calls) != len(three.calls):
        raise ValueError("the network drops in a different number of places for two and for three examples")
    sites = tuple(_site(*pair) for pair in zip(two.calls, three.calls, strict=True))
    return Trace(sites, tuple(outputs.shape[1:]), max(1, math.ceil(two.largest / 2)))


@contextmanager
def _no_hidden_noise() -> Iterator[None]:
    """Refuse a forward pass that reads torch's global generators, and leave them as they were."""
    with GLOBAL_GENERATOR:
        before = _global_states()
        try:
            yield
        finally:
            after = _global_states()
            torch.set_rng_state(before[0])
            torch.cuda.set_rng_state_all(before[1:])
    if all(map(torch.equal, before, after)):
        return
    raise ValueError(
        "the network draws random numbers of its own in training (dropout inside attention, a noise layer, RReLU or "
        "the like), where credo cannot give it a seed: set that dropout to 0 and put nn.Dropout behind it"
    )


def _global_states() -> list[Tensor]:
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    return [torch.get_rng_state(), *gpus]


def _site(two: tuple[tuple[int, ...], float, bool], three: tuple[tuple[int, ...], float, bool]) -> Site:
    shape, rate, alpha = two
    grows = [axis for axis, (a, b) in enumerate(zip(shape, three[0], strict=True)) if a != b]
    if len(grows) > 1:
        raise ValueError("the network drops entries that belong to pairs of examples, so no mask can be shared by all")
    if not grows:
        return Site(shape, None, 0, rate, alpha)
    axis = grows[0]
    return Site(shape, axis, three[0][axis] - shape[axis], rate, alpha)


def drop_before_hidden_layers(module: nn.Module, rate: float) -> int:
    """Put dropout on the inputs of every linear and convolutional layer but the first, in place; say how many.

    For a plain stack this is dropout after each hidden layer. Forward hooks do it, so no parameter changes its name.
    """
    layers = list(weight_layers(module))[1:]

    def drop(layer: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return F.dropout(args[0], rate, training=layer.training), *args[1:]

    for layer in layers:
        layer.register_forward_pre_hook(drop)
    return len(layers)


def weight_layers(module: nn.Module) -> Iterable[nn.Module]:
    """The linear and convolutional layers, in the order of registration."""
    convolution = nn.modules.conv._ConvNd
    return (m for m in module.modules() if isinstance(m, nn.Linear | nn.Bilinear | convolution))
