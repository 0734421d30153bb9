"""Weights of samples and of classes in the estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import cross_validate
from sklearn.utils.class_weight import compute_sample_weight

import credo
from credo.data.scaling import mean_and_scale
from credo.estimators import BayesianClassifier, BayesianRegressor
from credo.tabular.recipes import POINT_PRIOR
from credo.tabular.validation import NAIVE_SHARE, hold_out

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = X[:, 0] * 3 + 100 + RNG.normal(size=60)
NAMES = np.where(X[:, 1] > 0.8, "rare", np.where(X[:, 1] > 0, "some", "many"))
WEIGHTS = RNG.integers(0, 4, size=60)
TWICE = np.repeat(np.arange(60), WEIGHTS)
WHOLE: dict[str, Any] = {"hidden": (5,), "random_state": 0}
EXACT = [credo.MAP(epochs=60, batch_size=None), credo.DeepEnsemble(members=2, epochs=60, batch_size=None)]
QUICK: dict[str, Any] = {"members": 2, "epochs": 30, "hidden": (8,), "learning_rate": 0.01, "random_state": 0}


@pytest.mark.parametrize("method", EXACT, ids=["map", "ensemble"])
def test_a_weight_of_two_is_a_row_that_comes_twice(method: credo.Method) -> None:
    """Standardizing included; sixty steps in float32 leave differences of some 1e-5."""
    regressor = BayesianRegressor(method, **WHOLE)
    repeated = regressor.fit(X[TWICE], Y[TWICE]).predict(X, return_std=True)
    weighted = regressor.fit(X, Y, sample_weight=WEIGHTS).predict(X, return_std=True)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-4)
    assert np.abs(regressor.fit(X, Y).predict(X) - repeated[0]).max() > 0.01, "the twin without weights"
    classifier = BayesianClassifier(method, **WHOLE)
    repeated = classifier.fit(X[TWICE], NAMES[TWICE]).predict_proba(X)
    weighted = classifier.fit(X, NAMES, sample_weight=WEIGHTS).predict_proba(X)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-4)


def test_a_weight_of_zero_is_a_row_that_is_not_there() -> None:
    there = WEIGHTS > 0
    model = BayesianRegressor(**QUICK)
    rest = model.fit(X[there], Y[there], sample_weight=WEIGHTS[there]).predict(X)
    strange = np.where(there, Y, 1e30)  # what weighs nothing may be anything
    assert np.array_equal(rest, model.fit(X, strange, sample_weight=WEIGHTS).predict(X))
    classes = BayesianClassifier(**QUICK).fit(X, NAMES, sample_weight=(NAMES != "rare") * 1.0)
    assert classes.classes_.tolist() == ["many", "some"]


def test_weights_of_one_change_nothing() -> None:
    for made, y in ((BayesianRegressor(**QUICK), Y), (BayesianClassifier(**QUICK), NAMES)):
        plain = made.fit(X, y).predictive(X).mean
        # sums of products with one, in another order
        torch.testing.assert_close(
            made.fit(X, y, sample_weight=np.ones(60)).predictive(X).mean, plain, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("method", ["ensemble", "map", "dropout", "vi"])
def test_every_recipe_learns_the_weighted_mean(method: str) -> None:
    """At any x half of the targets are 0 and half 1; where ones weigh nine times as much the mean is 0.9."""
    x, y = np.repeat(np.linspace(-1, 1, 50), 2)[:, None], np.tile([0.0, 1.0], 50)
    model = BayesianRegressor(method, noise="constant", hidden=(8,), members=2, epochs=100, random_state=0)
    model.set_params(learning_rate=0.01)
    found = model.fit(x, y, sample_weight=np.where(y == 1, 1.8, 0.2)).predict([[0.0]])
    assert found[0] == pytest.approx(0.9, abs=0.1)  # what a short training leaves; without weights it is 0.5
    labels = BayesianClassifier(method, hidden=(8,), members=2, epochs=100, random_state=0, learning_rate=0.01)
    probs = labels.fit(x, y, sample_weight=np.where(y == 1, 1.8, 0.2)).predict_proba([[0.0]])
    assert probs[0, 1] == pytest.approx(0.9, abs=0.1)


def test_balanced_classes_are_those_of_scikit_learn() -> None:
    for given in ("balanced", {"rare": 5.0, "some": 2.0}):
        expected = compute_sample_weight({"many": 1.0, **given} if isinstance(given, dict) else given, NAMES)
        np.testing.assert_allclose(credo.class_weights(NAMES, given).numpy(), expected, rtol=1e-12)
        by_class = BayesianClassifier(class_weight=given, **QUICK).fit(X, NAMES).predict_proba(X)
        by_row = BayesianClassifier(**QUICK).fit(X, NAMES, sample_weight=expected).predict_proba(X)
        np.testing.assert_array_equal(by_class, by_row)
    plain = BayesianClassifier(**QUICK).fit(X, NAMES).predict_proba(X)
    assert by_class[:, 1].mean() > plain[:, 1].mean() + 0.01, "rare classes gain"


def test_balanced_classes_of_weighted_rows_are_those_of_repeated_rows() -> None:
    weighted = credo.class_weights(NAMES, weights=WEIGHTS)
    repeated = credo.class_weights(NAMES[TWICE])
    np.testing.assert_allclose(
        weighted.numpy()[WEIGHTS > 0],
        repeated.numpy()[np.unique(TWICE, return_index=True)[1]] * WEIGHTS[WEIGHTS > 0],
        rtol=1e-12,
    )
    assert float(weighted.sum()) == pytest.approx(WEIGHTS.sum(), rel=1e-12)
    twin = credo.class_weights(NAMES).numpy() * WEIGHTS
    assert np.abs(twin - weighted.numpy()).max() > 0.01, "counts of rows in the place of weights are told apart"
    assert credo.class_weights(NAMES, weights=(NAMES != "rare") * 1.0).sum() == (NAMES != "rare").sum()


def test_class_weights_of_numbers_columns_and_flags() -> None:
    expected = [0.75, 0.75, 1.5]
    for y in (
        [0, 0, 1],
        torch.tensor([0, 0, 1]),
        torch.tensor([[0.0], [0.0], [1.0]]),
        [False, False, True],
        pd.Series(["a", "a", "b"]),
    ):
        assert credo.class_weights(y).tolist() == expected
    assert credo.class_weights(torch.tensor([0, 0, 1]), {1: 3}).tolist() == [1.0, 1.0, 3.0]


BAD = {
    "a class that is not there": (
        {"rara": 2.0},
        r"class 'rara', which y does not have: its classes are 'many', 'rare'",
    ),
    "negative": ({"rare": -1.0}, "weight of class 'rare' must be a finite number"),
    "infinite": ({"rare": np.inf}, "weight of class 'rare' must be a finite number"),
    "a word": ({"rare": "much"}, "weight of class 'rare' must be a finite number"),
    "another word": ("balance", "class weights must be 'balanced', or a dict"),
    "a list": ([1.0, 2.0], "class weights must be 'balanced', or a dict"),
    "all zero": ({"rare": 0, "some": 0, "many": 0}, "class weights are all zero"),
}


@pytest.mark.parametrize(("given", "message"), BAD.values(), ids=BAD.keys())
def test_bad_class_weights_get_a_sentence(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        credo.class_weights(NAMES, given)
    with pytest.raises(ValueError, match=message):
        BayesianClassifier(class_weight=given, **QUICK).fit(X, NAMES)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.5, 1.0], "holds fractions or NaN"),
        ([np.nan, 1.0], "holds fractions or NaN"),
        (["a", None], "several kinds"),
        (np.zeros((3, 2)), r"shape \(3, 2\)"),
        ([], r"shape \(0,\)"),
    ],
)
def test_targets_without_classes_get_a_sentence(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        credo.class_weights(y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-np.ones(60), "sample_weight has negative values"),
        (np.full(60, np.nan), "sample_weight has NaN or infinite values"),
        (np.zeros(60), "sample_weight are all zero"),
        (np.eye(60)[0], r"sample_weight is above zero for 1 sample\(s\)"),
        (np.ones(59), r"sample_weight has shape \(59,\), and there are 60 examples"),
        (np.full(60, 1e300), "sample_weight, as float32, has NaN or infinite values"),
        (np.full(60, 1e-300), "sample_weight, as float32, are all zero"),
    ],
)
def test_bad_sample_weights_get_a_sentence(weights: Any, message: str) -> None:
    for made, y in ((BayesianRegressor(**QUICK), Y), (BayesianClassifier(**QUICK), NAMES)):
        with pytest.raises(ValueError, match=message):
            made.fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="sample_weight"):
        BayesianClassifier(class_weight="balanced", **QUICK).fit(X, NAMES, sample_weight=weights)


def test_scores_are_averages_by_weight() -> None:
    model = BayesianRegressor(**QUICK).fit(X, Y)
    assert model.score(X, Y, sample_weight=WEIGHTS) == pytest.approx(model.score(X[TWICE], Y[TWICE]), rel=1e-9)
    repeated = model.log_likelihood(X[TWICE], Y[TWICE])
    assert model.log_likelihood(X, Y, sample_weight=WEIGHTS) == pytest.approx(repeated, rel=1e-9)
    assert model.log_likelihood(X, Y) != pytest.approx(repeated, rel=1e-3)


def test_cross_validation_cuts_weights_with_the_rows() -> None:
    found = cross_validate(
        BayesianRegressor(**QUICK), X, Y, cv=3, params={"sample_weight": WEIGHTS}, error_score="raise"
    )
    assert len(found["test_score"]) == 3


def test_validation_rows_are_scored_by_weight() -> None:
    """The weighted mean over the rows that each network has not seen, against a loop."""
    x, y = torch.from_numpy(X).float(), torch.from_numpy((Y - 100) / 3).float().unsqueeze(1)
    weights = torch.from_numpy(WEIGHTS + 0.5)
    rows = hold_out(x, y, 3, 0, weights=weights)
    model = credo.Model(credo.nets.MLP(2, 1, (4,)), credo.likelihoods.Gaussian(1.0), POINT_PRIOR)
    posterior = credo.fit(model, rows.data, credo.DeepEnsemble(members=3, epochs=2, batch_size=None))
    held, total, count = rows.batch, 0.0, 0.0
    for m in range(3):
        one = posterior.members().take([m])
        outputs = model.network.evaluate(one, held.x[m], credo.Plan.TOGETHER)
        each = model.likelihood.log_prob(outputs, held.y[m], {})[0].double()
        mixed = torch.log((1 - NAIVE_SHARE) * each.exp() + NAIVE_SHARE * rows.naive[m].double().exp())
        place = (x[None] == held.x[m][:, None]).all(-1).float().argmax(1)
        assert torch.equal(held.weight[m], weights[place]), "weights stay with their rows"
        total, count = total + float((mixed * weights[place]).sum()), count + float(weights[place].sum())
    assert rows.score(posterior) == pytest.approx(total / count, rel=1e-6)  # float32 outputs


def test_moments_by_weight_are_those_of_repeated_rows() -> None:
    far = X * [1e-3, 1e6] + [1e9, -5.0]
    far = np.column_stack([far, np.full(60, 7.0)])
    there = WEIGHTS > 0
    for mine, theirs in zip(mean_and_scale(far[there], WEIGHTS[there] / 3.0), mean_and_scale(far[TWICE]), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7)  # a column around 1e9 has no more digits
