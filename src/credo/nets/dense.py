"""Plain stacks of dense layers for many members at once, by batched matrix products.

`torch.func.vmap` runs any module; for a stack of linear layers, activations and dropout the same arithmetic can be
written down directly, which spares most of the time that small nets spend on launching operations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from credo.nets.columns import TableColumns
from credo.nets.mlp import MLP

_SMOOTH = (nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.SELU, nn.Softplus)
_ELEMENTWISE = (nn.ReLU, nn.LeakyReLU, nn.Identity, *_SMOOTH)

Activation = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Linear:
    """Names of a layer's weight and bias."""

    weight: str
    bias: str | None


@dataclass(frozen=True)
class Drop:
    """The next mask, at a site whose rate is not zero."""


StackLayer = Linear | Drop | Activation


@dataclass(frozen=True)
class DenseStack:
    """A module's layers in order, when it is nothing but a plain dense stack."""

    layers: tuple[StackLayer, ...]
    flattens: bool

    @cached_property
    def names(self) -> frozenset[str]:
        """Of its weights and biases."""
        linear = [layer for layer in self.layers if isinstance(layer, Linear)]
        return frozenset(name for layer in linear for name in (layer.weight, layer.bias) if name is not None)

    def takes(self, axes: int) -> bool:
        """Whether inputs with so many axes, the batch included, are plain rows of features to this stack."""
        return axes == 2 or (self.flattens and axes > 2)

    def one(self, tensors: Mapping[str, Tensor], x: Tensor, masks: Sequence[Tensor]) -> Tensor:
        """Outputs (1, B, E) of the only member, with masks (B or 1, width)."""
        return self(tensors, x, masks, x_per_member=False, shared=True).unsqueeze(0)

    def __call__(
        self, tensors: Mapping[str, Tensor], x: Tensor, masks: Sequence[Tensor], *, x_per_member: bool, shared: bool
    ) -> Tensor:
        """Outputs (M, B, E) of M members or draws; (B, E) where weights are shared and masks have no such axis."""
        members = len(next(iter(tensors.values())))
        hidden = x.flatten(2) if x_per_member else x.flatten(1)
        return _through(self.layers, tensors, hidden, masks, members, shared)

    def drawn(self, tensors: Mapping[str, Tensor], x: Tensor, masks: Sequence[Tensor], at_once: int) -> Tensor:
        """Outputs (S, B, E) of S draws that share weights, some at once; what no mask touches is computed once."""
        first = next(i for i, layer in enumerate(self.layers) if isinstance(layer, Drop))
        hidden = _through(self.layers[:first], tensors, x.flatten(1), (), 1, True)
        parts = zip(*(torch.split(mask, at_once) for mask in masks), strict=True)
        return torch.cat([_through(self.layers[first:], tensors, hidden, part, 1, True) for part in parts])


def _through(
    layers: Sequence[StackLayer],
    tensors: Mapping[str, Tensor],
    hidden: Tensor,
    masks: Sequence[Tensor],
    members: int,
    shared: bool,
) -> Tensor:
    remaining = iter(masks)
    for layer in layers:
        if isinstance(layer, Linear):
            hidden = _linear(layer, tensors, hidden, members, shared)
        elif not isinstance(layer, Drop):
            hidden = layer(hidden)
        elif masks:
            hidden = hidden * next(remaining)
    return hidden


def _linear(layer: Linear, tensors: Mapping[str, Tensor], hidden: Tensor, members: int, shared: bool) -> Tensor:
    weight = tensors[layer.weight]
    bias = None if layer.bias is None else tensors[layer.bias]
    if shared:
        # not weight[0], whose gradient is a new tensor of zeros with a copy in it
        return F.linear(hidden, weight.squeeze(0), None if bias is None else bias.squeeze(0))
    inputs = hidden if hidden.ndim == 3 else hidden.expand(members, *hidden.shape)
    if bias is None:
        return torch.bmm(inputs, weight.mT)
    return torch.baddbmm(bias.unsqueeze(1), inputs, weight.mT)


def dense_stack(module: nn.Module, *, before: Collection[str] = ()) -> DenseStack | None:
    """The module as a plain dense stack with dropout before the named layers; None if it is anything else."""
    dropped = {id(module.get_submodule(name)) for name in before}
    names = {id(p): name for name, p in module.named_parameters()}
    leaves = list(_leaves(module))
    linear = [m for m in leaves if isinstance(m, nn.Linear)]
    if None in leaves or not linear or len({id(m) for m in linear}) < len(linear):
        return None
    layers: list[StackLayer] = []
    for leaf in leaves:
        if type(leaf) is nn.Linear:
            if id(leaf) in dropped:
                layers.append(Drop())
            layers.append(Linear(names[id(leaf.weight)], None if leaf.bias is None else names[id(leaf.bias)]))
        elif isinstance(leaf, nn.Dropout):
            layers += [Drop()] if leaf.p > 0.0 else []
        elif isinstance(leaf, (*_ELEMENTWISE, TableColumns)):
            layers.append(leaf)
    return DenseStack(tuple(layers), flattens=type(leaves[0]) is nn.Flatten)


def _leaves(module: nn.Module) -> Iterator[nn.Module | None]:
    """The layers of nested `Sequential`s in order, with None for anything that a plain stack does not have."""
    if _changed(module):
        yield None
    elif type(module) is MLP:
        yield from _leaves(module.layers)
    elif type(module) is nn.Sequential:
        for child in module:
            yield from _leaves(child)
    else:
        flat = type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1)
        yield module if flat or type(module) in (nn.Linear, nn.Dropout, TableColumns, *_ELEMENTWISE) else None


def _changed(module: nn.Module) -> bool:
    """Whether somebody put something on a module that its class does not say."""
    forward, backward = module._forward_pre_hooks or module._forward_hooks, module._backward_pre_hooks
    return (
        bool(forward or backward or module._backward_hooks)
        or hasattr(module, "parametrizations")
        or "forward" in vars(module)
    )
