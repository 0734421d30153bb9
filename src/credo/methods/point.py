"""Point estimates: maximum likelihood and maximum a posteriori."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.methods.ascent import GradientAscent
from credo.methods.base import Info, Tick
from credo.model import Batch, Target
from credo.posteriors import Draws, Posterior


@dataclass(frozen=True)
class PointState:
    """Weights and the optimiser's memory, (M, *shape) each."""

    variables: Variables
    optimizer: list[Tensor]


@dataclass(frozen=True)
class PointMethod(GradientAscent):
    """Gradient ascent on an objective of the weights, for all members at once."""

    @abstractmethod
    def regulariser(self, target: Target, params: Params) -> Tensor | None:
        """What is maximised beside the log likelihood, on the scale of the full data, (M,); None for nothing."""

    def init(self, target: Target, variables: Variables, noise: Stream) -> PointState:
        return PointState(variables, self.optimizer.init(variables.params))

    def step(self, target: Target, state: PointState, batch: Batch, tick: Tick) -> tuple[PointState, Info]:
        params = {name: w.detach().requires_grad_() for name, w in state.variables.params.items()}
        each = target.training_log_likelihood(Variables(params, state.variables.buffers), batch, tick.noise)
        log_likelihood, log_prior = target.full(each), self.regulariser(target, params)
        objective = log_likelihood if log_prior is None else log_likelihood + log_prior
        # divided by the number of data, so that a learning rate means the same for any N
        gradients = torch.autograd.grad(-objective.sum() / target.size, list(params.values()))
        rate = tick.value(lambda now: self.learning_rate * self.schedule.factor(now.fraction))
        with torch.no_grad():
            self.optimizer.update(state.variables.params, list(gradients), state.optimizer, rate)
        info = {"log_likelihood": log_likelihood.detach() / target.size}
        if log_prior is not None:
            info["log_prior"] = log_prior.detach() / target.size
        return state, info

    def current(self, state: PointState) -> Variables:
        return state.variables

    def posterior(self, target: Target, state: PointState) -> Posterior:
        return Draws(target.model, state.variables, Draws.uniform(state.variables))


@dataclass(frozen=True)
class MaximumLikelihood(PointMethod):
    """The weights under which the data are most probable.

    w* = argmax_w  sum_n log p(y_n | x_n, w)

    The prior is not used. The predictive has no epistemic part: it is a plain network.

    Example:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x, x.sin()), MaximumLikelihood(epochs=5))
        >>> float(posterior.predict(x).epistemic.max())
        0.0
    """

    def regulariser(self, target: Target, params: Params) -> None:
        return None


@dataclass(frozen=True)
class MAP(PointMethod):
    """The most probable weights given the data: maximum likelihood with the prior as regulariser.

    w* = argmax_w  sum_n log p(y_n | x_n, w) + log p(w)

    A normal prior of standard deviation s is weight decay with coefficient 1 / s^2 on the summed loss. The temperature
    does not move the maximum.
    """

    def regulariser(self, target: Target, params: Params) -> Tensor:
        return target.log_prior(params)
