"""scikit-learn's own checks, all of them, with no expected failure."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from credo.estimators import BayesianClassifier, BayesianRegressor

SMALL = [
    BayesianRegressor(members=2, epochs=60, hidden=(20,), learning_rate=0.01),
    BayesianClassifier(members=2, epochs=60, hidden=(20,), learning_rate=0.01),
    BayesianRegressor(method="vi", epochs=60, hidden=(20,), learning_rate=0.02),
]
"""Small networks: the checks ask for the interface and for some skill, not for the last digit."""


@parametrize_with_checks(SMALL)
def test_interface(estimator, check):
    check(estimator)
