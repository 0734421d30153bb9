"""Predictions of several heads whose outputs are normal together."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params
from credo.likelihoods import Bernoulli, Categorical, Joint, Likelihood, Standardized
from credo.likelihoods.joint import Head
from credo.predictive.base import Predictive
from credo.predictive.gaussian import (
    JOINT,
    Approximation,
    OutputNormal,
    Probit,
    gaussian_predictive,
    has_normal_noise,
)
from credo.predictive.heads import JointPredictive
from credo.predictive.mixture import mixture

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True, eq=False, repr=False)
class GaussianJointPredictive(JointPredictive):
    """Several heads of a network whose outputs are normal, each in closed form where it has one, by draws otherwise.

    log p(y) = log N(y_n; mean_n, C_nn + noise) + log E[prod_h p(y_h | f_h) | y_n]

    of the numbers n with normal noise, and of the other heads h by outputs that are drawn given these numbers. So the
    probability of all targets of an example knows how heads move together. In the place of drawn functions stand M
    normals: `draws` are their means, (M, B, E).

    Attributes:
        outputs: the distribution of the outputs of all heads side by side.
        count: draws for each of the M normals, where draws are needed.
        seed: of the draws.
        calibrated: whether heads have been calibrated, by which their joint probability is no longer known.
    """

    outputs: OutputNormal = field(kw_only=True)
    count: int = field(kw_only=True)
    seed: int = field(kw_only=True)
    calibrated: bool = field(default=False, kw_only=True)

    def with_head(self, name: str, prediction: Predictive) -> GaussianJointPredictive:
        return replace(self, heads={**self.heads, name: prediction}, calibrated=True)

    def _check_known(self) -> None:
        if self.calibrated:
            raise ValueError(
                "normal outputs of calibrated heads have no joint probability: ask one of them, as in "
                f"prediction[{next(iter(self.heads))!r}], or predict by drawn functions, predict(x, draws=...)"
            )

    @property
    def expected_entropy(self) -> NoReturn:
        raise ValueError(self._one("expected_entropy"))

    def joint_log_prob(self, y: Any, groups: Tensor | None = None) -> NoReturn:
        raise ValueError(JOINT)

    def log_prob(self, y: Any) -> Tensor:
        """log p(y_b) of all targets of each example together, (B,); what is missing says nothing."""
        self._check_known()
        targets = self._targets(y)
        numbers = [head for head in self.likelihood.heads if has_normal_noise(head.likelihood)]
        others = [head for head in self.likelihood.heads if not has_normal_noise(head.likelihood)]
        log_prob, given = self._of_numbers(numbers, targets)
        return self._mixed(log_prob + self._of_others(others, given, targets)).to(self.draws)

    def _of_numbers(self, heads: list[Head], y: Any) -> tuple[Tensor, OutputNormal]:
        """Their log probability (M, B) in float64, and the normal of all outputs given what was observed."""
        mean, covariance = self.outputs.mean.double(), self.outputs.covariance.double()
        if not heads:
            return mean.new_zeros(mean.shape[:2]), OutputNormal(mean, covariance)
        values, noise, volume = zip(*(self._number(head, y[head.name]) for head in heads), strict=True)
        z, variance = torch.cat(values, -1), torch.cat(noise, -1).double()
        place, observed = self._place(heads), ~z.isnan()
        away = torch.where(observed, z - mean[..., place], 0.0)  # (M, B, D)
        cross = torch.where(observed.unsqueeze(-2), covariance[..., place], 0.0)  # (M, B, E, D)
        inner = torch.where(observed.unsqueeze(-1), cross[..., place, :], 0.0)
        total = inner + torch.diag_embed(torch.where(observed, variance, 1.0))  # of what is missing a part of its own
        normal = torch.distributions.MultivariateNormal(torch.zeros_like(away), total, validate_args=False)
        missing = HALF_LOG_2PI * (~observed).double().sum(-1)
        log_prob: Tensor = normal.log_prob(away) + missing - torch.stack(volume).sum(0)  # type: ignore[no-untyped-call]
        gain = torch.linalg.solve(total, cross.mT).mT
        given = OutputNormal(mean + (gain @ away.unsqueeze(-1)).squeeze(-1), covariance - gain @ cross.mT)
        return log_prob, given

    def _number(self, head: Head, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Targets (B, D) and the variance of their noise (M, B, D) in the units of the outputs, and log dy/dz, (B,)."""
        likelihood, outputs = head.likelihood, self.outputs.mean[..., self.likelihood.places[head.name]]
        params = self.likelihood.params_of(head.name, self.params)
        if not isinstance(likelihood, Standardized):
            return y.double(), likelihood.variance(outputs, params), torch.zeros_like(y[:, 0], dtype=torch.float64)
        z = likelihood.standardize(y, outputs.double())
        volume = torch.where(head.has_target(y), likelihood.log_volume, 0.0)
        return z, likelihood.base.variance(outputs, params), volume.double()

    def _place(self, heads: list[Head]) -> Tensor:
        """Where the outputs of these heads lie among those of all."""
        order = torch.arange(self.outputs.mean.shape[-1], device=self.draws.device)
        return torch.cat([order[self.likelihood.places[head.name]] for head in heads])

    def _of_others(self, heads: list[Head], given: OutputNormal, y: Any) -> Tensor:
        """Log of the expected probability of their targets, (M, B), by drawn outputs."""
        if not heads:
            return given.mean.new_zeros(given.mean.shape[:2])
        place = self._place(heads)
        normal = OutputNormal(given.mean[..., place], given.covariance[..., place, :][..., place])
        drawn = normal.sample(self.count, Stream(self.seed, ("draw", "outputs"))).flatten(0, 1)
        total, start = drawn.new_zeros(drawn.shape[:2]), 0
        for head in heads:
            part = drawn[..., start : start + head.size]
            params = _repeated(self.likelihood.params_of(head.name, self.params), self.count)
            total = total + head.log_prob(part.reshape(*part.shape[:-1], *head.event), y[head.name], params)
            start += head.size
        return torch.logsumexp(total.reshape(self.count, *self.draws.shape[:2]), 0) - math.log(self.count)

    def sample(self, count: int, seed: int = 0) -> dict[str, Tensor]:  # type: ignore[override]
        """`count` targets of each head for each input, (count, B, D) or (count, B) each.

        The heads of an example are those of the same drawn outputs; examples are independent of each other.
        """
        self._check_known()
        stream = Stream(seed, ("predictive sample",))
        chosen, each = self._chosen(count, stream), torch.arange(count)
        outputs = self.likelihood.split(self.outputs.sample(count, stream.child("outputs"))[each, chosen])
        params = {name: value[chosen] for name, value in self.params.items()}
        return {
            head.name: head.likelihood.sample(
                outputs[head.name],
                self.likelihood.params_of(head.name, params),
                stream.child("noise", head.name).generator(self.draws.device),
            )
            for head in self.likelihood.heads
        }


