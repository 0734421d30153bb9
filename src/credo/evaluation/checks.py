"""Questions that everyone should ask of a fitted table, answered from the held-out rows with their sampling error."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from credo.evaluation.metadata import TrainingLength
from credo.evaluation.values import Check, Rating

Z = 1.96
"""Standard errors that chance exceeds once in twenty."""
DOUBTS_QUESTION = "Does it know what it does not know?"
FEW = 50
"""Below this many held-out rows, percentages are rough."""


def wilson(part: float, count: int, z: float = Z) -> tuple[float, float]:
    """Where a true proportion may lie, given an observed one.

    Args:
        part: observed proportion.
        count: number of rows behind it.
        z: standard errors; 1.96 for 95 %.

    Examples:
        >>> low, high = wilson(0.9, 100)
        >>> round(low, 3), round(high, 3)
        (0.826, 0.945)

    Reference: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927,
        https://doi.org/10.1080/01621459.1927.10502953
    """
    center = (part + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(part * (1 - part) / count + z * z / (4 * count * count))
    return max(0.0, center - half), min(1.0, center + half)


def chance_range(part: float, count: int, tail: float = 0.025) -> tuple[float, float]:
    """Between which proportions an observed one may fall when the true one is known; exact.

    Args:
        part: true proportion.
        count: number of rows.
        tail: probability that may be cut off at either end.

    Examples:
        >>> chance_range(0.5, 10)
        (0.2, 0.8)
    """
    hits = torch.arange(count + 1, dtype=torch.float64)
    ways = math.lgamma(count + 1) - torch.lgamma(hits + 1) - torch.lgamma(count - hits + 1)
    below = (ways + hits * math.log(part) + (count - hits) * math.log1p(-part)).exp().cumsum(0)
    low, high = torch.searchsorted(below, torch.tensor([tail, 1.0 - tail], dtype=torch.float64)).tolist()
    return low / count, min(high, count) / count


def number(value: float) -> str:
    """Three significant digits, without an exponent where possible.

    Examples:
        >>> number(1234.5), number(0.012345), number(47.98), number(5.0)
        ('1,230', '0.0123', '48.0', '5')
    """
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    if digits < -9 or digits > 9:
        return f"{value:.2e}"
    return f"{round(value, digits):,.{0 if value == round(value) else max(digits, 0)}f}"


def percent(part: float) -> str:
    """A proportion as a person says it.

    Examples:
        >>> percent(0.947).split(), percent(0.0046).split()
        (['95', '%'], ['0.5', '%'])
    """
    digits = 1 if 0.0 < part < 0.0095 or 0.9905 < part < 1.0 else 0
    return f"{100 * part:.{digits}f}\u00a0%"  # a space that does not break the line


def beats_naive(losses: Tensor, naive_losses: Tensor, text: str, weights: Tensor | None = None) -> Check:
    """Whether the loss is lower than that of the answer that ignores the inputs, by more than chance.

    Args:
        losses: of the posterior at each row, (B,).
        naive_losses: of the naive answer, (B,).
        text: both, in words.
        weights: how much each row counts, (B,); None for one each.
    """
    gain = naive_losses - losses
    share = torch.full_like(gain, 1.0 / len(gain)) if weights is None else (weights / weights.sum()).to(gain)
    mean, error = float((share * gain).sum()), math.inf
    if len(gain) > 1:
        # rows are drawn and weights are not: for equal ones it is the standard error of a mean
        squares = float((share * (gain - mean)).square().sum())
        error = math.sqrt(squares * len(gain) / (len(gain) - 1))
    question = "Does it beat guessing?"
    if mean > Z * error:
        return Check(question, Rating.GOOD.value, f"Yes: {text}.")
    if mean > 0:
        return Check(question, Rating.FAIR.value, f"Perhaps: {text}; the difference could be chance.")
    return Check(
        question, Rating.POOR.value, f"No: {text}. The inputs say little about the target, or training failed."
    )


def points_at_mistakes(doubt: Tensor, losses: Tensor, unit: str) -> Check:
    """Whether the rows of little doubt have little loss: the surer half of the rows against the other.

    error^2 = s^2 (1 / n_sure + 1 / n_unsure), with s^2 the variance of all losses

    is how far the means of two halves differ when the doubt says nothing, and any half is as likely as any other. Such
    a doubt is praised once in forty times, and called the wrong way round as often.

    Args:
        doubt: at each row, (B,).
        losses: at each row, (B,); squared errors, or mistakes.
        unit: "error" for squared errors, "mistakes" for classes.
    """
    question = "Is it less sure where it is wrong?"
    if not bool(losses.any()):
        return Check(question, Rating.GOOD.value, "It made no mistake on the held-out rows.")
    if len(losses) < 2:
        return Check(question, Rating.FAIR.value, "Unknown: there is only one held-out row.")
    ordered = losses.double()[doubt.argsort(stable=True)]
    sure, unsure = ordered[: (len(ordered) + 1) // 2], ordered[(len(ordered) + 1) // 2 :]
    means = float(sure.mean()), float(unsure.mean())
    shown = [number(m**0.5) if unit == "error" else percent(m) for m in means]
    words = "the typical error is {}, on the other half {}" if unit == "error" else "{} are mistakes, of the other {}"
    said = "on the half of which it is more sure, " + words.format(*shown)
    error = math.sqrt(float(ordered.var(correction=1)) * (1 / len(sure) + 1 / len(unsure)))
    if abs(means[1] - means[0]) <= Z * error:
        return Check(question, Rating.FAIR.value, f"Not clearly: {said}; the difference could be chance.")
    if means[1] > means[0]:
        return Check(question, Rating.GOOD.value, f"Yes: {said}.")
    advice = "Do not select rows by its uncertainty; another --method may help."
    return Check(question, Rating.POOR.value, f"No, the other way round: {said}. {advice}")


def enough_rows(count: int) -> Check:
    """Whether the numbers of this evaluation can be relied on."""
    question = "Were enough rows held out?"
    low, high = chance_range(0.95, count)
    spread = f"with {count:,} rows a true 95 % may show as {percent(low)} to {percent(high)}"
    if count >= FEW:
        return Check(question, Rating.GOOD.value, f"Yes: {spread}.")
    return Check(question, Rating.FAIR.value, f"Few: {spread}. Hold out more rows, or read all numbers as rough.")


def trained_well(finished: bool, notes: Sequence[str], training: TrainingLength | None) -> Check:
    """Whether training came to its end, and whether that end was a choice of rows that it did not learn from.

    Args:
        finished: whether it came to its end.
        notes: what was noticed on the way.
        training: how long it was; None where that is not known.
    """
    question = "Did training go well?"
    if not finished:
        trouble = notes[-1] if notes else "it did not come to its end"
        return Check(question, Rating.POOR.value, f"No: {trouble}.")
    if training is None or not training.chosen:
        return Check(question, Rating.GOOD.value, "It came to its end.")
    if training.epochs >= training.limit:
        advice = "more epochs (--epochs) may help"
        return Check(
            question, Rating.FAIR.value, f"It was still getting better when it ended, after {training}: {advice}."
        )
    said = f"it ended after {training}, where the validation log likelihood per row was best"
    return Check(question, Rating.GOOD.value, f"Yes: {said}.")


def doubts_at_all(disagreement: Tensor) -> Check:
    """Whether the posterior is more than one network."""
    question = DOUBTS_QUESTION
    if float(disagreement.max()) > 0.0:
        return Check(
            question,
            Rating.GOOD.value,
            "Yes: its networks disagree where data are scarce, and rows unlike the training data are flagged.",
        )
    return Check(
        question,
        Rating.FAIR.value,
        "No: it is a single network, whose error bars hold the noise alone. Rows unlike the training "
        "data cannot be flagged; use --method ensemble for that.",
    )


def worst_first(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The checks in their order, poor ones first, then fair ones."""
    order = [Rating.POOR.value, Rating.FAIR.value, Rating.GOOD.value]
    return tuple(sorted(checks, key=lambda check: order.index(check.rating)))
