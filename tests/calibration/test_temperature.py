"""One temperature, found where the likelihood of held-out rows is largest."""

from __future__ import annotations

import pytest
import torch

from calibration_problems import mixture_of
from credo.calibration import Temperature
from credo.core.rng import Stream
from credo.likelihoods import Bernoulli, Categorical, Gaussian
from credo.predictive import LaplaceBridge, OutputNormal, gaussian_predictive


def labeled(count: int = 4000) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (S, B, K) of three functions and labels from their mixture."""
    stream = Stream(0)
    logits = 1.5 * stream.child("logits").normal(3, count, 4, dtype=torch.float64)
    probs = logits.softmax(-1).mean(0)
    return logits, torch.multinomial(probs, 1, generator=stream.child("y").generator()).squeeze(1)


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_what_was_scaled_is_scaled_back(factor: float) -> None:
    logits, y = labeled()
    found = Temperature.of(mixture_of(Categorical(), factor * logits), y)
    # the standard error of log T is below 0.03 with 4,000 rows (observed information), four of them are 0.12
    assert found.temperature == pytest.approx(factor, rel=0.12)
    calibrated = found.apply(mixture_of(Categorical(), factor * logits))
    torch.testing.assert_close(calibrated.draws, factor * logits / found.temperature)


def test_no_other_temperature_is_better() -> None:
    logits, y = labeled(300)
    prediction = mixture_of(Categorical(), logits)

    def objective(temperature: float) -> float:
        fit = float(Temperature(temperature).apply(prediction).log_prob(y).sum())
        return fit - 0.5 * float(torch.tensor(temperature).log()) ** 2

    best = Temperature.of(prediction, y).temperature
    assert all(objective(best) > objective(best * other) for other in (0.5, 0.9, 0.999, 1.001, 1.1, 2.0))


def test_folds_and_weights() -> None:
    logits, y = labeled(200)
    whole = Temperature.of(mixture_of(Categorical(), logits), y).temperature
    folds = [mixture_of(Categorical(), logits[:, :80]), mixture_of(Categorical(), logits[:, 80:])]
    assert Temperature.of(folds, [y[:80], y[80:]]).temperature == pytest.approx(whole)
    weights = torch.arange(200) % 3
    twice = torch.arange(200).repeat_interleave(weights)
    weighted = Temperature.of(mixture_of(Categorical(), logits), y, weights=weights).temperature
    assert weighted == pytest.approx(Temperature.of(mixture_of(Categorical(), logits[:, twice]), y[twice]).temperature)


def test_rows_that_are_all_right_leave_a_finite_temperature() -> None:
    logits = torch.eye(3, dtype=torch.float64).repeat(1, 10, 1)
    found = Temperature.of(mixture_of(Categorical(), logits), torch.arange(3).repeat(10))
    assert 0.05 < found.temperature < 0.6


def test_yes_and_no_and_normal_outputs() -> None:
    logits = Stream(1).normal(2, 50, 3, dtype=torch.float64)
    scaled = Temperature(2.0).apply(mixture_of(Bernoulli(), logits))
    torch.testing.assert_close(scaled.mean, (logits / 2).sigmoid().mean(0))
    covariance = torch.eye(3, dtype=torch.float64).expand(2, 50, 3, 3)
    normal = gaussian_predictive(
        Categorical(), OutputNormal(logits, covariance), {}, torch.zeros(2, dtype=torch.float64), LaplaceBridge()
    )
    there = gaussian_predictive(
        Categorical(),
        OutputNormal(logits / 2, covariance / 4),
        {},
        torch.zeros(2, dtype=torch.float64),
        LaplaceBridge(),
    )
    torch.testing.assert_close(Temperature(2.0).apply(normal).mean, there.mean)
    torch.testing.assert_close(Temperature(2.0).apply(normal).expected_entropy, there.expected_entropy)


def test_misuse_is_a_sentence() -> None:
    with pytest.raises(TypeError, match="for numbers use CdfMap"):
        Temperature(2.0).apply(mixture_of(Gaussian(), torch.zeros(1, 3, 1)))
    with pytest.raises(ValueError, match="temperature must be a positive number"):
        Temperature(0.0)
    with pytest.raises(ValueError, match="not finite"):
        Temperature.of(mixture_of(Categorical(), torch.full((1, 3, 2), torch.nan)), torch.zeros(3, dtype=torch.long))
