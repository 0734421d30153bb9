"""Rewards of arms of which one was chosen: only its reward was seen."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_options
from credo.core.trees import Params
from credo.likelihoods.base import Likelihood
from credo.likelihoods.gaussian import Gaussian


@dataclass(frozen=True)
class ChosenArm(Likelihood):
    """The reward of the one arm that was chosen, where the network says the rewards of all K arms.

    log p(y | f) = log p_base(reward | f_arm),   y = (reward, arm)

    Predictions are those of the base for all K arms.

    Args:
        base: the likelihood of one reward for each of the K arms: `Gaussian`, `LearnedGaussian`, `Bernoulli`, ...

    Examples:
        >>> outputs = torch.tensor([[0.0, 3.0]])
        >>> found = ChosenArm(Gaussian(scale=1.0)).log_prob(outputs, torch.tensor([[3.0, 1.0]]), {})
        >>> round(float(found), 4)  # the log density of a normal at its mean
        -0.9189
    """

    base: Likelihood = Gaussian()

    def __post_init__(self) -> None:
        check_options(self)
        if self.base.event_axes != 1 or getattr(self.base, "exclusive", False):
            raise ValueError(f"base must give a reward for each arm, such as likelihoods.Gaussian(), got {self.base}")

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        if y.ndim != 2 or y.shape[1] != 2 or not y.is_floating_point():
            raise ValueError(f"y has shape {tuple(y.shape)}, {y.dtype}: it must be two columns, (reward, arm)")
        reward, arm = y[:, :1], y[:, 1]
        arms = self.arms(outputs)
        self.base.check_targets(reward.expand(-1, arms), outputs)
        if not bool(((arm >= 0) & (arm < arms) & (arm == arm.round())).all()):
            raise ValueError(f"the second column of y must hold numbers of arms, 0 to {arms - 1}")
        return y

    def arms(self, outputs: int) -> int:
        """K, where the network has so many outputs."""
        return int(self.base.mean(torch.zeros(1, outputs), self.base.parameters(outputs)).shape[-1])

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return self.log_prob_each(outputs, y, params).squeeze(-1)

    def log_prob_each(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        each = self.base.log_prob_each(outputs, y[..., :1], params)  # (..., B, K)
        arm = y[..., 1:].long()
        return each.gather(-1, arm.expand(*each.shape[:-1], 1))

    def parameters(self, outputs: int) -> Params:
        return self.base.parameters(outputs)

    def log_prior(self, params: Params) -> Tensor | float:
        return self.base.log_prior(params)

    def draw_parameters(self, outputs: int, members: int, generator: torch.Generator) -> Params:
        return self.base.draw_parameters(outputs, members, generator)

    def in_units(self, outputs: Tensor, params: Params) -> tuple[Likelihood, Tensor, Params]:
        return self.base.in_units(outputs, params)

    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        """Expected rewards of all arms, (..., B, K)."""
        return self.base.mean(outputs, params)

    def variance(self, outputs: Tensor, params: Params) -> Tensor:
        return self.base.variance(outputs, params)

    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        return self.base.sample(outputs, params, generator)

    def entropy(self, outputs: Tensor, params: Params) -> Tensor:
        return self.base.entropy(outputs, params)
