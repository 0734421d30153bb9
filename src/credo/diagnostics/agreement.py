"""How near two predictive distributions are at the same inputs: an approximation, and the posterior that it is for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from torch import Tensor

from credo.calibration import MappedPredictive
from credo.likelihoods import Bernoulli
from credo.predictive import ClassPredictive, NumericMixture, NumericPredictive, Predictive

PICKS, CUTS = 128, 4
"""Components of a mixture that place nodes, and nodes that each of them places."""
GOLDEN = 0.6180339887498949
"""Multiples of it, modulo one, fall between each other evenly: nodes of equal components never coincide."""
ENTRIES = 2**22
"""Entries of the largest temporary tensor: 32 MiB in float64."""
COUNTED = 4096
"""Whole numbers in a span up to which the nodes are all of them; distributions over wider spans are hardly rough."""


@dataclass(frozen=True, eq=False)
class Agreement(ABC):
    """How near two predictive distributions p and q are, input by input.

    Attributes:
        total_variation: largest difference of the probabilities that p and q give to any event; 0 if they are the same,
            1 if they never overlap. (B,) for classes, (B, D) for D separate targets.

    Reference: P. Izmailov, S. Vikram, M. D. Hoffman, A. G. Wilson, "What are Bayesian neural network posteriors really
        like?", 2021, https://arxiv.org/abs/2104.14421
    """

    total_variation: Tensor

    @abstractmethod
    def averages(self) -> Mapping[str, float]:
        """Every measure by its name, averaged over the inputs."""

    def at(self, rows: Tensor) -> Self:
        """The agreement at some of the inputs, given by a mask (B,) or their numbers."""
        return replace(self, **{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@dataclass(frozen=True, eq=False)
class ClassAgreement(Agreement):
    """Agreement about classes: total variation 1/2 sum_k |p_k - q_k|, and whether the most probable class is the same.

    Attributes:
        same_label: whether p and q would answer the same, (B,), or (B, D) for yes-or-no targets.
    """

    same_label: Tensor

    def averages(self) -> Mapping[str, float]:
        return {
            "agreement": float(self.same_label.double().mean()),
            "total_variation": float(self.total_variation.mean()),
        }


@dataclass(frozen=True, eq=False)
class NumericAgreement(Agreement):
    """Agreement about numbers: total variation 1/2 integral |p - q|, and how far mass would have to be moved.

    Attributes:
        wasserstein: integral |F_p - F_q| dy, the 1-Wasserstein distance in units of y, (B, D).
        mean_shift: (E_p[y] - E_q[y]) / Std_q[y], (B, D).
        stddev_ratio: Std_p[y] / Std_q[y], (B, D).
        stddev: Std_q[y], (B, D), the unit.
    """

    wasserstein: Tensor
    mean_shift: Tensor
    stddev_ratio: Tensor
    stddev: Tensor

    def averages(self) -> Mapping[str, float]:
        return {
            "wasserstein": float(self.wasserstein.mean()),
            "relative_wasserstein": float((self.wasserstein / self.stddev).mean()),
            "total_variation": float(self.total_variation.mean()),
            "mean_shift": float(self.mean_shift.abs().mean()),
            # on a logarithmic scale half as wide is as far away as twice as wide
            "stddev_ratio": float(self.stddev_ratio.log().mean().exp()),
        }


@torch.no_grad()
def agreement(prediction: Predictive, reference: Predictive) -> Agreement:
    """How near a predictive distribution is to another one at the same inputs.

    Args:
        prediction: p, of the method that is tested.
        reference: q, for example of a long run of NUTS. The units of the measures are its own.

    Returns:
        A `ClassAgreement` or a `NumericAgreement`.

    Examples:
        >>> from credo.likelihoods import Gaussian
        >>> from credo.predictive import predictive
        >>> p, q = (predictive(Gaussian(), torch.full((1, 1, 1), at), {}, torch.zeros(1)) for at in (0.0, 3.0))
        >>> round(float(agreement(p, q).wasserstein), 4)
        3.0
    """
    if prediction.mean.shape != reference.mean.shape:
        raise ValueError(
            f"the predictions have shapes {tuple(prediction.mean.shape)} and {tuple(reference.mean.shape)}: predict "
            "the same inputs and targets with both"
        )
    prediction, reference = prediction.rows(), reference.rows()
    if isinstance(prediction, ClassPredictive) and isinstance(reference, ClassPredictive):
        return _of_classes(prediction, reference)
    if isinstance(prediction, NumericPredictive) and isinstance(reference, NumericPredictive):
        return _of_numbers(prediction, reference)
    raise TypeError(
        f"a {type(prediction).__name__} and a {type(reference).__name__} cannot be held against each other: one "
        "speaks of numbers, the other of classes"
    )


def _of_classes(p: ClassPredictive, q: ClassPredictive) -> ClassAgreement:
    apart = (p.probs.double() - q.probs.to(p.probs).double()).abs()
    separate = isinstance(p.likelihood, Bernoulli)  # each target has two classes, of which one is given
    variation = apart if separate else 0.5 * apart.sum(-1)
    return ClassAgreement(variation, (p.label == q.label.to(p.label)) & variation.isfinite())


def _of_numbers(p: NumericPredictive, q: NumericPredictive) -> NumericAgreement:
    parts = [_distances_or_nan(p, q, slice(start, start + 1)) for start in range(len(p))]
    variation, wasserstein = (torch.cat(part) for part in zip(*parts, strict=True))
    mean, stddev = q.mean.double(), q.stddev.double()
    return NumericAgreement(
        variation, wasserstein, (p.mean.to(q.mean).double() - mean) / stddev, p.stddev.to(stddev) / stddev, stddev
    )


def _distances_or_nan(p: NumericPredictive, q: NumericPredictive, rows: slice) -> tuple[Tensor, Tensor]:
    """Distances at some inputs; NaN where a method has run into numbers that are not finite."""
    if all(bool(one.draws[:, rows].isfinite().all()) for one in (p, q)):
        return _distances(p, q, rows)
    unknown = torch.full(p.mean[rows].shape, torch.nan, dtype=torch.float64)
    return unknown, unknown


def _distances(p: NumericPredictive, q: NumericPredictive, rows: slice) -> tuple[Tensor, Tensor]:
    """Total variation and Wasserstein distance at some inputs, (B, D) each, by the distribution functions alone.

    Between two nodes the mass of p - q is the difference of F_p - F_q, so half the sum of its absolute values is the
    total variation, short only of what cancels inside of the few steps in which p and q cross.
    """
    both = [_Mixture.of(each, rows) for each in (p, q)]
    discrete = p.likelihood.discrete or q.likelihood.discrete
    nodes = _whole_numbers(both) if discrete else torch.cat([one.nodes() for one in both]).sort(0).values
    gap = both[0].cdf(nodes) - both[1].cdf(nodes)  # (G, B, D)
    before = torch.zeros_like(gap[:1])  # below the first node lies nothing
    variation = 0.5 * torch.cat([before, gap, before]).diff(dim=0).abs().sum(0)
    if discrete:
        return variation, (gap[:-1].abs() * nodes.diff(dim=0)).sum(0)
    return variation, torch.trapezoid(gap.abs(), nodes, dim=0)


@dataclass(frozen=True, eq=False)
class _Mixture:
    """A numeric predictive at a few inputs in float64, with the ends of its components, (S, B, D) each."""

    mixture: NumericPredictive
    lower: Tensor
    upper: Tensor

    @staticmethod
    def of(prediction: NumericPredictive, rows: slice) -> _Mixture:
        if isinstance(prediction, MappedPredictive):
            raise TypeError("agreement is between posteriors themselves: give the prediction before its CdfMap")
        params = {name: value.double().cpu() for name, value in prediction.params.items()}
        weights = prediction.log_weights.double().cpu()
        draws = prediction.draws[:, rows].double().cpu()
        exact = NumericMixture(prediction.likelihood, draws, params, weights)
        lower, upper = prediction.likelihood.spread(draws, params)
        return _Mixture(exact, lower, upper)

    def nodes(self) -> Tensor:
        """Places where the distribution function changes, and its ends, (PICKS * CUTS + 2, B, D)."""
        order = (self.lower + self.upper).argsort(0)
        cumulative = self.mixture.weights[order].cumsum(0)  # (S, B, D)
        shape = (PICKS, *order.shape[1:])
        levels = ((torch.arange(PICKS, dtype=torch.float64) + 0.5) / PICKS).view(-1, 1, 1).expand(shape)
        found = torch.searchsorted(_last(cumulative), _last(levels)).clamp_max(len(order) - 1)
        picked = order.gather(0, found.movedim(-1, 0))
        low, high = self.lower.gather(0, picked), self.upper.gather(0, picked)
        offset = (torch.arange(PICKS, dtype=torch.float64) * GOLDEN % 1.0).view(-1, 1, 1)
        inner = [low + (high - low) * (cut + offset) / CUTS for cut in range(CUTS)]
        return torch.cat([self.lower.amin(0, keepdim=True), *inner, self.upper.amax(0, keepdim=True)])

    def cdf(self, nodes: Tensor) -> Tensor:
        """The distribution function at nodes (G, B, D), which have the same shape as the answer."""
        mixture, few = self.mixture, max(1, ENTRIES // self.lower.numel())
        draws = mixture.draws.unsqueeze(1)  # (S, 1, B, E)
        params = {name: value.unsqueeze(1) for name, value in mixture.params.items()}
        parts = (nodes[start : start + few].unsqueeze(0) for start in range(0, len(nodes), few))
        return torch.cat([mixture.average(mixture.likelihood.cdf(draws, part, params)) for part in parts])


def _last(values: Tensor) -> Tensor:
    return values.movedim(0, -1).contiguous()


def _whole_numbers(both: list[_Mixture]) -> Tensor:
    """Whole numbers from the lowest to the highest, all of them or evenly spread, (G, B, D)."""
    first = torch.stack([one.lower.amin(0) for one in both]).amin(0).floor() - 1.0
    last = torch.stack([one.upper.amax(0) for one in both]).amax(0).ceil()
    count = min(int((last - first).max()) + 1, COUNTED)
    share = torch.linspace(0.0, 1.0, count, dtype=torch.float64).view(-1, 1, 1)
    return (first + share * (last - first)).round()
