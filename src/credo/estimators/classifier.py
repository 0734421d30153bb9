"""Classes with honest probabilities, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data
from torch import Tensor

from credo.core.weights import example_weights
from credo.estimators.base import LEAST, BayesianEstimator, Floats, WeightedRows
from credo.likelihoods import Categorical
from credo.loop.class_weights import class_weights
from credo.methods import Method
from credo.predictive import ClassPredictive
from credo.priors import Prior
from credo.tabular.recipes import ACTIVATION, HIDDEN


class BayesianClassifier(ClassifierMixin, BayesianEstimator):
    """A neural network for tables whose class probabilities can be trusted.

    With the defaults it is a deep ensemble. Each member is trained without its own part of the rows, and these rows
    say when to stop, so there is nothing to tune. Inputs are standardized inside.

    Args:
        method: ensemble, map, dropout or vi; or a credo method, which is run on all rows just as it is.
        hidden: width of each hidden layer.
        activation: relu, tanh, sigmoid, gelu, silu or softplus.
        prior: of the weights, such as `priors.Normal(scale=0.5, fan_in=True)`, on the scale of standardized columns;
            None for the method's own. Its scale can be chosen by cross validation.
        members: of the ensemble.
        epochs: at most so many passes over the data; None for as many as about 10,000 steps make.
        learning_rate: step size of the optimizer.
        batch_size: examples per step; None chooses by the number of rows.
        class_weight: None, "balanced" for classes that weigh the same however rare they are, or the weight of each
            class by its name, such as {"yes": 5.0}; it multiplies `sample_weight`. Probabilities then are those of a
            world with such classes.
        random_state: seed, or a numpy RandomState; None draws one.

    Attributes:
        classes_: the classes, in the order of their probabilities.
        posterior_: credo's posterior, which takes rows of X.
        epochs_: passes over the data after which validation rows were predicted best; None where `method` is an object.
        held_out_log_likelihood_: validation log likelihood per row; None if no row was held out.
        n_features_in_: number of columns of X.

    Examples:
        >>> import numpy as np
        >>> from credo.estimators import BayesianClassifier
        >>> X = np.linspace(-1, 1, 60)[:, None]
        >>> model = BayesianClassifier(epochs=20, random_state=0).fit(X, X[:, 0] > 0)
        >>> model.predict_proba(X).shape
        (60, 2)
    """

    def __init__(
        self,
        method: str | Method = "ensemble",
        *,
        hidden: Sequence[int] = HIDDEN,
        activation: str = ACTIVATION,
        prior: Prior | None = None,
        members: int = 10,
        epochs: int | None = None,
        learning_rate: float = 3e-3,
        batch_size: int | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.hidden = hidden
        self.activation = activation
        self.prior = prior
        self.members = members
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.class_weight = class_weight
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Learn from rows X (N, F) and their classes y (N,).

        Args:
            X: rows.
            y: classes.
            sample_weight: how much each row counts, (N,): a weight of two is a row that comes twice.
        """
        x, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=LEAST)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        rows = WeightedRows.of(x, y, self._weights(y, sample_weight))
        self.classes_, numbers = np.unique(rows.y, return_inverse=True)
        if len(self.classes_) < 2:
            where = "" if rows.weights is None else " where sample_weight is above zero"
            raise ValueError(f"y has one class only{where}: a classifier needs at least two classes to tell apart")
        self._learn(rows, torch.from_numpy(numbers).long(), Categorical(), len(self.classes_))
        return self

    def _weights(self, y: NDArray[Any], sample_weight: Any) -> Any:
        """Those of the rows, times those of their classes."""
        if self.class_weight is None:
            return sample_weight
        if sample_weight is not None:
            sample_weight = example_weights(sample_weight, (len(y),), "sample_weight")
        return class_weights(y, self.class_weight, weights=sample_weight, missing=None)

    def predictive(self, X: Any) -> ClassPredictive:  # noqa: N803
        """The whole predictive distribution at the rows X: probabilities, entropy and its two parts, ..."""
        prediction = self._predict(X)
        assert isinstance(prediction, ClassPredictive)
        return prediction

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Probabilities of the classes in the order of `classes_`, (B, K)."""
        probs = self.predictive(X).probs.double()
        result: Floats = (probs / probs.sum(1, keepdim=True)).cpu().numpy()
        return result

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most probable class of each row, (B,)."""
        numbers = self.predict_proba(X).argmax(1)
        chosen: NDArray[Any] = self.classes_[numbers]
        return chosen

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> NDArray[Any]:  # noqa: N803
        """Classes drawn from the predictive distribution, (B, n_samples); each sample is one drawn function's."""
        numbers = self._samples(X, n_samples, random_state).T
        drawn: NDArray[Any] = self.classes_[numbers]
        return drawn

    def _targets(self, y: Any) -> Tensor:
        numbers = np.searchsorted(self.classes_, np.asarray(y))
        numbers = np.minimum(numbers, len(self.classes_) - 1)
        if not bool((self.classes_[numbers] == np.asarray(y)).all()):
            raise ValueError("y has a class that was not there in training")
        return torch.from_numpy(numbers).long()
