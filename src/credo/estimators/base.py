"""What both estimators share: parameters, standardized inputs, the posterior and its predictive."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from credo.core.weights import check_weights, example_weights
from credo.data.scaling import mean_and_scale, standardized
from credo.likelihoods import Likelihood
from credo.methods import Method
from credo.model import Model
from credo.posteriors import Posterior
from credo.predictive import Predictive
from credo.tabular.calibrating import calibrated
from credo.tabular.choosing import DesignSearch, Noise, TableRows
from credo.tabular.recipes import Recipe, Settings, TableNet, recipe_of, table_model
from credo.tabular.training import learn
from credo.tabular.units import in_double, standardizing

Floats = NDArray[np.float64]
LEAST = 2
"""Rows that can be learned from."""


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """The rows that count for something.

    Attributes:
        X: rows (N, F).
        y: their targets, (N,) or (N, D).
        weights: how much each of them counts, (N,), all above zero; None for one each.
    """

    X: Floats
    y: NDArray[Any]
    weights: Floats | None

    @classmethod
    def of(cls, X: Floats, y: NDArray[Any], weights: Any) -> WeightedRows:  # noqa: N803
        """Without the rows that weigh nothing, which are as good as absent."""
        if weights is None:
            return cls(X, y, None)
        each = example_weights(weights, (len(X),), "sample_weight").double().numpy()
        check_weights(torch.from_numpy(each).float(), "sample_weight, as float32,")
        # in float32, in which the network computes, the smallest weights are zero
        counts = each.astype(np.float32) > 0
        if int(counts.sum()) < LEAST:
            raise ValueError(
                f"sample_weight is above zero for {int(counts.sum())} sample(s): at least {LEAST} must count"
            )
        return cls(X[counts], y[counts], each[counts])


def _exactly(posterior: Posterior, x: Tensor) -> Predictive:
    return in_double(posterior).predict(x)


def _scaled(rows: WeightedRows) -> Tensor:
    """Rows as the network sees them, standardized, (N, F)."""
    return torch.tensor(standardized(rows.X, *mean_and_scale(rows.X, rows.weights)), dtype=torch.float32)


class BayesianEstimator(BaseEstimator, ABC):
    """A multilayer perceptron with a posterior over its weights, for tables."""

    posterior_: Posterior
    epochs_: int | None
    held_out_log_likelihood_: float | None
    n_features_in_: int

    @abstractmethod
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 (scikit-learn's names)
        """Learn from rows X and targets y, of which each counts as much as it weighs."""

    @abstractmethod
    def predictive(self, X: Any) -> Predictive:  # noqa: N803
        """The whole predictive distribution of credo at the rows X."""

    def _learn(self, rows: WeightedRows, y: Tensor, likelihood: Likelihood | None, outputs: int) -> None:
        """With a likelihood that out-of-fold rows choose, if none is given."""
        params: dict[str, Any] = self.get_params(deep=False)
        settings = Settings(params["epochs"], params["learning_rate"], params["batch_size"], params["members"])
        recipe = recipe_of(params["method"], settings)
        seed = int(check_random_state(params["random_state"]).randint(2**31 - 1))
        net = TableNet(outputs, tuple(params["hidden"]), params["activation"])
        weights = None if rows.weights is None else torch.from_numpy(rows.weights)
        model, notes = self._model(TableRows(_scaled(rows), y, weights), net, likelihood, recipe, seed)
        model = standardizing(model, rows.X, rows.weights)
        result = learn(model, torch.tensor(rows.X), y, recipe, weights=weights, seed=seed)
        record = result.posterior.record
        noted = replace(result.posterior, record=replace(record, notes=(*notes, *record.notes)))
        result = replace(result, posterior=noted)
        self.posterior_ = calibrated(result, torch.tensor(rows.X), y, _exactly, weights=weights).posterior
        self._precise = in_double(self.posterior_)
        self.epochs_ = result.epochs
        self.held_out_log_likelihood_ = result.validation

    def _model(
        self, rows: TableRows, net: TableNet, likelihood: Likelihood | None, recipe: Recipe | Method, seed: int
    ) -> tuple[Model, tuple[str, ...]]:
        """The model, and what was chosen; a network without hidden layers stays linear in X."""
        prior, notes = self.get_params(deep=False)["prior"], tuple[str, ...]()
        if isinstance(recipe, Recipe) and net.hidden:
            design = DesignSearch(rows, recipe.settings, seed, prior=prior).choose(net, likelihood)
            net, noise, notes = design.net, design.noise or Noise.NORMAL, design.notes
        else:
            noise = Noise.NORMAL
        if likelihood is None:
            likelihood = noise.likelihood(rows.y.double().numpy(), rows.counted)
        columns = net.columns(rows.x, rows.weights) if net.hidden else None
        features = rows.x.shape[1]
        model = table_model(features, net.outputs, likelihood, recipe, net.hidden, net.activation, prior, columns)
        return model, notes

    def _predict(self, X: Any) -> Predictive:  # noqa: N803
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return self._precise.predict(rows)

    def log_likelihood(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Mean log predictive density (or probability) of the targets y at the rows X, in nats."""
        log_probs = self.predictive(X).log_prob(self._targets(y))
        if sample_weight is None:
            return float(log_probs.mean())
        weights = example_weights(sample_weight, (len(log_probs),), "sample_weight").to(log_probs)
        return float((log_probs * weights)[weights > 0].sum() / weights.sum())

    @abstractmethod
    def _targets(self, y: Any) -> Tensor:
        """Observed targets as the predictive distribution takes them."""

    def _samples(self, X: Any, n_samples: int, random_state: Any) -> NDArray[Any]:  # noqa: N803
        """(n_samples, B, D) or (n_samples, B)."""
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        with torch.no_grad():
            return self.predictive(X).sample(n_samples, seed).cpu().numpy()
