"""What the variational methods share: a factorised normal, moved by some gradient of the bound."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.checks import check_at_least, check_options, check_positive, patterns, unmatched
from credo.core.optimizers import Adam, Constant, Optimizer, Schedule
from credo.core.rng import Stream
from credo.core.trees import Params, Variables, map_tensors
from credo.likelihoods import LearnedGaussian
from credo.methods.base import Info, Method, Tick
from credo.methods.vi.factors import uncertain_first
from credo.methods.vi.rows import Row, keep_memory
from credo.methods.vi.starts import At, Start, rho_of
from credo.model import OWN, Batch, Model, Target
from credo.posteriors import DiagonalGaussian


@dataclass(frozen=True)
class VariationalState:
    """Means of all parameters and rho of the uncertain ones, the buffers, and two memories.

    q(w) = N(mean, softplus(rho)^2)

    Attributes:
        means: expectations, those of uncertain parameters first.
        rhos: scale = softplus(rho).
        buffers: of the network, (M, *shape) each.
        optimizer: the optimiser's memory.
        memory: what a method's gradient keeps from one step to the next.
    """

    means: Row
    rhos: Row
    buffers: Params
    optimizer: list[Tensor] = field(default_factory=list)
    memory: Params = field(default_factory=dict)

    @staticmethod
    def of(mean: Variables, rho: Params, memory: Params | None = None) -> VariationalState:
        """From copies of tensors (M, *shape), before an optimiser has seen them."""
        means = Row.of(uncertain_first(mean.params, rho))
        return VariationalState(means, Row.of(rho), mean.buffers, [], memory or {})

    @property
    def mean(self) -> Variables:
        """Expectations, (M, *shape) each, and the buffers."""
        return Variables(self.means.tree(), self.buffers)

    @property
    def rho(self) -> Params:
        """Of the uncertain parameters, (M, *shape) each."""
        return self.rhos.tree()


@dataclass(frozen=True)
class Gradient:
    """Of what is minimised, the negative bound per example.

    Attributes:
        mean: with respect to the means.
        rho: with respect to rho.
        info: what to tell.
        memory: what the next gradient needs of this one.
    """

    mean: Row
    rho: Row
    info: Info
    memory: Params = field(default_factory=dict)


@dataclass(frozen=True)
class MeanField(Method):
    """max_q  E_q[ sum_n log p(y_n | x_n, w) ] - KL(q || prior),   q = prod_i N(w_i; mean_i, softplus(rho_i)^2).

    Args:
        epochs: passes over the data.
        learning_rate: step size of the optimiser.
        batch_size: examples per step; None for all of them.
        samples: draws per step.
        initial_scale: standard deviation of every weight before the first step.
        optimizer: the update rule.
        schedule: how the learning rate changes in the course of the run.
        initial_mean: None keeps the network's own first weights, or those that `fit(start=...)` gives.
        initial_rho: instead of `initial_scale`, for a range of first values.
        bayesian: patterns of the names of the parameters that get a distribution, as in file names ("*weight",
            "layers.4.*"); the others are points.
    """

    epochs: int = 100
    learning_rate: float = 1e-3
    batch_size: int | None = 128
    samples: int = 1
    initial_scale: float = 0.05
    optimizer: Optimizer = Adam()
    schedule: Schedule = Constant()
    initial_mean: Start | None = None
    initial_rho: Start | None = None
    bayesian: str | tuple[str, ...] = "*"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bayesian", patterns("bayesian", self.bayesian))
        check_options(self, initial_mean="At(0.0)", initial_rho="At(-3.0)")
        check_at_least("epochs", self.epochs, 1)
        check_at_least("samples", self.samples, 1)
        check_positive("learning_rate", self.learning_rate)
        check_positive("initial_scale", self.initial_scale)
        if self.batch_size is not None:
            check_at_least("batch_size", self.batch_size, 1)

    @abstractmethod
    def gradient(self, target: Target, state: VariationalState, batch: Batch, tick: Tick) -> Gradient:
        """One estimate, which leaves mean and rho as they are."""

    def memory(self, variables: Variables) -> Params:
        """What the gradient's memory holds before the first step."""
        return {}

    def steps(self, batches: int) -> int:
        return self.epochs * batches

    def uncertain(self, names: Collection[str]) -> list[str]:
        """Those of the names that get a distribution."""
        wished = (self.bayesian,) if isinstance(self.bayesian, str) else self.bayesian
        return [name for name in names if any(fnmatchcase(name, pattern) for pattern in wished)]

    def prepare(self, model: Model, x: Tensor) -> tuple[Model, tuple[str, ...]]:
        names = list(model.network.layout)
        uncertain = self.uncertain(names)
        idle = unmatched(self.bayesian, names)
        idle = unmatched(idle, _own(model, x)) if idle else []
        if idle or not uncertain:
            shown = idle[0] if idle else self.bayesian
            raise ValueError(
                f"bayesian has the pattern {shown!r}, which matches no parameter of the "
                f"network; its parameters are {', '.join(names)}"
            )
        points = [name for name in names if name not in uncertain]
        return model, (f"points, without a distribution: {', '.join(points)}",) if points else ()

    def init(self, target: Target, variables: Variables, noise: Stream) -> VariationalState:
        mean = variables.params
        if self.initial_mean is not None:
            weights = {name: w for name, w in mean.items() if not name.startswith(OWN)}
            mean = {**mean, **self.initial_mean.fill(weights, noise.child("mean"))}
        start = self.initial_rho or At(rho_of(self.initial_scale))
        rho = start.fill({name: mean[name] for name in self.uncertain(mean)}, noise.child("rho"))
        variables = Variables(mean, variables.buffers)
        keep_memory()
        state = VariationalState.of(variables, rho, self.memory(variables))
        return replace(state, optimizer=self.optimizer.init(_rows(state)))

    def step(self, target: Target, state: VariationalState, batch: Batch, tick: Tick) -> tuple[VariationalState, Info]:
        gradient = self.gradient(target, state, batch, tick)
        rate = tick.value(lambda now: self.learning_rate * self.schedule.factor(now.fraction))
        with torch.no_grad():
            self.optimizer.update(_rows(state), [gradient.mean.values, gradient.rho.values], state.optimizer, rate)
        return (replace(state, memory=gradient.memory) if gradient.memory else state), gradient.info

    def current(self, state: VariationalState) -> Variables:
        return state.mean

    def posterior(self, target: Target, state: VariationalState) -> DiagonalGaussian:
        mean = map_tensors(lambda _, t: t.clone(), state.mean)  # no views of a row that goes on
        return DiagonalGaussian(target.model, mean, {name: F.softplus(r) for name, r in state.rho.items()})


def _own(model: Model, x: Tensor) -> list[str]:
    """Names of the likelihood's parameters: of the one that `fit` may choose, where there is none yet."""
    likelihood = model.given_likelihood or LearnedGaussian()
    outputs = model.outputs(model.network.given().to(x.device), x)
    return [OWN + name for name in likelihood.parameters(outputs)]


def _rows(state: VariationalState) -> Params:
    return {"mean": state.means.values, "rho": state.rhos.values}
