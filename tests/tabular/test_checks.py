"""Verdicts: right at a stated rate where all is well, and against it where something is wrong."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from credo.evaluation import checks, honesty
from credo.evaluation.digits import number, rounded, with_error
from credo.evaluation.losses import beyond_chance, mean_and_error
from credo.evaluation.metadata import TrainingLength
from credo.evaluation.table_values import Baseline
from credo.evaluation.values import Check, Rating

REPEATS = 400
ALARM = 1e-6
"""Probability that one of these tests fails although the code is right; with fixed seeds it does so always or never."""


def most_allowed(rate: float) -> int:
    """So many of `REPEATS` events of at most this rate are not exceeded, but with probability `ALARM`."""
    return int(stats.binom.ppf(1.0 - ALARM, REPEATS, rate))


def count(verdicts: list[Check], rating: Rating) -> int:
    return sum(check.rating == rating.value for check in verdicts)


@pytest.mark.parametrize(
    ("part", "rows"), [(0.95, 88), (0.95, 36), (0.05, 2000), (0.5, 100_000), (0.95, 10), (0.95, 2)]
)
def test_the_range_of_chance_is_that_of_the_binomial(part: float, rows: int) -> None:
    low, high = checks.chance_range(part, rows)
    assert low == stats.binom.ppf(0.025, rows, part) / rows
    assert high == stats.binom.ppf(0.975, rows, part) / rows


@pytest.mark.parametrize(("hits", "rows"), [(0, 10), (10, 10), (3, 7), (950, 1000)])
def test_wilson_against_scipy(hits: int, rows: int) -> None:
    expected = stats.binomtest(hits, rows).proportion_ci(0.95, method="wilson")
    low, high = checks.wilson(hits / rows, rows, z=float(stats.norm.ppf(0.975)))
    assert low == pytest.approx(expected.low, abs=1e-12)
    assert high == pytest.approx(expected.high, abs=1e-12)


def coverages(factor: float, rows: int = 60) -> list[Check]:
    """Normal errors, and normal predictions whose scale is the true one times a factor."""
    generator = torch.Generator().manual_seed(1)
    errors = torch.randn(REPEATS, rows, generator=generator, dtype=torch.float64).abs() / factor
    held = [(errors <= stats.norm.ppf(0.5 + level / 2)).double().mean(1).tolist() for level in (0.95, 0.5)]
    return [honesty.covers(outer, middle, rows) for outer, middle in zip(*held, strict=True)]


@pytest.mark.parametrize("rows", [10, 60, 1000])
def test_honest_intervals_are_rarely_accused(rows: int) -> None:
    """By exact ranges of two counts, in at most 5 of 100 tables: 3.25 as too narrow, 1.75 as too wide."""
    verdicts = coverages(1.0, rows)
    accused = [check for check in verdicts if check.answer.startswith("They are")]
    assert len(accused) <= most_allowed(0.05)
    assert sum("too narrow" in check.answer for check in accused) <= most_allowed(0.0325)
    assert sum("too wide" in check.answer for check in accused) <= most_allowed(0.0175)
    others = Rating.FAIR if rows < 50 else Rating.GOOD  # few rows can neither accuse nor praise
    assert all(check.rating == others.value for check in verdicts if check not in accused)


def narrow(rows: int) -> float:
    """How often intervals that are a third too narrow get another rating than good."""
    return 1.0 - count(coverages(2 / 3, rows), Rating.GOOD) / REPEATS


@pytest.mark.parametrize("rows", [1, 3, 10, 30, 45, 60, 88])
def test_good_news_about_intervals_needs_the_power_to_see_bad_news(rows: int) -> None:
    """Few rows never call error bars good, whatever they hold; more call narrow ones good once in five times."""
    best = honesty.covers(1.0, round(0.5 * rows) / rows, rows)
    if rows <= 30:
        assert best.rating == Rating.FAIR.value
        assert "Nobody can tell" in best.answer
    if honesty.power_of_coverage(rows) >= honesty.POWER:
        assert best.rating == Rating.GOOD.value
        # another 2.5 of 100 for the middle intervals; six standard errors are 0.12
        assert narrow(rows) > honesty.POWER - 0.12


@pytest.mark.parametrize("rows", [5, 20, 50, 88, 1000])
def test_the_power_is_that_of_the_binomial(rows: int) -> None:
    inside = 2 * stats.norm.cdf(2 / 3 * stats.norm.ppf(0.975)) - 1
    lowest = stats.binom.ppf(honesty.TAILS[honesty.OUTER][0], rows, honesty.OUTER)
    # the part inside is written with four digits
    assert honesty.power_of_coverage(rows) == pytest.approx(stats.binom.cdf(lowest - 1, rows, inside), abs=2e-3)


@pytest.mark.parametrize(("rows", "rating"), [(3, Rating.FAIR), (20, Rating.FAIR), (100, Rating.GOOD)])
def test_good_news_about_probabilities_needs_rows_too(rows: int, rating: Rating) -> None:
    right = torch.arange(rows) < round(0.9 * rows)
    assert honesty.sure_enough(torch.full((rows,), 0.9), right).rating == rating.value


def test_the_stated_error_is_one_in_twenty_in_all() -> None:
    assert sum(sum(tails) for tails in honesty.TAILS.values()) == pytest.approx(0.05, abs=1e-12)


@pytest.mark.parametrize(("factor", "words"), [(2.5, "too wide"), (0.4, "too narrow")])
def test_dishonest_intervals_are_found_out_by_sixty_rows(factor: float, words: str) -> None:
    verdicts = coverages(factor)
    assert count(verdicts, Rating.GOOD) == 0
    assert all(words in check.answer for check in verdicts)
    assert count(verdicts, Rating.POOR) > 0.9 * REPEATS


def test_the_outer_intervals_alone_would_call_wide_ones_honest() -> None:
    """Of 60 rows, chance puts all into intervals of 95 %, so that only the middle can tell."""
    assert checks.chance_range(0.95, 60)[1] == 1.0
    assert honesty.covers(1.0, 0.5, 60).rating == Rating.GOOD.value
    assert honesty.covers(1.0, 0.92, 60).rating == Rating.POOR.value


@pytest.mark.parametrize(
    ("outer", "middle", "rating", "words"),
    [
        (0.7, 0.3, Rating.POOR, "They are too narrow"),
        (0.92, 0.48, Rating.FAIR, "a little too narrow"),
        (1.0, 0.54, Rating.FAIR, "a little too wide"),
        (0.98, 0.7, Rating.FAIR, "They are too wide"),
        (1.0, 0.9, Rating.POOR, "They are too wide"),
        (0.96, 0.36, Rating.FAIR, "too narrow in the middle"),
        (1.0, 0.36, Rating.FAIR, "too narrow in the middle"),
        (0.85, 0.8, Rating.POOR, "too narrow for some rows and too wide for most"),
    ],
)
def test_how_dishonest_intervals_are_and_what_to_do(outer: float, middle: float, rating: Rating, words: str) -> None:
    check = honesty.covers(outer, middle, 500)
    assert (check.rating, words in check.answer) == (rating.value, True)
    assert check.answer.split(". ")[1].endswith(("may help.", "look at these rows."))


def probabilities(sharpened: float, rows: int = 300) -> list[Check]:
    """Stated confidences, of which the true ones are a part nearer to one half."""
    generator = torch.Generator().manual_seed(2)
    stated = 0.5 + 0.5 * torch.rand(REPEATS, rows, generator=generator, dtype=torch.float64)
    true = 0.5 + (stated - 0.5) * sharpened
    right = torch.rand(REPEATS, rows, generator=generator, dtype=torch.float64) < true
    return [honesty.sure_enough(one, was) for one, was in zip(stated, right, strict=True)]


def test_honest_probabilities_are_rarely_accused() -> None:
    assert REPEATS - count(probabilities(1.0), Rating.GOOD) <= most_allowed(0.055)  # normal for binomial: 5 % and a bit


def test_probabilities_that_are_too_sure_are_found_out() -> None:
    verdicts = probabilities(0.4)
    assert count(verdicts, Rating.GOOD) < 0.1 * REPEATS
    assert all("too sure" in check.answer for check in verdicts if check.rating != Rating.GOOD.value)


def test_one_confident_class_that_is_always_right_is_fine() -> None:
    check = honesty.sure_enough(torch.full((40,), 1.0), torch.ones(40, dtype=torch.bool))
    assert check.rating == Rating.GOOD.value


def simulated(stated: list[float], true: list[float], each: int = 500) -> Check:
    """Rows of several groups, right in just the parts that are given."""
    confidence = torch.tensor(stated).repeat_interleave(each)
    right = torch.cat([torch.arange(each) < round(part * each) for part in true])
    return honesty.sure_enough(confidence, right)


def test_errors_that_cancel_on_average_are_seen() -> None:
    """Sure rows and unsure rows, all right in 80 of 100: the mean confidence is that, and tells nothing."""
    check = simulated([0.99, 0.61], [0.8, 0.8])
    assert check.rating == Rating.POOR.value
    assert "too sure of some" in check.answer
    assert simulated([0.99, 0.61], [0.99, 0.61]).rating == Rating.GOOD.value


def test_a_collapsed_fit_is_poor() -> None:
    """Accuracy 78 %, confidence 46 %: what it says is of no use."""
    check = simulated([0.46], [0.78], 200)
    assert (check.rating, "not sure enough" in check.answer) == (Rating.POOR.value, True)
    assert simulated([0.70], [0.78], 200).rating == Rating.FAIR.value


def gains(shift: float, rows: int = 100) -> list[Check]:
    generator = torch.Generator().manual_seed(3)
    model, naive = torch.randn(2, REPEATS, rows, generator=generator).square()
    return [checks.beats_naive(m, n + shift, "a and b") for m, n in zip(model, naive, strict=True)]


def test_noise_is_rarely_taken_for_skill() -> None:
    """A one-sided test at 2.5 %, of skewed losses."""
    assert count(gains(0.0), Rating.GOOD) <= most_allowed(0.04)


def test_skill_is_seen() -> None:
    assert count(gains(1.0), Rating.GOOD) > 0.95 * REPEATS
    assert count(gains(-1.0), Rating.POOR) > 0.95 * REPEATS


def test_a_handful_of_rows_is_rarely_taken_for_skill() -> None:
    """By Student's t: four rows exceed 3.18 standard errors once in twenty, and 1.96 three times as often."""
    verdicts = gains(0.0, rows=4)
    assert count(verdicts, Rating.GOOD) <= most_allowed(0.06)  # a one-sided test at 2.5 %, of skewed losses
    assert beyond_chance(4) == pytest.approx(stats.t.ppf(0.975, 3), rel=2e-3)  # an expansion of four terms


