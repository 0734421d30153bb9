"""Questions that everyone should ask of a fitted table, answered from the held-out rows with their sampling error."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from credo.evaluation.digits import number, percent
from credo.evaluation.losses import beyond_chance, mean_and_error
from credo.evaluation.metadata import TrainingLength
from credo.evaluation.table_values import Baseline
from credo.evaluation.values import Check, Rating

Z = 1.96
"""Standard errors that chance exceeds once in twenty."""
NAIVE_QUESTION = "Does it beat guessing?"
SIMPLER_QUESTION = "Does it beat simpler models?"
TRAINING_QUESTION = "Did training go well?"
FAR_BEHIND, TWICE_BEHIND = 0.1, 1.5
"""A model is far behind another if the difference of their losses is this part of that of guessing, or if its squared
errors are so many times as large."""
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


def beats_naive(losses: Tensor, naive_losses: Tensor, text: str, weights: Tensor | None = None) -> Check:
    """Whether the loss is lower than that of the answer that ignores the inputs, by more than chance.

    Args:
        losses: of the posterior at each row, (B,).
        naive_losses: of the naive answer, (B,).
        text: both, in words.
        weights: how much each row counts, (B,); None for one each.
    """
    mean, error = mean_and_error(naive_losses - losses, weights)
    if mean > beyond_chance(len(losses)) * error:
        return Check(NAIVE_QUESTION, Rating.GOOD.value, f"Yes: {text}.")
    if mean > 0:
        return Check(NAIVE_QUESTION, Rating.FAIR.value, f"Perhaps: {text}; the difference could be chance.")
    return Check(
        NAIVE_QUESTION, Rating.POOR.value, f"No: {text}. The inputs say little about the target, or training failed."
    )


def beats_simpler(baselines: Sequence[Baseline], losses: Tensor, naive: float, *, classes: bool) -> Check:
    """Whether models that anyone would try first are worse, or at least no better than by chance.

    Args:
        baselines: on the same rows.
        losses: of the posterior at each row, (B,): squared errors, or Brier scores.
        naive: mean loss of the answer that ignores the inputs, against which differences are large or small.
        classes: whether classes are predicted.
    """
    mean, limit = float(losses.double().mean()), beyond_chance(len(losses))
    own = number(mean if classes else math.sqrt(mean))
    what = "its Brier score is" if classes else "it is typically off by"
    measure = "brier" if classes else "rmse"
    each = [f"{one.title} {number(one.scores[measure])}{_beside(one, limit)}" for one in baselines]
    said = f"{what} {own}, {', '.join(each)}"
    behind = [one for one in baselines if one.gain < -limit * one.error]
    if not behind:
        level = any(one.gain > limit * one.error for one in baselines)
        answer = f"{'Yes' if level else 'It is level with them'}: {said}."
        return Check(SIMPLER_QUESTION, Rating.GOOD.value, answer)
    best = min(behind, key=lambda one: one.gain)
    far = -best.gain > FAR_BEHIND * naive or (not classes and mean > TWICE_BEHIND * (mean + best.gain))
    advice = f"On these rows {best.title} would serve you better; or try another --method."
    return Check(SIMPLER_QUESTION, (Rating.POOR if far else Rating.FAIR).value, f"No: {said}. {advice}")


def _beside(one: Baseline, limit: float) -> str:
    if one.gain > limit * one.error:
        return " (worse)"
    return " (better)" if one.gain < -limit * one.error else " (the difference could be chance)"


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


def trained_well(
    finished: bool, notes: Sequence[str], training: TrainingLength | None, results: Sequence[Check] = ()
) -> Check:
    """Whether training came to its end, whether that end was a choice of rows that it did not learn from, and whether
    anything came of it.

    Args:
        finished: whether it came to its end.
        notes: what was noticed on the way.
        training: how long it was; None where that is not known.
        results: what held-out rows say of the predictions: training is no better than these.
    """
    check = _ended(finished, notes, training)
    order = [Rating.GOOD.value, Rating.FAIR.value, Rating.POOR.value]
    worst = max(results, key=lambda each: order.index(each.rating), default=check)
    if order.index(worst.rating) <= order.index(check.rating):
        return check
    start = "No" if worst.rating == Rating.POOR.value else "In part"
    came = f"{start}: it came to its end, but what came of it does not pass the question “{worst.question}”"
    return Check(check.question, worst.rating, f"{came}.")


def _ended(finished: bool, notes: Sequence[str], training: TrainingLength | None) -> Check:
    question = TRAINING_QUESTION
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


def replaced(checks: Sequence[Check], *others: Check) -> tuple[Check, ...]:
    """The checks with others in the place of those that ask the same, the worst first.

    Args:
        checks: as they were.
        others: new ones, in the order in which those of the same rating are read.
    """
    asked = [check.question for check in others]
    return worst_first((*others, *(check for check in checks if check.question not in asked)))


def worst_first(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The checks in their order, poor ones first, then fair ones."""
    order = [Rating.POOR.value, Rating.FAIR.value, Rating.GOOD.value]
    return tuple(sorted(checks, key=lambda check: order.index(check.rating)))
