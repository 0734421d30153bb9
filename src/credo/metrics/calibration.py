"""Do the stated probabilities come true? Reliability for classes, coverage for numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.arrays import tensor
from credo.core.checks import check_at_least
from credo.core.rng import Stream
from credo.metrics.inputs import ArrayLike, classes_like, elements, numeric, probabilities, scores, targets_like
from credo.metrics.weights import or_ones, weights_of_rows
from credo.predictive import Predictive


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Stated confidence against the part that was right, bin by bin; empty bins are left out.

    Attributes:
        confidence: mean confidence in each bin, (n,).
        accuracy: part of the bin that was right, (n,).
        count: examples in each bin, or their total weight, (n,).
    """

    confidence: Tensor
    accuracy: Tensor
    count: Tensor

    @property
    def gap(self) -> Tensor:
        """accuracy - confidence, (n,): negative where the predictions are too sure."""
        return self.accuracy - self.confidence

    @property
    def expected_error(self) -> float:
        """sum_n count_n / B |accuracy_n - confidence_n|."""
        return float((self.count * self.gap.abs()).sum() / self.count.sum())

    @property
    def largest_error(self) -> float:
        """max_n |accuracy_n - confidence_n|."""
        return float(self.gap.abs().max())


def reliability_curve(
    prediction: Predictive | ArrayLike,
    y: ArrayLike,
    bins: int = 15,
    *,
    equal_mass: bool = False,
    weights: ArrayLike | None = None,
) -> ReliabilityCurve:
    """How often the most probable class is right, as a function of its probability.

    Args:
        prediction: a Predictive over classes, class probabilities (B, K), or the probability of yes (B,).
        y: observed class numbers, (B,).
        bins: number of bins.
        equal_mass: bins with equally many examples instead of bins of equal width. Examples of the same confidence
            share a bin, so that the answer does not depend on the order of the examples.
        weights: how much each example counts, (B,); None for one each.
    """
    prediction, y, weights = elements(prediction, y, weights)
    probs = probabilities(prediction)
    confidence, label = probs.max(1)
    each = weights_of_rows(weights, prediction, probs)
    right = label == classes_like(y, probs)
    return reliability_of_scores(confidence, right, bins, equal_mass=equal_mass, weights=each)


def reliability_of_scores(
    confidence: ArrayLike,
    right: ArrayLike,
    bins: int = 15,
    *,
    equal_mass: bool = False,
    weights: ArrayLike | None = None,
) -> ReliabilityCurve:
    """The same for any stated probability of any event.

    Args:
        confidence: stated probabilities, (B,).
        right: whether the event came true, (B,).
        bins: number of bins.
        equal_mass: bins with equally many examples instead of bins of equal width.
        weights: how much each example counts, (B,); None for one each.
    """
    check_at_least("bins", bins, 1)
    stated = scores(confidence, "confidence")
    truth = scores(tensor(right, "right").double(), "right").to(stated.device)
    if len(truth) != len(stated):
        raise ValueError(f"right has {len(truth)} entries and confidence {len(stated)}: they must agree")
    each = or_ones(weights_of_rows(weights, stated, stated), stated)
    place = torch.bucketize(stated, _edges(stated, each, bins, equal_mass))  # bins are (a, b], the first one [0, b]
    count = torch.zeros(bins, dtype=torch.float64, device=stated.device).index_add_(0, place, each)
    filled = count > 0
    sums = [torch.zeros_like(count).index_add_(0, place, each * values)[filled] for values in (stated, truth)]
    return ReliabilityCurve(sums[0] / count[filled], sums[1] / count[filled], count[filled])


def _edges(confidence: Tensor, weights: Tensor, bins: int, equal_mass: bool) -> Tensor:
    """The bins - 1 inner edges."""
    parts = torch.arange(1, bins, dtype=torch.float64, device=confidence.device) / bins
    if not equal_mass:
        return parts
    ordered = confidence.sort()
    below = weights[ordered.indices].cumsum(0)
    # the first example with which a part is complete; sums of fractions differ by rounding
    last = torch.searchsorted(below / below[-1], parts - 1e-12)
    return ordered.values[last]


