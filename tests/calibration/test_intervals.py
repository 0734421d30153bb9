"""Conformal intervals hold what they promise, and would not if they were calibrated on training rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from calibration_problems import Regression, mixture_of
from credo.calibration import CdfMap, ConformalIntervals
from credo.core.rng import Stream
from credo.likelihoods import Gaussian, Poisson
from credo.predictive import NumericPredictive

LEVEL, ROWS, REPEATS = 0.9, 99, 200


def coverage(on_training_rows: bool) -> float:
    """Mean coverage of new rows over many fits, each calibrated on 99 rows."""
    held = []
    for repeat in range(REPEATS):
        problem = Regression(Stream(repeat))
        x, y = problem.train if on_training_rows else problem.rows(ROWS, "calibration")
        calibrator = ConformalIntervals.of(problem.predict(x), y)
        x, y = problem.rows(100, "new")
        prediction = calibrator.apply(problem.predict(x))
        assert isinstance(prediction, NumericPredictive)
        lower, upper = prediction.interval(LEVEL)
        held.append(((y >= lower) & (y <= upper)).double().mean())
    return float(torch.stack(held).mean())


def test_intervals_hold_the_stated_part_of_new_rows() -> None:
    # with 99 rows exactly 0.9 is expected; the coverage of one fit has variance 0.09 (1 / 101 + 1 / 100), so that four
    # standard errors of 200 fits, an error rate of 6e-5, are 0.012
    assert coverage(on_training_rows=False) == pytest.approx(LEVEL, abs=0.012)


def test_the_same_check_rejects_calibration_on_training_rows() -> None:
    assert coverage(on_training_rows=True) < LEVEL - 0.05


def normal(means: Tensor, scale: float = 1.0) -> NumericPredictive:
    found = mixture_of(Gaussian(scale=scale), means.reshape(1, -1, 1))
    assert isinstance(found, NumericPredictive)
    return found


def test_the_reach_is_an_order_statistic() -> None:
    y = torch.arange(1, 20, dtype=torch.float64) / 10  # 19 targets, whose scores they are
    calibrator = ConformalIntervals.of(normal(torch.zeros(19, dtype=torch.float64)), y)
    assert calibrator.reach(0.9).item() == pytest.approx(1.8, abs=1e-9)  # k = 18
    assert calibrator.reach(0.95).item() == pytest.approx(1.9, abs=1e-9)  # k = 19 = n
    assert calibrator.highest_level == 0.95
    assert calibrator.reach(np.float64(0.9)) == calibrator.reach(0.9)
    lower, upper = calibrator.apply(normal(torch.tensor([5.0], dtype=torch.float64), 2.0)).interval(0.9)  # type: ignore[attr-defined]
    assert (lower.item(), upper.item()) == pytest.approx((5 - 3.6, 5 + 3.6), abs=1e-9)


def test_beyond_the_highest_level_intervals_go_on_to_widen() -> None:
    """No finite interval has a guarantee there: the prediction's own, or the widest with one."""
    calibrator = ConformalIntervals.of(normal(torch.zeros(19, dtype=torch.float64)), torch.full((19,), 2.5))
    assert calibrator.reach(0.96).item() == pytest.approx(2.5, abs=1e-9)
    assert calibrator.reach(0.999).item() == pytest.approx(3.2905267, abs=1e-6)  # Phi^-1(0.9995)
    levels = [calibrator.reach(level).item() for level in (0.5, 0.9, 0.95, 0.951, 0.99, 0.9999)]
    assert levels == sorted(levels)


def test_a_weight_of_two_is_a_repeated_row() -> None:
    stream = Stream(3)
    means, y = (stream.child(name).normal(30, dtype=torch.float64) for name in ("m", "y"))
    weights = torch.arange(30) % 3
    twice = torch.arange(30).repeat_interleave(weights)
    weighted = ConformalIntervals.of(normal(means), y, weights=weights)
    repeated = ConformalIntervals.of(normal(means[twice]), y[twice])
    for level in (0.1, 0.5, 0.8, 0.9, 0.99):
        assert weighted.reach(level).item() == repeated.reach(level).item()


def test_folds_in_a_list_are_as_one() -> None:
    stream = Stream(4)
    means, y = (stream.child(name).normal(30, dtype=torch.float64) for name in ("m", "y"))
    whole = ConformalIntervals.of(normal(means), y)
    folds = ConformalIntervals.of([normal(means[:11]), normal(means[11:])], [y[:11], y[11:]])
    assert torch.equal(whole.scores, folds.scores)


