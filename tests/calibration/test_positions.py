"""Calibration where outputs have positions: each that was observed is a row, and a promise is one by example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import credo
from calibration_problems import mixture_of
from credo import metrics
from credo.calibration import CdfMap, ConformalIntervals, ConformalSets, MappedPredictive, Temperature
from credo.calibration.ranks import guaranteed, rounded
from credo.likelihoods import Bernoulli, Categorical, Gaussian, Poisson, at_positions
from credo.predictive import ClassPredictive, NumericPredictive

RNG = credo.Stream(0, ("calibration at positions",))
EXACT = {"rtol": 1e-9, "atol": 1e-10}
B, K, T = 6, 3, 3  # as many positions as targets: what broadcasts along the wrong axis does so without a word
DRAWS = RNG.child("draws").normal(4, B, K, T, dtype=torch.float64)
NUMBERS = DRAWS.mean(0) + 2.5 * RNG.child("noise").normal(B, K, T, dtype=torch.float64) + 0.7
SEEN = RNG.child("seen").normal(B, T) > -0.8
SEEN[0, 0] = True
MASKED = torch.where(SEEN.unsqueeze(1), NUMBERS, torch.nan)
CLASSES = torch.where(SEEN, DRAWS.mean(0).argmax(1).roll(1, 0), -100)


def numbers_at(draws: Tensor = DRAWS) -> NumericPredictive:
    found = mixture_of(at_positions(Gaussian(scale=1.0), axes=1), draws)
    assert isinstance(found, NumericPredictive)
    return found


def flat(values: Tensor) -> Tensor:
    """(..., B, K, T) as rows of the observed positions, (..., N, K)."""
    return values.movedim(-2, -1)[..., SEEN, :]


def numbers_by_hand() -> NumericPredictive:
    found = mixture_of(Gaussian(scale=1.0), flat(DRAWS))
    assert isinstance(found, NumericPredictive)
    return found


def classes_at(draws: Tensor = DRAWS) -> ClassPredictive:
    found = mixture_of(at_positions(Categorical(), axes=1), draws)
    assert isinstance(found, ClassPredictive)
    return found


def test_a_map_at_positions_is_that_of_the_observed_rows() -> None:
    weights = torch.arange(1.0, B + 1)
    by_hand = CdfMap.of(numbers_by_hand(), flat(NUMBERS), weights=weights.unsqueeze(1).expand(B, T)[SEEN])
    found = CdfMap.of(numbers_at(), MASKED, weights=weights)
    for name in ("loc", "scale", "skew", "tail"):
        torch.testing.assert_close(getattr(found, name), getattr(by_hand, name), **EXACT)
    there, rows = found.apply(numbers_at()), found.apply(numbers_by_hand())
    assert isinstance(there, MappedPredictive)
    assert isinstance(rows, MappedPredictive)
    for name in ("mean", "epistemic", "aleatoric", "stddev", "entropy", "expected_entropy"):
        torch.testing.assert_close(flat(getattr(there, name)), getattr(rows, name), **EXACT)
    torch.testing.assert_close(flat(there.quantile(0.2)), rows.quantile(0.2), **EXACT)
    torch.testing.assert_close(flat(there.interval(0.9)[1]), rows.interval(0.9)[1], **EXACT)
    each = there.log_prob_each(MASKED)
    assert bool((each.isnan() == MASKED.isnan()).all())
    torch.testing.assert_close(flat(each), rows.log_prob_each(flat(NUMBERS)), **EXACT)


def test_the_density_of_all_positions_is_that_of_the_draws_at_the_moved_targets() -> None:
    found = CdfMap.of(numbers_at(), MASKED)
    there = found.apply(numbers_at())
    assert isinstance(there, MappedPredictive)
    moved = numbers_at().at_normal_score(there.normal_score(NUMBERS))
    change = there.log_prob_each(NUMBERS) - numbers_at().log_prob_each(moved)
    hidden = torch.where(SEEN.unsqueeze(1), moved, torch.nan)
    expected = numbers_at().log_prob(hidden) + torch.where(SEEN.unsqueeze(1), change, 0.0).flatten(1).sum(1)
    torch.testing.assert_close(there.log_prob(MASKED), expected, **EXACT)
    together = there.joint_log_prob(MASKED)
    apart = there.joint_log_prob(MASKED, torch.arange(B))
    torch.testing.assert_close(apart, there.log_prob(MASKED), **EXACT)
    assert float((together - apart.sum()).abs()) > 0.01  # the examples share the draw


def test_samples_at_positions_are_the_moved_ones_of_the_base() -> None:
    found = CdfMap.of(numbers_at(), MASKED).apply(numbers_at())
    assert isinstance(found, MappedPredictive)
    drawn = found.sample(5, seed=2)
    assert drawn.shape == (5, B, K, T)
    for calibrated, plain in zip(drawn, numbers_at().sample(5, seed=2), strict=True):
        torch.testing.assert_close(found.normal_score(calibrated), numbers_at().normal_score(plain), **EXACT)


def test_metrics_take_a_calibrated_prediction_at_positions() -> None:
    mapped = CdfMap.of(numbers_at(), MASKED)
    there, rows = mapped.apply(numbers_at()), mapped.apply(numbers_by_hand())
    for metric in (metrics.rmse, metrics.crps, metrics.log_likelihood, metrics.coverage):
        assert metric(there, MASKED) == pytest.approx(metric(rows, flat(NUMBERS)), rel=1e-9), metric
    exact = ConformalIntervals.of(numbers_at(), MASKED)
    inside = metrics.coverage(exact.apply(numbers_at()), MASKED, level=0.6)
    by_row = metrics.coverage(exact.apply(numbers_by_hand()), flat(NUMBERS), level=0.6)
    assert inside == pytest.approx(by_row, abs=1e-12)


def test_intervals_at_positions_count_every_example_once() -> None:
    found = ConformalIntervals.of(numbers_at(), MASKED)
    assert found.highest_level == pytest.approx(B / (B + 1), abs=1e-12)
    scores = numbers_by_hand().normal_score(flat(NUMBERS)).abs()
    share = (1.0 / SEEN.sum(1)).unsqueeze(1).expand(B, T)[SEEN].double()
    order = scores[:, 1].argsort()
    above = share[order].cumsum(0) >= (B + 1) * 0.7 - 1e-9
    expected = scores[order, 1][int(above.int().argmax())]
    torch.testing.assert_close(found.reach(0.7)[1], expected, **EXACT)
    calibrated = found.apply(numbers_at())
    assert isinstance(calibrated, NumericPredictive)
    lower, upper = calibrated.interval(0.7)
    torch.testing.assert_close(calibrated.normal_score(upper)[:, 1], expected.expand(B, T), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(calibrated.normal_score(lower)[:, 1], -expected.expand(B, T), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(calibrated.quantile(0.85), upper, **EXACT)
    with pytest.raises(ValueError, match="these have positions"):
        calibrated.joint_interval(0.9)


def images(rng: credo.Stream, count: int) -> tuple[Tensor, Tensor]:
    """Errors at 40 positions of images: a few of many positions and small errors, most of two with large ones."""
    large = rng.child("large").normal(count, 1) > 0.5
    common = rng.child("image").normal(count, 1, dtype=torch.float64)  # which all of an image's positions share
    own = rng.child("position").normal(count, 40, dtype=torch.float64)
    seen = large | (torch.arange(40) < 2)
    return torch.where(large, 0.3, 2.0) * (2.0 * common + 0.3 * own), seen


def test_a_new_image_has_its_promised_part_inside_and_pooled_positions_break_it() -> None:
    level, kept, twin = 0.8, list[float](), list[float]()
    prediction = numbers_at(torch.zeros(1, 15, 1, 40, dtype=torch.float64))
    for trial in range(300):
        y, seen = images(RNG.child("images", trial), 15)
        new, new_seen = images(RNG.child("new", trial), 60)
        found = ConformalIntervals.of(prediction, torch.where(seen, y, torch.nan))
        pooled = y[seen].abs().sort().values.unsqueeze(1)
        for reach, into in (
            (found.reach(level), kept),
            (guaranteed(pooled, torch.ones_like(pooled), level), twin),
        ):
            held = (new.abs() <= reach) & new_seen
            into.append(float((held.sum(1) / new_seen.sum(1)).mean()))
    ours, theirs = torch.tensor(kept), torch.tensor(twin)
    error = float(ours.std()) / 300**0.5
    assert float(ours.mean()) > level - 4.5 * error  # wrong by chance three times in a million
    assert float(ours.mean()) < level + 1 / 16 + 4.5 * error
    assert float(theirs.mean()) < level - 0.05


def test_scores_are_rounded_up_and_lose_no_promise() -> None:
    scores = RNG.child("scores").normal(1003, 2, dtype=torch.float64).sort(0).values
    weights = 1.0 + RNG.child("weights").normal(1003, 2, dtype=torch.float64).abs()
    fewer, theirs = rounded(scores, weights, most=100)
    assert fewer.shape == (100, 2)
    torch.testing.assert_close(theirs.sum(0), weights.sum(0), **EXACT)
    for level in (0.05, 0.5, 0.9, 0.95):
        exact, found = guaranteed(scores, weights, level), guaranteed(fewer, theirs, level)
        assert bool((found >= exact).all())
        later = guaranteed(scores, weights, level + 0.015)  # a run of eleven
        assert bool((found <= later).all())
    assert rounded(scores, weights)[0] is scores


def test_a_temperature_at_positions_is_that_of_the_observed_rows() -> None:
    by_hand = Temperature.of(mixture_of(Categorical(), flat(DRAWS)), CLASSES[SEEN])
    found = Temperature.of(classes_at(), CLASSES)
    assert found.temperature == pytest.approx(by_hand.temperature, rel=1e-9)
    torch.testing.assert_close(found.apply(classes_at()).draws, DRAWS / found.temperature)
    yes = (NUMBERS > 0).double()
    separate = mixture_of(at_positions(Bernoulli(), axes=1), DRAWS)
    rows = mixture_of(Bernoulli(), flat(DRAWS))
    hidden = torch.where(SEEN.unsqueeze(1), yes, torch.nan)
    assert Temperature.of(separate, hidden).temperature == pytest.approx(
        Temperature.of(rows, flat(yes)).temperature, rel=1e-9
    )


@pytest.mark.parametrize("adaptive", [False, True])
def test_sets_at_positions(adaptive: bool) -> None:
    found = ConformalSets.of(classes_at(), CLASSES, adaptive=adaptive)
    assert found.highest_level == pytest.approx(B / (B + 1), abs=1e-12)
    sets = found.apply(classes_at())
    assert isinstance(sets, ClassPredictive)
    rows = found.apply(mixture_of(Categorical(), flat(DRAWS)))
    assert isinstance(rows, ClassPredictive)
    inside = sets.prediction_set(0.6)
    assert inside.shape == (B, K, T)
    assert torch.equal(flat(inside), rows.prediction_set(0.6))
    plain = mixture_of(Categorical(), flat(DRAWS))
    assert isinstance(plain, ClassPredictive)
    assert torch.equal(flat(classes_at().prediction_set(0.6)), plain.prediction_set(0.6))
    holds = inside.gather(1, CLASSES.clamp_min(0).unsqueeze(1)).squeeze(1)
    part = torch.stack([holds[b][SEEN[b]].double().mean() for b in range(B)]).mean()
    assert float(part) >= 0.6


def test_a_segmentation_is_calibrated_saved_and_read(tmp_path: Path) -> None:
    x = RNG.child("x").normal(24, 1, 5, 4)
    y = (x[:, 0] > 0).long() + (x[:, 0] > 1).long()
    y[::3, 0] = -100
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 1))
    posterior = credo.fit(net, (x[:12], y[:12]), credo.DeepEnsemble(members=2, epochs=5))
    first = Temperature.of(posterior.predict(x[12:18]), y[12:18])
    second = ConformalSets.of(first.apply(posterior.predict(x[18:])), y[18:])
    calibrated = credo.Calibrated.of(posterior, first, second)
    sets = calibrated.predict(x).prediction_set(0.8)  # type: ignore[attr-defined]
    assert sets.shape == (24, 3, 5, 4)
    read = credo.load(calibrated.save(tmp_path), net)
    assert torch.equal(read.predict(x).prediction_set(0.8), sets)  # type: ignore[attr-defined]
    pieces = [p.prediction_set(0.8) for p in calibrated.predict_batches(x, rows=5)]  # type: ignore[attr-defined]
    assert torch.equal(torch.cat(pieces), sets)


def test_what_cannot_be_calibrated_is_a_sentence() -> None:
    nothing: Any = torch.full((B, T), -100)
    with pytest.raises(ValueError, match="no position that was observed"):
        Temperature.of(classes_at(), nothing)
    with pytest.raises(ValueError, match="separate yes-or-no answers"):
        ConformalSets.of(mixture_of(at_positions(Bernoulli(), axes=1), DRAWS), (NUMBERS > 0).double())
    counts = mixture_of(at_positions(Poisson(), axes=1), DRAWS)
    y = NUMBERS.abs().round()
    calibrated = CdfMap.of(counts, y).apply(counts)
    assert bool(calibrated.log_prob_each(y).isfinite().all())
    with pytest.raises(ValueError, match="use log_prob_each"):
        calibrated.log_prob(y)