def expected_calibration_error(
    prediction: Predictive | ArrayLike,
    y: ArrayLike,
    bins: int = 15,
    *,
    equal_mass: bool = False,
    weights: ArrayLike | None = None,
) -> float:
    """Mean distance between stated confidence and accuracy, over bins of confidence.

    ECE = sum_n count_n / B |accuracy_n - confidence_n|

    Args:
        prediction: a Predictive over classes, class probabilities (B, K), or the probability of yes (B,).
        y: observed class numbers, (B,).
        bins: number of bins.
        equal_mass: bins with equally many examples instead of bins of equal width.
        weights: how much each example counts, (B,); None for one each.

    Reference: M. P. Naeini, G. F. Cooper, M. Hauskrecht, "Obtaining well calibrated probabilities using Bayesian
        binning", 2015; equal mass: K. Nguyen, B. O'Connor, 2015, https://arxiv.org/abs/1508.05154
    """
    return reliability_curve(prediction, y, bins, equal_mass=equal_mass, weights=weights).expected_error


def pit(prediction: Predictive, y: ArrayLike, seed: int = 0) -> Tensor:
    """Probability integral transform F_b(y_b) of each observation, (B, D): uniform when the prediction is right.

    For counts the jump of F at y is filled with a uniform number, F(y - 1) + u (F(y) - F(y - 1)).

    Args:
        prediction: a Predictive over numbers.
        y: what was observed, (B,) or (B, D).
        seed: of u.

    Reference: A. P. Dawid, "Statistical theory: the prequential approach", 1984; for counts C. Czado, T. Gneiting,
        L. Held, 2009, https://doi.org/10.1111/j.1541-0420.2009.01191.x
    """
    prediction, y, _ = elements(prediction, y)
    mixture = numeric(prediction, "pit")
    targets = targets_like(y, mixture.mean).to(mixture.draws.dtype)
    upper = mixture.cdf(targets).double()
    if not mixture.likelihood.discrete:
        return upper
    lower = mixture.cdf(targets - 1.0).double()
    generator = Stream(seed, ("probability integral transform",)).generator()
    u = torch.rand(upper.shape, generator=generator, dtype=torch.float64).to(upper.device)
    return lower + u * (upper - lower)


@dataclass(frozen=True, eq=False)
class CoverageCurve:
    """The level of an interval against the part of the observations inside it.

    Attributes:
        level: stated levels, (n,).
        coverage: part of the observations inside the equal-tailed interval of that level, (n,).
    """

    level: Tensor
    coverage: Tensor

    @property
    def error(self) -> float:
        """Mean |coverage - level|."""
        return float((self.coverage - self.level).abs().mean())


def coverage_curve(
    prediction: Predictive, y: ArrayLike, levels: ArrayLike | None = None, *, weights: ArrayLike | None = None
) -> CoverageCurve:
    """How many observations the intervals of every level hold: the diagonal when the prediction is right.

    Args:
        prediction: a Predictive over numbers.
        y: what was observed, (B,) or (B, D).
        levels: between 0 and 1; None for 0.05, 0.10 .. 0.95.
        weights: how much each example counts, (B,); None for one each.

    Reference: V. Kuleshov, N. Fenner, S. Ermon, "Accurate uncertainties for deep learning using calibrated
        regression", 2018, https://arxiv.org/abs/1807.00263
    """
    stated = torch.arange(1, 20, dtype=torch.float64) / 20 if levels is None else scores(levels, "levels")
    if not bool(((stated > 0) & (stated < 1)).all()):
        raise ValueError("levels must lie between 0 and 1")
    prediction, y, weights = elements(prediction, y, weights)
    values = pit(prediction, y)
    needed = (2.0 * (values - 0.5).abs()).flatten().sort()  # the smallest level that holds each observation
    inside = torch.searchsorted(needed.values, stated.to(values.device), right=True)
    each = or_ones(weights_of_rows(weights, values, values), values).repeat_interleave(values.shape[1])
    held = torch.cat([each.new_zeros(1), each[needed.indices].cumsum(0)])
    return CoverageCurve(stated, (held[inside] / held[-1]).to(stated.device))
