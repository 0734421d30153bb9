"""Methods by name, with settings that suit a table."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from credo.core.checks import check_at_least, check_options
from credo.core.optimizers import Constant, Cosine
from credo.likelihoods import Likelihood
from credo.methods import MAP, BayesByBackprop, Ensemble, MCDropout, Method
from credo.model import Model
from credo.nets import MLP, ColumnScales
from credo.priors import Normal, Prior

STEPS = 10_000
"""Steps after which training ends in any case, when the user does not limit the epochs."""
HIDDEN, ACTIVATION = (128, 128), "silu"
"""The network of a table, when the user does not describe one."""
ROWS_PER_PIECE, FEWEST_PIECES, MOST_PIECES = 60, 4, 24
"""Where numbers enter in pieces, so many rows lie in each on average, within bounds."""
SMALLEST_NOISE = 1e-3
"""The smallest standard deviation of the noise, as a part of that of the target: no table is known better."""
DROPOUT_RATE = 0.1
POINT_PRIOR = Normal(3.0, fan_in=True)
"""Prior of methods that look for the best weights. The most probable weights under a narrow prior are nearly zero where
there are fewer rows than weights; a wide one only keeps weights from running away, and validation rows do the rest."""
VARIATIONAL_STEPS = 2_000
"""Steps of variational inference from the most probable weights."""
FIRST_SCALE = 0.02
"""Standard deviation of every weight before the first of them."""
COLD = 0.1
"""Temperature of variational inference. On three small tables 1 gave as good an accuracy, and error bars too wide."""
CHOOSERS = 5
"""Networks that choose the number of epochs for a method that trains one network."""


@dataclass(frozen=True)
class Settings:
    """How to train: what a recipe takes from the user.

    Attributes:
        epochs: at most so many passes over the data; None for as many as `STEPS` steps make.
        learning_rate: step size of the optimizer.
        batch_size: examples per step; None chooses by the number of rows.
        members: of an ensemble.
    """

    epochs: int | None = None
    learning_rate: float = 3e-3
    batch_size: int | None = None
    members: int = 10

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
class Refinement:
    """A method that begins at the weights of a trained network.

    Attributes:
        method: of one network.
        epochs: of it.
        temperature: of the posterior that it approximates.
        note: what it is, in a sentence.
    """

    method: Method
    epochs: int
    temperature: float
    note: str


@dataclass(frozen=True)
class Recipe(ABC):
    """A named method.

    Attributes:
        settings: the user's.
    """

    settings: Settings

    @property
    def networks(self) -> int:
        """Networks that are trained side by side while validation rows choose the number of epochs."""
        return CHOOSERS

    @property
    def early_stopping(self) -> bool:
        """Whether validation rows choose the number of epochs."""
        return True

    @property
    def keeps_networks(self) -> bool:
        """Whether the networks that chose are the result; else one more is trained, on all rows."""
        return False

    @property
    def dropout(self) -> float:
        """Dropout rate of the network."""
        return 0.0

    @property
    def prior(self) -> Prior:
        """Prior of the weights."""
        return POINT_PRIOR

    @abstractmethod
    def method(self, epochs: int, rows: int, *, cooling: bool = False) -> Method:
        """One network's method, for so many epochs; when cooling, with a learning rate that falls to zero."""

    def refinement(self, rows: int) -> Refinement | None:
        """What goes on from the network that `method` has found; None for nothing."""
        return None


def _map(settings: Settings, epochs: int, rows: int, cooling: bool) -> MAP:
    return MAP(epochs, settings.learning_rate, settings.batch(rows), schedule=Cosine() if cooling else Constant())


@dataclass(frozen=True)
class EnsembleRecipe(Recipe):
    """A deep ensemble in which each member validates on a part of the rows that it does not train on."""

    @property
    def networks(self) -> int:
        return self.settings.members if self.settings.members > 1 else CHOOSERS

    @property
    def keeps_networks(self) -> bool:
        return self.settings.members > 1

    def method(self, epochs: int, rows: int, *, cooling: bool = False) -> Method:
        return _map(self.settings, epochs, rows, cooling)


