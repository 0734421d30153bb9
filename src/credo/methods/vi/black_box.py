"""Black-box variational inference: the same factorised normal, fitted without differentiating the network."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params, Variables, ravel
from credo.methods.base import Tick
from credo.methods.vi.families import NormalFamily
from credo.methods.vi.mean_field import Gradient, MeanField, VariationalState
from credo.methods.vi.rows import Row
from credo.methods.vi.score import LogJoint, score_gradient, signal
from credo.model import Batch, Model, Target

BASELINE = "baseline"


@dataclass(frozen=True)
class BlackBoxVI(MeanField):
    """Mean-field variational inference by the score function.

    grad bound = E_q[ (log p(data, w) - log q(w)) grad log q(w) ]

    Only values of the likelihood are used, so the network may have steps, rounding or anything else without a
    derivative. Where it is differentiable, `BayesByBackprop` has a gradient of far lower variance. For other families
    of q, and for log joints that are no network's, see `credo.methods.vi.score`.

    Args:
        epochs: passes over the data.
        learning_rate: step size of the optimiser.
        batch_size: examples per step; None for all of them.
        samples: draws per step; at least 2 for the control variate.
        initial_scale: standard deviation of every weight before the first step.
        optimizer: the update rule.
        schedule: how the learning rate changes in the course of the run.
        initial_mean: None keeps the network's own first weights, or those that `fit(start=...)` gives.
        initial_rho: instead of `initial_scale`, for a range of first values.
        bayesian: must be "*": a point has no density whose score there is.
        rao_blackwell: each weight's signal holds the likelihood and its own prior and density, not those of others.
        control_variate: subtract the best multiple of the score, estimated from the other draws; with samples=1 there
            are none, so it is left out, and a note says so.
        baseline_decay: of the running average of the likelihood that is subtracted from it; 0 for none.

    Reference: R. Ranganath, S. Gerrish, D. Blei, "Black box variational inference", 2014,
        https://arxiv.org/abs/1401.0118
    """

    samples: int = 32
    rao_blackwell: bool = True
    control_variate: bool = True
    baseline_decay: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bayesian != "*":
            raise ValueError(f"bayesian must be '*': a point has no score to follow, got {self.bayesian!r}")
        if not 0.0 <= self.baseline_decay < 1.0:
            raise ValueError(f"baseline_decay must lie between 0 and 1 (1 excluded), got {self.baseline_decay}")

    @property
    def follows_slopes(self) -> bool:
        return False

    def prepare(self, model: Model, x: Tensor) -> tuple[Model, tuple[str, ...]]:
        model, told = super().prepare(model, x)
        if not self.control_variate or self.samples > 1:
            return model, told
        return model, (
            *told,
            "no control variate: it is estimated from the other draws of a step, and samples=1 leaves none, so the "
            "gradient has more variance; give samples=2 or more, or control_variate=False",
        )

    def memory(self, variables: Variables) -> Params:
        first = next(iter(variables.params.values()))
        return {BASELINE: first.new_zeros(variables.members)}

    def _started(self, tick: Tick) -> float:
        """What makes up for a running average that began at zero."""
        return 1.0 / (1.0 - self.baseline_decay**tick.step) if tick.step else 1.0

    @torch.no_grad()
    def gradient(self, target: Target, state: VariationalState, batch: Batch, tick: Tick) -> Gradient:
        family, params = NormalFamily(), {"mean": ravel(state.mean.params), "rho": ravel(state.rho)}  # (M, P)
        z = family.sample(params, self.samples, tick.noise.child("weights"))  # (S, M, P)
        log_q = family.log_prob(params, z)
        values = _values(target, state, z, batch, tick.noise.child("network"))
        log_joint = values.tempered(target)
        f = signal(log_joint, log_q, rao_blackwell=self.rao_blackwell, axes=1)
        baseline = state.memory[BASELINE]
        expected = baseline * tick.value(self._started)
        scores = family.scores(params, z)
        estimate = score_gradient(scores, f, expected.unsqueeze(1), control_variate=self.control_variate)
        kl = log_q.sum(2) - values.log_prior
        return Gradient(
            Row.of(_split(-estimate["mean"] / target.size, state.mean.params)),
            Row.of(_split(-estimate["rho"] / target.size, state.rho)),
            {"log_likelihood": values.log_likelihood.mean(0) / target.size, "kl": kl.mean(0) / target.size},
            {BASELINE: torch.lerp(log_joint.shared.mean(0), baseline, self.baseline_decay)},
        )


@dataclass(frozen=True)
class _Values:
    """Of S draws of every member.

    Attributes:
        log_likelihood: on the scale of the full data, (S, M).
        log_prior: of all parameters, (S, M).
        each: log prior of every weight on its own, (S, M, P), zero for parameters of the likelihood; None if the
            prior has no such factors.
    """

    log_likelihood: Tensor
    log_prior: Tensor
    each: Tensor | None

    def tempered(self, target: Target) -> LogJoint:
        """log p(data, w)^(1/T), with the factors of the prior on their own where it has them."""
        whole = self.log_likelihood + self.log_prior
        if self.each is None:
            return LogJoint(target.temper(whole))
        return LogJoint(target.temper(whole - self.each.sum(2)), target.temper(self.each))


def _values(target: Target, state: VariationalState, z: Tensor, batch: Batch, noise: Stream) -> _Values:
    draws, members = z.shape[:2]
    params = _split(z.flatten(0, 1), state.mean.params)  # draws and members are lanes alike, (S M, ...)
    buffers = {name: b.repeat(draws, *([1] * (b.ndim - 1))) for name, b in state.mean.buffers.items()}
    lanes, repeated = Variables(params, buffers), _repeated(batch, draws)
    x = repeated.x[0] if repeated.own else repeated.x
    target = target.with_plan(target.model.network.drawing_plan(lanes, x, draws * members))
    each = target.training_log_likelihood(lanes, repeated, noise)
    for name, b in state.mean.buffers.items():
        b.copy_(buffers[name][:members])  # the first draw's, when batch norm has counted the batch
    by_weight = target.model.prior.log_prob_each({name: params[name] for name in target.layout}, target.layout)
    if by_weight is not None:
        by_weight = {name: by_weight.get(name, torch.zeros_like(w)) for name, w in params.items()}
    return _Values(
        target.full(each).view(draws, members),
        target.log_prior(params).view(draws, members),
        None if by_weight is None else ravel(by_weight).view_as(z),
    )


def _repeated(batch: Batch, draws: int) -> Batch:
    """The batch for every lane: members that have examples of their own keep them in each draw."""
    if not batch.own:
        return batch
    x, y = (t.repeat(draws, *([1] * (t.ndim - 1))) for t in (batch.x, batch.y))
    return Batch(x, y, own=True)


def _split(flat: Tensor, like: Params) -> Params:
    """(L, P) cut into the shapes of a tree, with L in the place of its members."""
    parts = torch.split(flat, [w[0].numel() for w in like.values()], dim=1)
    return {name: part.reshape(len(flat), *w.shape[1:]) for (name, w), part in zip(like.items(), parts, strict=True)}
