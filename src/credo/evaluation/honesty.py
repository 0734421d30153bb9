"""Whether stated probabilities come true: of intervals for numbers, of classes."""

from __future__ import annotations

import torch
from torch import Tensor

from credo.evaluation.checks import chance_range, percent
from credo.evaluation.values import Check, Rating

Z_OF_TWO = 2.2414
"""Standard errors that the larger of two exceeds by chance once in twenty."""
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
    question = "Are the error bars honest?"
    said = f"the {percent(OUTER)} intervals hold {percent(outer)} of {count:,} held-out rows"
    said += f", and the {percent(MIDDLE)} intervals {percent(middle)}"
    tails, heart = _side(outer, OUTER, count), _side(middle, MIDDLE, count)
    if tails == heart == 0:
        return Check(question, Rating.GOOD.value, f"Yes, as far as {count:,} rows can tell: {said}.")
    rating, kind, advice = _fault(outer, middle, tails, heart)
    return Check(question, rating.value, f"They are {kind}: {said}. {advice}")


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
