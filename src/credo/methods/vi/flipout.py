"""Flipout: one perturbation of the weights for the batch, with random signs for every example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params
from credo.methods.vi.by_layer import Brought, ByLayer
from credo.methods.vi.factors import Factors
from credo.methods.vi.layers import Affine, Layer
from credo.nets.walk import Passed, Rule, Sink


@dataclass(frozen=True)
class Flipout(ByLayer, Rule):
    """Decorrelates the examples of a batch at the cost of a second pass through each layer.

    h = affine(x; mean) + s * affine(r * x; delta),   delta = scale * noise,   r, s = random signs of inputs and outputs

    Every example sees weights mean + delta * (s r^T), a draw from q, since delta is symmetric around zero. The mean is
    not part of the perturbation, so nothing is random where all scales are zero. Signs are shared by the positions of
    a convolution or a sequence: an example has one set of weights, as in weight space.

    Reference: Y. Wen et al., "Flipout: efficient pseudo-independent weight perturbations on mini-batches", 2018,
        https://arxiv.org/abs/1803.04386
    """

    name = "flipout"

    def bring(self, layers: Sequence[Layer], q: Factors, examples: int, noise: Stream) -> tuple[Brought, Params]:
        delta = q.deviate((name for layer in layers for name in layer.names), noise.child("weights"))
        lanes = (q.centre.members, examples)
        shapes = [(*lanes, *layer.per_channel(shape)) for layer in layers for shape in (layer.inputs, layer.outputs)]
        signs = iter(random_signs(shapes, next(iter(q.centre.params.values())), noise.child("signs")))
        brought = [[next(signs), next(signs), *(delta[name] for name in layer.names)] for layer in layers]
        if q.without_graph:
            brought = [[t.detach().squeeze(0) for t in own] for own in brought]
        return brought, delta

    def __call__(self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, own: Sequence[Tensor]) -> Tensor:
        incoming, outgoing, of_weight, *of_bias = own
        perturbed = affine(x * incoming, of_weight, of_bias[0] if of_bias else None)
        return torch.addcmul(affine(x, weight, bias), perturbed, outgoing)

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None, own: Sequence[Tensor]) -> tuple[Tensor, Any]:
        incoming, outgoing, of_weight, *of_bias = own
        flipped = x * incoming
        perturbed = F.linear(flipped, of_weight, of_bias[0] if of_bias else None)
        return F.linear(x, weight, bias).addcmul_(perturbed, outgoing), flipped

    def backward(self, slopes: Tensor, passed: Passed, by_params: Sink, by_brought: Sink, *, by_input: bool) -> Tensor:
        (incoming, outgoing, of_weight, *of_bias), flipped = passed.own, passed.kept
        returned, found = slopes * outgoing, slopes
        if by_input:
            found = (slopes @ passed.weight).addcmul_(returned @ of_weight, incoming)
        by_params.product(passed.layer.weight, slopes, passed.x)
        by_params.total(passed.layer.bias, slopes)
        by_brought.product(passed.layer.weight, returned, flipped)
        if of_bias:
            by_brought.total(passed.layer.bias, returned)
        return found


def random_signs(shapes: Sequence[tuple[int, ...]], like: Tensor, noise: Stream) -> list[Tensor]:
    """Tensors of +1 and -1, each with probability one half; a random byte serves for eight signs."""
    lengths = [prod(shape) for shape in shapes]
    words = torch.empty(-(-sum(lengths) // 64), dtype=torch.int64, device=like.device)
    words.random_(-(2**63), None, generator=noise.generator(like.device))
    signs = _signs(like.dtype, like.device).index_select(0, words.view(torch.uint8).int()).flatten()
    parts = torch.split(signs[: sum(lengths)], lengths)
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


@cache
def _signs(dtype: torch.dtype, device: torch.device) -> Tensor:
    """The eight signs that each byte stands for, (256, 8)."""
    byte, place = torch.arange(256, device=device), torch.arange(8, device=device)
    return (byte.unsqueeze(1) >> place & 1).to(dtype) * 2 - 1