@pytest.mark.parametrize("rows", [6, 11, 30, 88, 5000])
def test_the_quantile_of_students_t(rows: int) -> None:
    assert beyond_chance(rows) == pytest.approx(stats.t.ppf(0.975, rows - 1), rel=1e-3)  # an expansion of four terms


def models(better: float, rows: int = 200) -> list[Check]:
    """A posterior whose errors have standard deviation 1, and a simpler model whose errors have that times a factor."""
    generator = torch.Generator().manual_seed(5)
    own, other = torch.randn(2, REPEATS, rows, generator=generator, dtype=torch.float64)
    verdicts = []
    for a, b in zip(own.square(), (other * better).square(), strict=True):
        gain, error = mean_and_error(b - a)
        simpler = Baseline("boosted trees", {"rmse": float(b.mean().sqrt())}, gain, error, 100)
        verdicts.append(checks.beats_simpler([simpler], a, 4.0, classes=False))
    return verdicts


def test_a_model_that_is_as_good_is_no_reproach() -> None:
    """A one-sided test at 2.5 %, of skewed losses."""
    assert count(models(1.0), Rating.GOOD) >= REPEATS - most_allowed(0.04)


def test_losing_clearly_to_a_simpler_model_is_not_good() -> None:
    """The twin that asks only about guessing is content with the same losses."""
    verdicts = models(0.5)
    assert count(verdicts, Rating.POOR) == REPEATS
    assert all("boosted trees would serve you better" in one.answer for one in verdicts)
    guessing_twin = checks.beats_naive(torch.ones(200), 2.0 + torch.arange(200) % 2, "a and b")
    assert guessing_twin.rating == Rating.GOOD.value
    assert count(models(0.85, rows=2000), Rating.FAIR) > 0.9 * REPEATS


