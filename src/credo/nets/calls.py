"""Calls of layers in a forward pass, with what went in and came out: gradients of single examples by their weights."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from credo.core.inputs import Inputs, few, is_graph
from credo.core.trees import Params, ValueT, Variables, map_tensors, tensors_in
from credo.nets.layer import Affine, LayerUse, layer_call
from credo.nets.network import Network
from credo.nets.random_calls import Undropped


@dataclass(frozen=True, eq=False)
class Call(ABC):
    """One call of a layer; a parameter is named if it is one of those that were asked for."""

    weight: str | None
    bias: str | None
    output: Tensor  # (B, ...)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.weight, self.bias) if name is not None)

    @abstractmethod
    def gradients(self, g: Tensor, rows: slice = slice(None)) -> Params:
        """Gradient of each example by the parameters, (b, *shape) each.

        Args:
            g: gradient of each example by the output, (b, ...), of these examples alone.
            rows: which examples.
        """


@dataclass(frozen=True, eq=False)
class ProductCall(Call):
    """A linear or convolutional call: the gradient is a sum over positions t of outer products, sum_t g_t a_t^T."""

    x: Tensor
    shape: tuple[int, ...]  # of the weight
    spatial: int  # axes of positions at the end of the output
    affine: Affine

    @property
    def groups(self) -> int:
        return int(getattr(self.affine, "keywords", {}).get("groups", 1))

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows and columns of a gradient: outputs, and inputs of the weight with a one for the bias."""
        inputs = math.prod(self.shape[1:]) if self.weight else 0
        return self.shape[0], inputs + (self.bias is not None)

    @property
    def positions(self) -> int:
        """T, the positions that share the weights."""
        return self.output[0].numel() // self.shape[0]

    def inputs(self, rows: slice = slice(None)) -> Tensor:
        """What each output is a product with: (b, T, inputs), or (b, T, groups, inputs) of a convolution in groups."""
        x = self.x[rows]
        found = self._patches(x) if self.spatial else x.reshape(len(x), -1, 1, x.shape[-1])
        return found.squeeze(2) if self.groups == 1 else found

    def columns(self, rows: slice = slice(None)) -> Tensor:
        """The inputs of the weight and a one for the bias, as far as these are named, (b, T, columns)."""
        a = self.inputs(rows)
        ones = a.new_ones(*a.shape[:2], 1)
        return torch.cat([*([a] if self.weight else []), *([ones] if self.bias else [])], dim=-1)

    def directions(self, g: Tensor) -> Tensor:
        """Gradients by the output with their positions in one axis, (b, T, outputs)."""
        return g.flatten(2).mT if self.spatial else g.reshape(len(g), -1, g.shape[-1])

    def gradients(self, g: Tensor, rows: slice = slice(None)) -> Params:
        g, found = self.directions(g), {}
        if self.bias:
            found[self.bias] = g.sum(1)
        if self.weight:
            a, grouped = self.inputs(rows), g.reshape(*g.shape[:2], self.groups, -1)
            a = a.unsqueeze(2) if self.groups == 1 else a
            found[self.weight] = torch.einsum("btgo,btgi->bgoi", grouped, a).reshape(len(g), *self.shape)
        return found

    def _patches(self, x: Tensor) -> Tensor:
        """Inputs of each position of the output, (b, T, groups, inputs)."""
        options = self.affine.keywords  # type: ignore[attr-defined]
        kernel = self.shape[2:]
        stride, dilation = (_each(options.get(name, 1), self.spatial) for name in ("stride", "dilation"))
        x = F.pad(x, _padding(options.get("padding", 0), kernel, dilation))
        if self.spatial == 1:
            x, kernel, stride, dilation = x.unsqueeze(2), (1, *kernel), (1, *stride), (1, *dilation)
        patches = F.unfold(x, kernel, dilation=dilation, stride=stride)  # (b, channels * kernel, T)
        return patches.reshape(len(x), self.groups, -1, patches.shape[-1]).permute(0, 3, 1, 2)


