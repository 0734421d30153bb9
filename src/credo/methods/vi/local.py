"""The local reparameterization: noise on a layer's outputs instead of its weights."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.inputs import Inputs
from credo.core.noise import standard_normal
from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.methods.vi.estimators import LayerEstimator
from credo.methods.vi.layers import Affine, Layer, find_layers
from credo.methods.vi.mean_field import MeanFieldNormal
from credo.nets.network import Network


def local_outputs(
    affine: Affine,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    noise: Tensor,
    weight_variance: Tensor,
    bias_variance: Tensor | None = None,
) -> Tensor:
    """A draw of the outputs of a layer whose weights are independent normals, which are normal themselves.

    h = affine(x; weight, bias) + sqrt(affine(x^2; weight_variance, bias_variance)) * noise
    """
    variance = affine(x.square(), weight_variance, bias_variance)
    # where all inputs are zero so is the variance, and the root has no derivative there
    scale = variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()
    return torch.addcmul(affine(x, weight, bias), scale, noise)


@dataclass(frozen=True)
class LocalReparameterization(LayerEstimator):
    """Draws the outputs of a layer, which are normal given its inputs, with noise of its own for every example.

    h = affine(x; mean) + sqrt(affine(x^2; scale^2)) * noise

    For a linear layer on one vector per example this is exact, and the gradient has far less variance than one draw of
    the weights for the batch. Where one weight makes several outputs of an example (the positions of a convolution or
    of a sequence), each has the right mean and variance, but the correlation between positions is left out; `Flipout`
    keeps it.

    Reference: D. P. Kingma, T. Salimans, M. Welling, "Variational dropout and the local reparameterization trick",
        2015, https://arxiv.org/abs/1506.02557
    """

    name = "local reparameterization"

    def tensors(
        self, layers: Sequence[Layer], q: MeanFieldNormal, examples: int, rng: Stream
    ) -> tuple[list[list[Tensor]], Params]:
        shapes = {layer.weight: (q.center.members, examples, *layer.outputs) for layer in layers}
        noise = standard_normal(shapes, next(iter(q.mean.values())), rng)
        return [[noise[layer.weight], *(q.variance[name] for name in layer.names)] for layer in layers], {}

    def __call__(
        self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, tensors: Sequence[Tensor]
    ) -> Tensor:
        return local_outputs(affine, x, weight, bias, *tensors)

    def notes(self, network: Network, variables: Variables, x: Inputs, uncertain: Collection[str]) -> tuple[str, ...]:
        notes = super().notes(network, variables, x, uncertain)
        layers = find_layers(network, variables, x)
        shared = [layer.weight for layer in layers if layer.positions > 1 and layer.weight in uncertain]
        if not shared:
            return notes
        others = f" (and of {len(shared) - 1} more)" if len(shared) > 1 else ""
        return (
            *notes,
            f"local reparameterization leaves out the correlation between positions that share the weights of "
            f"{shared[0]!r}{others}; estimator=Flipout() keeps it",
        )
