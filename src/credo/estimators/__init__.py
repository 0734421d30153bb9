"""scikit-learn estimators: a table in, predictions with error bars out."""

from credo.estimators.classifier import BayesianClassifier
from credo.estimators.regressor import BayesianRegressor

__all__ = ["BayesianClassifier", "BayesianRegressor"]
