"""Problems of which everything is known: a linear regression, and a classifier, that overfit on purpose."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.likelihoods import Categorical, Gaussian
from credo.predictive import NumericPredictive, Predictive, predictive

FEATURES = 20


def mixture_of(likelihood: object, draws: Tensor) -> Predictive:
    """An equal mixture of draws (S, B, E)."""
    return predictive(likelihood, draws, {}, torch.zeros(len(draws), dtype=draws.dtype))  # type: ignore[arg-type]


@dataclass
class Regression:
    """Least squares with 20 features on 60 rows, whose residuals there are too small for its stated noise."""

    stream: Stream

    def __post_init__(self) -> None:
        self.truth = self.stream.child("truth").normal(FEATURES, 1, dtype=torch.float64)
        self.train = self.rows(60, "train")
        self.weights = torch.linalg.lstsq(*self.train).solution
        self.scale = float((self.train[1] - self.train[0] @ self.weights).square().mean().sqrt())

    def rows(self, count: int, name: str) -> tuple[Tensor, Tensor]:
        x = self.stream.child(name, "x").normal(count, FEATURES, dtype=torch.float64)
        noise = self.stream.child(name, "noise").normal(3, count, 1, dtype=torch.float64)
        return x, x @ self.truth + noise[0] * (1.0 + noise[1].square() * noise[2].abs())  # heavy tails

    def predict(self, x: Tensor) -> NumericPredictive:
        found = mixture_of(Gaussian(scale=self.scale), (x @ self.weights).unsqueeze(0))
        assert isinstance(found, NumericPredictive)
        return found


@dataclass
class Classes:
    """Least squares for four classes with 20 features on 60 rows; its scores as logits."""

    stream: Stream

    def __post_init__(self) -> None:
        self.truth = self.stream.child("truth").normal(FEATURES, 4, dtype=torch.float64)
        self.train = self.rows(60, "train")
        one_hot = torch.nn.functional.one_hot(self.train[1], 4).double()
        self.weights = torch.linalg.lstsq(self.train[0], one_hot).solution

    def rows(self, count: int, name: str) -> tuple[Tensor, Tensor]:
        x = self.stream.child(name, "x").normal(count, FEATURES, dtype=torch.float64)
        probs = (0.4 * x @ self.truth).softmax(-1)
        return x, torch.multinomial(probs, 1, generator=self.stream.child(name, "y").generator()).squeeze(1)

    def predict(self, x: Tensor) -> Predictive:
        return mixture_of(Categorical(), (8.0 * x @ self.weights).unsqueeze(0))
