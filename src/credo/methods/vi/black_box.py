"""Black-box variational inference: the same factorized normal, fitted without differentiating the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from credo.core.inputs import Inputs
from credo.core.rng import Stream
from credo.core.trees import ParameterInfo, Params, Variables, ravel, unravel
from credo.methods.base import Info, Tick
from credo.methods.vi.mean_field import MeanField, MeanFieldNormal
from credo.methods.vi.score import LogJoint, NormalFamily, score_gradient, signal
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
        learning_rate: step size of the optimizer.
        batch_size: examples per step; None for all of them.
        samples: draws per step; at least 2 for the control variate.
        initial_scale: standard deviation of every weight before the first step.
        optimizer: the update rule.
        schedule: how the learning rate changes in the course of the run.
        initial_mean: None keeps the network's own initial weights, or those that `fit(start=...)` gives.
        initial_rho: instead of `initial_scale`, for a range of initial values.
        bayesian: must be "*": a point has no density whose score there is.
        rao_blackwell: each weight's signal holds the likelihood and its own prior and density, not those of others.
        control_variate: subtract the best multiple of the score, estimated from the other draws; with samples=1 there
            are none, so it is left out, and a note says so.
        baseline_decay: of the running average of the likelihood that is subtracted from it; 0 for none.

    Reference: R. Ranganath, S. Gerrish, D. Blei, "Black box variational inference", 2014,
        https://arxiv.org/abs/1401.0118
    """

    graph_safe: ClassVar[bool] = True

    samples: int = 32
    rao_blackwell: bool = True
    control_variate: bool = True
    baseline_decay: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bayesian != "*":
            raise ValueError(f"bayesian must be '*': a point has no score, got {self.bayesian!r}")
        if not 0.0 <= self.baseline_decay < 1.0:
            raise ValueError(f"baseline_decay must lie between 0 and 1 (1 excluded), got {self.baseline_decay}")

    @property
    def needs_gradient(self) -> bool:
        return False

    def prepare(self, model: Model, x: Inputs) -> tuple[Model, tuple[str, ...]]:
        model, notes = super().prepare(model, x)
        if not self.control_variate or self.samples > 1:
            return model, notes
        return model, (
            *notes,
            "no control variate: it is estimated from the other draws of a step, and samples=1 leaves none, so the "
            "gradient has more variance; give samples=2 or more, or control_variate=False",
        )

    def memory(self, variables: Variables) -> Params:
        first = next(iter(variables.params.values()))
        return {BASELINE: first.new_zeros(variables.members)}

    def _started(self, tick: Tick) -> float:
        """What makes up for a running average that began at zero."""
        return 1.0 / (1.0 - self.baseline_decay**tick.step) if tick.step else 1.0

    def objective(
        self, target: Target, q: MeanFieldNormal, batch: Batch, tick: Tick, memory: Params
    ) -> tuple[Tensor, Info, Params]:
        family, params = NormalFamily(), {"mean": ravel(q.mean), "rho": ravel(q.rho)}  # (M, P)
        with torch.no_grad():
            z = family.sample(params, self.samples, tick.rng.child("weights"))  # (S, M, P)
            log_q = family.log_prob(params, z)
            values = _values(target, q, z, batch, tick.rng.child("network"))
            log_joint = values.tempered(target)
            f = signal(log_joint, log_q, rao_blackwell=self.rao_blackwell, axes=1)
            baseline = memory[BASELINE]
            expected = (baseline * tick.scheduled(self._started)).unsqueeze(1)
            estimate = score_gradient(family.scores(params, z), f, expected, control_variate=self.control_variate)
            kl = log_q.sum(2) - values.log_prior
        # whose gradient the estimate is
        surrogate = (params["mean"] * estimate["mean"] + params["rho"] * estimate["rho"]).sum(1)
        info = {"log_likelihood": values.log_likelihood.mean(0) / target.size, "kl": kl.mean(0) / target.size}
        latest = log_joint.shared.mean(0).to(baseline.dtype)
        return surrogate, info, {BASELINE: torch.lerp(latest, baseline, self.baseline_decay)}


@dataclass(frozen=True)
class DrawValues:
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


def _values(target: Target, q: MeanFieldNormal, z: Tensor, batch: Batch, rng: Stream) -> DrawValues:
    draws, members = z.shape[:2]
    layout = {name: ParameterInfo(tuple(w.shape[1:]), 1) for name, w in q.mean.items()}
    params = unravel(z.flatten(0, 1), layout)  # every draw of every member is a member of its own, (S M, ...)
    buffers = {name: b.repeat(draws, *([1] * (b.ndim - 1))) for name, b in q.buffers.items()}
    drawn, repeated = Variables(params, buffers), batch.take(torch.arange(members, device=batch.x.device).repeat(draws))
    target = target.with_plan(target.model.network.drawing_plan(drawn, repeated.example, draws * members))
    each = target.training_log_likelihood(drawn, repeated, rng)
    for name, b in q.buffers.items():
        b.copy_(buffers[name][:members])  # the first draw's, when batch norm has counted the batch
    by_weight = target.model.prior.log_prob_each({name: params[name] for name in target.layout}, target.layout)
    if by_weight is not None:
        by_weight = {name: by_weight.get(name, torch.zeros_like(w)) for name, w in params.items()}
    return DrawValues(
        target.data_term(each, repeated).view(draws, members),
        target.log_prior(params).view(draws, members),
        None if by_weight is None else ravel(by_weight).view_as(z),
    )
