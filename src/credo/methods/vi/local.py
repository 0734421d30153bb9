"""The local reparameterisation: noise on a layer's outputs instead of its weights."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.methods.vi.by_layer import Brought, ByLayer
from credo.methods.vi.factors import Factors
from credo.methods.vi.layers import Affine, Layer, find_layers
from credo.nets.network import Network


@dataclass(frozen=True)
class LocalReparameterization(ByLayer):
    """Draws the outputs of a layer, which are normal given its inputs, with noise of its own for every example.

    h = affine(x; mean) + sqrt(affine(x^2; scale^2)) * noise

    For a linear layer on one vector per example this is exact, and the gradient has far less variance than one draw of
    the weights for the batch. Where one weight makes several outputs of an example (the positions of a convolution or
    of a sequence), each has the right mean and variance, but the correlation between positions is left out; `Flipout`
    keeps it.

    Reference: D. P. Kingma, T. Salimans, M. Welling, "Variational dropout and the local reparameterization trick",
        2015, https://arxiv.org/abs/1506.02557
    """

    name = "local reparameterisation"

    def bring(self, layers: Sequence[Layer], q: Factors, examples: int, noise: Stream) -> tuple[Brought, Params]:
        shapes = {layer.weight: (q.centre.members, examples, *layer.outputs) for layer in layers}
        standard = noise.normal_like({name: q.mean[name].new_empty(()).expand(s) for name, s in shapes.items()})
        return [[standard[layer.weight], *map(q.variance, layer.names)] for layer in layers], {}

    def __call__(self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, own: Sequence[Tensor]) -> Tensor:
        noise, of_weight, *of_bias = own
        variance = affine(x.square(), of_weight, of_bias[0] if of_bias else None)
        # where all inputs are zero so is the variance, and the root has no slope there
        spread = variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()
        return torch.addcmul(affine(x, weight, bias), spread, noise)

    def notes(self, network: Network, variables: Variables, x: Tensor, uncertain: Collection[str]) -> tuple[str, ...]:
        told = super().notes(network, variables, x, uncertain)
        shared = [layer.weight for layer in find_layers(network, variables, x) if layer.positions > 1]
        if not any(name in uncertain for name in shared):
            return told
        return (
            *told,
            f"local reparameterisation leaves out the correlation between positions that share the weights of "
            f"{shared[0]!r} (and of {len(shared) - 1} more); estimator=Flipout() keeps it",
        )
