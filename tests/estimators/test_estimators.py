"""The estimators as people use them."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import credo
from credo import metrics
from credo.estimators import BayesianClassifier, BayesianRegressor

QUICK = {"members": 3, "epochs": 40, "hidden": (20,), "learning_rate": 0.01, "random_state": 0}


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return train_test_split(X, y, test_size=0.25, random_state=0)


@pytest.fixture(scope="module")
def regressor(diabetes):
    return BayesianRegressor(**QUICK).fit(diabetes[0], diabetes[2])


@pytest.fixture(scope="module")
def iris():
    return train_test_split(*load_iris(return_X_y=True), test_size=0.4, random_state=0)


@pytest.fixture(scope="module")
def classifier(iris):
    return BayesianClassifier(**{**QUICK, "epochs": 300}).fit(iris[0], np.array(["x", "y", "z"])[iris[2]])


def test_predictions_are_in_the_units_of_y(regressor, diabetes):
    _, X, _, y = diabetes
    mean, std = regressor.predict(X, return_std=True)
    assert np.array_equal(mean, regressor.predict(X))
    assert mean.shape == std.shape == y.shape
    assert np.sqrt(((mean - y) ** 2).mean()) < 0.85 * y.std()
    assert 30 < std.mean() < 90
    assert regressor.score(X, y) > 0.3


def test_intervals_hold_what_they_promise(regressor, diabetes):
    """111 rows: the standard error of a coverage near 0.9 is 0.03; three of them, and what 331 rows leave open."""
    _, X, _, y = diabetes
    lower, upper = regressor.predict_interval(X, 0.9)
    assert abs(((lower <= y) & (y <= upper)).mean() - 0.9) < 0.1
    narrow = regressor.predict_interval(X, 0.5)
    assert bool(((narrow[0] > lower) & (narrow[1] < upper)).all())
    with pytest.raises(ValueError, match="between 0 and 1"):
        regressor.predict_interval(X, 95)


def test_predictive_is_credos_own(regressor, diabetes):
    _, X, _, y = diabetes
    prediction = regressor.predictive(X)
    assert isinstance(prediction, credo.NumericPredictive)
    assert np.array_equal(prediction.mean[:, 0].numpy(), regressor.predict(X))
    assert regressor.log_likelihood(X, y) == pytest.approx(metrics.log_likelihood(prediction, y), rel=1e-12)
    assert bool((prediction.epistemic > 0).all())


def test_samples_are_drawn_from_the_prediction(regressor, diabetes):
    X = diabetes[1][:20]
    samples = regressor.sample_y(X, 1000, random_state=1)
    assert samples.shape == (20, 1000)
    mean, std = regressor.predict(X, return_std=True)
    assert np.abs((samples.mean(1) - mean) / std).max() < 6 / np.sqrt(1000)  # six standard errors
    assert np.array_equal(samples, regressor.sample_y(X, 1000, random_state=1))
    assert not np.array_equal(samples, regressor.sample_y(X, 1000, random_state=2))


def test_several_targets():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(100, 2))
    y = np.c_[100 * X[:, 0], 0.01 * X[:, 1]] + generator.normal(size=(100, 2)) * [10, 0.001]
    model = BayesianRegressor(**QUICK).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (100, 2)
    assert model.score(X, y) > 0.8
    assert model.sample_y(X, 3).shape == (100, 2, 3)
    assert std[:, 0].mean() / std[:, 1].mean() > 1e3
    assert isinstance(model.log_likelihood(X, y), float)


def test_large_and_tiny_units_make_no_difference():
    """A target measured in other units gives the same prediction in these units."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 2))
    y = X[:, 0] + 0.3 * generator.normal(size=60)
    base = BayesianRegressor(**QUICK).fit(X, y).predict(X, return_std=True)
    for factor, offset in ((1e9, 1e10), (1e-9, 0.0)):
        other = BayesianRegressor(**QUICK).fit(X * factor, y * factor + offset).predict(X * factor, return_std=True)
        # standardized values differ in the last digits of float32, and training keeps that small
        assert np.allclose((other[0] - offset) / factor, base[0], atol=1e-2)
        assert np.allclose(other[1] / factor, base[1], atol=1e-2)


def test_noise_that_varies_is_seen():
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, size=(600, 1))
    y = np.where(X[:, 0] > 0, 1.0, 0.05) * generator.normal(size=600)
    std = BayesianRegressor(**QUICK).fit(X, y).predict([[-0.5], [0.5]], return_std=True)[1]
    assert std[1] > 4 * std[0]
    constant_twin = BayesianRegressor(noise="constant", **QUICK).fit(X, y).predict([[-0.5], [0.5]], return_std=True)[1]
    assert constant_twin[1] < 2 * constant_twin[0]


@pytest.mark.parametrize("method", ["ensemble", "map", "dropout", "vi", credo.DeepEnsemble(2, epochs=20)])
def test_methods_by_name_and_object(method):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(80, 3))
    model = BayesianRegressor(method, **QUICK).fit(X, X[:, 0] + 0.1 * generator.normal(size=80))
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert bool((std > 0).all())
    assert np.array_equal(mean, clone(model).fit(X, X[:, 0] + 0 * mean).predict(X)) is False
    again = clone(model).fit(X, X[:, 0])
    assert np.array_equal(again.predict(X), clone(model).fit(X, X[:, 0]).predict(X))
    assert bool((model.predictive(X).epistemic > 0).all()) is (method != "map")


