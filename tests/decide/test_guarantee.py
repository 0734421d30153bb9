"""The risk among decided rows is what was promised, as often as was promised."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from credo.decide import FixedSequence, GuaranteedRisk, SelectionCurve, ThresholdRule, rows_needed, rows_that_would_do
from credo.decide.guarantee import ERROR, shown, shown_by_mean

REPEATS = 300
ALARM = 1e-6
"""Probability that a simulation fails although the code is right; with fixed seeds it does so always or never."""
MOST = int(stats.binom.ppf(1.0 - ALARM, REPEATS, ERROR))
RULES = (FixedSequence(), GuaranteedRisk())


@pytest.mark.parametrize(("mistakes", "count"), [(0, 44), (0, 45), (1, 77), (3, 100), (3, 150), (40, 1000), (60, 1000)])
def test_the_test_is_the_bound_of_clopper_and_pearson(mistakes: int, count: int) -> None:
    bound = stats.beta.ppf(1.0 - ERROR, mistakes + 1, count - mistakes)
    assert shown(mistakes, count, 0.05, ERROR) == (bound <= 0.05)


def test_the_rows_that_are_needed_are_just_enough() -> None:
    needed = int(rows_needed(0.05))
    assert shown(0, needed, 0.05, ERROR)
    assert not shown(0, needed - 1, 0.05, ERROR)
    assert rows_needed(0.0) == math.inf


def test_means_between_zero_and_one_need_more_than_counts_and_not_much() -> None:
    for mistakes, count in ((0, 45), (3, 150), (40, 1000), (300, 8000)):
        by_mean = next(n for n in range(count // 2, 4 * count) if shown_by_mean(mistakes / n, n, 0.05, ERROR))
        by_count = next(n for n in range(count // 2, 4 * count) if shown(mistakes, n, 0.05, ERROR))
        assert by_count <= by_mean <= 1.5 * by_count + 1
    assert not shown_by_mean(0.06, 10**6, 0.05, ERROR)
    assert not shown_by_mean(0.0, 10**6, 0.0, ERROR)


class PlainThreshold(ThresholdRule):
    """The twin: the largest doubt whose risk on the very same rows is no more than this."""

    def place(self, curve: SelectionCurve, risk: float, error: float) -> int | None:
        fine = [i for i, (loss, n) in enumerate(zip(curve.loss, curve.count, strict=True)) if loss <= risk * n]
        return max(fine, default=None)


def broken(rule: ThresholdRule, rows: int, most: float, risk: float, parts: int) -> tuple[int, int]:
    """In how many tables the true risk of what is decided is too large, and in how many some rows are decided.

    Doubts are uniform up to `most` and calibrated, so that the true risk up to a doubt d is d / 2. A loss is the mean
    of so many mistakes.
    """
    generator = torch.Generator().manual_seed(rows)
    bad = decided = 0
    for _ in range(REPEATS):
        doubt = most * torch.rand(rows, generator=generator, dtype=torch.float64)
        mistakes = torch.rand(rows, parts, generator=generator, dtype=torch.float64) < doubt.unsqueeze(1)
        threshold = rule.threshold(SelectionCurve.of(doubt, mistakes.double().mean(1)), risk)
        decided += threshold is not None
        bad += threshold is not None and threshold / 2 > risk
    return bad, decided


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize(
    ("rows", "most", "risk", "parts"),
    [(60, 0.11, 0.05, 1), (114, 0.15, 0.05, 1), (300, 0.3, 0.05, 1), (1000, 0.5, 0.05, 1), (300, 0.8, 0.2, 3)],
)
def test_the_promise_is_kept_nine_times_in_ten(
    rule: ThresholdRule, rows: int, most: float, risk: float, parts: int
) -> None:
    bad, decided = broken(rule, rows, most, risk, parts)
    assert bad <= MOST
    assert decided > 0 or isinstance(rule, GuaranteedRisk)  # whose bisection looks at few places, mostly hopeless ones
    # the twin breaks it about every other time
    assert broken(PlainThreshold(), rows, most, risk, parts)[0] > MOST


def simulated(rows: int, most: float) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    doubt = most * torch.rand(rows, generator=generator, dtype=torch.float64)
    return doubt, (torch.rand(rows, generator=generator, dtype=torch.float64) < doubt).double()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_with_many_rows_most_of_what_could_be_decided_is(rule: ThresholdRule) -> None:
    found = rule.threshold(SelectionCurve.of(*simulated(5000, 0.5)), 0.05)
    assert found is not None
    assert 0.06 < found <= 0.1  # the true risk is kept up to a doubt of 0.1


def test_without_mistakes_the_largest_doubt_that_was_seen_is_the_end() -> None:
    curve = SelectionCurve(100, (50, 100), (0.0, 0.0), (0.1, 0.2))
    assert FixedSequence().threshold(curve, 0.05) == 0.2
    assert FixedSequence().threshold(curve, 0.0) is None
    assert FixedSequence().threshold(SelectionCurve(40, (20, 40), (0.0, 0.0), (0.1, 0.2)), 0.05) is None


def test_equal_doubts_are_decided_together_and_no_number_never() -> None:
    doubt = torch.tensor([0.3, 0.1, 0.1, math.nan, 0.2, math.inf])
    curve = SelectionCurve.of(doubt, torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0]))
    assert (curve.rows, curve.count, curve.loss) == (6, (2, 3, 4), (1.0, 1.0, 2.0))
    assert curve.doubt == pytest.approx((0.1, 0.2, 0.3), rel=1e-6)  # float32
    nothing = SelectionCurve.of(torch.full((3,), math.nan), torch.zeros(3))
    assert nothing.count == ()
    for rule in RULES:
        assert rule.threshold(nothing, 0.5, 0.5) is None
    assert rows_that_would_do(nothing, 0.9) is None


def test_the_number_of_rows_that_would_do_does() -> None:
    """With so many rows in the same proportions some test passes, and with a tenth less none does."""
    for rows, most in ((60, 0.3), (200, 0.1), (1000, 0.5)):
        curve = SelectionCurve.of(*simulated(rows, most))
        would = rows_that_would_do(curve, 0.02)
        assert would is not None
        assert would > rows
        for part, wanted in ((1.05, True), (0.9, False)):
            times = part * would / rows
            counts = tuple(round(times * n) for n in curve.count)
            more = SelectionCurve(would, counts, tuple(times * loss for loss in curve.loss), curve.doubt, binary=False)
            halves = [
                next(i for i, n in enumerate(curve.count) if n >= rows / 2**j) for j in range(int(math.log2(rows)))
            ]
            assert any(more.passes(place, 0.02, ERROR) for place in halves) == wanted
    hopeless = SelectionCurve(640, tuple(range(10, 650, 10)), tuple(n / 2 for n in range(10, 650, 10)), (0.5,) * 64)
    assert rows_that_would_do(hopeless, 0.02) is None
    assert rows_that_would_do(hopeless, 0.0) is None
    assert rows_that_would_do(SelectionCurve(5, (5,), (5.0,), (0.1,)), 0.02) == rows_needed(0.02)  # who knows


@pytest.mark.parametrize(
    ("doubt", "losses", "sentence"),
    [
        (torch.zeros(3), torch.zeros(2), "one of each for every row"),
        (torch.zeros(3, 1), torch.zeros(3, 1), "one of each for every row"),
        (torch.zeros(2), torch.tensor([0.0, 2.0]), "between 0 and 1"),
        (torch.zeros(2), torch.tensor([0.0, math.nan]), "between 0 and 1"),
    ],
)
def test_curves_that_cannot_be_are_refused(doubt: Tensor, losses: Tensor, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        SelectionCurve.of(doubt, losses)


def test_nothing_one_row_and_equal_doubts_decide_nothing_that_cannot_be_shown() -> None:
    for doubt in (torch.zeros(0), torch.zeros(1), torch.full((30,), 0.3)):
        for rule in RULES:
            assert rule.threshold(SelectionCurve.of(doubt, torch.zeros(len(doubt))), 0.05) is None
    many = SelectionCurve.of(torch.full((200,), 0.3, dtype=torch.float64), torch.zeros(200))
    assert [rule.threshold(many, 0.05) for rule in RULES] == [0.3, 0.3]
