"""Classes one by one: how many of each are found, and how many of those that are named are right."""

from __future__ import annotations

import torch
from torch import Tensor

from credo.evaluation.digits import percent
from credo.evaluation.losses import brier_of_rows
from credo.evaluation.table_values import ClassScores
from credo.evaluation.values import Check, Rating

ENOUGH = 5
"""Held-out rows of a class below which nothing is said about it."""
FOUND = 0.5
"""Part of a class that should be found."""
NAMED = 3
"""Classes that a sentence names."""


def class_scores(probs: Tensor, y: Tensor, classes: tuple[str, ...]) -> tuple[ClassScores, ...]:
    """Recall, precision, log likelihood and Brier score of each class.

    Args:
        probs: of the classes, (B, K).
        y: observed class numbers, (B,).
        classes: names.
    """
    label, losses = probs.argmax(-1), brier_of_rows(probs, y)
    log_prob = probs.double().gather(1, y.long().reshape(-1, 1)).squeeze(1).log()
    found = []
    for k, name in enumerate(classes):
        of, named = y.reshape(-1) == k, label == k
        rows, answers, right = int(of.sum()), int(named.sum()), int((of & named).sum())
        likelihood = float(log_prob[of].mean()) if rows else None
        found.append(
            ClassScores(
                name=name,
                rows=rows,
                answers=answers,
                recall=right / rows if rows else None,
                precision=right / answers if answers else None,
                log_likelihood=likelihood if likelihood is not None and likelihood > -torch.inf else None,
                brier=float(losses[of].mean()) if rows else None,
            )
        )
    return tuple(found)


def finds_every_class(scores: tuple[ClassScores, ...]) -> Check:
    """Whether most rows of every class are found; the share of right answers hides a rare class that never is."""
    question = "Does it find every class?"
    judged = sorted((one for one in scores if one.rows >= ENOUGH), key=lambda one: one.recall or 0.0)
    few = [one for one in scores if one.rows < ENOUGH]
    more = f" Of {_named(few)} there are fewer than {ENOUGH} held-out rows, which say nothing." if few else ""
    if not judged:
        return Check(question, Rating.FAIR.value, f"Unknown.{more}")
    missed = [one for one in judged if (one.recall or 0.0) < FOUND]
    if missed:
        each = [f"{percent(one.recall or 0.0)} of the {one.rows:,} rows of {one.name!r}" for one in missed[:NAMED]]
        rest = f"; and {len(missed) - NAMED} more classes" if len(missed) > NAMED else ""
        advice = "Where missing it is expensive, decide by the probabilities (--costs), not by the label."
        return Check(question, Rating.FAIR.value, f"No: it finds {'; '.join(each)}{rest}. {advice}{more}")
    worst, best = judged[0], judged[-1]
    said = f"it finds {'from ' * (len(judged) > 1)}{percent(worst.recall or 0.0)} of {worst.name!r}"
    if len(judged) > 1:
        said += f" to {percent(best.recall or 0.0)} of {best.name!r}"
    return Check(question, (Rating.FAIR if few else Rating.GOOD).value, f"Yes: {said}.{more}")


def _named(few: list[ClassScores]) -> str:
    rest = f" and {len(few) - NAMED} more" if len(few) > NAMED else ""
    return ", ".join(repr(one.name) for one in few[:NAMED]) + rest
