"""From the standardized numbers a network works in to the units of the user, whole distributions at once."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from credo.core.trees import map_tensors
from credo.data.scaling import mean_and_scale, standardized
from credo.likelihoods import Gaussian, HeteroscedasticGaussian, LearnedGaussian
from credo.model import Model
from credo.nets.network import Network
from credo.posteriors import Posterior
from credo.predictive import NumericMixture, NumericPredictive, Predictive


@dataclass(frozen=True, eq=False)
class Standardizer:
    """z = (x - mean) / scale for each column; columns without spread are only shifted.

    Attributes:
        mean: of each column, (F,).
        scale: standard deviation of each column, (F,), or one.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def fit(cls, values: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Standardizer:
        """From the rows (N, F), and what each of them weighs, (N,)."""
        return cls(*mean_and_scale(values, weights))

    def __call__(self, values: NDArray[np.float64], dtype: torch.dtype = torch.float32) -> Tensor:
        """Standardized rows."""
        limit = float(np.finfo(np.float32).max)
        return torch.tensor(standardized(values, self.mean, self.scale).clip(-limit, limit), dtype=dtype)


def in_double(posterior: Posterior) -> Posterior:
    """The same posterior in float64, so that a row's prediction does not depend on the rows beside it.

    In float32 the sums inside a network are grouped by the size of the batch, which shows in the seventh digit.
    """
    network = posterior.model.network
    twin = Network(deepcopy(network.module).double(), network.dropout).with_outputs(network.output_rule)
    precise = map_tensors(lambda _, t: t.double() if t.is_floating_point() else t, posterior)
    return replace(precise, model=Model(twin, posterior.model.likelihood, posterior.model.prior))


def in_units(prediction: Predictive, mean: NDArray[np.float64], scale: NDArray[np.float64]) -> NumericPredictive:
    """The predictive distribution of mean + scale * y, where `prediction` is that of y.

    A mixture of Gaussians stays one: every mean is shifted and stretched, every standard deviation stretched.

    Args:
        prediction: with a Gaussian likelihood, fixed, learned or heteroscedastic.
        mean: what was subtracted from each target, (D,).
        scale: what each target was divided by, (D,).
    """
    likelihood = prediction.likelihood
    if not isinstance(likelihood, Gaussian | LearnedGaussian | HeteroscedasticGaussian):
        raise TypeError(f"only Gaussian predictions can be converted to other units, got {type(likelihood).__name__}")
    shift, stretch = torch.as_tensor(mean).double(), torch.as_tensor(scale).double()
    centers = likelihood.mean(prediction.draws, prediction.params).double().cpu() * stretch + shift
    scales = likelihood.variance(prediction.draws, prediction.params).double().cpu().sqrt() * stretch
    floor = 1e-6 * float(scales.min())
    excess = scales - floor
    raw = excess + torch.log(-torch.expm1(-excess))  # the inverse of softplus
    draws = torch.cat([centers, raw], dim=-1)
    return NumericMixture(HeteroscedasticGaussian(floor), draws, {}, prediction.log_weights.double().cpu())
