"""A normal distribution around the path of gradient ascent: the worked example of CONTRIBUTING."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_rate
from credo.core.optimizers import SGD, Optimizer
from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.methods.ascent import GradientAscent
from credo.methods.base import Info, Tick
from credo.model import Batch, Target
from credo.posteriors import DiagonalGaussian


@dataclass(frozen=True)
class MomentsState:
    """Weights and something more.

    Attributes:
        variables: weights, (M, *shape) each.
        memory: the optimizer's.
        count: iterates that have been averaged, (M,).
        mean: of these iterates, (M, *shape) each.
        squares: sum of their squared distances from the mean, (M, *shape) each.
    """

    variables: Variables
    memory: list[Tensor]
    count: Tensor
    mean: Params
    squares: Params


@dataclass(frozen=True)
class RunningMoments(GradientAscent):
    """SWAG with a diagonal covariance: the mean and the variance of the iterates of stochastic gradient ascent.

    mean = 1/T sum_t w_t,   scale^2 = 1/T sum_t (w_t - mean)^2

    A constant learning rate keeps the weights moving around a maximum of the posterior, wider where it is flat.

    Args:
        burn_in: part of the run before the first iterate that counts.

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 64)[:, None]
        >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x, x.sin()), RunningMoments(epochs=20, batch_size=16))
        >>> posterior.predict(x).epistemic.shape
        torch.Size([64, 1])

    Reference: W. Maddox et al., "A simple baseline for Bayesian uncertainty in deep learning", 2019,
        https://arxiv.org/abs/1902.02476
    """

    learning_rate: float = 0.01
    optimizer: Optimizer = SGD()
    burn_in: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rate("burn_in", self.burn_in)

    def init(self, target: Target, variables: Variables, rng: Stream) -> MomentsState:
        params = variables.params
        count = next(iter(params.values())).new_zeros(variables.members)
        zeros = [{name: torch.zeros_like(w) for name, w in params.items()} for _ in range(2)]
        return MomentsState(variables, self.optimizer.init(params), count, *zeros)

    def step(self, target: Target, state: MomentsState, batch: Batch, tick: Tick) -> tuple[MomentsState, Info]:
        params = {name: w.detach().requires_grad_() for name, w in state.variables.params.items()}
        log_joint = target.log_joint(Variables(params, state.variables.buffers), batch)
        # divided by the number of data, so that a learning rate means the same for any N
        gradients = torch.autograd.grad(-log_joint.sum() / target.size, list(params.values()))
        rate = tick.scheduled(lambda now: self.learning_rate * self.schedule.factor(now.fraction))
        with torch.no_grad():
            self.optimizer.update(state.variables.params, list(gradients), state.memory, rate)
            self._count(state, tick)
        return state, {"log_joint": log_joint.detach() / target.size}

    def _count(self, state: MomentsState, tick: Tick) -> None:
        """Welford's update, in place; before the end of burn-in its weight is 0."""
        weight = tick.scheduled(lambda now: float(now.fraction >= self.burn_in))
        state.count.add_(weight)
        share = weight / state.count.clamp(min=1.0)  # (M,)
        for name, w in state.variables.params.items():
            away = w - state.mean[name]
            state.mean[name].add_(share.view(-1, *[1] * (w.ndim - 1)) * away)
            state.squares[name].add_(weight * away * (w - state.mean[name]))

    def current(self, state: MomentsState) -> Variables:
        return state.variables

    def posterior(self, target: Target, state: MomentsState) -> DiagonalGaussian:
        def scale(squares: Tensor) -> Tensor:
            return (squares / state.count.clamp(min=1.0).view(-1, *[1] * (squares.ndim - 1))).sqrt()

        mean = Variables(state.mean, state.variables.buffers)
        return DiagonalGaussian(target.model, mean, {name: scale(q) for name, q in state.squares.items()})
