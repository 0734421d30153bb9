"""A watched forward pass: its dropout calls, its layers, and what it changes beside its result."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import CodeType
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from credo.core.inputs import Inputs, is_graph, leaves_of
from credo.core.trees import tensors_in
from credo.nets.calling import Parameters, arguments
from credo.nets.checkpointing import Checkpointing, checkpointing_of
from credo.nets.forward import HOOKS, Attribute
from credo.nets.hidden_noise import NoiseWatch, looking
from credo.nets.layer import LAYERS, TRANSPOSED, Layer, groups_of, layer_call
from credo.nets.random_calls import DropKind, DropMode, DropRequest, average_mask

_ZERO_STAYS_ZERO = {
    *("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "tanh", "softsign"),
    *("flatten", "view", "reshape", "squeeze", "unsqueeze", "contiguous", "clone"),
    *(f"{kind}_pool{axes}d" for kind in ("max", "avg", "adaptive_max", "adaptive_avg") for axes in (1, 2, 3)),
}
"""Functions behind which a dropped unit is still zero, so that the next layer has nothing of it."""
ROOT = "forward"
"""What the module itself is called where it drops by a function in its forward pass."""
_BOOKKEEPING = vars(nn.Module()).keys() - {"training"}
"""Attributes of every module that are no state of its author's."""
_DEPTH = 3
"""How far into lists of lists a change is looked for."""

Place = tuple[str, tuple[tuple[CodeType, int], ...], int]
"""The module that runs, the lines of code that have led to a call, and how often they have done so before."""


@dataclass
class SeenCall:
    """One dropout call, and the layer that took what it dropped."""

    place: Place  # where in the code it stands, the same in training and in evaluation
    mask: tuple[int, ...]  # the shape of what is dropped
    rate: float  # 0 in calls that do not drop
    kind: DropKind  # what becomes of dropped units
    name: str  # of the module in which it happens
    consumer: Layer | None = None  # the layer whose inputs are dropped