@dataclass(frozen=True)
class MAPRecipe(Recipe):
    """One network, the most probable weights."""

    def method(self, epochs: int, rows: int, *, cooling: bool = False) -> Method:
        return _map(self.settings, epochs, rows, cooling)


@dataclass(frozen=True)
class DropoutRecipe(Recipe):
    """One network with dropout left on."""

    @property
    def dropout(self) -> float:
        return DROPOUT_RATE

    def method(self, epochs: int, rows: int, *, cooling: bool = False) -> Method:
        schedule = Cosine() if cooling else Constant()
        return MCDropout(epochs, self.settings.learning_rate, self.settings.batch(rows), schedule=schedule)


@dataclass(frozen=True)
class VariationalRecipe(Recipe):
    """A distribution over the weights of one network, which begins small at the most probable weights.

    From fresh weights the divergence from the prior is larger than anything a small table says, and the distribution
    becomes the prior. Beginning where the data are predicted well, with a wide prior and little entropy (a cold
    posterior), it widens only those weights of which the table says little.
    """

    def method(self, epochs: int, rows: int, *, cooling: bool = False) -> Method:
        return _map(self.settings, epochs, rows, cooling)

    def refinement(self, rows: int) -> Refinement:
        rate, batch = self.settings.learning_rate, self.settings.batch(rows)
        epochs = min(self.settings.limit(rows), math.ceil(VARIATIONAL_STEPS / math.ceil(rows / batch)))
        method = BayesByBackprop(epochs, rate, batch, initial_scale=FIRST_SCALE, estimator="local", schedule=Cosine())
        note = (
            f"variational inference began at the most probable weights, with standard deviations of {FIRST_SCALE}; the "
            f"entropy of the weights counts {COLD:g} times (a cold posterior)"
        )
        return Refinement(method, epochs, COLD, note)


RECIPES: dict[str, type[Recipe]] = {
    "ensemble": EnsembleRecipe,
    "map": MAPRecipe,
    "dropout": DropoutRecipe,
    "vi": VariationalRecipe,
}


def recipe_of(method: str | Method, settings: Settings) -> Recipe | Method:
    """The recipe of that name; a method that is one already stays as it is."""
    if isinstance(method, Method):
        return method
    if method not in RECIPES:
        raise ValueError(f"method must be one of {', '.join(RECIPES)}, or a credo method, got {method!r}")
    return RECIPES[method](settings)


@dataclass(frozen=True)
class TableNet:
    """The network of a table.

    Attributes:
        outputs: E, number of outputs.
        hidden: width of each hidden layer.
        activation: relu, tanh, sigmoid, gelu, silu or softplus.
        in_pieces: whether numbers enter in pieces too, which are then learned like an embedding.
    """

    outputs: int
    hidden: tuple[int, ...] = HIDDEN
    activation: str = ACTIVATION
    in_pieces: bool = False

    def columns(self, x: Tensor, weights: Tensor | None = None) -> ColumnScales:
        """How standardized inputs (N, F) enter, whose rows weigh (N,)."""
        pieces = min(max(len(x) // ROWS_PER_PIECE, FEWEST_PIECES), MOST_PIECES) if self.in_pieces else 0
        each = None if weights is None else weights.double().numpy()
        return ColumnScales.of(x.double().numpy(), pieces, each)


def table_model(
    inputs: int,
    outputs: int,
    likelihood: Likelihood,
    recipe: Recipe | Method,
    hidden: Sequence[int] = HIDDEN,
    activation: str = ACTIVATION,
    prior: Prior | None = None,
    columns: ColumnScales | None = None,
) -> Model:
    """A multilayer perceptron as the recipe needs it.

    Without a prior it has the recipe's, and credo's default for a method of the user.
    """
    dropout = recipe.dropout if isinstance(recipe, Recipe) else 0.0
    net = MLP(inputs, outputs, tuple(hidden), activation, dropout, columns)
    if prior is None and isinstance(recipe, Recipe):
        prior = recipe.prior
    return Model(net, likelihood, prior)


def members_of(method: Method, members: int) -> Method:
    """`members` runs of a method side by side."""
    return method if members == 1 else Ensemble(method, members)
