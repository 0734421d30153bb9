"""SWAG: a normal distribution around the path of stochastic gradient ascent."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_rate
from credo.core.optimizers import SGD, Optimizer
from credo.core.record import Record
from credo.core.rng import Stream
from credo.core.trees import Params, Variables, members_of
from credo.methods.ascent import GradientAscent, Group, leaves_of
from credo.methods.base import Info, StartFrom, Tick
from credo.methods.point import PointMethod, PointState
from credo.model import Batch, Target
from credo.nets.batch_norm import NormLayer, Refreshed, norm_layers
from credo.posteriors import LowRankGaussian
from credo.posteriors.low_rank import empty_columns, fixed_noise, low_rank_draw

FEW = (
    "{} iterate(s) counted, and a spread needs two: the posterior is a point. Train for more epochs, or let iterates "
    "count more often (SWAG(every=...))"
)


@dataclass(frozen=True)
class SWAGState:
    """Weights, and the moments of those that counted.

    Attributes:
        before: of the method that comes first; empty where there is none.
        variables: weights, (M, *shape) each.
        memory: the optimizer's.
        count: iterates so far, (M,).
        mean: of these iterates, (M, *shape) each.
        squares: sum of their squared distances from the mean, (M, *shape) each.
        columns: distances of the last K iterates from the mean at their time, (M, K, *shape) each.
        statistics: of batch norm, for each of the draws, (M, S, *shape) each; with none before the last pass.
        noise: a number for each member, of which its draws are made, (M,).
    """

    before: PointState
    variables: Variables
    memory: list[Tensor]
    count: Tensor
    mean: Params
    squares: Params
    columns: Params
    statistics: Params
    noise: Tensor


def _by_after(alone: Any, afterwards: Any) -> Any:
    """What a method is by itself, and what it is after another."""
    return property(lambda method: alone if method.after is None else afterwards)


@dataclass(frozen=True)
class SWAG(GradientAscent[SWAGState]):
    """A normal distribution fitted to the path of gradient ascent at a constant learning rate.

    q(w) = N(mean, 1/2 diag(var) + 1 / (2 (K - 1)) sum_k d_k d_k^T),   d_k = w_k - mean_k

    where mean and var are the moments of the T iterates w_t, one at the end of each epoch after `burn_in`, and d_k are
    the distances of the last K of them from the running mean. The path begins at the weights that the module has, or at
    the result of `after`. For networks with batch norm its statistics are computed anew for each of `draws` draws, in
    one pass over the data at the end.

    Args:
        epochs: of this path; those of `after` come before it.
        learning_rate: constant as a rule, and large enough to keep the weights moving.
        after: the point method by which weights are found first, such as `MAP(epochs=100)`; None to begin at those of
            the module.
        burn_in: part of the path before the first iterate that counts.
        every: steps from one iterate to the next; None for an epoch.
        rank: K, the number of directions.
        draws: S, the number of draws for which statistics of batch norm are computed; others have as many as one wants.

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 64)[:, None]
        >>> method = SWAG(epochs=20, batch_size=16, after=credo.MAP(epochs=20, batch_size=16))
        >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x, x.sin()), method)
        >>> posterior.predict(x).epistemic.shape
        torch.Size([64, 1])

    Reference: W. Maddox et al., "A simple baseline for Bayesian uncertainty in deep learning", 2019,
        https://arxiv.org/abs/1902.02476
    """

    epochs: int = 40
    learning_rate: float = 0.01
    optimizer: Optimizer = SGD(momentum=0.9)
    after: PointMethod | None = None
    burn_in: float = 0.0
    every: int | None = None
    rank: int = 20
    draws: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rate("burn_in", self.burn_in)
        check_at_least("rank", self.rank, 2)
        check_at_least("draws", self.draws, 1)
        if self.every is not None:
            check_at_least("every", self.every, 1)
        elif self.epochs - math.ceil(self.burn_in * self.epochs) < 2:
            raise ValueError(
                f"epochs={self.epochs} with burn_in={self.burn_in:g} leaves less than two iterates, and a spread needs "
                "two: train for more epochs, or let iterates count more often (every=10 steps)"
            )
        if self.after is not None and self.after.batch_size != self.batch_size:
            raise ValueError(
                f"batch_size is {self.batch_size} here and {self.after.batch_size} in after={self.after!r}: the data "
                "are cut into batches once, so give both the same"
            )

    # the module's own weights, and steps of one kind, unless another method comes first
    start_from = _by_after(StartFrom.MODULE, StartFrom.FRESH)
    graph_safe = _by_after(True, False)

    def steps(self, batches: int) -> int:
        return (self.epochs + self._before) * batches

    @property
    def _before(self) -> int:
        """Epochs of the method that comes first."""
        return 0 if self.after is None else self.after.epochs

    def init(self, target: Target, variables: Variables, rng: Stream) -> SWAGState:
        params, members = variables.params, variables.members
        zeros = [{name: torch.zeros_like(w) for name, w in params.items()} for _ in range(2)]
        before = PointState(Variables({}), [])
        if self.after is not None:
            before = self.after.init(target, Variables({n: w.clone() for n, w in params.items()}), rng)
        norms = norm_layers(target.model.network.module)
        return SWAGState(
            before=before,
            variables=variables,
            memory=self.optimizer.init(params),
            count=next(iter(params.values())).new_zeros(members),
            mean=zeros[0],
            squares=zeros[1],
            columns=empty_columns(params, self.rank),
            statistics={name: variables.buffers[name].unsqueeze(1)[:, :0] for name in _statistics(norms)},
            noise=torch.randint(2**62, (members,), generator=rng.child("noise").generator()).to(variables.device),
        )

    def step(self, target: Target, state: SWAGState, batch: Batch, tick: Tick) -> tuple[SWAGState, Info]:
        first = self._before * tick.total // (self._before + self.epochs)
        if self.after is not None and tick.step < first:
            return self._first_step(self.after, target, state, batch, Tick(tick.step, first, tick.rng))
        if self.after is not None and tick.step == first:
            for name, w in state.variables.params.items():
                w.copy_(state.before.variables.params[name])
        now = replace(tick, step=tick.step - first, total=tick.total - first)
        return state, self._step(target, state, batch, now)

    @staticmethod
    def _first_step(
        after: PointMethod, target: Target, state: SWAGState, batch: Batch, tick: Tick
    ) -> tuple[SWAGState, Info]:
        """A step of the method that comes first, on weights of its own and the buffers that both share."""
        point = replace(state.before, variables=Variables(state.before.variables.params, state.variables.buffers))
        point, info = after.step(target, point, batch, tick)
        before = replace(point, variables=Variables(point.variables.params))
        return replace(state, before=before, variables=Variables(state.variables.params, point.variables.buffers)), info

    def _step(self, target: Target, state: SWAGState, batch: Batch, tick: Tick) -> Info:
        params = leaves_of(state.variables.params)
        each = target.training_log_likelihood(Variables(params, state.variables.buffers), batch, tick.rng)
        log_likelihood, log_prior = target.data_term(each, batch), target.log_prior(params)
        self.ascend([log_likelihood, log_prior], [Group(params, state.memory, self.learning_rate)], target, tick)
        with torch.no_grad():
            self._count(state, tick)
        parts = {"log_likelihood": log_likelihood, "log_prior": log_prior}
        return {name: part.detach() / target.size for name, part in parts.items()}

    def counts(self, tick: Tick) -> bool:
        """Whether the weights after this step of the path are an iterate of the moments."""
        return (tick.step + 1) % self._apart(tick) == 0 and tick.step + 1 > self.burn_in * tick.total

    def _apart(self, tick: Tick) -> int:
        """Steps from one iterate to the next."""
        return self.every or max(1, tick.total // self.epochs)

    def _slot(self, tick: Tick) -> int:
        """The column of the iterate after this step: the oldest is replaced."""
        return ((tick.step + 1) // self._apart(tick)) % self.rank

    def _count(self, state: SWAGState, tick: Tick) -> None:
        """Welford's update and one column, in place, for steps that count; for others nothing changes."""
        weight = tick.scheduled(lambda now: float(self.counts(now)))
        if isinstance(weight, float) and weight == 0.0:
            return
        slot = tick.scheduled(lambda now: float(self._slot(now)))
        index = torch.as_tensor(slot, device=state.count.device).long().reshape(1)
        state.count.add_(weight)
        share = weight / state.count.clamp(min=1.0)  # (M,)
        for name, w in state.variables.params.items():
            away = w - state.mean[name]
            state.mean[name].add_(share.view(-1, *[1] * (w.ndim - 1)) * away)
            distance = w - state.mean[name]
            state.squares[name].add_(weight * away * distance)
            column = state.columns[name].index_select(1, index)
            state.columns[name].index_copy_(1, index, column + weight * (distance.unsqueeze(1) - column))

    @torch.no_grad()
    def finish(self, target: Target, state: SWAGState, batches: Iterable[Batch], tick: Tick) -> SWAGState:
        norms = norm_layers(target.model.network.module)
        if not norms:
            return state
        mean, scale, columns = self._moments(state)
        members, device = members_of(mean), state.count.device
        weights = [mean]
        for s in range(self.draws):
            drawn = [low_rank_draw(mean, scale, columns, m, fixed_noise(state.noise[m], s)) for m in range(members)]
            weights.append({name: torch.stack([each[name] for each in drawn]).to(device) for name in mean})
        found = [Refreshed(norms, state.variables.buffers) for _ in weights]
        for number, batch in enumerate(batches):
            for s, (params, refreshed) in enumerate(zip(weights, found, strict=True)):
                rng = tick.rng.child(number, s)

                def run(buffers: Params, params: Params = params, batch: Batch = batch, rng: Stream = rng) -> Tensor:
                    return target.training_log_likelihood(Variables(params, buffers), batch, rng)

                refreshed.add(run, batch.examples)
        at_mean, *at_draws = [each.statistics() for each in found]
        statistics = {name: torch.stack([each[name] for each in at_draws], dim=1) for name in at_mean}
        variables = Variables(state.variables.params, {**state.variables.buffers, **at_mean})
        return replace(state, variables=variables, statistics=statistics)

    def loss(self, target: Target, metrics: Info) -> Tensor:
        parts = [metrics[name] for name in ("log_likelihood", "log_prior") if name in metrics]
        return -torch.stack(parts).sum(0)

    def current(self, state: SWAGState) -> Variables:
        """The weights where the path stands, or those of the method before it."""
        if self.after is not None and bool((state.count == 0).all()):
            return Variables(state.before.variables.params, state.variables.buffers)
        return state.variables

    def posterior(self, target: Target, state: SWAGState) -> LowRankGaussian:
        mean, scale, columns = self._moments(state)
        variables = Variables(mean, state.variables.buffers)
        few = int(state.count.min())
        notes = () if few > 1 else (FEW.format(few),)
        record = Record(notes=notes)
        return LowRankGaussian(target.model, variables, scale, columns, state.statistics, state.noise, record=record)

    def _moments(self, state: SWAGState) -> tuple[Params, Params, Params]:
        """Mean, scale and columns of the normal; before the first iterate the weights as they are, without a spread."""
        weights, none = self.current(state).params, state.count == 0
        kept = state.count.clamp(max=self.rank)
        spread = torch.where(kept > 1, 1.0 / (2.0 * (kept - 1.0).clamp(min=1.0)), 0.0).sqrt()

        def wide(values: Tensor, like: Tensor) -> Tensor:
            return values.view(-1, *[1] * (like.ndim - 1))

        mean = {name: torch.where(wide(none, w), weights[name], w) for name, w in state.mean.items()}
        count = state.count.clamp(min=1.0)
        scale = {name: (0.5 * q / wide(count, q)).clamp(min=0.0).sqrt() for name, q in state.squares.items()}
        columns = {name: c * wide(spread, c) for name, c in state.columns.items()}
        return mean, scale, columns


def _statistics(layers: Iterable[NormLayer]) -> list[str]:
    return [name for layer in layers for name in (layer.mean, layer.variance)]
