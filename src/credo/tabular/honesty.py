"""Whether stated probabilities come true: of intervals for numbers, of classes."""

from __future__ import annotations

import torch
from torch import Tensor

from credo.tabular.checks import chance_range, percent
from credo.tabular.evaluation import Check, Rating

Z_OF_TWO = 2.2414
"""Standard errors that the larger of two exceeds by chance once in twenty."""
SLIGHT, LARGE = 0.05, 0.15
"""Differences of probabilities that hardly matter, and that make them useless."""
OUTER, MIDDLE = 0.95, 0.5
"""Levels of the intervals that are looked at: what is too narrow shows in the tails, what is too wide in the middle."""
TWICE = 0.82
"""Part of the rows that 50 % intervals hold when they are twice as wide as they should be, for normal errors."""
TAIL = 0.025
"""Honest intervals are called too narrow no more often than this, and too wide no more often either."""


def covers(outer: float, middle: float, count: int) -> Check:
    """Whether intervals hold as many rows as they say: those of 95 %, and those of 50 %.

    Each count is binomial for honest intervals. Too narrow: the 95 % intervals hold fewer rows than chance explains,
    at a rate of 2.5 %. Too wide: one of the two holds more, each at half of that rate, for few rows cannot tell 95 %
    from 100 %. So honest intervals are accused once in twenty times at most.

    Args:
        outer: part of the rows inside their 95 % intervals.
        middle: part of the rows inside their 50 % intervals.
        count: number of rows.
    """
    question = "Are the error bars honest?"
    narrow = outer < chance_range(OUTER, count, TAIL)[0]
    wide = any(part > chance_range(level, count, TAIL / 2)[1] for part, level in ((outer, OUTER), (middle, MIDDLE)))
    said = f"the {percent(OUTER)} intervals hold {percent(outer)} of {count:,} held-out rows"
    said += f", and the {percent(MIDDLE)} intervals {percent(middle)}"
    if narrow and wide:
        advice = "A few errors are far larger than the others: look at these rows."
        return Check(
            question, Rating.POOR.value, f"They are too narrow for some rows and too wide for most: {said}. {advice}"
        )
    if narrow:
        near = OUTER - outer <= SLIGHT
        advice = "More rows or another --method may help."
        rating = Rating.FAIR if near else Rating.POOR
        return Check(question, rating.value, f"They are {'a little ' * near}too narrow: {said}. {advice}")
    if wide:
        near = middle - MIDDLE <= SLIGHT
        advice = "More epochs (--epochs) or another --method may help."
        rating = Rating.POOR if middle > TWICE else Rating.FAIR
        return Check(question, rating.value, f"They are {'a little ' * near}too wide: {said}. {advice}")
    return Check(question, Rating.GOOD.value, f"Yes, as far as {count:,} rows can tell: {said}.")


def sure_enough(confidence: Tensor, right: Tensor) -> Check:
    """Whether the stated probabilities come true: on average, and for sure and unsure rows alike.

    z = sum_b w_b (right_b - c_b) / sqrt( sum_b w_b^2 c_b (1 - c_b) ), standard normal for honest probabilities

    with w = 1 (mean confidence against accuracy) and with w = 1 - 2 c (Spiegelhalter's, which sees errors that cancel
    on average); each at half of the error. How bad it is, the expected calibration error tells.

    Args:
        confidence: probability of the predicted class, (B,).
        right: whether it was the true one, (B,).

    Reference: D. J. Spiegelhalter, "Probabilistic prediction in patient management and clinical trials", 1986,
        https://doi.org/10.1002/sim.4780050506
    """
    question = "Are the probabilities honest?"
    c, came_true = confidence.double(), right.double()
    stated, part, off = float(c.mean()), float(came_true.mean()), _calibration_error(c, came_true)
    said = f"it is {percent(stated)} sure on average and right in {percent(part)} of {len(right):,} held-out rows"
    if max(_deviation(c, came_true, torch.ones_like(c)), _deviation(c, came_true, 1.0 - 2.0 * c)) <= Z_OF_TWO:
        return Check(question, Rating.GOOD.value, f"Yes, as far as {len(right):,} rows can tell: {said}.")
    said += f"; in groups of equal confidence it is off by {percent(off)}"
    if abs(part - stated) <= SLIGHT < off:
        rating = Rating.POOR if off > LARGE else Rating.FAIR
        return Check(question, rating.value, f"It is too sure of some rows and not sure enough of others: {said}.")
    near = abs(part - stated) <= SLIGHT
    kind = f"{'a little ' * near}too sure of itself" if part < stated else f"not {'quite ' * near}sure enough"
    rating = Rating.FAIR if near or stated < part <= stated + LARGE else Rating.POOR
    return Check(question, rating.value, f"It is {kind}: {said}.")


def _deviation(confidence: Tensor, right: Tensor, weight: Tensor) -> float:
    """|z| of a weighted sum; at least half a row counts as its error, for probabilities of one have none."""
    error = (weight.square() * confidence * (1.0 - confidence)).sum().sqrt().clamp_min(0.5)
    return float((weight * (right - confidence)).sum().abs() / error)


def _calibration_error(confidence: Tensor, right: Tensor, bins: int = 10) -> float:
    """Mean distance between confidence and accuracy over groups of equal confidence."""
    group = (confidence * bins).long().clamp_max(bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64).index_add_(0, group, right - confidence)
    return float(gaps.abs().sum()) / len(right)
