"""Flipout: one perturbation of the weights for the batch, with random signs for every example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params
from credo.methods.vi.estimators import LayerEstimator
from credo.methods.vi.layers import Affine, Layer
from credo.methods.vi.mean_field import MeanFieldNormal


@dataclass(frozen=True)
class Flipout(LayerEstimator):
    """Decorrelates the examples of a batch at the cost of a second pass through each layer.

    h = affine(x; mean) + s * affine(r * x; delta),   delta = scale * noise,   r, s = random signs of inputs and outputs

    Every example sees weights mean + delta * (s r^T), a draw from q, since delta is symmetric around zero. The mean is
    not part of the perturbation, so nothing is random where all scales are zero. Signs are shared by the positions of
    a convolution or a sequence: an example has one set of weights, as in weight space.

    Reference: Y. Wen et al., "Flipout: efficient pseudo-independent weight perturbations on mini-batches", 2018,
        https://arxiv.org/abs/1803.04386
    """

    name = "flipout"

    def tensors(
        self, layers: Sequence[Layer], q: MeanFieldNormal, examples: int, rng: Stream
    ) -> tuple[list[list[Tensor]], Params]:
        delta = q.deviations([name for layer in layers for name in layer.names], rng.child("weights"))
        count = (q.center.members, examples)
        shapes = [(*count, *layer.per_channel(shape)) for layer in layers for shape in (layer.inputs, layer.outputs)]
        signs = iter(random_signs(shapes, next(iter(q.mean.values())), rng.child("signs")))
        tensors = [[next(signs), next(signs), *(delta[name] for name in layer.names)] for layer in layers]
        return tensors, {name: q.mean[name] + d for name, d in delta.items()}

    def __call__(
        self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, tensors: Sequence[Tensor]
    ) -> Tensor:
        r, s, delta, *bias_delta = tensors
        return torch.addcmul(affine(x, weight, bias), s, affine(r * x, delta, bias_delta[0] if bias_delta else None))


def random_signs(shapes: Sequence[tuple[int, ...]], like: Tensor, rng: Stream) -> list[Tensor]:
    """Tensors of +1 and -1, each with probability one half; a random byte serves for eight signs."""
    lengths = [prod(shape) for shape in shapes]
    words = torch.empty(-(-sum(lengths) // 64), dtype=torch.int64, device=like.device)
    words.random_(-(2**63), None, generator=rng.generator(like.device))
    signs = _signs(like.dtype, like.device).index_select(0, words.view(torch.uint8).int()).flatten()
    parts = torch.split(signs[: sum(lengths)], lengths)
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


@cache
def _signs(dtype: torch.dtype, device: torch.device) -> Tensor:
    """The eight signs that each byte stands for, (256, 8)."""
    byte, place = torch.arange(256, device=device), torch.arange(8, device=device)
    return (byte.unsqueeze(1) >> place & 1).to(dtype) * 2 - 1
