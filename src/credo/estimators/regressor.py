"""Numbers with error bars, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data
from torch import Tensor

from credo.estimators.base import LEAST, BayesianEstimator, Floats, WeightedRows
from credo.likelihoods import LearnedGaussian, Likelihood, LogNormal, NegativeBinomial
from credo.methods import Method
from credo.predictive import NumericPredictive
from credo.priors import Prior
from credo.tabular.choosing import Noise
from credo.tabular.recipes import ACTIVATION, HIDDEN
from credo.tabular.units import in_the_units_of

KINDS: dict[Noise, Likelihood] = {Noise.LOG_NORMAL: LogNormal(), Noise.COUNTS: NegativeBinomial()}
"""Likelihoods of targets that are not any number."""


class BayesianRegressor(RegressorMixin, BayesianEstimator):
    """A neural network for tables whose predictions come with error bars.

    With the defaults it is a deep ensemble that predicts a mean and a standard deviation for each row. Each member is
    trained without its own part of the rows, and these rows say when to stop, so there is nothing to tune. Inputs
    and targets are standardized inside; predictions are in the units of y.

    Args:
        method: ensemble, map, dropout or vi; or a credo method, which is run on all rows just as it is.
        hidden: width of each hidden layer.
        activation: relu, tanh, sigmoid, gelu, silu or softplus.
        prior: of the weights, such as `priors.Normal(scale=0.5, fan_in=True)`, on the scale of standardized columns;
            None for the method's own. Its scale can be chosen by cross validation.
        noise: auto (out-of-fold rows choose), varying (normal, with a standard deviation for each row), constant
            (normal, with one for all), student-t (heavy tails), log-normal (y above zero, errors are factors) or counts
            (whole numbers from 0 on).
        members: of the ensemble.
        epochs: at most so many passes over the data; None for as many as about 10,000 steps make.
        learning_rate: step size of the optimizer.
        batch_size: examples per step; None chooses by the number of rows.
        random_state: seed, or a numpy RandomState; None draws one.

    Attributes:
        posterior_: credo's posterior; it takes rows of X and predicts in the units of y.
        epochs_: passes over the data after which validation rows were predicted best; None where `method` is an object.
        held_out_log_likelihood_: validation log likelihood per row, in the units of y; None if no row was held out.
        n_features_in_: number of columns of X.

    Examples:
        >>> import numpy as np
        >>> from credo.estimators import BayesianRegressor
        >>> X = np.linspace(-1, 1, 60)[:, None]
        >>> model = BayesianRegressor(epochs=50, random_state=0).fit(X, np.sin(3 * X[:, 0]))
        >>> mean, std = model.predict(X, return_std=True)
        >>> mean.shape, std.shape
        ((60,), (60,))
    """

    def __init__(
        self,
        method: str | Method = "ensemble",
        *,
        hidden: Sequence[int] = HIDDEN,
        activation: str = ACTIVATION,
        prior: Prior | None = None,
        noise: str = "auto",
        members: int = 10,
        epochs: int | None = None,
        learning_rate: float = 3e-3,
        batch_size: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.hidden = hidden
        self.activation = activation
        self.prior = prior
        self.noise = noise
        self.members = members
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Learn from rows X (N, F) and targets y, (N,) or (N, D).

        Args:
            X: rows.
            y: targets.
            sample_weight: how much each row counts, (N,): a weight of two is a row that comes twice.
        """
        x, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=LEAST)
        y = np.asarray(y, dtype=np.float64)
        self._flat = y.ndim == 1
        rows = WeightedRows.of(x, y.reshape(len(y), -1), sample_weight)
        likelihood, per_target = self._likelihood(rows)
        self._learn(rows, torch.tensor(rows.y), likelihood, rows.y.shape[1] * per_target)
        return self

    def _likelihood(self, rows: WeightedRows) -> tuple[Likelihood | None, int]:
        """In the units of y, or None where it is to be chosen, and how many outputs it has for each target."""
        if self.noise == "auto":
            return None, 2
        if self.noise == "constant":
            return in_the_units_of(LearnedGaussian(), rows.y, rows.weights), 1
        names = {"varying": Noise.NORMAL, **{noise.value: noise for noise in Noise}}
        if self.noise not in names:
            raise ValueError(f"noise must be auto, constant, varying or one of {', '.join(Noise)}, got {self.noise!r}")
        noise = names[self.noise]
        if noise in KINDS:
            if rows.y.shape[1] > 1:
                raise ValueError(f"noise={self.noise!r} is for one target, and y has {rows.y.shape[1]} columns")
            KINDS[noise].check_targets(torch.tensor(rows.y), 2)
        return noise.likelihood(rows.y, rows.weights), 2

    def predictive(self, X: Any) -> NumericPredictive:  # noqa: N803
        """The whole predictive distribution at the rows X, in the units of y: quantiles, parts of the variance, ..."""
        return cast("NumericPredictive", self._predict(X))

    def predict(self, X: Any, return_std: bool = False) -> Floats | tuple[Floats, Floats]:  # noqa: N803
        """Predictive means, and standard deviations if asked for, in the shape of y."""
        prediction = self.predictive(X)
        if return_std:
            return self._shaped(prediction.mean), self._shaped(prediction.stddev)
        return self._shaped(prediction.mean)

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[Floats, Floats]:  # noqa: N803
        """Lower and upper ends of intervals that hold y with probability `level`, in the shape of y."""
        lower, upper = self.predictive(X).interval(level)
        return self._shaped(lower), self._shaped(upper)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> NDArray[Any]:  # noqa: N803
        """Targets drawn from the predictive distribution, (B, n_samples) or (B, D, n_samples).

        Each sample is one drawn function plus noise, as with Gaussian processes in scikit-learn.
        """
        samples = np.moveaxis(self._samples(X, n_samples, random_state), 0, -1)
        return samples[:, 0] if self._flat else samples

    def _shaped(self, values: Tensor) -> Floats:
        result: Floats = values.cpu().numpy()
        return result[:, 0] if self._flat else result

    def _targets(self, y: Any) -> Tensor:
        return torch.as_tensor(np.asarray(y, dtype=np.float64).reshape(len(y), -1))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