class Watcher(DropMode):
    """Notes dropout calls, layers, uses of parameters and gradient checkpointing; dropout does nothing."""

    def __init__(self, names: Mapping[int, str], examples: int | None) -> None:
        super().__init__()
        self.names, self.examples = names, examples
        self.path: list[str] = []
        self.calls: list[SeenCall] = []
        self.largest = 0
        self.checkpointing = Checkpointing.NONE
        self._uses = Counter[str]()
        self._layers: list[Layer] = []
        self._places = Counter[Any]()
        self._dropped: dict[int, tuple[Tensor, list[SeenCall]]] = {}  # holding the tensor keeps its id from another

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.checkpointing = max(self.checkpointing, checkpointing_of(sys._getframe(1), watched.__code__))
        result = super().__torch_function__(func, types, args, kwargs)
        self._note_uses(result, args, kwargs or {})
        return result

    def other(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        if isinstance(result, Tensor):
            self._follow(func, args, kwargs, result)
        return result

    def _note_uses(self, result: Any, args: Any, kwargs: dict[str, Any]) -> None:
        made = list(tensors_in(result))
        if made:  # a look at shape or dtype is no use of the values
            self._uses.update(self.names[id(t)] for t in tensors_in((args, kwargs)) if id(t) in self.names)
            self.largest = max(self.largest, *(t.numel() for t in made))

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Those whose weight has no other use."""
        return tuple(layer for layer in map(self._settled, self._layers) if layer is not None)

    def settled_calls(self) -> list[SeenCall]:
        """The calls that drop, with names that differ and layers whose weight has no other use."""
        seen = Counter[str]()
        for call in (active := [call for call in self.calls if call.rate > 0.0]):
            call.consumer = call.consumer and self._settled(call.consumer)
            seen[call.name] += 1
            if seen[call.name] > 1:
                call.name = f"{call.name}:{seen[call.name]}"
        return active

    def _settled(self, layer: Layer) -> Layer | None:
        """None for a weight with other uses: masks, or noise, of two calls of one weight are two."""
        if self._uses[layer.weight] > 1:
            return None
        return layer if layer.bias is None or self._uses[layer.bias] == 1 else layer.without_bias()

    def answer(self, drop: DropRequest) -> Tensor:
        name = self.path[-1] if self.path else ""
        call = SeenCall(self._place(name), drop.mask, drop.rate, drop.kind, name or ROOT)
        self.calls.append(call)
        x = drop.x
        if drop.kind is DropKind.FILL:
            return x.copy_(average_mask(drop))
        if drop.rate == 0.0:
            return x
        result = x.clone()  # not x itself, which may go on undropped elsewhere
        earlier = self._dropped.get(id(x), (x, []))[1]
        self._dropped[id(result)] = (result, earlier if drop.kind is DropKind.ALPHA else [*earlier, call])
        return result

    def _place(self, name: str) -> Place:
        lines, frame = [], sys._getframe(4)
        while frame is not None and frame.f_code is not watched.__code__:
            lines.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back  # type: ignore[assignment]
        here = (name, tuple(lines))
        self._places[here] += 1
        return (*here, self._places[here])

    def _follow(self, func: Any, args: Any, kwargs: dict[str, Any], result: Tensor) -> None:
        x = args[0] if args else kwargs.get("input")
        if func in LAYERS:
            layer = self._layer(func, args, kwargs, result)
            if layer is not None:
                self._layers.append(layer)
                for call in self._dropped.get(id(x), (x, []))[1]:
                    call.consumer = layer
        elif id(x) in self._dropped and getattr(func, "__name__", "").strip("_") in _ZERO_STAYS_ZERO:
            self._dropped[id(result)] = (result, self._dropped[id(x)][1])

    def _layer(self, func: Any, args: Any, kwargs: dict[str, Any], result: Tensor) -> Layer | None:
        _, x, weight, bias = layer_call(func, args, kwargs)
        name, spatial = self.names.get(id(weight)), LAYERS[func]
        if name is None or weight.ndim < 2:
            return None
        batched = x.ndim > 1 + spatial
        return Layer(
            name,
            self.names.get(id(bias)),
            tuple(x.shape[batched:]),
            tuple(result.shape[batched:]),
            spatial,
            groups_of(func, args, kwargs),
            transposed=func in TRANSPOSED,
            per_example=batched and len(x) == len(result) == self.examples,
        )


@dataclass(frozen=True)
class Seen:
    """What a watched pass has shown."""

    outputs: Any  # of the pass
    watcher: Watcher  # what was called
    writes_input: bool  # whether it worked in place on its input
    written: frozenset[str]  # names of the tensors that it wrote to
    assigned: frozenset[str]  # names of the buffers that it replaced
    misfits: dict[str, Tensor]  # the new values of those of which it changed the shape
    attributes: tuple[Attribute, ...]  # what else it changed in the module
    noise: NoiseWatch  # who has drawn random numbers


def watched(
    module: nn.Module,
    aliases: Mapping[str, str],
    parameters: Parameters,
    tensors: Mapping[str, Tensor],
    weights: Collection[str],
    x: Inputs,
    *,
    number: int = 0,
    closely: bool = False,
) -> Seen:
    """Run a forward pass and note what it does; the tensors, the input and the module may be changed by it.

    Noise of the module's own comes from a stream with this number; `closely` asks who draws from which generator.
    """
    leaves, attributes = leaves_of(x).values(), _attributes(module)
    before, (args, kwargs) = [t.clone() for t in leaves], arguments(parameters, x)
    named = {**tensors, **{alias: tensors[name] for alias, name in aliases.items()}}
    # nodes of a graph are no examples on their own: their outputs mix what each of them gets from a layer
    examples = None if is_graph(x) else len(x)
    watcher = Watcher({id(tensors[name]): name for name in weights}, examples)
    with looking(next(iter(tensors.values())).device, number):
        noise = NoiseWatch(watcher.path, closely=closely)
        with watcher, _saying_where(module, watcher.path, noise):
            outputs = functional_call(module, named, args, kwargs, tie_weights=False)
        noise.look(last=True)
    assigned = {name for name, t in tensors.items() if named[name] is not t}
    after = _attributes(module)
    return Seen(
        outputs,
        watcher,
        any(t._version > 0 or _changed(t, was) for t, was in zip(leaves, before, strict=True)),
        frozenset(name for name, t in tensors.items() if t._version > 0),
        frozenset(assigned),
        {name: named[name].detach() for name in assigned if named[name].shape != tensors[name].shape},
        tuple(a for a in {**attributes, **after} if attributes.get(a, (None,))[0] != after.get(a, (None,))[0]),
        noise,
    )


def _changed(now: Tensor, before: Tensor) -> bool:
    return bool(((now != before) & (before == before)).any())


@contextmanager
def _saying_where(module: nn.Module, path: list[str], noise: NoiseWatch) -> Iterator[None]:
    """Keep the name of the module that is running at the end of the path."""

    def enter(name: str, layer: nn.Module, args: Any) -> None:
        noise.look()
        path.append(name)

    def leave(layer: nn.Module, args: Any, output: Any) -> None:
        noise.look()
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


def _attributes(module: nn.Module) -> dict[Attribute, tuple[Any, Any]]:
    """Attributes of a module and its parts, with what tells whether they were changed; the value is held too."""
    found = {}
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if name in HOOKS and value:
                found[Attribute(path, name, False)] = (tuple(value), value)
            elif name not in _BOOKKEEPING:
                found[Attribute(path, name, False)] = (_mark(value, _DEPTH), value)
        for name, value in part._buffers.items():
            if value is None:
                found[Attribute(path, name, True)] = (_mark(value, _DEPTH), value)
    return found


def _mark(value: Any, depth: int) -> Any:
    """Something that differs when a value was replaced or written to."""
    if isinstance(value, Tensor):
        return id(value), value._version
    if isinstance(value, list | tuple | deque | dict) and depth > 0:
        items = [*value.items()] if isinstance(value, dict) else [*value]
        return type(value), tuple(_mark(item, depth - 1) for item in items)
    return value if isinstance(value, bool | int | float | complex | str | None) else id(value)
