"""Whether stated probabilities come true: of intervals for numbers, of classes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from credo.evaluation.checks import chance_range
from credo.evaluation.digits import percent
from credo.evaluation.values import Check, Rating

INTERVALS_QUESTION, PROBABILITIES_QUESTION = "Are the error bars honest?", "Are the probabilities honest?"
Z_OF_TWO = 2.2414
"""Standard errors that the larger of two exceeds by chance once in twenty."""
Z_OF_POWER = 0.8416
"""Standard errors more by which a deviation must exceed that bound to be found out four times in five."""
SLIGHT, LARGE = 0.05, 0.15
"""Differences of probabilities that hardly matter, and that make them useless."""
OUTER, MIDDLE = 0.95, 0.5
"""Levels of the intervals that are looked at: few rows cannot tell 95 % from 100 %, and what is too wide shows in the
middle."""
TAILS = {OUTER: (0.02, 0.005), MIDDLE: (0.0125, 0.0125)}
"""How often honest intervals of each level are said to hold too few rows, and too many, at most: 5 % in all. Most of it
goes to too few in the tails, which is the error that costs."""
TWICE = 0.82
"""Part of the rows that 50 % intervals hold when they are twice as wide as they should be, for normal errors."""

THIRD = 0.8087
"""Part of the rows that 95 % intervals hold when they are a third too narrow, for normal errors."""
POWER = 0.8
"""How often trouble must be found out before not finding any is good news."""

NARROW = "More rows or another --method may help."
WIDE = "More epochs (--epochs) or another --method may help."


def covers(outer: float, middle: float, count: int) -> Check:
    """Whether intervals hold as many rows as they say: those of 95 %, and those of 50 %.

    Each count is binomial for honest intervals, which are accused no more than once in twenty times: exact tests on
    both sides of both counts share that error (`TAILS`).

    Args:
        outer: part of the rows inside their 95 % intervals.
        middle: part of the rows inside their 50 % intervals.
        count: number of rows.
    """
    question = INTERVALS_QUESTION
    said = f"the {percent(OUTER)} intervals hold {percent(outer)} of {count:,} held-out rows"
    said += f", and the {percent(MIDDLE)} intervals {percent(middle)}"
    tails, heart = _side(outer, OUTER, count), _side(middle, MIDDLE, count)
    if tails == heart == 0 and (power := power_of_coverage(count)) < POWER:
        return Check(question, Rating.FAIR.value, f"Nobody can tell from {count:,} rows: {said}. {_weak(power)}")
    if tails == heart == 0:
        return Check(question, Rating.GOOD.value, f"Yes, as far as {count:,} rows can tell: {said}.")
    rating, kind, advice = _fault(outer, middle, tails, heart)
    return Check(question, rating.value, f"They are {kind}: {said}. {advice}")


def _weak(power: float) -> str:
    return (
        f"Intervals that are a third too narrow would be found out in {percent(power)} of such tests only: hold out "
        "more rows (--test)."
    )


def power_of_coverage(count: int) -> float:
    """How often so many rows find out intervals that are a third too narrow, for normal errors.

    P(fewer of `count` rows inside than chance explains), where a row is inside with P(|Z| < 2/3 x 1.96) = 0.81

    Args:
        count: number of rows.

    Examples:
        >>> [round(power_of_coverage(n), 2) for n in (3, 20, 50, 88)]
        [0.1, 0.55, 0.87, 0.98]
    """
    few = chance_range(OUTER, count, TAILS[OUTER][0])[0] * count
    hits = torch.arange(round(few), dtype=torch.float64)
    ways = math.lgamma(count + 1) - torch.lgamma(hits + 1) - torch.lgamma(count - hits + 1)
    return float((ways + hits * math.log(THIRD) + (count - hits) * math.log1p(-THIRD)).exp().sum())


def _side(part: float, level: float, count: int) -> int:
    """-1 for fewer rows than chance explains, 1 for more, else 0."""
    few, many = TAILS[level]
    return (part > chance_range(level, count, many)[1]) - (part < chance_range(level, count, few)[0])


def _fault(outer: float, middle: float, tails: int, heart: int) -> tuple[Rating, str, str]:
    """How bad it is, what it is, and what to do."""
    if tails < 0 < heart:
        advice = "A few errors are far larger than the others: look at these rows."
        return Rating.POOR, "too narrow for some rows and too wide for most", advice
    if tails < 0:
        near = OUTER - outer <= SLIGHT
        return Rating.FAIR if near else Rating.POOR, f"{'a little ' * near}too narrow", NARROW
    if heart < 0:
        return Rating.FAIR, "too narrow in the middle", NARROW
    near = middle - MIDDLE <= SLIGHT
    return Rating.POOR if middle > TWICE else Rating.FAIR, f"{'a little ' * near}too wide", WIDE


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
    question = PROBABILITIES_QUESTION
    c, came_true = confidence.double(), right.double()
    stated, part, off = float(c.mean()), float(came_true.mean()), _calibration_error(c, came_true)
    said = f"it is {percent(stated)} sure on average and right in {percent(part)} of {len(right):,} held-out rows"
    if max(_deviation(c, came_true, torch.ones_like(c)), _deviation(c, came_true, 1.0 - 2.0 * c)) <= Z_OF_TWO:
        if LARGE * len(c) / _error_of_sum(c, torch.ones_like(c)) < Z_OF_TWO + Z_OF_POWER:
            weak = f"These rows could not tell a difference of {percent(LARGE)}: hold out more (--test)."
            return Check(question, Rating.FAIR.value, f"Nobody can tell from {len(right):,} rows: {said}. {weak}")
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
    return float((weight * (right - confidence)).sum().abs()) / _error_of_sum(confidence, weight)


def _error_of_sum(confidence: Tensor, weight: Tensor) -> float:
    return float((weight.square() * confidence * (1.0 - confidence)).sum().sqrt().clamp_min(0.5))


def _calibration_error(confidence: Tensor, right: Tensor, bins: int = 10) -> float:
    """Mean distance between confidence and accuracy over groups of equal confidence."""
    group = (confidence * bins).long().clamp_max(bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64).index_add_(0, group, right - confidence)
    return float(gaps.abs().sum()) / len(right)
