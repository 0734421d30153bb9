"""Up to which doubt may one decide, so that the risk stays small? Answers that held-out rows can promise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

ERROR = 0.1
"""Probability that the promise is broken."""
MOST_ROWS = 10**9
"""Rows beyond which nobody would collect them."""
PLACES = 1000
"""Thresholds that are looked at, evenly among the rows by their doubt."""


@dataclass(frozen=True)
class SelectionCurve:
    """What the surest of the held-out rows lost, for numbers of them that a threshold on the doubt can select.

    Attributes:
        rows: N, all held-out rows.
        count: selected rows, ascending, (n,); rows of equal doubt are selected together.
        loss: their total loss, (n,); one row loses between 0 and 1.
        doubt: the largest doubt among them, (n,).
        binary: whether a row loses 0 or 1 and nothing between.
    """

    rows: int
    count: tuple[int, ...]
    loss: tuple[float, ...]
    doubt: tuple[float, ...]
    binary: bool = True

    @staticmethod
    def of(doubt: Tensor, losses: Tensor) -> SelectionCurve:
        """The curve of doubts (N,) and losses (N,). No threshold selects a row whose doubt is no finite number."""
        if doubt.ndim != 1 or losses.shape != doubt.shape:
            raise ValueError(
                f"doubt has shape {tuple(doubt.shape)} and losses {tuple(losses.shape)}: there must be one of each for "
                "every row, (N,)"
            )
        if not bool(((losses >= 0.0) & (losses <= 1.0)).all()):
            raise ValueError("losses must lie between 0 and 1: divide them by the largest that there can be")
        order = doubt.double().argsort(stable=True)
        sorted_doubt, loss = doubt.double()[order], losses.double()[order]
        ends = torch.ones(len(order), dtype=torch.bool)
        ends[:-1] = sorted_doubt[1:] > sorted_doubt[:-1]
        known = int(sorted_doubt.isfinite().sum())  # NaN comes last, as infinity does
        ends[known:] = False
        if known:
            ends[known - 1] = True
        places = ends.nonzero()[:, 0]
        if len(places) > PLACES:
            places = places[torch.linspace(0, len(places) - 1, PLACES, dtype=torch.float64).round().long()]
        return SelectionCurve(
            len(order),
            tuple((places + 1).tolist()),
            tuple(loss.cumsum(0)[places].tolist()),
            tuple(sorted_doubt[places].tolist()),
            bool(((loss == 0.0) | (loss == 1.0)).all()),
        )

    def passes(self, place: int, risk: float, error: float) -> bool:
        """Whether the rows up to this place show that the true risk is no larger."""
        if self.binary:
            return shown(round(self.loss[place]), self.count[place], risk, error)
        return shown_by_mean(self.loss[place] / self.count[place], self.count[place], risk, error)


class ThresholdRule(ABC):
    """A way to choose the largest doubt up to which one decides, with a risk that is kept with a stated probability."""

    @abstractmethod
    def place(self, curve: SelectionCurve, risk: float, error: float) -> int | None:
        """The place on the curve up to which one may decide; None where no row may be decided.

        Args:
            curve: of held-out rows that took no part in training.
            risk: mean loss among the decided rows that is acceptable, below 1.
            error: probability with which the promise may fail.
        """

    def threshold(self, curve: SelectionCurve, risk: float, error: float = ERROR) -> float | None:
        """The largest doubt up to which one may decide: that of a held-out row."""
        found = self.place(curve, risk, error)
        return None if found is None else curve.doubt[found]


@dataclass(frozen=True)
class FixedSequence(ThresholdRule):
    """Learn then test: from sure to doubtful for as long as every test passes.

    One begins with the surest half of the rows, the surest quarter and so on, J beginnings fixed before any loss is
    seen, and from each goes on to more doubtful rows for as long as every test at error / J passes. A broken promise
    takes a passed test at the first place of one of these walks where the true risk is too large: J chances at
    error / J.

    Reference: A. N. Angelopoulos and others, "Learn then test: calibrating predictive algorithms to achieve risk
        control", 2021, https://arxiv.org/abs/2110.01052
    """

    def place(self, curve: SelectionCurve, risk: float, error: float) -> int | None:
        fewest = rows_needed(risk, error)
        if fewest > curve.rows:
            return None
        walks, passed = max(1, int(math.log2(curve.rows / fewest))), -1
        passes = cache(lambda place: curve.passes(place, risk, error / walks))  # walks meet
        for j in range(1, walks + 1):
            least = max(curve.rows / 2**j, rows_needed(risk, error / walks))
            for place in (place for place, count in enumerate(curve.count) if count >= least):
                if not passes(place):
                    break
                passed = max(passed, place)
        return passed if passed >= 0 else None


@dataclass(frozen=True)
class GuaranteedRisk(ThresholdRule):
    """Selection with guaranteed risk: bisection, each of its ceil(log2 n) tests at error / ceil(log2 n).

    Reference: Y. Geifman, R. El-Yaniv, "Selective classification for deep neural networks", 2017,
        https://arxiv.org/abs/1705.08500, algorithm 1
    """

    def place(self, curve: SelectionCurve, risk: float, error: float) -> int | None:
        tests = max(1, math.ceil(math.log2(max(1, curve.rows))))
        passed, failed = -1, len(curve.count)
        for _ in range(tests):
            place = (passed + failed) // 2
            if place <= passed or place >= failed:
                break
            if curve.passes(place, risk, error / tests):
                passed = place
            else:
                failed = place
        return passed if passed >= 0 else None


def rows_needed(risk: float, error: float = ERROR) -> float:
    """The fewest rows that can show a risk: so many without a mistake; infinity where the risk is zero.

    (1 - risk)^n <= error

    Examples:
        >>> rows_needed(0.05), rows_needed(0.01)
        (45, 230)
    """
    return math.ceil(math.log(error) / math.log1p(-risk)) if risk > 0.0 else math.inf


def shown(mistakes: int, count: int, risk: float, error: float) -> bool:
    """Whether so few mistakes show that the true risk is no larger: the exact binomial test, P(X <= m) <= error.

    It is the same as an upper bound of Clopper and Pearson, at 1 - error, that is no larger than the risk.

    Args:
        mistakes: m, among `count` rows.
        count: n.
        risk: that is promised.
        error: of the test.

    Reference: C. J. Clopper, E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the
        binomial", 1934, https://doi.org/10.1093/biomet/26.4.404
    """
    return risk > 0.0 and mistakes <= risk * count and _log_tail(mistakes, count, risk) <= math.log(error)


def shown_by_mean(mean: float, count: int, risk: float, error: float) -> bool:
    """Whether losses between 0 and 1 with so small a mean show that the true mean is no larger.

    The smaller of the bounds of Hoeffding, exp(-n kl(mean, risk)), and of Bentkus, e P(X <= ceil(n mean)).

    Reference: S. Bates and others, "Distribution-free, risk-controlling prediction sets", 2021,
        https://arxiv.org/abs/2101.02703
    """
    if risk <= 0.0 or mean > risk:
        return False
    divergence = _xlogy(mean, mean / risk) + _xlogy(1.0 - mean, (1.0 - mean) / (1.0 - risk))
    if -count * divergence <= math.log(error):
        return True
    return 1.0 + _log_tail(math.ceil(count * mean), count, risk) <= math.log(error)


def _xlogy(x: float, y: float) -> float:
    return x * math.log(y) if x > 0.0 else 0.0


def _log_tail(most: int, count: int, risk: float) -> float:
    """log P(X <= most) of the binomial distribution."""
    m = torch.arange(most + 1, dtype=torch.float64)
    ways = math.lgamma(count + 1) - torch.lgamma(m + 1) - torch.lgamma(count - m + 1)
    return float((ways + m * math.log(risk) + (count - m) * math.log1p(-risk)).logsumexp(0))


def rows_that_would_do(curve: SelectionCurve, risk: float, error: float = ERROR) -> int | None:
    """About how many held-out rows, or more, would be enough to decide some of them, if they were like those at hand.

    Of all rows, the surest half, quarter and so on it takes those whose risk is below the one that is promised, and
    asks from how many on the test would pass at the same risk.

    Returns:
        A number of rows; None where even the surest rows lose too much, so that more of them would not help.
    """
    if risk <= 0.0:
        return None
    least = int(rows_needed(risk, error))
    found = list[float]()
    for place in _halvings(curve):
        mean = curve.loss[place] / curve.count[place]
        needed = _rows_for(mean, risk, error)
        if needed is not None:
            found.append(needed * curve.rows / curve.count[place])
    if not found:  # too few rows cannot tell even this
        return least if curve.rows < least else None
    return max(least, math.ceil(min(found)))


def _halvings(curve: SelectionCurve) -> Iterable[int]:
    """Places of all rows, the surest half, quarter and so on, down to a single row."""
    places, size = dict[int, None](), float(curve.rows)
    while size >= 1.0:
        place = next((place for place, count in enumerate(curve.count) if count >= size - 1e-9), None)
        if place is not None:
            places[place] = None
        size /= 2
    return places


def _rows_for(mean: float, risk: float, error: float) -> int | None:
    """The fewest rows that show a risk by so small a mean loss."""
    count = rows_needed(risk, error)
    if mean >= risk:
        return None
    low, high = 0, int(count)
    while not shown_by_mean(mean, high, risk, error):
        low, high = high, 2 * high
        if high > MOST_ROWS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shown_by_mean(mean, middle, risk, error) else (middle, high)
    return high
