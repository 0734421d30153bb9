"""The methods that credo is compared with, each with the defaults of its package and one thread.

A method takes a `Split` of a table and gives a function that fits, whose result predicts: only fitting is timed. What
a package leaves open is decided here, once, and said on the page: how columns become numbers, and the kernel of the
Gaussian process, for which there is no default that learns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from credo.data import Task
from table_scores import LEVELS, Answer, ClassAnswer, Floats, NumberAnswer


@dataclass(frozen=True, eq=False)
class Split:
    """A table with the rows to learn from and those to predict.

    Attributes:
        frame: all rows.
        target: the column to predict.
        task: what is predicted.
        train: numbers of the rows to learn from.
        test: numbers of the others.
        seed: for the method.
    """

    frame: pd.DataFrame
    target: str
    task: Task
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    seed: int

    @property
    def classes(self) -> tuple[str, ...]:
        """Names in alphabetical order."""
        return tuple(sorted(self.frame[self.target].astype(str).unique()))

    @property
    def y(self) -> NDArray[Any]:
        """Of all rows: numbers, or class numbers."""
        if self.task is Task.REGRESSION:
            return self.frame[self.target].to_numpy(np.float64)
        return np.searchsorted(np.array(self.classes), self.frame[self.target].astype(str).to_numpy(dtype=str))

    @property
    def inputs(self) -> pd.DataFrame:
        """All columns but the target; categories are words, and a missing one is a category of its own."""
        inputs = self.frame.drop(columns=self.target)
        words = {name: inputs[name].astype(object).fillna("missing").astype(str).astype(object) for name in self.words}
        return inputs.assign(**words)

    @property
    def words(self) -> list[str]:
        """Columns that hold categories."""
        inputs = self.frame.drop(columns=self.target)
        return [name for name in inputs if not pd.api.types.is_numeric_dtype(inputs[name])]

    @property
    def numbers(self) -> list[str]:
        """Columns that hold numbers."""
        return [name for name in self.frame if name != self.target and name not in self.words]


Predict = Callable[[], Answer]
Peer = Callable[[Split], Predict]


def _halves(split: Split, inputs: Any) -> tuple[Any, Any]:
    if isinstance(inputs, pd.DataFrame):
        return inputs.iloc[split.train], inputs.iloc[split.test]
    return inputs[split.train], inputs[split.test]


def _codes(split: Split) -> tuple[Floats, Floats]:
    """Categories as whole numbers, missing numbers as the median: for trees that know neither."""
    coder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    prepare = make_column_transformer((coder, split.words), (SimpleImputer(strategy="median"), split.numbers))
    train, test = _halves(split, split.inputs)
    return prepare.fit_transform(train), prepare.transform(test)


def _standardized(split: Split) -> tuple[Floats, Floats]:
    """Categories as zeros and ones, missing numbers as the median, numbers standardized."""
    hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    scale = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    prepare = make_column_transformer((hot, split.words), (scale, split.numbers))
    train, test = _halves(split, split.inputs)
    return prepare.fit_transform(train), prepare.transform(test)


def _categories(split: Split) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Categories as pandas' own, of the training rows."""
    train, test = _halves(split, split.inputs)
    kinds = {name: pd.CategoricalDtype(sorted(train[name].unique())) for name in split.words}
    return train.astype(kinds), test.astype(kinds)


def _normal(split: Split, mean: Floats, scale: Floats) -> NumberAnswer:
    density = norm.logpdf(split.y[split.test], mean, scale)
    return NumberAnswer(mean, norm.ppf(LEVELS, mean[:, None], scale[:, None]), float(density.mean()))


def _catboost_options(split: Split) -> dict[str, Any]:
    return {"thread_count": 1, "random_seed": split.seed, "verbose": False, "allow_writing_files": False}


def catboost(split: Split) -> Predict:
    """CatBoost; for numbers with the loss that learns a mean and a variance."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    train, test = _halves(split, split.inputs)
    if split.task is Task.CLASSIFICATION:
        classifier = CatBoostClassifier(**_catboost_options(split)).fit(train, split.y[split.train], split.words)
        return lambda: ClassAnswer(classifier.predict_proba(test))
    model = CatBoostRegressor(loss_function="RMSEWithUncertainty", **_catboost_options(split))
    model.fit(train, split.y[split.train], split.words)

    def predict() -> NumberAnswer:
        mean, variance = model.predict(test).T
        return _normal(split, mean, np.sqrt(variance))

    return predict


def mapie_catboost(split: Split) -> Predict:
    """CatBoost's least squares in five folds, with MAPIE's cross-conformal intervals (CV+); the mean is the folds'."""
    from catboost import CatBoostRegressor
    from mapie.regression import CrossConformalRegressor

    train, test = _halves(split, split.inputs)
    inside = [1 - 2 * level for level in LEVELS[:10]]
    model = CrossConformalRegressor(
        CatBoostRegressor(**_catboost_options(split)), confidence_level=inside, cv=5, random_state=split.seed
    )
    model.fit_conformalize(train, split.y[split.train], fit_params={"cat_features": split.words})

    def predict() -> NumberAnswer:
        mean, ends = model.predict_interval(test)
        return NumberAnswer(mean, np.concatenate([ends[:, 0], ends[:, 1, ::-1]], axis=1), None)

    return predict


