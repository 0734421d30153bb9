"""Classes: one of K, or yes and no."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.trees import Params
from credo.likelihoods.base import ClassLikelihood, as_columns


@dataclass(frozen=True)
class Categorical(ClassLikelihood):
    """One of K classes; the network's K outputs are logits.

    p(y = k | f) = softmax(f)_k
    """

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        if y.ndim == 2 and y.shape[1] == 1:
            y = y.squeeze(1)
        if y.ndim != 1:
            raise ValueError(f"y has shape {tuple(y.shape)}: likelihoods.Categorical needs one class number per row")
        if outputs < 2:
            raise ValueError(
                "the network has one output: likelihoods.Categorical needs one output per class; "
                "for two classes and one output use likelihoods.Bernoulli()"
            )
        if y.is_floating_point() and not bool((y.isfinite() & (y == y.round())).all()):
            raise ValueError("y holds fractions or NaN: likelihoods.Categorical needs class numbers 0, 1, 2, ...")
        y = y.long()
        if len(y) and (int(y.min()) < 0 or int(y.max()) >= outputs):
            raise ValueError(
                f"y holds class numbers from {int(y.min())} to {int(y.max())}, and the network has {outputs} outputs: "
                f"the classes must be 0 to {outputs - 1}"
            )
        return y

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        # cross_entropy is one fused kernel; with axes in front of (B, K) it takes them folded, and only here
        front = outputs.shape[:-1]
        flat = outputs.reshape(-1, outputs.shape[-1])
        return -F.cross_entropy(flat, y.expand(front).reshape(-1), reduction="none").reshape(front)

    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        return outputs.softmax(-1)

    def variance(self, outputs: Tensor, params: Params) -> Tensor:
        probs = outputs.softmax(-1)
        return probs * (1.0 - probs)

    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        probs = outputs.softmax(-1)
        flat = torch.multinomial(probs.reshape(-1, probs.shape[-1]), 1, generator=generator)
        return flat.reshape(probs.shape[:-1])

    def entropy(self, outputs: Tensor, params: Params) -> Tensor:
        return torch.special.entr(outputs.softmax(-1)).sum(-1)

    def fisher(self, outputs: Tensor, params: Params) -> Tensor:
        """diag(p) - p p^T."""
        probs = outputs.softmax(-1)
        return torch.diag_embed(probs) - probs.unsqueeze(-1) * probs.unsqueeze(-2)

    def total_fisher(self, outputs: Tensor, params: Params, weight: Tensor) -> Tensor:
        """diag(sum_b weight_b p_b) - sum_b weight_b p_b p_b^T, without a matrix for each example."""
        probs = outputs.softmax(-1)
        weighted = probs * weight.unsqueeze(-1)
        return torch.diag_embed(weighted.sum(-2)) - weighted.mT @ probs

    def fisher_root(self, outputs: Tensor, params: Params) -> Tensor:
        """sqrt(p_k) (e_k - p) in column k."""
        probs = outputs.softmax(-1)
        root = probs.sqrt()
        return torch.diag_embed(root) - probs.unsqueeze(-1) * root.unsqueeze(-2)


class BernoulliLogits(ClassLikelihood, ABC):
    """D separate targets that are 0 or 1, or probabilities of them; the network's D outputs are logits."""

    exclusive = False

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return self.log_prob_each(outputs, y, params).sum(-1)

    def log_prob_each(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        target = y.to(outputs.dtype).expand_as(outputs)
        return -F.binary_cross_entropy_with_logits(outputs, target, reduction="none")

    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        return outputs.sigmoid()

    def variance(self, outputs: Tensor, params: Params) -> Tensor:
        return outputs.sigmoid() * (-outputs).sigmoid()

    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        return torch.bernoulli(outputs.sigmoid(), generator=generator)

    def entropy(self, outputs: Tensor, params: Params) -> Tensor:
        return torch.special.entr(outputs.sigmoid()) + torch.special.entr((-outputs).sigmoid())

    def fisher(self, outputs: Tensor, params: Params) -> Tensor:
        """p (1 - p) on the diagonal."""
        return torch.diag_embed(self.variance(outputs, params))


@dataclass(frozen=True)
class Bernoulli(BernoulliLogits):
    """D separate yes-or-no targets; the network's D outputs are logits.

    p(y = 1 | f) = sigmoid(f)
    """

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        y = as_columns(y, outputs, "Bernoulli")
        if not bool(((y == 0) | (y == 1)).all()):
            raise ValueError("y holds values other than 0 and 1: likelihoods.Bernoulli needs 0 (no) or 1 (yes)")
        return y
