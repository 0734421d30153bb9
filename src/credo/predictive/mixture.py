"""The mixture that fits a likelihood, over numbers or over classes."""

from __future__ import annotations

import torch
from torch import Tensor

from credo.core.trees import Params
from credo.likelihoods import ClassLikelihood, Likelihood, NumericLikelihood
from credo.predictive.base import Predictive
from credo.predictive.classes import ClassMixture
from credo.predictive.numbers import NumericMixture


def mixture(likelihood: Likelihood, draws: Tensor, params: Params, log_weights: Tensor) -> Predictive:
    """That of one tensor of outputs (S, B, E), in the units of the target; log weights (S,) are normalized here."""
    likelihood, draws, params = likelihood.in_units(draws, params)
    log_weights = log_weights.to(draws)
    normalized = log_weights - torch.logsumexp(log_weights, 0)
    if isinstance(likelihood, NumericLikelihood):
        return NumericMixture(likelihood, draws, params, normalized)
    if isinstance(likelihood, ClassLikelihood):
        return ClassMixture(likelihood, draws, params, normalized)
    raise TypeError(
        f"{type(likelihood).__name__} is neither a NumericLikelihood nor a ClassLikelihood: derive it from one of "
        "them, so that predictions know whether targets are numbers or classes"
    )
