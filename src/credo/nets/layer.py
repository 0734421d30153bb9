"""A linear or convolutional call of a forward pass, and what its weight is to the inputs that are dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

DIRECT: dict[Any, int] = {F.linear: 0, F.conv1d: 1, F.conv2d: 2, F.conv3d: 3}
"""Functions with a weight (outputs, inputs, *kernel), and how many axes a kernel has."""
TRANSPOSED: dict[Any, int] = {F.conv_transpose1d: 1, F.conv_transpose2d: 2, F.conv_transpose3d: 3}
"""The same with a weight (inputs, outputs, *kernel)."""
LAYERS = {**DIRECT, **TRANSPOSED}
_ARGUMENTS = ("input", "weight", "bias", "stride", "padding")
_REST = {False: ("dilation", "groups"), True: ("output_padding", "groups", "dilation")}

Affine = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""A layer's call with its stride, padding, dilation and groups settled: a function of input, weight and bias."""


@dataclass(frozen=True)
class Layer:
    """A linear or convolutional call whose weight is a parameter that nothing else in the network uses."""

    weight: str  # name of the weight
    bias: str | None  # name of the bias, if it is a parameter that nothing else uses; None otherwise
    inputs: tuple[int, ...]  # shape of the input of one example
    outputs: tuple[int, ...]  # shape of the output of one example
    spatial: int = 0  # axes at the end of those shapes that run over positions: 0 for a linear call, 2 for conv2d
    groups: int = 1  # of a convolution
    transposed: bool = False  # a transposed convolution, whose weight has its inputs first
    per_example: bool = True  # whether the first axis of the call is the batch

    @property
    def name(self) -> str:
        """Of the layer."""
        return self.weight.rpartition(".")[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Of its parameters."""
        return (self.weight,) if self.bias is None else (self.weight, self.bias)

    @property
    def in_features(self) -> int:
        """Features of the input, or channels."""
        return self.inputs[-1 - self.spatial]

    @property
    def out_features(self) -> int:
        """Features of the output, or channels."""
        return self.outputs[-1 - self.spatial]

    @property
    def positions(self) -> int:
        """How many outputs of one example share the same weights."""
        return torch.Size(self.outputs).numel() // self.out_features

    def without_bias(self) -> Layer:
        return replace(self, bias=None)

    def per_channel(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape with every axis but the channels' reduced to 1."""
        channel = len(shape) - 1 - self.spatial
        return tuple(size if axis == channel else 1 for axis, size in enumerate(shape))

    def by_weight(self, keep: Tensor) -> Tensor:
        """What a mask's entries have, as the weights that they drop have it: a dropped input is a column of zeros.

        Args:
            keep: (M, *mask of one example), or (M, 1, ..., 1) for the same everywhere.

        Returns:
            (M, ...), to be broadcast over the weight (M, *shape). Weights that several entries drop (positions that
            share a kernel) get the average.
        """
        members, kernel = len(keep), (1,) * self.spatial
        if keep[0].numel() == 1:
            return keep.reshape(members, 1, 1, *kernel)
        by_channel = keep.reshape(members, self.in_features, -1).mean(2) if self.spatial else None
        each = self._by_feature(keep) if by_channel is None else by_channel  # (M, inputs)
        if self.transposed:
            return each.reshape(members, self.in_features, 1, *kernel)
        if self.groups == 1:
            return each.reshape(members, 1, self.in_features, *kernel)
        grouped = each.reshape(members, self.groups, -1).repeat_interleave(self.out_features // self.groups, dim=1)
        return grouped.reshape(*grouped.shape, *kernel)

    def _by_feature(self, keep: Tensor) -> Tensor:
        """(M, inputs) from a mask over features, over the channels that were flattened to them, or over time too."""
        inputs = self.in_features
        if keep.shape[-1] == inputs:
            return keep.reshape(len(keep), -1, inputs).mean(1)
        if keep[0].numel() == inputs:
            return keep.reshape(len(keep), inputs)
        channels = keep.shape[2]
        if inputs % channels:
            return keep.flatten(1).mean(1, keepdim=True).expand(len(keep), inputs)
        return keep.reshape(len(keep), channels, -1).mean(2).repeat_interleave(inputs // channels, dim=1)


@dataclass(frozen=True)
class LayerUse:
    """Parameters that layers of a network compute with, and whether their gradients are products."""

    names: tuple[str, ...]
    product: bool  # a sum over positions of one outer product of outputs and inputs
    positions: int = 1  # that share the weights


def layer_call(func: Any, args: Any, kwargs: Mapping[str, Any]) -> tuple[Affine, Tensor, Tensor, Tensor | None]:
    """A call of one of `LAYERS` as an affine function, its input, weight and bias."""
    given = _arguments(func, args, kwargs)
    x, weight, bias = given.pop("input"), given.pop("weight"), given.pop("bias", None)
    return partial(func, **given), x, weight, bias


def groups_of(func: Any, args: Any, kwargs: Mapping[str, Any]) -> int:
    """Groups of a call of one of `LAYERS`."""
    return int(_arguments(func, args, kwargs).get("groups", 1))


def _arguments(func: Any, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {**dict(zip((*_ARGUMENTS, *_REST[func in TRANSPOSED]), args, strict=False)), **kwargs}
