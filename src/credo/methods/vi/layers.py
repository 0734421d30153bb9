"""Where a forward pass meets its weights: linear and convolutional calls that can be perturbed example by example.

A module is not rewritten. A forward pass is watched once, to see which parameter is the weight of which call, and later
runs in a mode that puts something else in the place of those calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.model import Batch
from credo.nets.dense import DenseStack
from credo.nets.dropout import Masked, draw_masks
from credo.nets.network import Network
from credo.nets.plan import Plan
from credo.nets.walk import Rule

_SPATIAL = {F.linear: 0, F.conv1d: 1, F.conv2d: 2, F.conv3d: 3}
_ARGUMENTS = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")

Affine = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""The call with its stride, padding, dilation and groups settled: a function of input, weight and bias."""


@dataclass(frozen=True)
class Layer:
    """A linear or convolutional call whose weight is a parameter that nothing else in the network uses.

    Attributes:
        weight: name of the weight.
        bias: name of the bias, if it is a parameter that nothing else uses; None otherwise.
        inputs: shape of the input of one example.
        outputs: shape of the output of one example.
        spatial: axes at the end of those shapes that run over positions: 0 for a linear call, 2 for conv2d.
    """

    weight: str
    bias: str | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    spatial: int

    @property
    def names(self) -> tuple[str, ...]:
        return (self.weight,) if self.bias is None else (self.weight, self.bias)

    def without_bias(self) -> Layer:
        return replace(self, bias=None)

    @property
    def positions(self) -> int:
        """How many outputs of one example share the same weights."""
        channel = len(self.outputs) - 1 - self.spatial
        return torch.Size(self.outputs).numel() // self.outputs[channel]

    def per_channel(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape with every axis but the channels' reduced to 1."""
        channel = len(shape) - 1 - self.spatial
        return tuple(size if axis == channel else 1 for axis, size in enumerate(shape))


class Perturbation(ABC):
    """What takes the place of a layer's call."""

    @abstractmethod
    def __call__(self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, own: Sequence[Tensor]) -> Tensor:
        """The layer's output for one member.

        Args:
            affine: the call, with its geometry settled.
            x: its input (B, ...).
            weight: the weight it was called with.
            bias: likewise.
            own: this member's slices of the tensors that were brought for the layer.
        """


class Perturbed(TorchFunctionMode):
    """While active, the calls of some layers are replaced; dropout takes its masks.

    Args:
        layers: whose calls are replaced.
        perturbation: by what.
        params: the member's parameters by name, the very tensors that the module computes with.
        own: the tensors brought for each layer.
        dropout: what the dropout calls are given to.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        perturbation: Perturbation,
        params: Params,
        own: Sequence[Sequence[Tensor]],
        dropout: Masked,
    ) -> None:
        super().__init__()
        self.perturbation, self.dropout = perturbation, dropout
        self.own = {id(params[layer.weight]): tensors for layer, tensors in zip(layers, own, strict=True)}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _SPATIAL:
            affine, x, weight, bias = _settled(func, args, kwargs)
            if id(weight) in self.own:
                return self.perturbation(affine, x, weight, bias, self.own[id(weight)])
        return self.dropout.__torch_function__(func, types, args, kwargs)


def walkable(network: Network, perturbation: Perturbation, variables: Variables, x: Tensor) -> DenseStack | None:
    """The network as a stack that this perturbation can walk through without a graph; None where it needs one.

    Under `torch.autocast` the types of tensors change on the way, and a graph knows how to bring them back.
    """
    one = isinstance(perturbation, Rule) and variables.members == 1 and _one_rule(type(perturbation))
    return network.dense(variables, x) if one and not torch.is_autocast_enabled(x.device.type) else None


@cache
def _one_rule(perturbation: type) -> bool:
    """Whether a perturbation's call is what its ways forward and back were written for: a subclass may have its own."""
    owners = [next(c for c in perturbation.__mro__ if name in vars(c)) for name in ("__call__", "forward", "backward")]
    return all(issubclass(owner, owners[0]) for owner in owners)


def perturbed_outputs(
    network: Network,
    layers: Sequence[Layer],
    perturbation: Perturbation,
    brought: Sequence[Sequence[Tensor]],
    variables: Variables,
    batch: Batch,
    plan: Plan,
    masks: Sequence[Tensor],
) -> Tensor:
    """Outputs of the network in training with its layers' calls replaced, (M, B, E).

    Args:
        network: whose layers they are.
        layers: whose calls are replaced.
        perturbation: by what.
        brought: for each layer, the tensors that the perturbation needs, (M, ...) each.
        variables: the network's, (M, *shape) each.
        batch: its inputs.
        plan: members together or one by one.
        masks: of the network's own dropout.
    """
    x = batch.x[0] if batch.own else batch.x
    rates = [site.rate for site in network.trace(variables, x).sites]

    def around(params: Params, flat: Sequence[Tensor]) -> Perturbed:
        tensors = iter(flat)
        dropout = Masked(list(islice(tensors, len(masks))), rates)
        return Perturbed(layers, perturbation, params, [list(islice(tensors, len(t))) for t in brought], dropout)

    flat = [*masks, *(t for tensors in brought for t in tensors)]
    return network.train(variables, batch.x, flat, plan, own_x=batch.own, around=around)


def _settled(func: Any, args: Any, kwargs: Mapping[str, Any]) -> tuple[Affine, Tensor, Tensor, Tensor | None]:
    given = {**dict(zip(_ARGUMENTS, args, strict=False)), **kwargs}
    x, weight, bias = given.pop("input"), given.pop("weight"), given.pop("bias", None)
    return partial(func, **given), x, weight, bias


class _Watch(TorchFunctionMode):
    """Notes every use of a parameter, and the calls that might be perturbed."""

    def __init__(self, params: Params, dropout: Masked) -> None:
        super().__init__()
        self.dropout = dropout
        self.names = {id(t): name for name, t in params.items()}
        self.uses: Counter[str] = Counter()
        self.calls: list[tuple[Layer, int]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = self.dropout.__torch_function__(func, types, args, kwargs)
        if any(True for _ in _tensors(result)):  # a look at shape or dtype is no use of the values
            self.uses.update(self.names[id(t)] for t in _tensors((args, kwargs)) if id(t) in self.names)
        if func in _SPATIAL:
            _, x, weight, bias = _settled(func, args, kwargs)
            if id(weight) in self.names and x.shape[0] == result.shape[0]:
                layer = Layer(
                    self.names[id(weight)],
                    self.names.get(id(bias)),
                    tuple(x.shape[1:]),
                    tuple(result.shape[1:]),
                    _SPATIAL[func],
                )
                self.calls.append((layer, len(x)))
        return result

    def layers(self, examples: int) -> list[Layer]:
        """Those whose weight has one use and whose first axis is the batch."""
        single = [layer for layer, rows in self.calls if self.uses[layer.weight] == 1 and rows == examples]
        return [
            layer.without_bias() if layer.bias is not None and self.uses[layer.bias] > 1 else layer for layer in single
        ]


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(tuple(value.values()))


_SEEN: WeakKeyDictionary[Network, dict[tuple[Any, ...], tuple[Layer, ...]]] = WeakKeyDictionary()
"""What was found in networks that are still in use, by shape and type of the input: a step asks again each time."""


def find_layers(network: Network, variables: Variables, x: Tensor) -> tuple[Layer, ...]:
    """The layers that can be perturbed when the network trains on inputs like x (B, ...).

    The network is watched with two and with three examples: only a first axis that grows with them is the batch.
    """
    known = _SEEN.setdefault(network, {})
    key = (tuple(x.shape[1:]), x.dtype)
    if key not in known:
        two, three = (_watched(network, variables, x, examples) for examples in (2, 3))
        known[key] = tuple(layer for layer in two if layer in three)
    return known[key]


@torch.no_grad()
def _watched(network: Network, variables: Variables, x: Tensor, examples: int) -> list[Layer]:
    one = Variables(
        {name: t[:1].detach() for name, t in variables.params.items()},
        {name: t[:1].clone() for name, t in variables.buffers.items()},  # batch norm will write to them
    )
    few = x[torch.arange(examples, device=x.device) % len(x)]
    sites = network.trace(one, x).sites
    masks = draw_masks(sites, Stream(0, ("watch",)), 1, examples, network.dtype, one.device)
    watches: list[_Watch] = []

    def around(params: Params, given: Sequence[Tensor]) -> _Watch:
        watches.append(_Watch(params, Masked(given)))
        return watches[-1]

    network.train(one, few, masks, Plan.ONE_BY_ONE, around=around)
    return watches[0].layers(examples)