def pointing(strength: float, rows: int = 200) -> list[Check]:
    generator = torch.Generator().manual_seed(4)
    doubt = torch.rand(REPEATS, rows, generator=generator)
    losses = (torch.randn(REPEATS, rows, generator=generator) * (1.0 + strength * doubt)).square()
    return [checks.points_at_mistakes(d, loss, "error") for d, loss in zip(doubt, losses, strict=True)]


@pytest.mark.parametrize("rows", [20, 60, 200])
def test_doubt_that_means_nothing_is_rarely_praised_and_rarely_blamed(rows: int) -> None:
    """Two tests at 2.5 % each, of skewed losses."""
    verdicts = pointing(0.0, rows)
    assert max(count(verdicts, Rating.GOOD), count(verdicts, Rating.POOR)) <= most_allowed(0.03)
    undecided = [check.answer for check in verdicts if check.rating == Rating.FAIR.value]
    assert all("the difference could be chance" in answer for answer in undecided)


def test_doubt_that_points_at_mistakes_is_praised_and_the_wrong_way_round_is_poor() -> None:
    assert count(pointing(3.0), Rating.GOOD) > 0.95 * REPEATS
    verdicts = pointing(-0.9)
    assert count(verdicts, Rating.POOR) > 0.95 * REPEATS
    assert any("the other way round" in check.answer for check in verdicts)