@dataclass(frozen=True, eq=False)
class NormCall(Call):
    """A normalization with a weight and bias for each entry: gradients are g times the normalized input, and g."""

    x: Tensor
    shape: tuple[int, ...]  # of the weight, or of the bias
    normalize: Callable[[Tensor], Tensor]
    by_channel: bool  # whether the second axis has the weights; otherwise the last ones

    def gradients(self, g: Tensor, rows: slice = slice(None)) -> Params:
        found = {}
        if self.bias:
            found[self.bias] = self._summed(g)
        if self.weight:
            found[self.weight] = self._summed(g * self.normalize(self.x[rows]))
        return found

    def _summed(self, values: Tensor) -> Tensor:
        """Over positions."""
        if self.by_channel:
            return values.reshape(len(values), values.shape[1], -1).sum(-1)
        return values.reshape(len(values), -1, *self.shape).sum(1)


@dataclass(frozen=True, eq=False)
class EmbeddingCall(Call):
    """A row of the weight for each index: the gradient of a row is the sum of g wherever it was picked."""

    x: Tensor
    shape: tuple[int, ...]
    padding: int | None  # a row without a gradient

    def gradients(self, g: Tensor, rows: slice = slice(None)) -> Params:
        assert self.weight is not None
        index = self.x[rows].reshape(len(g), -1)
        values = g.reshape(*index.shape, -1)
        if self.padding is not None:
            values = torch.where((index == self.padding % self.shape[0]).unsqueeze(-1), 0.0, values)
        found = g.new_zeros(len(g), *self.shape)
        return {self.weight: found.scatter_add_(1, index.unsqueeze(-1).expand_as(values), values)}


Named = Callable[[Any], str | None]
"""The name of a parameter that was asked for; None for any other value."""
Rule = Callable[[Any, Any, Any, Named], Callable[[Tensor], Call] | None]
"""From a function, its arguments and the names of parameters to what makes a call out of its output."""


def _product(func: Any, args: Any, kwargs: Any, named: Named) -> Callable[[Tensor], Call] | None:
    affine, x, weight, bias = layer_call(func, args, kwargs)
    spatial = weight.ndim - 2
    if x.ndim < spatial + 2 or weight.ndim < 2:
        return None
    return partial(_product_call, named(weight), named(bias), x.detach().clone(), tuple(weight.shape), spatial, affine)


def _product_call(
    weight: str | None, bias: str | None, x: Tensor, shape: tuple[int, ...], spatial: int, affine: Affine, z: Tensor
) -> Call:
    return ProductCall(weight, bias, z, x, shape, spatial, affine)


def _norm(func: Any, args: Any, kwargs: Any, named: Named) -> Callable[[Tensor], Call] | None:
    given = inspect.signature(func).bind(*args, **kwargs).arguments
    x, weight, bias = given.pop("input").detach().clone(), given.pop("weight", None), given.pop("bias", None)
    shape = tuple((weight if weight is not None else bias).shape)
    normalize = lambda rows: func(rows, **given)  # noqa: E731 (a closure over the call's options)
    by_channel = func in (F.batch_norm, F.group_norm)
    names = named(weight), named(bias)
    return lambda z: NormCall(*names, z, x, shape, normalize, by_channel)


def _embedding(func: Any, args: Any, kwargs: Any, named: Named) -> Callable[[Tensor], Call] | None:
    given = inspect.signature(func).bind(*args, **kwargs).arguments
    index, weight, padding = given["input"], given["weight"], given.get("padding_idx")
    if given.get("max_norm") is not None or index.ndim == 0:
        return None
    name, shape = named(weight), tuple(weight.shape)
    return lambda z: EmbeddingCall(name, None, z, index.clone().expand(len(z), *index.shape[1:]), shape, padding)


RULES: dict[Any, Rule] = {
    **dict.fromkeys((F.linear, F.conv1d, F.conv2d), _product),
    **dict.fromkeys((F.layer_norm, F.rms_norm, F.batch_norm, F.group_norm), _norm),
    F.embedding: _embedding,
}


