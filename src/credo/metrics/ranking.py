"""Does the doubt point at the mistakes? Risk against coverage, and familiar against unfamiliar inputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from credo.metrics.inputs import ArrayLike, classes_like, elements, points_and_targets, probabilities, scores
from credo.metrics.weights import average, or_ones, weights_of_rows
from credo.predictive import ClassPredictive, Predictive


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """The mean loss on the least doubtful part of the examples, for every size of that part.

    Attributes:
        coverage: k / B for k = 1 .. B, the part that is kept; of examples with weights the part of the total weight.
        risk: mean loss on that part, (B,); one minus the accuracy where the loss is a mistake.
        doubt: the largest doubt in that part, (B,): the threshold that keeps it.
    """

    coverage: Tensor
    risk: Tensor
    doubt: Tensor

    @property
    def area(self) -> float:
        """Mean risk over all coverages (AURC); lower is better."""
        return float((self.risk * self.coverage.diff(prepend=self.coverage.new_zeros(1))).sum())

    def risk_at(self, coverage: float) -> float:
        """Risk when (at least) this part of the examples is kept."""
        if not 0.0 < coverage <= 1.0:
            raise ValueError(f"coverage must lie between 0 and 1, got {coverage}")
        # a part of B examples is never exactly a decimal fraction
        return float(self.risk[int(torch.searchsorted(self.coverage, coverage - 1e-9))])

    def coverage_at(self, risk: float) -> float:
        """The largest part that can be kept at this risk, whole groups of equal doubt only; 0 where none can."""
        last = torch.ones_like(self.doubt, dtype=torch.bool)
        last[:-1] = self.doubt[1:] > self.doubt[:-1]
        fine = (self.risk <= risk) & last
        return float(self.coverage[fine].max()) if bool(fine.any()) else 0.0


def risk_coverage(
    prediction: Predictive, y: ArrayLike, doubt: ArrayLike | None = None, *, weights: ArrayLike | None = None
) -> RiskCoverage:
    """What is gained by leaving the most doubtful examples to a person: the accuracy-rejection curve.

    Args:
        prediction: a Predictive. Over classes the loss is a mistake (0 or 1), over numbers the squared error, summed
            over the targets of an example.
        y: what was observed.
        doubt: one number per example, larger for more doubt; None takes one minus the largest probability for
            classes, the predictive variance (summed over targets) for numbers.
        weights: how much each example counts, (B,); None for one each.

    Reference: Y. Geifman, R. El-Yaniv, "Selective classification for deep neural networks", 2017,
        https://arxiv.org/abs/1705.08500
    """
    prediction, y, weights = elements(prediction, y, weights)
    if isinstance(prediction, ClassPredictive):
        probs = probabilities(prediction)
        confidence, label = probs.max(1)
        losses, uncertainty = (label != classes_like(y, probs)).double(), 1.0 - confidence
    else:
        points, targets = points_and_targets(prediction, y)
        losses, uncertainty = (points - targets).square().sum(1), prediction.variance.double().sum(1)
    each = weights_of_rows(weights, prediction, losses)
    return risk_coverage_of_losses(uncertainty if doubt is None else doubt, losses, weights=each)


def risk_coverage_of_losses(doubt: ArrayLike, losses: ArrayLike, *, weights: ArrayLike | None = None) -> RiskCoverage:
    """The same for any doubt and any loss, (B,) each.

    Examples of equal doubt come in no particular order: each of them counts with the mean loss of its group, which is
    the expectation over all orders.

    Args:
        doubt: larger for more doubt, (B,).
        losses: (B,).
        weights: how much each example counts, (B,); None for one each. What weighs nothing is left out.
    """
    order, loss = scores(doubt, "doubt"), scores(losses, "losses")
    if len(order) != len(loss):
        raise ValueError(f"doubt has {len(order)} entries and losses {len(loss)}: they must agree")
    each = or_ones(weights_of_rows(weights, loss, loss), loss)
    counts = each > 0
    order, loss, each = order.to(loss.device)[counts], loss[counts], each[counts]
    values, group = torch.unique(order, return_inverse=True)  # sorted
    total = torch.bincount(group, weights=each, minlength=len(values))
    mean = torch.bincount(group, weights=each * loss, minlength=len(values)) / total
    place = group.sort(stable=True)
    kept = each[place.indices]
    sizes = kept.cumsum(0)
    return RiskCoverage(sizes / sizes[-1], (kept * mean[place.values]).cumsum(0) / sizes, values[place.values])


def auroc(
    familiar: ArrayLike,
    unfamiliar: ArrayLike,
    *,
    familiar_weights: ArrayLike | None = None,
    unfamiliar_weights: ArrayLike | None = None,
) -> float:
    """Area under the ROC curve of a score that should be higher for unfamiliar inputs (or for mistakes).

    P(score of an unfamiliar input > score of a familiar one), ties counted half: 1 is perfect, 0.5 is chance

    Args:
        familiar: scores of inputs like the training data, (B,).
        unfamiliar: scores of other inputs, (B',).
        familiar_weights: how much each of them counts, (B,); None for one each.
        unfamiliar_weights: likewise, (B',).

    Examples:
        >>> auroc([0.1, 0.2, 0.3], [0.3, 0.9])
        0.9166666666666666
    """
    given = scores(familiar, "familiar")
    high = scores(unfamiliar, "unfamiliar").to(given.device)
    each = or_ones(weights_of_rows(familiar_weights, given, given, "familiar_weights"), given)
    others = weights_of_rows(unfamiliar_weights, high, high, "unfamiliar_weights")
    low = given.sort()
    below = torch.cat([each.new_zeros(1), each[low.indices].cumsum(0)])
    beaten = below[torch.searchsorted(low.values, high)] + below[torch.searchsorted(low.values, high, right=True)]
    return average(beaten, others) / (2.0 * float(below[-1]))
