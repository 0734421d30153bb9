"""A look at a forward pass: where it drops, for which layers, what it returns and how much memory it takes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from credo.core.rng import GLOBAL_GENERATOR
from credo.nets.dropout import CHANNEL_AXES, DROPOUTS, Site, input_and_rate
from credo.nets.fed import Fed

_LAYERS = {F.linear: 0, F.conv1d: 1, F.conv2d: 2, F.conv3d: 3}
_TRANSPOSED = {F.conv_transpose1d: 1, F.conv_transpose2d: 2, F.conv_transpose3d: 3}
_ZERO_STAYS_ZERO = {
    *("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "tanh", "softsign"),
    *("flatten", "view", "reshape", "squeeze", "unsqueeze", "contiguous", "clone"),
    *(f"{kind}_pool{axes}d" for kind in ("max", "avg", "adaptive_max", "adaptive_avg") for axes in (1, 2, 3)),
}
"""Functions behind which a dropped unit is still zero, so that the next layer does not feel it."""
ROOT = "forward"
"""What the module itself is called where it drops by a function in its forward pass."""


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


@dataclass
class _Call:
    """One dropout call, and the layer that took what it dropped."""

    mask: tuple[int, ...]
    rate: float
    alpha: bool
    name: str
    fed: Fed | None = field(default=None)


class _Recorder(TorchFunctionMode):
    """Notes dropout calls, and follows what they drop to the next layer with a weight."""

    def __init__(self, weights: Mapping[int, str]) -> None:
        super().__init__()
        self.weights, self.uses = weights, Counter[str]()
        self.path: list[str] = []
        self.calls: list[_Call] = []
        self.largest = 0
        self.dropped: dict[int, tuple[Tensor, list[_Call]]] = {}  # the tensor is kept, so that its id stays its own

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in DROPOUTS:
            return self._drop(func, args, kwargs)
        result = func(*args, **kwargs)
        if isinstance(result, Tensor):
            self.largest = max(self.largest, result.numel())
            self._follow(func, args, kwargs, result)
        return result

    def _drop(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
        x, rate = input_and_rate(func, args, kwargs)
        if rate == 0.0:
            return x
        call = _Call(_mask_shape(func, x), rate, func is F.alpha_dropout, self.path[-1] or ROOT)
        self.calls.append(call)
        result = x.clone()  # not x itself, which may go on undropped elsewhere
        earlier = self.dropped.get(id(x), (x, []))[1]
        self.dropped[id(result)] = (result, earlier if call.alpha else [*earlier, call])
        return result

    def _follow(self, func: Any, args: Any, kwargs: dict[str, Any], result: Tensor) -> None:
        x = args[0] if args else kwargs.get("input")
        if func in _LAYERS or func in _TRANSPOSED:
            name = self.weights.get(id(args[1] if len(args) > 1 else kwargs.get("weight")))
            if name is not None:
                self.uses[name] += 1
                fed = _fed(func, name, args, kwargs)
                for call in self.dropped.get(id(x), (x, []))[1]:
                    call.fed = fed
        elif id(x) in self.dropped and getattr(func, "__name__", "").strip("_") in _ZERO_STAYS_ZERO:
            self.dropped[id(result)] = (result, self.dropped[id(x)][1])

    def settled(self) -> list[_Call]:
        """The calls, with the layers that are called but once: masks of two calls of one weight are two."""
        for call in self.calls:
            if call.fed is not None and self.uses[call.fed.weight] > 1:
                call.fed = None
        return self.calls


def _fed(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Fed:
    weight = args[1] if len(args) > 1 else kwargs["weight"]
    if func in _TRANSPOSED:
        given = dict(
            zip(("input", "weight", "bias", "stride", "padding", "output_padding", "groups"), args, strict=False)
        )
        groups = {**given, **kwargs}.get("groups", 1)
        return Fed(name, weight.shape[0], weight.shape[1] * groups, groups, _TRANSPOSED[func], transposed=True)
    if not _LAYERS[func]:
        return Fed(name, weight.shape[1], weight.shape[0])
    given = dict(zip(("input", "weight", "bias", "stride", "padding", "dilation", "groups"), args, strict=False))
    groups = {**given, **kwargs}.get("groups", 1)
    return Fed(name, weight.shape[1] * groups, weight.shape[0], groups, _LAYERS[func])


def _mask_shape(func: Callable[..., Tensor], x: Tensor) -> tuple[int, ...]:
    spatial = CHANNEL_AXES.get(func, 0)
    kept = x.ndim - spatial
    return (*x.shape[:kept], *([1] * spatial))


def trace(module: nn.Module, weights: Mapping[int, str], forward: Callable[[int], Tensor]) -> Trace:
    """Watch a forward pass with two and with three examples.

    Args:
        module: what `forward` calls; hooks are put on it and taken away.
        weights: names of the parameters by the id of the tensor.
        forward: runs the network on so many examples and returns its outputs.
    """
    seen = []
    for examples in (2, 3):
        recorder = _Recorder(weights)
        with recorder, _no_hidden_noise(), _saying_where(module, recorder.path):
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
    sites = tuple(_site(*pair) for pair in zip(_named(two.settled()), three.calls, strict=True))
    return Trace(sites, tuple(outputs.shape[1:]), max(1, math.ceil(two.largest / 2)))


@contextmanager
def _saying_where(module: nn.Module, path: list[str]) -> Iterator[None]:
    """Keep the name of the module that is running at the end of the path."""

    def enter(name: str, layer: nn.Module, args: Any) -> None:
        path.append(name)

    def leave(layer: nn.Module, args: Any, output: Any) -> None:
        path.pop()

    handles = []
    for name, layer in module.named_modules():
        handles += [
            layer.register_forward_pre_hook(partial(enter, name), prepend=True),
            layer.register_forward_hook(leave),
        ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _named(calls: list[_Call]) -> list[_Call]:
    """The calls, with names that are told apart."""
    seen = Counter[str]()
    for call in calls:
        seen[call.name] += 1
        if seen[call.name] > 1:
            call.name = f"{call.name}:{seen[call.name]}"
    return calls


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


def _site(two: _Call, three: _Call) -> Site:
    grows = [axis for axis, (a, b) in enumerate(zip(two.mask, three.mask, strict=True)) if a != b]
    if len(grows) > 1:
        raise ValueError("the network drops entries that belong to pairs of examples, so no mask can be shared by all")
    if not grows:
        return Site(two.mask, None, 0, two.rate, two.alpha, two.name, two.fed)
    axis = grows[0]
    return Site(two.mask, axis, three.mask[axis] - two.mask[axis], two.rate, two.alpha, two.name, two.fed)