def ngboost(split: Split) -> Predict:
    """NGBoost with a normal distribution, or probabilities."""
    from ngboost import NGBClassifier, NGBRegressor
    from ngboost.distns import k_categorical

    train, test = _codes(split)
    if split.task is Task.CLASSIFICATION:
        distribution = k_categorical(len(split.classes))
        classifier = NGBClassifier(Dist=distribution, verbose=False, random_state=split.seed)
        classifier.fit(train, split.y[split.train])
        return lambda: ClassAnswer(classifier.predict_proba(test))
    model = NGBRegressor(verbose=False, random_state=split.seed).fit(train, split.y[split.train])

    def predict() -> NumberAnswer:
        found = model.pred_dist(test)
        return _normal(split, found.loc, found.scale)

    return predict


def quantile_forest(split: Split) -> Predict:
    """A forest that keeps the targets in its leaves, and gives their quantiles."""
    from quantile_forest import RandomForestQuantileRegressor

    train, test = _codes(split)
    model = RandomForestQuantileRegressor(n_jobs=1, random_state=split.seed).fit(train, split.y[split.train])

    def predict() -> NumberAnswer:
        return NumberAnswer(model.predict(test, quantiles="mean"), model.predict(test, quantiles=list(LEVELS)), None)

    return predict


def hgb(split: Split) -> Predict:
    """scikit-learn's boosted trees on histograms: one for the mean, one for each quantile."""
    train, test = _categories(split)
    y = split.y[split.train]
    if split.task is Task.CLASSIFICATION:
        classifier = HistGradientBoostingClassifier(random_state=split.seed).fit(train, y)
        return lambda: ClassAnswer(classifier.predict_proba(test))
    mean = HistGradientBoostingRegressor(random_state=split.seed).fit(train, y)
    each = [
        HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=split.seed).fit(train, y)
        for level in LEVELS
    ]
    return lambda: NumberAnswer(mean.predict(test), np.stack([one.predict(test) for one in each], axis=1), None)


GP_ROWS = {Task.REGRESSION: 2_000, Task.CLASSIFICATION: 500}
"""Training rows up to which the Gaussian process is asked: its time grows with their cube, for each class anew."""


def gaussian_process(split: Split) -> Predict:
    """A Gaussian process with a squared exponential kernel and noise, whose parameters its evidence chooses."""
    train, test = _standardized(split)
    smooth = ConstantKernel() * RBF(np.sqrt(train.shape[1]), (1e-2, 1e4))
    y = split.y[split.train]
    if split.task is Task.CLASSIFICATION:
        classifier = GaussianProcessClassifier(smooth, random_state=split.seed).fit(train, y)
        return lambda: ClassAnswer(classifier.predict_proba(test))
    kernel = smooth + WhiteKernel(1.0, (1e-8, 1e2))
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=split.seed).fit(train, y)
    return lambda: _normal(split, *model.predict(test, return_std=True))


def logistic(split: Split) -> Predict:
    """Logistic regression: what any classifier should beat."""
    train, test = _standardized(split)
    model = LogisticRegression(max_iter=1000).fit(train, split.y[split.train])
    return lambda: ClassAnswer(model.predict_proba(test))


@dataclass(frozen=True)
class Entry:
    """A method of the benchmark.

    Attributes:
        title: as the page names it.
        package: that it needs, by its name at pip.
        tasks: that it knows.
        fit: fits to a split.
    """

    title: str
    package: str
    tasks: tuple[Task, ...]
    fit: Peer


_BOTH = (Task.REGRESSION, Task.CLASSIFICATION)
PEERS = {
    "hgb": Entry("HGB", "scikit-learn", _BOTH, hgb),
    "gp": Entry("Gaussian process", "scikit-learn", _BOTH, gaussian_process),
    "logistic": Entry("logistic regression", "scikit-learn", (Task.CLASSIFICATION,), logistic),
    "catboost": Entry("CatBoost", "catboost", _BOTH, catboost),
    "quantile-forest": Entry("quantile forest", "quantile-forest", (Task.REGRESSION,), quantile_forest),
    "ngboost": Entry("NGBoost", "ngboost", _BOTH, ngboost),
    "mapie-catboost": Entry("MAPIE + CatBoost", "mapie", (Task.REGRESSION,), mapie_catboost),
}
"""By name, the fastest first."""
