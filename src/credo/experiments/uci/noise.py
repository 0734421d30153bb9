"""The noise of a network that does not learn it, chosen on rows that were held out."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from credo import likelihoods
from credo.experiments.uci.problem import NOISE_SCALES
from credo.predictive import Predictive, predictive


def with_noise(draws: Tensor, scale: float) -> Predictive:
    even = torch.full((len(draws),), -math.log(len(draws)))
    return predictive(likelihoods.Gaussian(scale), draws, {}, even)


def best_noise(outputs: list[Tensor], targets: Tensor) -> tuple[Tensor, Tensor]:
    """For each split the noise under which its validation targets are most probable, (M,), and how probable, (M,)."""
    found = [
        torch.stack([with_noise(draws, float(scale)).log_prob(y).mean() for scale in NOISE_SCALES]).max(0)
        for draws, y in zip(outputs, targets, strict=True)
    ]
    return NOISE_SCALES[torch.stack([best.indices for best in found])], torch.stack([best.values for best in found])
