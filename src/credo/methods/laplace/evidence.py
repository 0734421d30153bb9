"""The evidence of a normal approximation, and the precision of the prior and the noise under which it is largest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

FARTHEST = 30.0
"""How far, in nats, a precision or a variance may move from where it stood."""
HALVINGS = 60
ROUNDS = 100
CLOSE = 1e-9
"""Change of a logarithm at which the search ends."""


@dataclass(frozen=True, eq=False)
class Fit:
    """What the evidence looks at, for M members, in float64.

    Attributes:
        eigenvalues: of the whitened curvature of each block, (M, P) each.
        squares: w^T P w of each block's weights under the model's prior, (M,) each.
        residuals: sum of squared residuals over the variance of the noise, (M,); 0 where noise is not learned.
        targets: how many there are, (M,).
    """

    eigenvalues: Sequence[Tensor]
    squares: Sequence[Tensor]
    residuals: Tensor
    targets: Tensor


@dataclass(frozen=True, eq=False)
class Chosen:
    """By what precisions and noise are multiplied.

    Attributes:
        precision: of the prior of each block, (M, blocks).
        noise: the variance of the noise, (M,).
    """

    precision: Tensor
    noise: Tensor


def unchanged(like: Tensor, blocks: int) -> Chosen:
    """The prior and the noise as they are, for numbers like (M,)."""
    ones = torch.ones_like(like)
    return Chosen(ones.unsqueeze(1).repeat(1, blocks), ones)


def largest_evidence(fit: Fit, *, by_layer: bool, noise: bool) -> Chosen:
    """Where the evidence is largest: a equals gamma / w^T P w, and the variance residuals / (targets - gamma).

    gamma(a) = sum_i k_i / (k_i + a) falls with a, so that each equation has one root, which is found by halving.

    Args:
        fit: what is looked at.
        by_layer: whether each block has a precision of its own.
        noise: whether the variance of the noise is chosen too.

    Reference: D. J. C. MacKay, "Bayesian interpolation", 1992, eqs. 4.9 and 4.10.
    """
    blocks = len(fit.eigenvalues)
    groups = [[k] for k in range(blocks)] if by_layer else [list(range(blocks))]
    values = [torch.cat([fit.eigenvalues[k] for k in group], dim=1) for group in groups]
    squares = [torch.stack([fit.squares[k] for k in group]).sum(0) for group in groups]
    log_precision = [torch.zeros_like(fit.residuals) for _ in groups]
    log_noise = torch.zeros_like(fit.residuals)
    for _ in range(ROUNDS if noise else 1):
        before = torch.stack([*log_precision, log_noise])
        scaled = [v / log_noise.exp().unsqueeze(1) for v in values]
        log_precision = [_precision(v, q) for v, q in zip(scaled, squares, strict=True)]
        if noise:
            log_noise = _noise(values, log_precision, fit)
        if float((torch.stack([*log_precision, log_noise]) - before).abs().max()) < CLOSE:
            break
    precision = torch.stack(log_precision, dim=1).exp()
    return Chosen(precision if by_layer else precision.expand(-1, blocks), log_noise.exp())


def _precision(values: Tensor, squares: Tensor) -> Tensor:
    """Logarithm of the root of gamma(a) = a squares, (M,)."""

    def excess(log_a: Tensor) -> Tensor:
        a = log_a.exp()
        return (values / (values + a.unsqueeze(1))).sum(1) - a * squares

    return _root(excess, squares)


def _noise(values: Sequence[Tensor], log_precision: Sequence[Tensor], fit: Fit) -> Tensor:
    """Logarithm of the root of residuals / f = targets - gamma(f), (M,)."""

    def excess(log_f: Tensor) -> Tensor:
        f = log_f.exp()
        pairs = zip(values, log_precision, strict=True)
        effective = torch.stack([(v / (v + (f * a.exp()).unsqueeze(1))).sum(1) for v, a in pairs]).sum(0)
        return fit.residuals / f - (fit.targets - effective)

    return _root(excess, fit.residuals)


def _root(falling: Callable[[Tensor], Tensor], like: Tensor) -> Tensor:
    """Where a function that falls is zero, by halving, (M,); an end of the range where it has no zero in it."""
    low, high = torch.full_like(like, -FARTHEST), torch.full_like(like, FARTHEST)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        above = falling(middle) > 0.0
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return 0.5 * (low + high)


def log_evidence(
    log_likelihood: Tensor, chosen: Chosen, fit: Fit, prior_term: Tensor, log_dets: Sequence[Tensor]
) -> Tensor:
    """log p(data | w) + log p(w) + P/2 log 2 pi - 1/2 log |H + P| of each member, (M,).

    Args:
        log_likelihood: at the mode, with the noise as it was.
        chosen: by what the noise was multiplied.
        fit: residuals and targets.
        prior_term: log p(w) + P/2 log 2 pi - 1/2 log |P|: for a normal prior -1/2 w^T P w.
        log_dets: log |K + I| of each block.
    """
    moved = 0.5 * fit.residuals * (1.0 - chosen.noise.reciprocal()) - 0.5 * fit.targets * chosen.noise.log()
    return log_likelihood + moved + prior_term - 0.5 * torch.stack(list(log_dets)).sum(0)
