"""Point estimates: maximum likelihood and maximum a posteriori."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.methods.ascent import GradientAscent, Group, leaves_of
from credo.methods.base import Info, Tick
from credo.model import Batch, Target
from credo.posteriors import Draws, Posterior


@dataclass(frozen=True)
class PointState:
    """Weights and the optimizer's memory, (M, *shape) each."""

    variables: Variables
    optimizer: list[Tensor]


@dataclass(frozen=True)
class PointMethod(GradientAscent[PointState]):
    """Gradient ascent on an objective of the weights, for all members at once."""

    @abstractmethod
    def regularizer(self, target: Target, params: Params) -> Tensor | None:
        """What is maximized beside the log likelihood, on the scale of the full data, (M,); None for nothing."""

    def init(self, target: Target, variables: Variables, rng: Stream) -> PointState:
        return PointState(variables, self.optimizer.init(variables.params))

    def step(self, target: Target, state: PointState, batch: Batch, tick: Tick) -> tuple[PointState, Info]:
        params = leaves_of(state.variables.params)
        each = target.training_log_likelihood(Variables(params, state.variables.buffers), batch, tick.rng)
        log_likelihood, log_prior = target.data_term(each, batch), self.regularizer(target, params)
        terms = [log_likelihood] if log_prior is None else [log_likelihood, log_prior]
        self.ascend(terms, [Group(params, state.optimizer, self.learning_rate)], target, tick)
        info = {"log_likelihood": log_likelihood.detach() / target.size}
        if log_prior is not None:
            info["log_prior"] = log_prior.detach() / target.size
        return state, info

    def loss(self, target: Target, metrics: Info) -> Tensor:
        parts = [metrics[name] for name in ("log_likelihood", "log_prior") if name in metrics]
        return -torch.stack(parts).sum(0)

    def current(self, state: PointState) -> Variables:
        return state.variables

    def posterior(self, target: Target, state: PointState) -> Posterior:
        return Draws(target.model, state.variables, Draws.uniform(state.variables))


@dataclass(frozen=True)
class MaximumLikelihood(PointMethod):
    """The weights under which the data are most probable.

    w* = argmax_w  sum_n log p(y_n | x_n, w)

    The prior is not used. The predictive has no epistemic part: it is a plain network.

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x, x.sin()), MaximumLikelihood(epochs=5))
        >>> float(posterior.predict(x).epistemic.max())
        0.0
    """

    graph_safe: ClassVar[bool] = True

    def regularizer(self, target: Target, params: Params) -> None:
        return None


@dataclass(frozen=True)
class MAP(PointMethod):
    """The most probable weights given the data: maximum likelihood with the prior as regularizer.

    w* = argmax_w  sum_n log p(y_n | x_n, w) + log p(w)

    A normal prior of standard deviation s is weight decay with coefficient 1 / s^2 on the summed loss. The temperature
    does not move the maximum.
    """

    graph_safe: ClassVar[bool] = True

    def regularizer(self, target: Target, params: Params) -> Tensor:
        return target.log_prior(params)
