"""When does doubt become an alarm? A threshold at a stated rate of false alarms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from credo.core.arrays import tensor
from credo.core.checks import check_between


@dataclass(frozen=True)
class Alarm:
    """From which score on an input counts as unknown.

    The threshold is the k-th smallest score among the n known inputs, k = min(n, ceil((n + 1) (1 - rate))). An input
    that is exchangeable with them exceeds it with a probability of at most max(rate, 1 / (n + 1)), whatever the
    distribution of the score. Nothing is promised about unknown inputs: how many of them are found is measured.

    Attributes:
        threshold: an input with a higher score rings.
        known: n.
        false_alarms: the bound above.

    Reference: V. Vovk, A. Gammerman, G. Shafer, "Algorithmic learning in a random world", 2005.
    """

    threshold: float
    known: int
    false_alarms: float

    @staticmethod
    def of(scores: Any, rate: float = 0.05) -> Alarm:
        """The threshold that known inputs give, which the network was not trained on.

        Args:
            scores: theirs, (n,), larger for more doubt.
            rate: of false alarms.

        Examples:
            >>> Alarm.of(range(1, 100), rate=0.05)
            Alarm(threshold=95.0, known=99, false_alarms=0.05)
        """
        check_between("rate", rate)
        values = _scores(scores)
        place = min(len(values), math.ceil((len(values) + 1) * (1.0 - rate) - 1e-9))
        return Alarm(float(values.sort().values[place - 1]), len(values), max(rate, 1.0 / (len(values) + 1)))

    def rings(self, scores: Any) -> Tensor:
        """Whether each input with these scores (B,) counts as unknown."""
        return _scores(scores) > self.threshold


def _scores(values: Any) -> Tensor:
    result = tensor(values, "scores").detach().double()
    if result.ndim != 1 or len(result) == 0:
        raise ValueError(f"scores has shape {tuple(result.shape)}: it must be (B,) with at least one score")
    if bool(result.isnan().any()):
        raise ValueError("scores holds NaN: there is no saying whether it is high or low")
    return result
