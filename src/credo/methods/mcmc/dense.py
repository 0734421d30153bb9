"""The gradient of plain dense stacks written out, for all chains at once.

Autograd is right for any network; for a small dense one most of its time is bookkeeping. Here activations are held as
(C, width, B), so that the first layer of all chains is one matrix product with the inputs that they share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from credo.core.trees import Params
from credo.nets.dense import Activation, DenseStack, Linear

Backward = Callable[[Tensor, Tensor], Tensor]


def _tanh(z: Tensor) -> Tensor:
    """tanh z = 2 sigmoid(2 z) - 1: in single precision a CPU takes a third of the time, and errs by 2e-7 at most."""
    if z.dtype is torch.float32 and z.device.type == "cpu":
        return z.mul_(2.0).sigmoid_().mul_(2.0).sub_(1.0)
    return z.tanh_()


_ACTIVATIONS: Mapping[type, tuple[Activation, Backward]] = {
    nn.Tanh: (_tanh, lambda slope, out: torch.ops.aten.tanh_backward(slope, out)),
    nn.Sigmoid: (torch.sigmoid_, lambda slope, out: torch.ops.aten.sigmoid_backward(slope, out)),
    nn.ReLU: (torch.relu_, lambda slope, out: torch.ops.aten.threshold_backward(slope, out, 0.0)),
}
"""Activations in place, and the slope before each, from the slope after it and the activation itself."""


@dataclass(frozen=True)
class _Step:
    """A linear layer, and the activation that follows it, if one does."""

    linear: Linear
    activation: tuple[Activation, Backward] | None


@dataclass(frozen=True)
class DenseSlopes:
    """Outputs of a plain dense stack, and the way back from their slopes to those of the weights.

    Attributes:
        steps: the layers in order.
        columns: inputs that all chains share, (features, B).
    """

    steps: tuple[_Step, ...]
    columns: Tensor

    def forward(self, params: Params) -> tuple[Tensor, list[Tensor]]:
        """Outputs (C, E, B), and what the way back needs.

        Args:
            params: weights by name, (C, *shape).
        """
        trail: list[Tensor] = []
        hidden = self.columns
        for i, step in enumerate(self.steps):
            hidden = self._linear(step.linear, params, hidden) if i else self._first(step.linear, params)
            if step.activation is not None:
                hidden = step.activation[0](hidden)
                trail.append(hidden)
        return hidden, trail

    def _linear(self, layer: Linear, params: Params, hidden: Tensor) -> Tensor:
        weight = params[layer.weight]  # (C, width, inputs)
        if layer.bias is None:
            return torch.bmm(weight, hidden)
        return torch.baddbmm(params[layer.bias].unsqueeze(2), weight, hidden)

    def _first(self, layer: Linear, params: Params) -> Tensor:
        chains, width, inputs = params[layer.weight].shape
        rows = params[layer.weight].reshape(chains * width, inputs)
        if layer.bias is None:
            product = torch.mm(rows, self.columns)
        else:
            product = torch.addmm(params[layer.bias].reshape(-1, 1), rows, self.columns)
        return product.view(chains, width, -1)

    def backward(self, params: Params, trail: list[Tensor], slope: Tensor) -> Params:
        """The slopes of the weights by name, (C, *shape), from those of the outputs, (C, E, B)."""
        left, slopes = list(trail), {}
        for i, step in reversed(list(enumerate(self.steps))):
            if step.activation is not None:
                slope = step.activation[1](slope, left.pop())
            if step.linear.bias is not None:
                slopes[step.linear.bias] = slope.sum(2)
            if i == 0:
                # with the few inputs on the left, the product takes half the time
                product = torch.mm(self.columns, slope.reshape(-1, self.columns.shape[1]).T)
                slopes[step.linear.weight] = product.T.reshape(params[step.linear.weight].shape)
            else:
                slopes[step.linear.weight] = torch.bmm(slope, left[-1].mT)
                weight = params[step.linear.weight].mT
                slope = weight * slope if slope.shape[1] == 1 else torch.bmm(weight, slope)
        return slopes


def dense_slopes(stack: DenseStack | None, x: Tensor) -> DenseSlopes | None:
    """The stack bound to inputs that all chains share, (B, ...); None where a layer's slope is not written out here."""
    if stack is None or not stack.takes(x.ndim):
        return None
    steps: list[_Step] = []
    for layer in stack.layers:
        if isinstance(layer, Linear):
            steps.append(_Step(layer, None))
        elif isinstance(layer, nn.Module):
            pair = _ACTIVATIONS.get(type(layer))
            if pair is None or not steps or steps[-1].activation is not None:
                return None
            steps[-1] = _Step(steps[-1].linear, pair)
    if any(step.activation is None for step in steps[:-1]):
        return None
    return DenseSlopes(tuple(steps), x.flatten(1).T.contiguous())
