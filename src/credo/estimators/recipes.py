"""Methods by name, with numbers that suit a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from credo.core.checks import check_at_least, check_options
from credo.core.optimizers import Constant, Cosine
from credo.likelihoods import Likelihood
from credo.methods import MAP, BayesByBackprop, Ensemble, MCDropout, Method
from credo.model import Model
from credo.nets import MLP
from credo.priors import Normal, Prior

STEPS = 20_000
"""Steps after which training ends in any case, when the user does not limit the epochs."""
DROPOUT_RATE = 0.1
POINT_PRIOR = Normal(3.0, fan_in=True)
"""Prior of methods that look for the best weights. The most probable weights under a narrow prior are nearly zero where
there are fewer rows than weights; a wide one only keeps weights from running away, and held-out rows do the rest."""
CHOOSERS = 5
"""Networks that choose the number of epochs for a method that trains one network."""


@dataclass(frozen=True)
class Numbers:
    """What a recipe takes from the user.

    Attributes:
        epochs: at most so many passes over the data; None for as many as `STEPS` steps make.
        learning_rate: step size of the optimiser.
        batch_size: examples per step; None chooses by the number of rows.
        members: of an ensemble.
    """

    epochs: int | None = None
    learning_rate: float = 3e-3
    batch_size: int | None = None
    members: int = 5

    def __post_init__(self) -> None:
        check_options(self)
        check_at_least("members", self.members, 1)
        if self.epochs is not None:
            check_at_least("epochs", self.epochs, 1)
        if self.batch_size is not None:
            check_at_least("batch_size", self.batch_size, 1)

    def batch(self, rows: int) -> int:
        """Examples per step for a table of so many rows."""
        if self.batch_size is not None:
            return min(self.batch_size, rows)
        return min(64 if rows < 5_000 else 128 if rows < 50_000 else 256, rows)

    def limit(self, rows: int) -> int:
        """The largest number of epochs for a table of so many rows."""
        if self.epochs is not None:
            return self.epochs
        return min(max(STEPS // -(-rows // self.batch(rows)), 10), 1000)


@dataclass(frozen=True)
class Recipe(ABC):
    """A named method.

    Attributes:
        numbers: of the user.
    """

    numbers: Numbers

    @property
    def lanes(self) -> int:
        """Networks that are trained side by side while held-out rows choose the number of epochs."""
        return CHOOSERS

    @property
    def watched(self) -> bool:
        """Whether held-out rows choose the number of epochs."""
        return True

    @property
    def keeps_lanes(self) -> bool:
        """Whether the networks that chose are the result; else one more is trained, on all rows."""
        return False

    @property
    def dropout(self) -> float:
        """Of the network."""
        return 0.0

    @property
    def prior(self) -> Prior:
        """Of the weights."""
        return POINT_PRIOR

    @abstractmethod
    def method(self, epochs: int, rows: int, *, cooling: bool = False) -> Method:
        """One network's method, for so many epochs; when cooling, with a learning rate that falls to zero."""


@dataclass(frozen=True)
class EnsembleRecipe(Recipe):
    """A deep ensemble in which each member holds out its own part of the rows."""

    @property
    def lanes(self) -> int:
        return self.numbers.members if self.numbers.members > 1 else CHOOSERS

    @property
    def keeps_lanes(self) -> bool:
        return self.numbers.members > 1

    def method(self, epochs: int, rows: int, *, cooling: bool = False) -> Method:
        schedule = Cosine() if cooling else Constant()
        return MAP(epochs, self.numbers.learning_rate, self.numbers.batch(rows), schedule=schedule)


@dataclass(frozen=True)
class MAPRecipe(Recipe):
    """One network, the most probable weights."""

    def method(self, epochs: int, rows: int, *, cooling: bool = False) -> Method:
        schedule = Cosine() if cooling else Constant()
        return MAP(epochs, self.numbers.learning_rate, self.numbers.batch(rows), schedule=schedule)


@dataclass(frozen=True)
class DropoutRecipe(Recipe):
    """One network with dropout left on."""

    @property
    def dropout(self) -> float:
        return DROPOUT_RATE

    def method(self, epochs: int, rows: int, *, cooling: bool = False) -> Method:
        schedule = Cosine() if cooling else Constant()
        return MCDropout(epochs, self.numbers.learning_rate, self.numbers.batch(rows), schedule=schedule)


@dataclass(frozen=True)
class VariationalRecipe(Recipe):
    """A distribution over the weights of one network; its prior guards against overfitting."""

    @property
    def prior(self) -> Prior:
        return Normal(1.0, fan_in=True)

    @property
    def watched(self) -> bool:
        return False

    def method(self, epochs: int, rows: int, *, cooling: bool = False) -> Method:
        rate, batch = self.numbers.learning_rate, self.numbers.batch(rows)
        return BayesByBackprop(epochs, rate, batch, estimator="local", schedule=Cosine())


RECIPES: dict[str, type[Recipe]] = {
    "ensemble": EnsembleRecipe,
    "map": MAPRecipe,
    "dropout": DropoutRecipe,
    "vi": VariationalRecipe,
}


def recipe_of(method: str | Method, numbers: Numbers) -> Recipe | Method:
    """The recipe of that name; a method that is one already stays as it is."""
    if isinstance(method, Method):
        return method
    if method not in RECIPES:
        raise ValueError(f"method must be one of {', '.join(RECIPES)}, or a credo method, got {method!r}")
    return RECIPES[method](numbers)


def table_model(
    inputs: int, outputs: int, likelihood: Likelihood, how: Recipe | Method, hidden: Sequence[int], activation: str
) -> Model:
    """A multilayer perceptron as the recipe needs it; a method of the user gets credo's own prior."""
    if isinstance(how, Recipe):
        return Model(MLP(inputs, outputs, tuple(hidden), activation, how.dropout), likelihood, how.prior)
    return Model(MLP(inputs, outputs, tuple(hidden), activation), likelihood)


def members_of(how: Method, members: int) -> Method:
    """`members` runs of a method side by side."""
    return how if members == 1 else Ensemble(how, members)
