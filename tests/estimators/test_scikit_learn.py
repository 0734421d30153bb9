"""scikit-learn's own checks, all of them, with one expected failure."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from credo.estimators import BayesianClassifier, BayesianRegressor

SMALL = [
    BayesianRegressor(members=2, epochs=60, hidden=(20,), learning_rate=0.01),
    BayesianClassifier(members=2, epochs=60, hidden=(20,), learning_rate=0.01),
    BayesianRegressor(method="vi", epochs=60, hidden=(20,), learning_rate=0.02),
]
"""Small networks: the checks ask for the interface and for some skill, not for the last digit."""
BY_ROW = {
    "check_sample_weight_equivalence_on_dense_data": "batches, noise and validation rows are drawn by row, so that a "
    "row of weight two is one that comes twice in expectation only; test_weights.py has the methods that are exact"
}
"""As for scikit-learn's own estimators that draw rows, such as MLPClassifier and GradientBoostingClassifier."""


@parametrize_with_checks(SMALL, expected_failed_checks=lambda estimator: BY_ROW)
def test_interface(estimator, check):
    check(estimator)