@pytest.mark.parametrize("errors", [(0.316, 0.311), (0.263, 0.292)])
def test_a_chance_difference_is_called_so_for_both_signs(errors: tuple[float, float]) -> None:
    doubt, sizes = torch.arange(60.0), torch.tensor(errors, dtype=torch.float64).repeat_interleave(30)
    losses = (sizes * torch.tensor([0.2, 1.4], dtype=torch.float64).repeat(30)).square()
    check = checks.points_at_mistakes(doubt, losses, "error")
    assert (check.rating, "could be chance" in check.answer) == (Rating.FAIR.value, True)


def test_a_handful_of_rows_decides_nothing() -> None:
    for losses in ([0.0, 1.0], [1.0, 0.0], [0.0, 0.0, 1.0, 1.0], [1.0], [1.0, 1.0, 1.0]):
        check = checks.points_at_mistakes(torch.arange(len(losses)), torch.tensor(losses), "mistakes")
        assert (check.rating, "nan" in check.answer) == (Rating.FAIR.value, False)


def test_no_mistake_is_said() -> None:
    check = checks.points_at_mistakes(torch.rand(5), torch.zeros(5), "mistakes")
    assert (check.rating, "no mistake" in check.answer) == (Rating.GOOD.value, True)


def test_training_that_did_not_end_well_is_poor() -> None:
    check = checks.trained_well(False, ("diverged in epoch 3",), TrainingLength(3, 0, 50, True))
    assert (check.rating, "diverged" in check.answer) == (Rating.POOR.value, True)


@pytest.mark.parametrize("cooling", [0, 15])
def test_training_that_was_still_improving_is_told(cooling: int) -> None:
    check = checks.trained_well(True, (), TrainingLength(50, cooling, 50, True))
    assert (check.rating, "--epochs" in check.answer) == (Rating.FAIR.value, True)


@pytest.mark.parametrize(
    ("cooling", "words"), [(0, "after 30 epochs,"), (9, "after 30 epochs and 9 more with a falling learning rate,")]
)
def test_training_that_rows_not_learned_from_ended_went_well(cooling: int, words: str) -> None:
    check = checks.trained_well(True, (), TrainingLength(30, cooling, 50, True))
    assert (check.rating, words in check.answer) == (Rating.GOOD.value, True)


def test_training_of_a_given_length_came_to_its_end() -> None:
    for lesson in (None, TrainingLength(200, 0, 200, False)):
        assert checks.trained_well(True, (), lesson) == Check("Did training go well?", "good", "It came to its end.")


@pytest.mark.parametrize("rating", [Rating.POOR, Rating.FAIR])
def test_training_is_not_good_when_its_result_is_not(rating: Rating) -> None:
    """A collapsed fit ends in good order; the twin that looks at the training alone calls it good."""
    result = Check("Does it beat guessing?", rating.value, "")
    check = checks.trained_well(True, (), TrainingLength(30, 9, 50, True), [result])
    assert (check.rating, "Does it beat guessing?" in check.answer) == (rating.value, True)
    assert checks.trained_well(True, (), TrainingLength(30, 9, 50, True)).rating == Rating.GOOD.value


def test_a_single_network_is_told_that_it_has_no_doubt() -> None:
    assert checks.doubts_at_all(torch.zeros(4)).rating == Rating.FAIR.value
    assert checks.doubts_at_all(torch.ones(4)).rating == Rating.GOOD.value


def test_poor_verdicts_come_first() -> None:
    ordered = checks.worst_first([Check("a", "good", ""), Check("b", "poor", ""), Check("c", "fair", "")])
    assert [check.question for check in ordered] == ["b", "c", "a"]


@pytest.mark.parametrize("value", [0.0, 1e-12, 123456.0, -0.5, 1e15, math.inf, math.nan])
def test_numbers_can_be_read_back(value: float) -> None:
    shown = float(number(value).replace(",", ""))
    assert shown == pytest.approx(value, rel=5e-3, nan_ok=True)  # three digits are shown


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [(58.372, 4.43, "58.4 ± 4.4"), (0.91, 0.031, "0.910 ± 0.031"), (1234567.0, 4567.0, "1,234,600 ± 4,600")],
)
def test_numbers_have_as_many_digits_as_they_carry(value: float, error: float, shown: str) -> None:
    assert with_error(value, error) == shown
    assert rounded(value, None) == number(value)
    assert rounded(-0.0001, 4.0) == "0.0"
