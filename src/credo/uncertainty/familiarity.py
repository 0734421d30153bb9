"""Is a row unlike the rows that were learned from? The posterior's own doubt, measured against held-out rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from credo.calibration import MappedPredictive
from credo.predictive import ClassPredictive, Predictive

RATE = 0.01
"""False alarms among rows like the held-out ones."""


def disagreement(prediction: Predictive) -> Tensor:
    """How far the drawn functions are apart at each row, (B,), as a standard deviation.

    For numbers that of E[y | f_s], in units of y. For classes that of the logits, each draw's logits taken around their
    mean: far from the data the probabilities of every draw saturate, so that the mutual information of the label falls
    back to zero just where it should be largest, and the logits go on growing apart.

    Reference: M. Hein, M. Andriushchenko, J. Bitterwolf, "Why ReLU networks yield high-confidence predictions far away
        from the training data", 2019, https://arxiv.org/abs/1812.05720
    """
    check_rows(prediction)
    if isinstance(prediction, MappedPredictive):
        prediction = prediction.base  # what calibrates changes no function
    if not isinstance(prediction, ClassPredictive):
        return prediction.epistemic.double().sum(-1).sqrt()
    logits = prediction.draws.double()
    if logits.shape[-1] > 1:
        logits = logits - logits.mean(-1, keepdim=True)  # a constant added to all logits changes nothing
    apart = logits - prediction.average(logits)
    return prediction.average(apart.square()).mean(-1).sqrt()


def check_rows(prediction: Predictive) -> None:
    """Refuse outputs with positions, of which each has a doubt of its own."""
    if prediction.likelihood.event_axes > 1:
        raise ValueError(
            "the outputs have positions (pixels, tokens), and a score is one number for each input: take that of "
            "prediction.rows(), one for each position, and say how positions add up"
        )


@dataclass(frozen=True)
class Familiarity:
    """From which disagreement on a row counts as unfamiliar.

    The threshold is the k-th smallest disagreement among the n held-out rows, k = min(n, ceil((n + 1) (1 - rate))).
    A row that is exchangeable with them exceeds it with a probability of at most max(rate, 1 / (n + 1)), whatever the
    distribution of the disagreement.

    Attributes:
        threshold: in the units of `disagreement`; None where the draws never disagree, as a single network does not.
        held_out: n.
        false_alarms: the bound above.

    Reference: V. Vovk, A. Gammerman, G. Shafer, "Algorithmic learning in a random world", 2005.
    """

    threshold: float | None
    held_out: int
    false_alarms: float

    @staticmethod
    def of(values: Tensor, rate: float = RATE) -> Familiarity:
        """The threshold that held-out rows give.

        Args:
            values: their disagreement, (n,).
            rate: of false alarms.

        Examples:
            >>> import torch
            >>> Familiarity.of(torch.arange(1.0, 200.0)).threshold
            198.0
        """
        count = len(values)
        place = min(count, math.ceil((count + 1) * (1.0 - rate)))
        threshold = float(values.double().sort().values[place - 1])
        return Familiarity(threshold if threshold > 0.0 else None, count, max(rate, 1.0 / (count + 1)))

    def score(self, values: Tensor) -> Tensor:
        """Disagreement in units of the threshold, (B,): above 1 a row is unfamiliar; NaN where draws never disagree."""
        return values.double() / (math.nan if self.threshold is None else self.threshold)