def test_nothing_but_interval_and_quantile_changes() -> None:
    prediction = normal(torch.tensor([1.0, 2.0], dtype=torch.float64))
    y = torch.tensor([0.5, 5.0], dtype=torch.float64)
    calibrated = ConformalIntervals.of(normal(torch.zeros(50, dtype=torch.float64)), 3 * torch.ones(50)).apply(
        prediction
    )
    assert isinstance(calibrated, NumericPredictive)
    for name in ("mean", "epistemic", "aleatoric", "entropy"):
        assert torch.equal(getattr(calibrated, name), getattr(prediction, name))
    assert torch.equal(calibrated.log_prob(y), prediction.log_prob(y))
    assert torch.equal(calibrated.cdf(y), prediction.cdf(y))
    lower, upper = calibrated.interval(0.9)
    torch.testing.assert_close(upper, prediction.mean + 3.0)
    torch.testing.assert_close(calibrated.quantile(0.95), upper)
    torch.testing.assert_close(calibrated.quantile(0.05), lower)
    torch.testing.assert_close(calibrated.quantile(0.5), prediction.mean)


def test_intervals_of_counts_hold_the_stated_part() -> None:
    held, n = [], 49
    for repeat in range(60):
        stream = Stream(repeat, ("counts",))
        log_rate = stream.child("x").normal(1, n + 200, 1, dtype=torch.float64)
        y = torch.poisson(1.5 * log_rate[0].exp(), generator=stream.child("y").generator())
        calibrator = ConformalIntervals.of(mixture_of(Poisson(), log_rate[:, :n]), y[:n])
        new = calibrator.apply(mixture_of(Poisson(), log_rate[:, n:]))
        assert isinstance(new, NumericPredictive)
        lower, upper = new.interval(0.9)
        assert torch.equal(lower, lower.round())
        held.append(((y[n:] >= lower) & (y[n:] <= upper)).double().mean())
    # at least 0.9; one fit has variance 0.09 (1 / 51 + 1 / 200), four standard errors of 60 fits are 0.025
    assert float(torch.stack(held).mean()) > 0.9 - 0.025


def test_targets_far_beyond_any_number_give_infinite_intervals() -> None:
    y = torch.full((40,), 1e9, dtype=torch.float64)
    calibrator = ConformalIntervals.of(normal(torch.zeros(40, dtype=torch.float64)), y)
    lower, upper = calibrator.apply(normal(torch.zeros(1, dtype=torch.float64))).interval(0.9)  # type: ignore[attr-defined]
    assert (lower.item(), upper.item()) == (-math.inf, math.inf)


def test_each_target_has_its_own_reach_and_float32_is_enough() -> None:
    draws = torch.zeros(1, 100, 2)
    noise = Stream(0).normal(100, 2) * torch.tensor([1.0, 3.0])
    calibrator = ConformalIntervals.of(mixture_of(Gaussian(scale=1.0), draws), noise)
    prediction = calibrator.apply(mixture_of(Gaussian(scale=1.0), draws[:, :3]))
    assert isinstance(prediction, NumericPredictive)
    lower, upper = prediction.interval(0.9)
    assert lower.dtype == torch.float32
    torch.testing.assert_close(upper[0].double(), calibrator.reach(0.9), atol=1e-5, rtol=0)  # digits of float32
    assert upper[0, 1] > 2 * upper[0, 0]


def test_misuse_is_a_sentence() -> None:
    prediction, y = normal(torch.zeros(5, dtype=torch.float64)), torch.zeros(5)
    with pytest.raises(TypeError, match="take predictions"):
        ConformalIntervals.of(torch.zeros(5), y)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a list of 2"):
        ConformalIntervals.of([prediction, prediction], y)
    with pytest.raises(ValueError, match="4 rows and the prediction 5"):
        ConformalIntervals.of(prediction, y[:4])
    conformal = ConformalIntervals.of(prediction, y).apply(prediction)
    with pytest.raises(ValueError, match="conformal already"):
        ConformalIntervals.of(conformal, y)
    with pytest.raises(ValueError, match="comes before"):
        CdfMap.of(prediction, y).apply(conformal)
    with pytest.raises(ValueError, match="not in order"):
        ConformalIntervals(torch.tensor([[2.0], [1.0]]), torch.ones(2, 1))


def test_a_joint_interval_keeps_the_promise_for_all_targets() -> None:
    draws = torch.zeros(1, 1000, 2)
    noise = 3.0 * Stream(0).normal(1000, 2)  # three times the stated noise
    calibrator = ConformalIntervals.of(mixture_of(Gaussian(scale=1.0), draws[:, :500]), noise[:500])
    prediction = calibrator.apply(mixture_of(Gaussian(scale=1.0), draws[:, 500:]))
    assert isinstance(prediction, NumericPredictive)
    lower, upper = prediction.joint_interval(0.8)
    for ours, single in zip((lower, upper), prediction.interval(0.9), strict=True):
        torch.testing.assert_close(ours, single)
    assert bool(((noise[500:] >= lower) & (noise[500:] <= upper)).all(-1).double().mean() > 0.75)  # 0.81 on average
