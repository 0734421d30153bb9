"""The naive answers, and the measures side by side."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from credo.evaluation.scores import naive_classes, naive_numbers, scores
from credo.likelihoods import Gaussian
from credo.predictive import predictive

SEEN = torch.tensor([1.0, 2.0, 4.0, 9.0], dtype=torch.float64)


def test_the_naive_number_is_the_mean_with_the_spread_of_the_training_targets() -> None:
    found = naive_numbers(SEEN, 3)
    assert found.mean.flatten().tolist() == [4.0] * 3
    assert found.stddev.flatten().tolist() == pytest.approx([np.std(SEEN.numpy())] * 3)
    assert float(found.log_prob(torch.tensor([5.0, 5.0, 5.0]))[0]) == pytest.approx(
        stats.norm(4.0, np.std(SEEN.numpy())).logpdf(5.0)
    )


def test_the_naive_class_is_the_most_frequent_one_with_all_frequencies() -> None:
    found = naive_classes(torch.tensor([0, 2, 2, 2]), 3, 2)
    torch.testing.assert_close(found.probs, torch.tensor([[0.25, 0.0, 0.75]] * 2, dtype=torch.float64))
    assert found.label.tolist() == [2, 2]


def test_measures_stand_side_by_side_and_single_networks_are_averaged() -> None:
    y = torch.zeros(2, dtype=torch.float64)

    def at(value: float) -> object:
        return predictive(Gaussian(1.0), torch.full((1, 2, 1), value, dtype=torch.float64), {}, torch.zeros(1))

    found = scores(at(1.0), [at(1.0), at(3.0)], at(5.0), y)  # type: ignore[arg-type, list-item]
    rmse = next(score for score in found if score.id == "rmse")
    assert (rmse.model, rmse.plain, rmse.naive) == (1.0, 2.0, 5.0)


def test_what_is_not_finite_is_no_number() -> None:
    """A class that no training row had has probability zero under the frequencies: its log is no number for JSON."""
    naive = naive_classes(torch.tensor([0, 0]), 2, 1)
    found = scores(naive, [], naive, torch.tensor([1]))
    likelihood = next(score for score in found if score.id == "log_likelihood")
    assert likelihood.model is None
    assert all(score.plain is None for score in found)
    assert all(score.model is None or math.isfinite(score.model) for score in found)