def test_classes_and_probabilities(classifier, iris):
    _, X, _, numbers = iris
    y = np.array(["x", "y", "z"])[numbers]
    probs = classifier.predict_proba(X)
    assert classifier.classes_.tolist() == ["x", "y", "z"]
    assert np.allclose(probs.sum(1), 1.0, atol=1e-12)
    assert set(classifier.predict(X)) <= {"x", "y", "z"}
    assert classifier.score(X, y) > 0.9
    assert classifier.log_likelihood(X, y) == pytest.approx(np.log(probs[np.arange(len(y)), numbers]).mean(), rel=1e-5)
    assert isinstance(classifier.predictive(X), credo.ClassPredictive)
    drawn = classifier.sample_y(X, 2000)
    assert drawn.shape == (60, 2000)
    frequency = (drawn == "y").mean(1)
    assert np.abs(frequency - probs[:, 1]).max() < 0.07  # six standard errors of 2,000 draws
    with pytest.raises(ValueError, match="not there in training"):
        classifier.log_likelihood(X[:1], ["w"])


def test_pickle_and_clone(regressor, classifier, diabetes, iris):
    again = pickle.loads(pickle.dumps(regressor))
    assert np.array_equal(again.predict(diabetes[1]), regressor.predict(diabetes[1]))
    again = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(again.predict_proba(iris[1]), classifier.predict_proba(iris[1]))
    assert clone(regressor).get_params() == regressor.get_params()


def test_pipelines_grids_and_cross_validation():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"x": generator.normal(size=90), "town": generator.choice(["a", "b"], size=90)})
    y = frame["x"] + (frame["town"] == "a") + 0.1 * generator.normal(size=90)
    columns = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    pipeline = make_pipeline(columns, BayesianRegressor(**{**QUICK, "epochs": 20}))
    assert cross_val_score(pipeline, frame, y, cv=3).min() > 0.7
    mean, std = pipeline.fit(frame, y).predict(frame, return_std=True)
    assert mean.shape == std.shape
    grid = GridSearchCV(pipeline, {"bayesianregressor__hidden": [(5,), (20, 20)]}, cv=2).fit(frame, y)
    assert grid.best_params_["bayesianregressor__hidden"] in [(5,), (20, 20)]

    quick = {**QUICK, "epochs": 20}
    scores = cross_val_score(BayesianClassifier(**quick), *load_iris(return_X_y=True), cv=3, scoring="neg_log_loss")
    assert scores.min() > -0.5


@pytest.mark.parametrize("method", ["map", credo.MAP(epochs=5)])
def test_a_prior_of_the_user_replaces_that_of_the_method(method):
    X, prior = np.random.default_rng(0).normal(size=(40, 2)), credo.priors.Laplace(scale=0.5)
    quick = {**QUICK, "epochs": 5}
    assert BayesianRegressor(method, prior=prior, **quick).fit(X, X[:, 0]).posterior_.model.prior == prior
    assert BayesianClassifier(method, prior=prior, **quick).fit(X, X[:, 0] > 0).posterior_.model.prior == prior
    given = BayesianRegressor(method, **quick).fit(X, X[:, 0]).posterior_.model.prior
    assert given == credo.priors.Normal(3.0, fan_in=True)
    with pytest.raises(TypeError, match="prior"):
        BayesianRegressor(method, prior=0.5, **quick).fit(X, X[:, 0])


def test_cross_validation_finds_a_prior_between_too_strong_and_too_weak():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(45, 6))
    y = X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=45)
    scales = [credo.priors.Normal(scale, fan_in=True) for scale in (0.01, 1.0, 100.0)]
    model = BayesianRegressor("map", hidden=(10,), noise="constant", epochs=60, learning_rate=0.02, random_state=0)
    search = GridSearchCV(model, {"prior": scales}, scoring=lambda m, *rows: m.log_likelihood(*rows), cv=3)
    assert search.fit(X, y).best_params_["prior"].scale == 1.0  # so in each of four seeds


def test_seeds_and_random_states():
    X = np.random.default_rng(0).normal(size=(40, 2))
    quick = {**QUICK, "epochs": 5}
    by_state = [
        BayesianRegressor(**{**quick, "random_state": np.random.RandomState(1)}).fit(X, X[:, 0]).predict(X)
        for _ in range(2)
    ]
    assert np.array_equal(*by_state)
    free = [BayesianRegressor(**{**quick, "random_state": None}).fit(X, X[:, 0]).predict(X) for _ in range(2)]
    assert not np.array_equal(*free)


def test_what_is_refused():
    X, y = np.zeros((10, 2)), np.arange(10.0)
    with pytest.raises(NotFittedError):
        BayesianRegressor().predict(X)
    with pytest.raises(ValueError, match="method must be one of ensemble, map, dropout, vi"):
        BayesianRegressor("forest").fit(X, y)
    with pytest.raises(ValueError, match="noise must be auto, constant, varying or one of normal"):
        BayesianRegressor(noise="pink").fit(X, y)
    with pytest.raises(ValueError, match="members must be a whole number of at least 1"):
        BayesianRegressor(members=0).fit(X, y)
    with pytest.raises(ValueError, match="activation must be one of"):
        BayesianRegressor(activation="step").fit(X, y)
    with pytest.raises(ValueError, match="one class only"):
        BayesianClassifier().fit(X, np.ones(10))
    with pytest.raises(ValueError, match="contains NaN"):
        BayesianRegressor().fit(np.full((10, 2), np.nan), y)
    with pytest.raises(ValueError, match="2 features"):
        BayesianRegressor(**QUICK).fit(X, y).predict(np.zeros((1, 3)))


def test_a_constant_target_is_predicted():
    mean, std = (
        BayesianRegressor(**QUICK)
        .fit(np.random.default_rng(0).normal(size=(40, 2)), np.full(40, 7.0))
        .predict(np.zeros((3, 2)), return_std=True)
    )
    assert np.abs(mean - 7.0).max() < 0.5
    assert std.max() < 1.0