def is_in_closed_form(likelihood: Likelihood, approximation: Approximation | None) -> bool:
    """Whether normal outputs have a predictive without draws."""
    if isinstance(likelihood, Joint):
        return all(is_in_closed_form(head.likelihood, approximation) for head in likelihood.heads)
    if isinstance(likelihood, Bernoulli):
        return isinstance(approximation, Probit)
    return has_normal_noise(likelihood) or (isinstance(likelihood, Categorical) and approximation is not None)


def normal_predictive(
    likelihood: Likelihood,
    outputs: OutputNormal,
    params: Params,
    log_weights: Tensor,
    approximation: Approximation | None,
    count: int,
    seed: int,
    event: tuple[int, ...] = (-1,),
) -> Predictive:
    """The predictive of a network whose outputs are M normals, in closed form as far as there is one.

    Args:
        likelihood: of the targets; of each head where there are several.
        outputs: of the M normals.
        params: the likelihood's learned parameters of each, (M, D).
        log_weights: of each, (M,); they are normalized here.
        approximation: of the probabilities of classes; None draws outputs.
        count: draws for each normal, where draws are needed.
        seed: of the draws.
        event: shape of the outputs of an example, which are one row in the normals.
    """
    if isinstance(likelihood, Joint):
        weights = log_weights.to(outputs.mean).log_softmax(0)
        heads = {}
        for head in likelihood.heads:
            part, own = _part(outputs, likelihood.places[head.name]), likelihood.params_of(head.name, params)
            heads[head.name] = normal_predictive(
                head.likelihood, part, own, log_weights, approximation, count, seed, head.event
            )
        return GaussianJointPredictive(
            likelihood, outputs.mean, params, weights, heads, outputs=outputs, count=count, seed=seed
        )
    if is_in_closed_form(likelihood, approximation):
        return gaussian_predictive(likelihood, outputs, params, log_weights, approximation or Probit())
    drawn = outputs.sample(count, Stream(seed, ("draw", "outputs"))).flatten(0, 1)
    return mixture(
        likelihood, drawn.reshape(*drawn.shape[:2], *event), _repeated(params, count), log_weights.repeat(count)
    )


def _part(outputs: OutputNormal, place: slice) -> OutputNormal:
    """The normal of some of the outputs."""
    return OutputNormal(outputs.mean[..., place], outputs.covariance[..., place, place])


def _repeated(params: Params, count: int) -> Params:
    return {name: t.repeat(count, *[1] * (t.ndim - 1)) for name, t in params.items()}
