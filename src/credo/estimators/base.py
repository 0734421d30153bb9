"""What both estimators share: parameters, standardized inputs, the posterior and its predictive."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from credo.likelihoods import Likelihood
from credo.posteriors import Posterior
from credo.predictive import Predictive
from credo.tabular.recipes import Settings, recipe_of, table_model
from credo.tabular.training import learn
from credo.tabular.units import in_double, standardizing

Floats = NDArray[np.float64]


class BayesianEstimator(BaseEstimator, ABC):
    """A multilayer perceptron with a posterior over its weights, for tables."""

    posterior_: Posterior
    epochs_: int | None
    held_out_log_likelihood_: float | None
    n_features_in_: int

    @abstractmethod
    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803 (scikit-learn's names)
        """Learn from rows X and targets y."""

    @abstractmethod
    def predictive(self, X: Any) -> Predictive:  # noqa: N803
        """The whole predictive distribution of credo at the rows X."""

    def _learn(self, X: Floats, y: Tensor, likelihood: Likelihood, outputs: int) -> None:  # noqa: N803
        params: dict[str, Any] = self.get_params(deep=False)
        settings = Settings(params["epochs"], params["learning_rate"], params["batch_size"], params["members"])
        recipe = recipe_of(params["method"], settings)
        seed = int(check_random_state(params["random_state"]).randint(2**31 - 1))
        model = table_model(X.shape[1], outputs, likelihood, recipe, params["hidden"], params["activation"])
        result = learn(standardizing(model, X), torch.tensor(X), y, recipe, seed=seed)
        self.posterior_, self._precise = result.posterior, in_double(result.posterior)
        self.epochs_ = result.epochs
        self.held_out_log_likelihood_ = result.validation

    def _predict(self, X: Any) -> Predictive:  # noqa: N803
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return self._precise.predict(rows)

    def log_likelihood(self, X: Any, y: Any) -> float:  # noqa: N803
        """Mean log predictive density (or probability) of the targets y at the rows X, in nats."""
        return float(self.predictive(X).log_prob(self._targets(y)).mean())

    @abstractmethod
    def _targets(self, y: Any) -> Tensor:
        """Observed targets as the predictive distribution takes them."""

    def _samples(self, X: Any, n_samples: int, random_state: Any) -> NDArray[Any]:  # noqa: N803
        """(n_samples, B, D) or (n_samples, B)."""
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        with torch.no_grad():
            return self.predictive(X).sample(n_samples, seed).cpu().numpy()
