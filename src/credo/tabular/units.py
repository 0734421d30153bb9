"""From the standardized numbers a network works in to the units of the user, whole distributions at once."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from credo.calibration import MappedPredictive
from credo.core.trees import map_tensors
from credo.data.scaling import mean_and_scale
from credo.likelihoods import LogNormal, NumericLikelihood, Standardized
from credo.model import Model
from credo.nets.network import Network
from credo.nets.scaling import InputScaling, LeafScaling
from credo.posteriors import Calibrated, Posterior
from credo.predictive import NumericPredictive, Predictive, predictive


def in_double(posterior: Posterior) -> Posterior:
    """The same posterior in float64, so that a row's prediction does not depend on the rows beside it.

    In float32 the sums inside a network are grouped by the size of the batch, which shows in the seventh digit.
    """
    if isinstance(posterior, Calibrated):
        base = in_double(posterior.base)
        return replace(posterior, base=base, model=base.model)
    network = posterior.model.network
    twin = Network(deepcopy(network.module).double(), network.dropout, network.scaling)
    twin = twin.with_outputs(network.output_rule)
    precise = map_tensors(lambda _, t: t.double() if t.is_floating_point() else t, posterior)
    return replace(precise, model=Model(twin, posterior.model.likelihood, posterior.model.prior))


def in_units(prediction: Predictive, mean: NDArray[np.float64], scale: NDArray[np.float64]) -> NumericPredictive:
    """The predictive distribution of mean + scale * y, where `prediction` is that of y.

    A mixture stays one of the same kind: every mean is shifted and stretched, every scale stretched. What calibrates
    goes by normal scores, which are the same in all units.

    Args:
        prediction: of numbers.
        mean: what was subtracted from each target, (D,).
        scale: what each target was divided by, (D,).
    """
    likelihood = prediction.likelihood
    if isinstance(prediction, MappedPredictive):
        base = in_units(prediction.base, mean, scale)
        return MappedPredictive(
            base.likelihood,
            base.draws,
            base.params,
            base.log_weights,
            base,
            prediction.score_map,
            conformal=prediction.conformal,
        )
    if not isinstance(prediction, NumericPredictive) or not isinstance(likelihood, NumericLikelihood):
        raise TypeError(f"only predictions of numbers have units, got {type(likelihood).__name__}")
    if not np.any(mean) and np.all(scale == 1.0):  # counts and log-normal targets, which keep their own
        return prediction.in_double()
    if likelihood.discrete or isinstance(likelihood, LogNormal):
        raise TypeError(f"{type(likelihood).__name__} targets cannot be shifted: give their own units, mean 0, scale 1")
    units = Standardized(likelihood, tuple(map(float, mean)), tuple(map(float, scale)))
    params = {name: t.double().cpu() for name, t in prediction.params.items()}
    draws, log_weights = prediction.draws.double().cpu(), prediction.log_weights.double().cpu()
    found = predictive(units, draws, params, log_weights)
    assert isinstance(found, NumericPredictive)
    return replace(found, conformal=getattr(prediction, "conformal", None))


def standardizing(model: Model, rows: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Model:
    """The model with inputs that it standardizes by the columns of these rows (N, F), which weigh (N,)."""
    mean, scale = mean_and_scale(rows, weights)
    leaf = LeafScaling("", tuple(mean.tolist()), tuple(scale.tolist()))
    return model.with_network(model.network.with_scaling(InputScaling((leaf,))))


def in_the_units_of(
    likelihood: NumericLikelihood, targets: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> Standardized:
    """The likelihood of standardized targets, in the units of these (N, D), which weigh (N,)."""
    mean, scale = mean_and_scale(targets, weights)
    return Standardized(likelihood, tuple(mean.tolist()), tuple(scale.tolist()))