class Capture(TorchFunctionMode):
    """While active, notes the calls of layers whose parameters were asked for, and other uses of these."""

    def __init__(self, names: Mapping[int, str], examples: int) -> None:
        super().__init__()
        self.names = names
        self.examples = examples
        self.shared: list[str] = []  # embeddings of which all examples share the rows
        self.calls: list[Call] = []
        self.others: dict[str, str] = {}
        self.returned: Tensor | None = None

    def named(self, value: Any) -> str | None:
        return self.names.get(id(value)) if isinstance(value, Tensor) else None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        used = [self.names[id(t)] for t in tensors_in((args, kwargs)) if id(t) in self.names]
        make = RULES[func](func, args, kwargs, self.named) if used and func in RULES else None
        result = func(*args, **kwargs)
        if make is None or not isinstance(result, Tensor):
            if used and any(True for _ in tensors_in(result)):  # a look at shape or dtype is no use of the values
                self.others.update(dict.fromkeys(used, str(getattr(func, "__name__", func)).strip("_")))
            return result
        if func is F.embedding and result.ndim > 2 and len(result) == 1 < self.examples:
            result = result.expand(self.examples, *result.shape[1:])  # so that each example has gradients of its own
            self.shared += used
        output = result if result.requires_grad else result.detach().requires_grad_()
        call = make(output)
        self.calls.append(call)
        self.others.update({name: func.__name__ for name in used if name not in call.names})
        # what follows may work in place on its input, and must leave what was noted alone
        self.returned = output.clone()
        return self.returned


@dataclass(frozen=True, eq=False)
class Captured:
    """A forward pass of one member with what its layers were called on."""

    outputs: Tensor  # (B, *event)
    calls: Sequence[Call]
    direct: bool  # whether the output of the only call is that of the network
    shared: Sequence[str] = ()  # parameters of embeddings whose rows were repeated for each example

    def backward(self, v: Tensor) -> list[Tensor]:
        """Gradients of sum(v * outputs) by the output of each call."""
        if self.direct:
            return [v]
        leaves = [call.output for call in self.calls]
        return list(torch.autograd.grad(self.outputs, leaves, v, retain_graph=True, materialize_grads=True))


def capture(network: Network, variables: Variables, x: Inputs, names: Sequence[str]) -> Captured:
    """The deterministic forward pass of one member on inputs (B, ...), with the calls that use these parameters."""
    found, modes = _captured(network, variables, x, names)
    if modes.others:
        raise ValueError(_unruled(modes.others))
    return found


def _captured(network: Network, variables: Variables, x: Inputs, names: Sequence[str]) -> tuple[Captured, Capture]:
    modes: list[Capture] = []

    @contextmanager
    def around(params: Params, masks: Sequence[Tensor]) -> Iterator[None]:
        modes.append(Capture({id(params[name]): name for name in names}, len(x)))
        with Undropped(), modes[-1]:
            yield

    with torch.inference_mode(False), torch.enable_grad():
        variables, x = differentiable(variables), differentiable(x)
        if network.trace(variables, x).repeated:  # a second pass must save what the first has saved
            leaves = {n: p if p.requires_grad else p.detach().requires_grad_() for n, p in variables.params.items()}
            variables = Variables(leaves, variables.buffers)
        outputs = network.inside(variables, x, around)
    mode = modes[-1]
    untouched = outputs is mode.returned and outputs._version == 0  # not doubled in place, say
    direct = untouched and len(mode.calls) == 1 and outputs.shape == mode.calls[0].output.shape
    return Captured(outputs, mode.calls, direct, mode.shared), mode


def differentiable(value: ValueT) -> ValueT:
    """The same tensors, where those that were made in inference mode are copies that autograd takes."""
    return map_tensors(lambda _, t: t.clone() if t.is_inference() else t, value)


def last_layer(network: Network, variables: Variables, x: Inputs) -> tuple[str, ...]:
    """Names of the parameters of the last linear or convolutional call; of several heads, that of each."""
    found, _ = _captured(network, variables, few(x, 2), list(network.layout))
    ends = [0, *accumulate(math.prod(shape) for shape in network.trace(variables, x).heads)]
    products = [call for call in found.calls if isinstance(call, ProductCall)]
    parts = [_used_by(found, slice(*pair)) for pair in pairwise(ends)] if len(ends) > 2 else [products]
    if not all(parts):
        raise ValueError(
            "the network has no linear or convolutional layer that can be told: name parameters by a pattern, "
            "subset='head.*'"
        )
    return tuple(dict.fromkeys(name for used in parts for name in used[-1].names))


