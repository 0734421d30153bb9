"""The likelihood of the arm that was chosen is that of its reward alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import credo
from credo import likelihoods
from credo.likelihoods import ChosenArm

BASES = (
    likelihoods.Gaussian(0.5),
    likelihoods.LearnedGaussian(),
    likelihoods.HeteroscedasticGaussian(),
    likelihoods.Bernoulli(),
    likelihoods.Poisson(),
    likelihoods.Standardized(likelihoods.Gaussian(0.5), (1.0, 2.0, 3.0), (1.0, 2.0, 4.0)),
)


@pytest.mark.parametrize("base", BASES, ids=str)
def test_the_density_is_that_of_the_chosen_arm_by_the_base(base: likelihoods.Likelihood) -> None:
    width = 6 if isinstance(base, likelihoods.HeteroscedasticGaussian) else 3
    outputs = credo.Stream(0).normal(2, 4, width)
    params = {name: t.expand(2, *t.shape) + 0.3 for name, t in base.parameters(width).items()}
    reward, arm = torch.tensor([0.0, 1.0, 1.0, 0.0]), torch.tensor([0, 2, 1, 2])
    chosen = ChosenArm(base)
    y = chosen.check_targets(torch.stack([reward, arm.float()], 1), width)
    found = chosen.log_prob(outputs, y, params)
    for b in range(4):
        every = base.log_prob_each(outputs, reward[:, None].expand(4, 3), params)
        torch.testing.assert_close(found[:, b], every[:, b, int(arm[b])])
    torch.testing.assert_close(chosen.mean(outputs, params), base.mean(outputs, params))


def test_arms_that_were_not_chosen_get_no_gradient() -> None:
    outputs = torch.zeros(1, 2, 3, requires_grad=True)
    ChosenArm().log_prob(outputs, torch.tensor([[1.0, 0.0], [2.0, 2.0]]), {}).sum().backward()
    assert outputs.grad is not None
    assert outputs.grad.tolist() == [[[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]]]


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (torch.zeros(3), "two columns"),
        (torch.tensor([[0.0, 3.0]]), "numbers of arms, 0 to 2"),
        (torch.tensor([[0.0, 0.5]]), "numbers of arms, 0 to 2"),
        (torch.tensor([[float("nan"), 0.0]]), "NaN"),
    ],
)
def test_targets_that_cannot_be_are_refused(y: torch.Tensor, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ChosenArm().check_targets(y, 3)


def test_classes_are_no_rewards() -> None:
    with pytest.raises(ValueError, match="a reward for each arm"):
        ChosenArm(likelihoods.Categorical())


def test_predictions_are_those_of_all_arms_and_are_saved(tmp_path: Path) -> None:
    x = torch.linspace(-1, 1, 20)[:, None]
    y = torch.stack([x[:, 0], torch.arange(20.0) % 2], 1)
    model = credo.Model(credo.nets.MLP(1, 2, (4,)), ChosenArm(likelihoods.LearnedGaussian()))
    posterior = credo.fit(model, (x, y), credo.DeepEnsemble(members=2, epochs=2), progress=False)
    prediction = posterior.predict(x)
    assert prediction.mean.shape == prediction.epistemic.shape == (20, 2)
    assert prediction.interval(0.9)[0].shape == (20, 2)
    again = credo.load(posterior.save(tmp_path / "arms"))
    torch.testing.assert_close(again.predict(x).mean, prediction.mean, rtol=0, atol=0)
