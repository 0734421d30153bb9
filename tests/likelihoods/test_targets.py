"""Targets at the door: brought into shape, or refused with a sentence that says what to do."""

import math

import pytest
import torch

from credo.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    LearnedGaussian,
    Poisson,
    SharedGaussian,
)

REAL = [Gaussian(), LearnedGaussian(), SharedGaussian(), Poisson(), Bernoulli()]
names = {"ids": lambda v: type(v).__name__}


@pytest.mark.parametrize("likelihood", REAL, **names)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool])
def test_a_row_of_numbers_becomes_a_column_of_reals(likelihood, dtype):
    y = likelihood.check_targets(torch.tensor([0, 1, 1]).to(dtype), 1)
    assert y.shape == (3, 1)
    assert y.is_floating_point()
    assert torch.isfinite(likelihood.log_prob(torch.zeros(3, 1), y, likelihood.parameters(1))).all()


@pytest.mark.parametrize("likelihood", REAL, **names)
def test_columns_stay_columns(likelihood):
    y = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    assert torch.equal(likelihood.check_targets(y, 2), y)
    assert likelihood.check_targets(y, 2).dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64, torch.uint8, torch.bool])
def test_class_numbers(dtype):
    given = torch.tensor([0, 1, 1]).to(dtype)
    for y in (given, given.unsqueeze(1)):
        found = Categorical().check_targets(y, 3)
        assert found.tolist() == [0, 1, 1]
        assert found.dtype == torch.int64


def test_a_single_example():
    assert Gaussian().check_targets(torch.tensor([1.0]), 1).shape == (1, 1)
    assert Categorical().check_targets(torch.tensor([[2]]), 3).shape == (1,)
    assert HeteroscedasticGaussian().check_targets(torch.zeros(1, 2), 4).shape == (1, 2)


@pytest.mark.parametrize(
    ("likelihood", "y", "outputs", "sentence"),
    [
        (Gaussian(), torch.zeros(4, 2), 1, r"y has 2 column\(s\) and the network 1 output\(s\).*needs 1 output"),
        (Gaussian(), torch.zeros(4), 2, r"y has 1 column\(s\) and the network 2"),
        (LearnedGaussian(), torch.zeros(4, 3), 2, r"LearnedGaussian needs 1 output\(s\) per column"),
        (HeteroscedasticGaussian(), torch.zeros(4), 1, r"HeteroscedasticGaussian needs 2 output\(s\) per column"),
        (HeteroscedasticGaussian(), torch.zeros(4), 3, r"needs 2 output"),
        (Gaussian(), torch.zeros(4, 1, 1), 1, r"y has shape \(4, 1, 1\).*one row per example"),
        (Gaussian(), torch.tensor(1.0), 1, r"y has shape \(\).*one row per example"),
        (Gaussian(), torch.tensor(math.nan), 1, r"y has shape \(\)"),
        (Gaussian(), torch.tensor([1.0, math.nan, math.nan]), 1, r"NaN or infinite values \(2, the first in row 1\)"),
        (LearnedGaussian(), torch.tensor([[1.0, math.inf]]), 2, r"NaN or infinite.*row 0"),
        (Poisson(), torch.tensor([1.0, math.nan]), 1, "NaN or infinite"),
        (Poisson(), torch.tensor([1.0, -1.0]), 1, "negative numbers or fractions.*counts 0, 1, 2"),
        (Poisson(), torch.tensor([1, -1]), 1, "negative numbers or fractions"),
        (Poisson(), torch.tensor([0.5]), 1, "negative numbers or fractions"),
        (Poisson(), torch.tensor([1.0 + 1e-12], dtype=torch.float64), 1, "negative numbers or fractions"),
        (Bernoulli(), torch.tensor([0.0, 2.0]), 1, "other than 0 and 1.*0 .no. or 1 .yes."),
        (Bernoulli(), torch.tensor([0.5]), 1, "other than 0 and 1"),
        (Bernoulli(), torch.tensor([1.0 - 1e-12], dtype=torch.float64), 1, "other than 0 and 1"),
        (Bernoulli(), torch.tensor([math.nan]), 1, "other than 0 and 1"),
        (Bernoulli(), torch.zeros(4, 3), 2, r"y has 3 column\(s\)"),
        (Categorical(), torch.tensor([0, 1]), 1, r"one output.*likelihoods\.Bernoulli\(\)"),
        (Categorical(), torch.tensor([0, 3]), 3, "class numbers from 0 to 3, and the network has 3 outputs.*0 to 2"),
        (Categorical(), torch.tensor([-1, 1]), 3, "class numbers from -1 to 1"),
        (Categorical(), torch.tensor([0.5, 1.0]), 3, "fractions or NaN"),
        (Categorical(), torch.tensor([math.nan]), 3, "fractions or NaN"),
        (Categorical(), torch.tensor([math.inf]), 3, "fractions or NaN"),
        (Categorical(), torch.eye(3), 3, r"y has shape \(3, 3\).*one class number per row"),
        (Categorical(), torch.tensor(1), 3, r"y has shape \(\)"),
    ],
)
def test_a_sentence_for_what_cannot_be_meant(likelihood, y, outputs, sentence):
    with pytest.raises(ValueError, match=sentence):
        likelihood.check_targets(y, outputs)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_scales_must_be_positive_numbers(bad):
    for make, name in ((Gaussian, "scale"), (LearnedGaussian, "initial_scale"), (HeteroscedasticGaussian, "floor")):
        with pytest.raises(ValueError, match=f"{name} must be a positive number"):
            make(bad)
