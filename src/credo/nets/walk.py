"""A dense stack of one member, forward and back without a graph.

The graph of a small network costs as much as its products of matrices. Here slopes by parameters are written straight
to where they are gathered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from credo.core.trees import Params
from credo.nets.dense import Activation, DenseStack, Drop, Linear


class Sink:
    """Where slopes by some tensors go: what comes first takes the place of what was there, the rest is added.

    Args:
        tensors: to be written to; slopes by other names are not wanted.
        times: what products and sums are multiplied by.
    """

    def __init__(self, tensors: Mapping[str, Tensor], times: float = 1.0) -> None:
        self.tensors, self.times = tensors, times
        self._begun: set[str] = set()

    def product(self, name: str, slopes: Tensor, x: Tensor, times: float = 1.0) -> None:
        """By a weight: slopes^T x, of slopes (B, outputs) and inputs (B, inputs), times a number."""
        if name in self.tensors:
            self.tensors[name].addmm_(slopes.T, x, beta=self._beta(name), alpha=self.times * times)

    def total(self, name: str | None, slopes: Tensor, times: float = 1.0) -> None:
        """By a bias: the sum of slopes (B, outputs), times a number."""
        if name is None or name not in self.tensors:
            return
        into, factor = self.tensors[name], self.times * times
        if self._beta(name):
            into.add_(slopes.sum(0), alpha=factor)
        else:
            torch.sum(slopes, 0, out=into)
            if factor != 1.0:
                into.mul_(factor)

    def add(self, name: str, slopes: Tensor) -> None:
        """By anything else, slopes in its own shape."""
        if name not in self.tensors:
            return
        if self._beta(name):
            self.tensors[name].add_(slopes, alpha=self.times)
        else:
            torch.mul(slopes, self.times, out=self.tensors[name])

    def _beta(self, name: str) -> float:
        begun = name in self._begun
        self._begun.add(name)
        return float(begun)


class Passed(NamedTuple):
    """A linear layer on the way forward.

    Attributes:
        layer: names of its weight and bias.
        x: its inputs (B, inputs).
        weight: (outputs, inputs).
        own: the tensors that were brought for it.
        kept: what its rule needs on the way back.
    """

    layer: Linear
    x: Tensor
    weight: Tensor
    own: Sequence[Tensor]
    kept: Any


class Rule(ABC):
    """What a linear layer does, both ways."""

    @abstractmethod
    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None, own: Sequence[Tensor]) -> tuple[Tensor, Any]:
        """The outputs (B, outputs), a new tensor, and what the way back needs.

        Args:
            x: inputs (B, inputs).
            weight: (outputs, inputs).
            bias: (outputs,).
            own: the tensors that were brought for this layer.
        """

    @abstractmethod
    def backward(self, slopes: Tensor, passed: Passed, by_params: Sink, by_brought: Sink, *, by_input: bool) -> Tensor:
        """Write the slopes by the layer's parameters; returns those by its inputs, or anything if not wanted.

        Sinks may lie where what was brought lies: it is read before they are written to.

        Args:
            slopes: by the outputs.
            passed: the way forward.
            by_params: for slopes by weight and bias.
            by_brought: for slopes by what was brought under their names.
            by_input: whether slopes by the inputs are wanted.
        """


class Plain(Rule):
    """The layer as it is."""

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None, own: Sequence[Tensor]) -> tuple[Tensor, Any]:
        return F.linear(x, weight, bias), None

    def backward(self, slopes: Tensor, passed: Passed, by_params: Sink, by_brought: Sink, *, by_input: bool) -> Tensor:
        by_params.product(passed.layer.weight, slopes, passed.x)
        by_params.total(passed.layer.bias, slopes)
        return slopes @ passed.weight if by_input else slopes


_PLAIN = Plain()


class Walk:
    """One way through a stack and back.

    Args:
        stack: its layers.
        rule: of the layers for which something was brought; the others are as they are.
        params: weights and biases by name, without an axis for members.
        brought: for each layer, by the name of its weight.
    """

    def __init__(self, stack: DenseStack, rule: Rule, params: Params, brought: Mapping[str, Sequence[Tensor]]) -> None:
        self.stack, self.rule, self.params, self.brought = stack, rule, params, brought
        self._trail: list[Any] = []

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Outputs (B, E) for inputs (B, ...)."""
        hidden = x.flatten(1)
        for layer in self.stack.layers:
            if isinstance(layer, Linear):
                weight, own = self.params[layer.weight], self.brought.get(layer.weight, ())
                bias = None if layer.bias is None else self.params[layer.bias]
                outputs, kept = self._rule(layer).forward(hidden, weight, bias, own)
                self._trail.append(Passed(layer, hidden, weight, own, kept))
            elif isinstance(layer, Drop):
                raise ValueError("a walk has no masks: this stack has dropout")
            else:
                outputs = _activated(layer, hidden, self._trail)
            hidden = outputs
        return hidden

    @torch.no_grad()
    def back(self, slopes: Tensor, by_params: Sink, by_brought: Sink) -> None:
        """Write the slopes by all parameters, given those by the outputs; once only."""
        first = next(i for i, layer in enumerate(self.stack.layers) if isinstance(layer, Linear))
        for i in reversed(range(first, len(self.stack.layers))):
            layer, passed = self.stack.layers[i], self._trail.pop()
            if isinstance(layer, Linear):
                slopes = self._rule(layer).backward(slopes, passed, by_params, by_brought, by_input=i > first)
            else:
                slopes = _passed_back(slopes, passed)

    def _rule(self, layer: Linear) -> Rule:
        return self.rule if layer.weight in self.brought else _PLAIN


def _activated(activation: Activation, hidden: Tensor, trail: list[Any]) -> Tensor:
    if type(activation) is nn.ReLU:
        trail.append(hidden.relu())
        return trail[-1]
    with torch.enable_grad():
        before = hidden.detach().requires_grad_()
        after = activation(before.clone() if getattr(activation, "inplace", False) else before)
    trail.append((before, after))
    return after.detach()


def _passed_back(slopes: Tensor, kept: Any) -> Tensor:
    if isinstance(kept, Tensor):
        positive: Tensor = torch.ops.aten.threshold_backward(slopes, kept, 0.0)
        return positive
    before, after = kept
    return torch.autograd.grad(after, before, slopes)[0]
