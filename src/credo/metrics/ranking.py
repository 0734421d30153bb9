"""Does the doubt point at the mistakes? Risk against coverage, and familiar against unfamiliar inputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from credo.metrics.inputs import ArrayLike, classes_like, elements, points_and_targets, probabilities, scores
from credo.predictive import ClassPredictive, Predictive


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """The mean loss on the least doubtful part of the examples, for every size of that part.

    Attributes:
        coverage: k / B for k = 1 .. B, the part that is kept.
        risk: mean loss on that part, (B,); one minus the accuracy where the loss is a mistake.
        doubt: the largest doubt in that part, (B,): the threshold that keeps it.
    """

    coverage: Tensor
    risk: Tensor
    doubt: Tensor

    @property
    def area(self) -> float:
        """Mean risk over all coverages (AURC); lower is better."""
        return float(self.risk.mean())

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


def risk_coverage(prediction: Predictive, y: ArrayLike, doubt: ArrayLike | None = None) -> RiskCoverage:
    """What is gained by leaving the most doubtful examples to a person: the accuracy-rejection curve.

    Args:
        prediction: a Predictive. Over classes the loss is a mistake (0 or 1), over numbers the squared error, summed
            over the targets of an example.
        y: what was observed.
        doubt: one number per example, larger for more doubt; None takes one minus the largest probability for
            classes, the predictive variance (summed over targets) for numbers.

    Reference: Y. Geifman, R. El-Yaniv, "Selective classification for deep neural networks", 2017,
        https://arxiv.org/abs/1705.08500
    """
    prediction, y, _ = elements(prediction, y)
    if isinstance(prediction, ClassPredictive):
        probs = probabilities(prediction)
        confidence, label = probs.max(1)
        losses, uncertainty = (label != classes_like(y, probs)).double(), 1.0 - confidence
    else:
        points, targets = points_and_targets(prediction, y)
        losses, uncertainty = (points - targets).square().sum(1), prediction.variance.double().sum(1)
    return risk_coverage_of_losses(uncertainty if doubt is None else doubt, losses)


def risk_coverage_of_losses(doubt: ArrayLike, losses: ArrayLike) -> RiskCoverage:
    """The same for any doubt and any loss, (B,) each.

    Examples of equal doubt come in no particular order: each of them counts with the mean loss of its group, which is
    the expectation over all orders.
    """
    order, loss = scores(doubt, "doubt"), scores(losses, "losses")
    if len(order) != len(loss):
        raise ValueError(f"doubt has {len(order)} entries and losses {len(loss)}: they must agree")
    values, group = torch.unique(order, return_inverse=True)  # sorted
    group = group.to(loss.device)
    count = torch.bincount(group, minlength=len(values)).double()
    mean = torch.bincount(group, weights=loss, minlength=len(values)) / count
    place = torch.repeat_interleave(torch.arange(len(values), device=loss.device), count.long())
    sizes = torch.arange(1, len(loss) + 1, dtype=torch.float64, device=loss.device)
    return RiskCoverage(sizes / len(loss), mean[place].cumsum(0) / sizes, values.to(loss.device)[place])


def auroc(familiar: ArrayLike, unfamiliar: ArrayLike) -> float:
    """Area under the ROC curve of a score that should be higher for unfamiliar inputs (or for mistakes).

    P(score of an unfamiliar input > score of a familiar one), ties counted half: 1 is perfect, 0.5 is chance

    Args:
        familiar: scores of inputs like the training data, (B,).
        unfamiliar: scores of other inputs, (B',).

    Examples:
        >>> auroc([0.1, 0.2, 0.3], [0.3, 0.9])
        0.9166666666666666
    """
    low = scores(familiar, "familiar").sort().values
    high = scores(unfamiliar, "unfamiliar").to(low.device)
    beaten = torch.searchsorted(low, high) + torch.searchsorted(low, high, right=True)
    return float(beaten.double().mean() / (2 * len(low)))
