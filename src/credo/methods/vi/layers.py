"""Where a forward pass meets its weights: linear and convolutional calls that can be perturbed example by example.

A module is not rewritten. A forward pass is watched once, to see which parameter is the weight of which call, and later
runs in a mode that puts something else in the place of those calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import islice
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from credo.core.inputs import Inputs
from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.model import Batch, Target
from credo.nets.dropout import draw_masks
from credo.nets.layer import DIRECT, layer_call
from credo.nets.layer import Affine as Affine
from credo.nets.layer import Layer as Layer
from credo.nets.network import Network
from credo.nets.random_calls import Masked


class Perturbation(ABC):
    """What takes the place of a layer's call."""

    @abstractmethod
    def __call__(
        self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, tensors: Sequence[Tensor]
    ) -> Tensor:
        """The layer's output for one member.

        Args:
            affine: the call, with its geometry settled.
            x: its input (B, ...).
            weight: the weight it was called with.
            bias: likewise.
            tensors: this member's slices of what the layer was given for it.
        """


class Perturbed(TorchFunctionMode):
    """While active, the calls of some layers are replaced; dropout takes its masks.

    Args:
        layers: whose calls are replaced.
        perturbation: by what.
        params: the member's parameters by name, the very tensors that the module computes with.
        tensors: what the perturbation needs for each layer.
        dropout: what the dropout calls are given to.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        perturbation: Perturbation,
        params: Params,
        tensors: Sequence[Sequence[Tensor]],
        dropout: Masked,
    ) -> None:
        super().__init__()
        self.perturbation, self.dropout = perturbation, dropout
        self.by_weight = {id(params[layer.weight]): each for layer, each in zip(layers, tensors, strict=True)}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in DIRECT:
            affine, x, weight, bias = layer_call(func, args, kwargs)
            if id(weight) in self.by_weight:
                return self.perturbation(affine, x, weight, bias, self.by_weight[id(weight)])
        return self.dropout.__torch_function__(func, types, args, kwargs)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        if error is None:
            self.dropout.finish()


def perturbed_outputs(
    target: Target,
    layers: Sequence[Layer],
    perturbation: Perturbation,
    tensors: Sequence[Sequence[Tensor]],
    variables: Variables,
    batch: Batch,
    rng: Stream,
) -> Tensor:
    """Outputs of the network in training with its layers' calls replaced, (M, B, E)."""
    network, x = target.model.network, batch.example
    sites, count = network.trace(variables, x).sites, (variables.members, batch.examples)
    masks = draw_masks(sites, rng, *count, dtype=network.dtype, device=variables.device)

    def around(params: Params, flat: Sequence[Tensor]) -> Perturbed:
        parts = iter(flat)
        dropout = network.masked(variables, x, list(islice(parts, len(masks))))
        return Perturbed(layers, perturbation, params, [list(islice(parts, len(each))) for each in tensors], dropout)

    flat = [*masks, *(t for each in tensors for t in each)]
    own, per_member = rng.child("own"), batch.per_member
    return network.train(variables, batch.x, flat, target.plan, rng=own, x_per_member=per_member, around=around)


def find_layers(network: Network, variables: Variables, x: Inputs) -> tuple[Layer, ...]:
    """The layers that can be perturbed when the network trains on inputs like x (B, ...)."""
    return tuple(layer for layer in network.trace(variables, x).layers if layer.per_example and not layer.transposed)
