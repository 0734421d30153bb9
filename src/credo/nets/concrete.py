"""The concrete relaxation of a Bernoulli mask: entries near 0 or 1, differentiable by the probability to keep."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.rng import Stream
from credo.nets.dropout import Site


def relaxed_bernoulli(logit: Tensor, uniform: Tensor, temperature: float) -> Tensor:
    """sigmoid((logit + log u - log(1 - u)) / t), which is Bernoulli(sigmoid(logit)) as t falls to 0.

    At any temperature it is above one half with probability sigmoid(logit).

    Args:
        logit: log(keep / (1 - keep)).
        uniform: u, uniform numbers between 0 and 1.
        temperature: t.

    Reference: C. J. Maddison, A. Mnih, Y. W. Teh, "The concrete distribution", 2017, https://arxiv.org/abs/1611.00712
    """
    return torch.sigmoid((logit + torch.logit(uniform)) / temperature)


def concrete_masks(
    sites: Sequence[Site], logits: Sequence[Tensor], stream: Stream, examples: int | None, temperature: float
) -> list[Tensor]:
    """Relaxed masks, over the probability to keep, (M, *mask shape) for each site: differentiable by the logits.

    The logits, (M, ...) for each site, are those of the probabilities to keep, to be broadcast over its mask.
    """
    generator = stream.generator(logits[0].device)
    masks = []
    for site, logit in zip(sites, logits, strict=True):
        shape = (len(logit), *site.mask_shape(examples))
        uniform = torch.rand(shape, generator=generator, dtype=logit.dtype, device=logit.device)
        masks.append(relaxed_bernoulli(logit, uniform, temperature) / torch.sigmoid(logit))
    return masks


def bernoulli_entropy(logit: Tensor) -> Tensor:
    """-keep log keep - (1 - keep) log(1 - keep) in nats, of each keep = sigmoid(logit)."""
    return F.softplus(logit) - logit * torch.sigmoid(logit)
