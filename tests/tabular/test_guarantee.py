"""The risk among decided rows is what was promised, as often as was promised."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from credo.evaluation.evaluate import _thinned
from credo.evaluation.guarantee import ERROR, rows_needed, safe_doubt, shown
from credo.evaluation.values import Rejection
from credo.metrics import risk_coverage_of_losses

REPEATS = 300
ALARM = 1e-6
"""Probability that a simulation fails although the code is right; with fixed seeds it does so always or never."""
MOST = int(stats.binom.ppf(1.0 - ALARM, REPEATS, ERROR))


@pytest.mark.parametrize(("mistakes", "count"), [(0, 44), (0, 45), (1, 77), (3, 100), (3, 150), (40, 1000), (60, 1000)])
def test_the_test_is_the_bound_of_clopper_and_pearson(mistakes: int, count: int) -> None:
    bound = stats.beta.ppf(1.0 - ERROR, mistakes + 1, count - mistakes)
    assert shown(mistakes, count, 0.05, ERROR) == (bound <= 0.05)


def test_the_rows_that_are_needed_are_just_enough() -> None:
    needed = int(rows_needed(0.05))
    assert shown(0, needed, 0.05, ERROR)
    assert not shown(0, needed - 1, 0.05, ERROR)
    assert rows_needed(0.0) == math.inf


def old_rule(curve: Rejection, rows: int, risk: float) -> float | None:
    """The twin: the largest doubt whose risk on the very same rows is no more than this."""
    fine = [d for d, r in zip(curve.doubt, curve.risk, strict=True) if r <= risk]
    return max(fine, default=None)


def broken(rule: object, rows: int, most: float, risk: float = 0.05) -> tuple[int, int]:
    """In how many tables the true risk of what is decided is too large, and in how many some rows are decided.

    Doubts are uniform up to `most` and calibrated, so that the true risk up to a doubt d is d / 2.
    """
    generator = torch.Generator().manual_seed(rows)
    bad = decided = 0
    for _ in range(REPEATS):
        doubt = most * torch.rand(rows, generator=generator, dtype=torch.float64)
        losses = (torch.rand(rows, generator=generator, dtype=torch.float64) < doubt).double()
        threshold = rule(_thinned(risk_coverage_of_losses(doubt, losses)), rows, risk)  # type: ignore[operator]
        decided += threshold is not None
        bad += threshold is not None and threshold / 2 > risk
    return bad, decided


@pytest.mark.parametrize(("rows", "most"), [(60, 0.11), (114, 0.15), (300, 0.3), (1000, 0.5)])
def test_the_promise_is_kept_nine_times_in_ten(rows: int, most: float) -> None:
    bad, decided = broken(safe_doubt, rows, most)
    assert bad <= MOST
    assert decided > 0
    # the twin breaks it about every other time
    assert broken(old_rule, rows, most)[0] > MOST


def test_with_many_rows_most_of_what_could_be_decided_is() -> None:
    generator = torch.Generator().manual_seed(0)
    doubt = 0.5 * torch.rand(5000, generator=generator, dtype=torch.float64)
    losses = (torch.rand(5000, generator=generator, dtype=torch.float64) < doubt).double()
    found = safe_doubt(_thinned(risk_coverage_of_losses(doubt, losses)), 5000, 0.05)
    assert found is not None
    assert 0.06 < found <= 0.1  # the true risk is kept up to a doubt of 0.1


def test_without_mistakes_the_largest_doubt_that_was_seen_is_the_end() -> None:
    curve = Rejection((0.5, 1.0), (0.0, 0.0), (0.1, 0.2))
    assert safe_doubt(curve, 100, 0.05) == 0.2
    assert safe_doubt(curve, 40, 0.05) is None
    assert safe_doubt(curve, 100, 0.0) is None
