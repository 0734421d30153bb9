"""Probabilities of several targets at once, which share the draw."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

import credo
from credo import likelihoods
from credo.exact import GaussianWeights, LinearRegression
from credo.predictive import GaussianPredictive, OutputNormal, gaussian_predictive, predictive

RNG = credo.Stream(0, ("joint",))
WEIGHTS = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
LOGITS = RNG.child("logits").normal(3, 4, 5, dtype=torch.float64)
LABELS = torch.tensor([0, 3, 4, 1])


def test_draws_are_mixed_after_their_examples_are_multiplied() -> None:
    prediction = predictive(likelihoods.Categorical(), LOGITS, {}, WEIGHTS.log())
    probs = LOGITS.softmax(-1)
    by_hand = sum(float(WEIGHTS[s]) * math.prod(float(probs[s, b, LABELS[b]]) for b in range(4)) for s in range(3))
    assert float(prediction.joint_log_prob(LABELS)) == pytest.approx(math.log(by_hand), abs=1e-12)
    twin = predictive(likelihoods.Categorical(), LOGITS, {}, torch.zeros(3, dtype=torch.float64))
    assert float(twin.joint_log_prob(LABELS)) != pytest.approx(math.log(by_hand), abs=1e-3)  # weights forgotten
    assert float(prediction.log_prob(LABELS).sum()) != pytest.approx(math.log(by_hand), abs=1e-3)  # marginals


def test_groups_count_on_their_own() -> None:
    prediction = predictive(likelihoods.Categorical(), LOGITS, {}, WEIGHTS.log())
    found = prediction.joint_log_prob(LABELS, torch.tensor([0, 1, 0, 1]))
    for group, rows in enumerate(([0, 2], [1, 3])):
        part = predictive(likelihoods.Categorical(), LOGITS[:, rows], {}, WEIGHTS.log())
        torch.testing.assert_close(found[group], part.joint_log_prob(LABELS[rows]))
    torch.testing.assert_close(prediction.joint_log_prob(LABELS, torch.arange(4)), prediction.log_prob(LABELS))


def test_one_draw_has_no_more_than_its_marginals() -> None:
    one = predictive(likelihoods.Categorical(), LOGITS[:1], {}, torch.zeros(1))
    torch.testing.assert_close(one.joint_log_prob(LABELS), one.log_prob(LABELS).sum())


def test_many_examples_keep_their_digits_in_single_precision() -> None:
    y = RNG.child("many").normal(50_000, 1)
    many = predictive(likelihoods.Gaussian(1.0), torch.zeros(2, 50_000, 1), {}, torch.zeros(2))
    exact = predictive(likelihoods.Gaussian(1.0), torch.zeros(2, 50_000, 1).double(), {}, torch.zeros(2))
    # each of 50,000 terms is rounded at 1e-7
    torch.testing.assert_close(many.joint_log_prob(y), exact.joint_log_prob(y.double()), rtol=1e-6, atol=1e-3)


def line() -> tuple[LinearRegression, Tensor, Tensor]:
    x = RNG.child("x").normal(12, 2, dtype=torch.float64)
    exact = LinearRegression(x, RNG.child("y").normal(12, dtype=torch.float64), 0.4, GaussianWeights.isotropic(2, 1.3))
    return exact, RNG.child("new").normal(5, 2, dtype=torch.float64), RNG.child("at").normal(5, dtype=torch.float64)


def test_a_line_has_a_joint_probability_in_closed_form() -> None:
    exact, new, at = line()
    covariance = new @ exact.posterior.covariance @ new.T
    law = stats.multivariate_normal(
        (new @ exact.posterior.mean).numpy(), (covariance + 0.16 * torch.eye(5, dtype=torch.float64)).numpy()
    )
    truth = law.logpdf(at.numpy())
    assert float(exact.predict(new).joint_log_prob(at)) == pytest.approx(truth, abs=1e-10)
    outputs = OutputNormal((new @ exact.posterior.mean).view(1, 5, 1), _blocks(covariance)[0], _blocks(covariance)[1])
    ours = gaussian_predictive(likelihoods.Gaussian(0.4), outputs, {}, torch.zeros(1))
    assert float(ours.joint_log_prob(at[:, None])) == pytest.approx(truth, abs=1e-10)
    weights = (
        exact.posterior.mean
        + credo.Stream(1).normal(200_000, 2).double() @ torch.linalg.cholesky(exact.posterior.covariance).mT
    )
    drawn = predictive(likelihoods.Gaussian(0.4), (weights @ new.T).unsqueeze(-1), {}, torch.zeros(200_000))
    # a Monte Carlo average of 200,000 densities, whose relative error is about 0.3 %
    assert float(drawn.joint_log_prob(at[:, None])) == pytest.approx(truth, abs=0.02)
    assert float(exact.predict(new).log_prob(at).sum()) != pytest.approx(truth, abs=0.02)  # the blur


def _blocks(covariance: Tensor) -> tuple[Tensor, Tensor]:
    return covariance.diagonal().view(1, -1, 1, 1), covariance.view(1, *covariance.shape, 1, 1)


def test_a_grid_agrees_with_its_line() -> None:
    exact, new, at = line()
    axes = [
        torch.linspace(float(m - 6 * s), float(m + 6 * s), 201, dtype=torch.float64)
        for m, s in zip(exact.posterior.mean, exact.posterior.covariance.diagonal().sqrt(), strict=True)
    ]
    by_grid = exact.predict_by_grid(exact.grid(axes), new)
    torch.testing.assert_close(by_grid.joint_log_prob(at), exact.predict(new).joint_log_prob(at), rtol=1e-6, atol=1e-6)


def test_two_targets_two_members_and_units() -> None:
    root = RNG.child("root").normal(2, 6, 6, dtype=torch.float64)
    whole = root @ root.mT  # of 3 inputs with 2 outputs each, for two members
    joint = whole.view(2, 3, 2, 3, 2).transpose(2, 3)
    covariance = torch.stack([joint[:, b, b] for b in range(3)], 1)
    mean, y = RNG.child("mean").normal(2, 3, 2, dtype=torch.float64), RNG.child("t").normal(3, 2, dtype=torch.float64)
    prediction = gaussian_predictive(
        likelihoods.Gaussian(0.5), OutputNormal(mean, covariance, joint), {}, torch.zeros(2)
    )
    each = [
        stats.multivariate_normal(mean[m].flatten(), whole[m] + 0.25 * torch.eye(6, dtype=torch.float64)).logpdf(
            y.flatten()
        )
        for m in (0, 1)
    ]
    assert float(prediction.joint_log_prob(y)) == pytest.approx(math.log(0.5 * sum(map(math.exp, each))), abs=1e-9)
    some = prediction.joint_log_prob(y, torch.tensor([0, 1, 0]))
    torch.testing.assert_close(some[1], prediction.log_prob(y)[1])
    loc, scale = torch.tensor([3.0, -7.0]).double(), torch.tensor([100.0, 0.01]).double()
    in_units = gaussian_predictive(
        likelihoods.Standardized(likelihoods.Gaussian(0.5), tuple(loc.tolist()), tuple(scale.tolist())),
        OutputNormal(mean, covariance, joint),
        {},
        torch.zeros(2),
    )
    volume = 3 * float(scale.log().sum())
    assert float(in_units.joint_log_prob(loc + scale * y)) == pytest.approx(
        float(prediction.joint_log_prob(y)) - volume, abs=1e-9
    )


def test_marginals_alone_are_refused() -> None:
    outputs = OutputNormal(torch.zeros(1, 3, 1), torch.ones(1, 3, 1, 1))
    prediction = gaussian_predictive(likelihoods.Gaussian(0.5), outputs, {}, torch.zeros(1))
    assert isinstance(prediction, GaussianPredictive)
    with pytest.raises(ValueError, match="how inputs move together"):
        prediction.joint_log_prob(torch.zeros(3, 1))
    each = prediction.joint_log_prob(torch.zeros(3, 1), torch.arange(3))
    torch.testing.assert_close(each.float(), prediction.log_prob(torch.zeros(3, 1)))
    classes = gaussian_predictive(
        likelihoods.Categorical(),
        OutputNormal(torch.zeros(1, 3, 2), torch.eye(2).expand(1, 3, 2, 2)),
        {},
        torch.zeros(1),
    )
    with pytest.raises(ValueError, match="how inputs move together"):
        classes.joint_log_prob(torch.zeros(3).long())


@pytest.mark.parametrize("groups", [[0, 1], [0, 2, 2, 0], [0.0, 1.0, 0.0, 1.0], [-1, 0, 0, 0]])
def test_groups_that_cannot_be(groups: Any) -> None:
    prediction = predictive(likelihoods.Categorical(), LOGITS, {}, WEIGHTS.log())
    with pytest.raises(ValueError, match="groups must be"):
        prediction.joint_log_prob(LABELS, torch.tensor(groups))


def test_an_ensemble_is_no_blur() -> None:
    """Members that each believe in one world, and one network that believes a little of both: the same marginals."""
    far = torch.tensor([[[20.0, 0.0]] * 3, [[0.0, 20.0]] * 3], dtype=torch.float64)
    ensemble = predictive(likelihoods.Categorical(), far, {}, torch.zeros(2))
    blur = predictive(likelihoods.Categorical(), torch.zeros(1, 3, 2, dtype=torch.float64), {}, torch.zeros(1))
    y = torch.zeros(3).long()
    torch.testing.assert_close(ensemble.log_prob(y), blur.log_prob(y), rtol=1e-6, atol=1e-6)
    assert float(ensemble.joint_log_prob(y)) == pytest.approx(math.log(1 / 2), abs=1e-6)
    assert float(blur.joint_log_prob(y)) == pytest.approx(math.log(1 / 8), abs=1e-6)
