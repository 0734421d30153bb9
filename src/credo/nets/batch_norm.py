"""The running statistics of batch norm, computed anew for given weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from credo.core.trees import Params


@dataclass(frozen=True)
class NormLayer:
    """The buffers of one layer of batch norm, by their names."""

    mean: str
    variance: str
    counter: str
    momentum: float | None  # None for an average over all batches

    def share(self, calls: Tensor) -> Tensor:
        """What running statistics that began at zero hold of those of the batch, after so many calls of the layer."""
        if self.momentum is None:
            return (calls > 0).double()
        return 1.0 - (1.0 - self.momentum) ** calls.double()


def norm_layers(module: nn.Module) -> tuple[NormLayer, ...]:
    """The layers of batch norm that keep running statistics."""
    found = []
    for path, layer in module.named_modules():
        if isinstance(layer, _BatchNorm) and layer.running_mean is not None and layer.momentum != 0.0:
            kinds = ("running_mean", "running_var", "num_batches_tracked")
            mean, variance, counter = (f"{path}.{kind}".removeprefix(".") for kind in kinds)
            found.append(NormLayer(mean, variance, counter, layer.momentum))
    return tuple(found)


@dataclass
class Refreshed:
    """Statistics of batch norm over one pass of the data, weighed by the examples of each batch.

    statistic = sum_b n_b statistic_b / sum_b n_b

    Args:
        layers: of batch norm.
        buffers: of the network, (M, *shape) each; they stay as they are.
    """

    layers: tuple[NormLayer, ...]
    buffers: Params
    totals: Params = field(default_factory=dict)
    examples: dict[str, Tensor] = field(default_factory=dict)

    def add(self, run: Callable[[Params], object], examples: int) -> None:
        """One batch.

        Args:
            run: a pass in training with these buffers, which it changes in place.
            examples: n_b.
        """
        given = {name: b.clone() for name, b in self.buffers.items()}
        for layer in self.layers:
            for name in (layer.mean, layer.variance, layer.counter):
                given[name].zero_()
        run(given)
        for layer in self.layers:
            share = layer.share(given[layer.counter])  # (M,)
            weight = torch.where(share > 0, float(examples), 0.0)
            for name in (layer.mean, layer.variance):
                each = given[name].double() / torch.where(share > 0, share, 1.0).unsqueeze(1)
                self.totals[name] = self.totals.get(name, torch.zeros_like(each)) + weight.unsqueeze(1) * each
                self.examples[name] = self.examples.get(name, torch.zeros_like(weight)) + weight

    def statistics(self) -> Params:
        """The buffers of these layers, (M, *shape) each; those of a layer that no pass reached stay as they were."""

        def average(name: str) -> Tensor:
            count = self.examples[name].unsqueeze(1)
            found = self.totals[name] / count.clamp_min(1.0)
            return torch.where(count > 0, found, self.buffers[name].double()).to(self.buffers[name])

        return {name: average(name) for name in self.totals}
