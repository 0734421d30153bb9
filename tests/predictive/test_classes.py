"""Mixtures over classes: probabilities, labels, and entropy = expected entropy + mutual information."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from credo.core.rng import Stream
from credo.likelihoods import Bernoulli, Categorical
from credo.predictive import predictive


def test_entropies_of_classes():
    draws = 2 * Stream(0).normal(6, 5, 3, dtype=torch.float64)
    log_weights = Stream(1).normal(6, dtype=torch.float64)
    prediction = predictive(Categorical(), draws, {}, log_weights)
    weights = log_weights.softmax(0).numpy()
    each = draws.softmax(-1).numpy()
    mixed = np.tensordot(weights, each, 1)
    np.testing.assert_allclose(prediction.probs, mixed, atol=1e-12)
    np.testing.assert_allclose(prediction.entropy, stats.entropy(mixed, axis=-1), atol=1e-12)
    np.testing.assert_allclose(prediction.expected_entropy, weights @ stats.entropy(each, axis=-1), atol=1e-12)
    divergence = weights @ stats.entropy(each, mixed[None], axis=-1)  # E KL(p_s || p), the other form of it
    np.testing.assert_allclose(prediction.mutual_information, divergence, atol=1e-12)
    assert prediction.entropy.shape == (5,)
    assert torch.equal(prediction.label, prediction.probs.argmax(-1))


def test_entropies_of_separate_answers():
    draws = 2 * Stream(0).normal(6, 5, 2, dtype=torch.float64)
    prediction = predictive(Bernoulli(), draws, {}, torch.zeros(6))
    each = draws.sigmoid().numpy()
    mixed = each.mean(0)
    np.testing.assert_allclose(prediction.entropy, stats.bernoulli(mixed).entropy(), atol=1e-12)
    np.testing.assert_allclose(prediction.expected_entropy, stats.bernoulli(each).entropy().mean(0), atol=1e-12)
    assert prediction.entropy.shape == (5, 2)
    assert torch.equal(prediction.label, (prediction.probs > 0.5).long())


def test_two_classes_and_one_answer_are_the_same_model():
    """Categorical with logits (0, f) and Bernoulli with logit f."""
    f = 3 * Stream(0).normal(9, 4, 1, dtype=torch.float64)
    yes = predictive(Bernoulli(), f, {}, torch.zeros(9))
    classes = predictive(Categorical(), torch.cat([torch.zeros_like(f), f], -1), {}, torch.zeros(9))
    y = torch.tensor([0, 1, 1, 0])
    for one, two in (
        (yes.log_prob(y), classes.log_prob(y)),
        (yes.entropy[:, 0], classes.entropy),
        (yes.mutual_information[:, 0], classes.mutual_information),
        (yes.epistemic[:, 0], classes.epistemic[:, 1]),
        (yes.aleatoric[:, 0], classes.aleatoric[:, 0]),
    ):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_certain_draws_that_disagree(likelihood, dtype):
    """All the doubt is about the weights: log 2, and none of it noise."""
    logits = torch.tensor([[[1e3, -1e3]], [[-1e3, 1e3]]], dtype=dtype)
    prediction = predictive(likelihood, logits, {}, torch.zeros(2))
    assert prediction.mutual_information.flatten().tolist() == pytest.approx([math.log(2)] * prediction.entropy.numel())
    assert prediction.expected_entropy.abs().max() == 0.0
    assert prediction.aleatoric.abs().max() == 0.0
    assert prediction.epistemic.flatten().tolist() == pytest.approx([0.25, 0.25], abs=1e-6)


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli()])
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0, 1e3])
def test_mutual_information_is_never_negative_in_float32(likelihood, size):
    prediction = predictive(likelihood, size * Stream(0).normal(50, 500, 10), {}, torch.zeros(50))
    gap = prediction.entropy - prediction.expected_entropy
    assert float(prediction.mutual_information.min()) >= 0.0
    assert float(gap.min()) > -1e-5  # the rounding of float32, no more, is cut off
    assert bool(prediction.entropy.isfinite().all())
    same = predictive(likelihood, size * Stream(0).normal(1, 500, 10).expand(50, 500, 10), {}, torch.zeros(50))
    assert float(same.mutual_information.max()) < 1e-5  # likewise


def test_probabilities_sum_to_one_in_float32():
    prediction = predictive(
        Categorical(), 10 * Stream(0).normal(1000, 20, 10), {}, torch.full((1000,), -math.log(1000))
    )
    assert prediction.probs.sum(-1).tolist() == pytest.approx([1.0] * 20, abs=1e-5)  # a thousand rounded terms
    assert float(prediction.probs.min()) >= 0.0