def _used_by(captured: Captured, place: slice) -> list[ProductCall]:
    """The products on whose outputs these outputs of the network depend."""
    direction = torch.zeros_like(captured.outputs)
    direction[:, place] = torch.linspace(1.0, 2.0, direction[:, place].shape[1])  # a softmax is blind to equal numbers
    back = captured.backward(direction) if captured.calls else []
    return [c for c, g in zip(captured.calls, back, strict=True) if isinstance(c, ProductCall) and bool(g.any())]


def layer_uses(network: Network, variables: Variables, x: Inputs, names: Sequence[str]) -> tuple[LayerUse, ...]:
    """What layers do with these parameters, tried with three examples, or a sentence that says why there is no rule."""
    if is_graph(x):
        raise ValueError(
            "the nodes of a graph are no examples on their own, and curvature is a sum over examples: use SWAG, an "
            "ensemble or MC dropout for networks on graphs"
        )
    captured = capture(network, variables, few(x, 3), names)
    _check_apart(captured)
    _check_shared(captured, network.evaluate(variables, few(x, 3))[0])
    taken: dict[str, LayerUse] = {}
    for call in captured.calls:
        own = tuple(name for name in call.names if name not in taken)
        use = LayerUse(own, _is_product(own, captured.calls), getattr(call, "positions", 1))
        taken.update(dict.fromkeys(own, use))
    idle = [LayerUse((name,), product=False) for name in names if name not in taken]
    return (*dict.fromkeys(taken.values()), *idle)


def _is_product(names: tuple[str, ...], calls: Sequence[Call]) -> bool:
    """Whether all calls that use these parameters use all of them, and no others, for one product."""
    using = [call for call in calls if set(call.names) & set(names)]
    return all(isinstance(c, ProductCall) and c.groups == 1 and c.names == names for c in using)


def _check_apart(captured: Captured) -> None:
    """Refuse layers whose output for one example is not a row of its own."""
    if not captured.outputs.requires_grad:
        return
    first = torch.zeros_like(captured.outputs)
    first[0] = 1.0
    for call, g in zip(captured.calls, captured.backward(first), strict=True):
        if len(g) != 3 or bool(g[1:].any()):
            advice = "keep the batch first in every layer, and let batch norm keep running statistics"
            if isinstance(call, EmbeddingCall) and call.x.ndim == 1:
                advice = "give it places that all examples share as (1, T), torch.arange(T)[None]"
            raise ValueError(
                f"the layer of {call.names[0]!r} mixes examples, or has them along another axis than the first, and "
                f"curvature is a sum over examples: {advice}; or leave the layer out, {LEAVE_OUT}"
            )


def _check_shared(captured: Captured, outputs: Tensor) -> None:
    """Refuse embeddings that are shared by examples in another way than by being added to each, say."""
    if captured.shared and not (
        captured.outputs.shape == outputs.shape and torch.allclose(captured.outputs, outputs, rtol=1e-3, atol=1e-5)
    ):
        raise ValueError(
            f"the rows of {captured.shared[0]!r} are the same for all examples, and what becomes of them is no sum "
            f"over examples: leave the layer out, {LEAVE_OUT}"
        )


LEAVE_OUT = "subset='last' or a pattern such as 'head.*'"
"""How parameters are left out of a curvature, for sentences."""


def _unruled(others: Mapping[str, str]) -> str:
    listed = ", ".join(f"{name!r} ({function})" for name, function in list(others.items())[:3])
    more = f" and of {len(others) - 3} more" if len(others) > 3 else ""
    return (
        f"there is no curvature rule for the use of {listed}{more}: there are rules for Linear, Conv1d, Conv2d, "
        f"Embedding and norm layers. Leave these parameters out, {LEAVE_OUT}, or freeze them by requires_grad_(False)"
    )


def _each(value: Any, axes: int) -> tuple[int, ...]:
    """A number for each axis, of one that is meant for all."""
    if isinstance(value, list | tuple):
        return tuple(int(item) for item in value) * (axes // len(value))
    return (int(value),) * axes


def _padding(given: Any, kernel: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """As F.pad takes it: the last axis first, both ends."""
    if isinstance(given, str):
        totals = [d * (k - 1) if given == "same" else 0 for k, d in zip(kernel, dilation, strict=True)]
        pairs = [(total // 2, total - total // 2) for total in totals]
    else:
        pairs = [(size, size) for size in _each(given, len(kernel))]
    return [side for pair in reversed(pairs) for side in pair]
