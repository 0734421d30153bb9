"""A normal distribution around a mode, from the curvature there: the posterior that Laplace's method ends in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from credo.core.checks import check_positive, one_of, whole_number
from credo.core.inputs import Inputs
from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.likelihoods import Bernoulli, Categorical, Joint, Likelihood
from credo.model import likelihood_params
from credo.nets.structure import padding_rows
from credo.posteriors.base import Posterior
from credo.posteriors.blocks import WeightBlock, packed, unpacked
from credo.posteriors.draws import Draws, dealt
from credo.posteriors.functions import Functions, NetworkFunctions
from credo.posteriors.linearized import LinearizedFunctions, OutputDoubt, weight_noise
from credo.posteriors.weighted import Evidence
from credo.predictive import (
    Approximation,
    LaplaceBridge,
    OutputNormal,
    Predictive,
    Probit,
    is_in_closed_form,
    normal_predictive,
)

DRAWS = 100
"""Functions of a draw, or a prediction by sampling, when not said."""
COVARIANCE_ENTRIES = 2**27
"""Entries of the covariances of the outputs that are in memory together at most: 512 MiB of float32."""
FARTHEST = 10.0
"""How far, in nats, `choose_precision` looks to either side of the logarithm of a precision."""
GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


class PredictionFrom(StrEnum):
    """How predictions follow from normal weights."""

    LINEARIZED = "linearized"
    """By the network made linear in its weights: exact for normal noise, by draws of the outputs otherwise."""
    PROBIT = "probit"
    """Classes in closed form, by logits that are damped by their own doubt."""
    BRIDGE = "bridge"
    """Classes in closed form, by a Dirichlet distribution over their probabilities."""
    WEIGHTS = "weights"
    """By the network itself at drawn weights."""


APPROXIMATIONS: dict[PredictionFrom, Approximation] = {
    PredictionFrom.PROBIT: Probit(),
    PredictionFrom.BRIDGE: LaplaceBridge(),
}


@dataclass(frozen=True, eq=False)
class LaplaceGaussian(Posterior):
    """A normal distribution around a mode of the posterior, whose precision is the curvature there.

    q(w) = N(w; mean, T (H + P)^-1)

    with the curvature H of the negative log likelihood and the diagonal precision P of the prior. Predictions are those
    of the network made linear in its weights, unless `prediction` says otherwise: exact for numbers with normal noise,
    and of normal outputs otherwise.

    Attributes:
        mean: the mode of each member, (M, *shape) each, and the buffers.
        precision: of the prior, P, broadcastable to (M, *shape), of each parameter that has a distribution; the others
            are points.
        curvature: the tensors of the blocks of P^-1/2 H P^-1/2 + I.
        evidence: log p(data) of each member by the approximation, (M,); NaN for a tempered posterior.
        effective: number of parameters that the data determine, (M,).
        prediction: "linearized"; "probit" or "bridge" for classes in closed form; or "weights" for the network itself
            at drawn weights.
        temperature: T.
    """

    unbounded: ClassVar[tuple[str, ...]] = ("evidence",)

    mean: Variables
    precision: Mapping[str, Tensor]
    curvature: Mapping[str, Tensor]
    evidence: Tensor
    effective: Tensor
    prediction: str = "linearized"
    temperature: float = 1.0

    @cached_property
    def blocks(self) -> tuple[WeightBlock, ...]:
        """The curvature by its blocks."""
        return unpacked(self.curvature, self.mean.params)

    @property
    def log_evidence(self) -> Evidence:
        """log p(data) by the normal approximation around each mode; of several members, that of the average.

        It has no Monte Carlo error, and an error of the approximation that is not known.
        """
        if bool(self.evidence.isnan().any()):
            raise ValueError(
                "the evidence is not known for a tempered posterior, nor after with_precision or choose_precision: it "
                "is that of the model at temperature 1 under the precision of the fit"
            )
        total = torch.logsumexp(self.evidence.double(), 0) - math.log(len(self.evidence))
        return Evidence(float(total), 0.0)

    def draw(self, count: int | None = None, seed: int = 0) -> Functions:
        """`count` functions (100 when not said), dealt to the members in turn."""
        count = self.default_draws if count is None else whole_number("count", count)
        stream = Stream(seed, ("draw", "weights"))
        if self.prediction == PredictionFrom.WEIGHTS:
            variables = self._drawn(count, stream)
            return NetworkFunctions(self.model, variables, Draws.uniform(variables))
        log_weights = torch.full((count,), -math.log(count), device=self.device)
        return LinearizedFunctions(self.model, self.mean, log_weights, lambda number: self._shift(number, stream))

    def _shift(self, number: int, stream: Stream) -> Params:
        """Drawn weights less the mean, of the function of this number."""
        member = number % self.mean.members
        like = next(iter(self.mean.params.values()))
        noise, root = weight_noise(self._of_member[member], stream.child(number), like), self._root(member)
        shift = {name: t * root[name][0] for name, t in noise.items()}
        for name, row in self._padding.items():
            if name in shift:
                shift[name][row] = 0.0
        return shift

    def _drawn(self, count: int, stream: Stream) -> Variables:
        index = torch.arange(count, device=self.device) % self.mean.members
        drawn = self.mean.take(index)
        for number in range(count):
            for name, shift in self._shift(number, stream).items():
                drawn.params[name][number] += shift
        return drawn

    @cached_property
    def _padding(self) -> dict[str, int]:
        return padding_rows(self.model.network.module)

    @cached_property
    def _of_member(self) -> list[tuple[WeightBlock, ...]]:
        return [tuple(block.of_member(m) for block in self.blocks) for m in range(self.mean.members)]

    def _root(self, member: int) -> Params:
        """sqrt(T) P^-1/2 of one member."""
        scale = math.sqrt(self.temperature)
        return {name: scale * p[member : member + 1].rsqrt() for name, p in self.precision.items()}

    def predictor(self, draws: int | None = None, seed: int = 0) -> Callable[[Inputs], Predictive]:
        """In closed form for normal noise, and for classes if `prediction` says so; by draws otherwise.

        With a number of draws it is the mixture over as many functions, each of them the same for all inputs. Without,
        examples are independent of each other, and classes are those of outputs drawn from their normals.
        """
        if draws is not None or self.prediction == PredictionFrom.WEIGHTS:
            return super().predictor(draws, seed)
        likelihood, approximation = self.model.likelihood, APPROXIMATIONS.get(PredictionFrom(self.prediction))
        in_closed_form = is_in_closed_form(likelihood, approximation)
        variances_do = isinstance(approximation, Probit) and not isinstance(likelihood, Joint)
        count = -(-self.default_draws // self.mean.members)

        def predict(x: Inputs) -> Predictive:
            shape = self.model.output_shape(self.mean, x)
            # a pass back for each output, or a pass forward and its derivative for each draw
            if len(shape) > 1 or not (in_closed_form or shape[0] <= DRAWS // 2):
                return Posterior.predictor(self, None, seed)(x)
            normal = self.output_normal(x, independent=variances_do)
            return normal_predictive(likelihood, normal, self._noise, self._log_weights, approximation, count, seed)

        return predict

    def output_normal(self, x: Inputs, *, independent: bool = False) -> OutputNormal:
        """The normal of the network's outputs at checked inputs, for each member: mean (M, B, E), covariance.

        Args:
            x: inputs (B, ...).
            independent: whether variances (M, B, E) are enough.
        """
        size = self.model.output_shape(self.mean, x)[0]
        if not independent and self.mean.members * len(x) * size**2 > COVARIANCE_ENTRIES:
            raise ValueError(
                f"the covariances of {size} outputs at {len(x)} inputs do not fit into memory: predict some inputs at "
                "a time, posterior.predict_batches(x), or by posterior.with_prediction('probit'), which needs none"
            )
        each = [self._doubt(m).normal(x, independent=independent) for m in range(self.mean.members)]
        return OutputNormal(torch.cat([n.mean for n in each]), torch.cat([n.covariance for n in each]))

    def _doubt(self, member: int) -> OutputDoubt:
        return OutputDoubt(self.model, self.mean.take([member]), self._of_member[member], self._root(member))

    @property
    def _noise(self) -> Params:
        return likelihood_params(self.mean.params)

    @property
    def _log_weights(self) -> Tensor:
        return torch.zeros(self.mean.members, device=self.device)

    def with_prediction(self, prediction: str) -> LaplaceGaussian:
        """The same posterior with predictions by other means.

        Args:
            prediction: "linearized", "probit", "bridge" or "weights".

        Examples:
            `posterior.with_prediction("probit").predict(x).probs`
        """
        chosen = one_of("prediction", prediction, PredictionFrom)
        check_prediction(chosen, self.model.likelihood)
        return replace(self, prediction=chosen.value)

    def with_precision(self, factor: float) -> LaplaceGaussian:
        """The same modes under a prior whose precision is so many times as large; its evidence is not known."""
        check_positive("factor", factor)
        blocks = [block.rescaled(factor) for block in self.blocks]
        precision = {name: p * factor for name, p in self.precision.items()}
        unknown, effective = torch.full_like(self.evidence, math.nan), effective_parameters(blocks)
        return replace(self, precision=precision, curvature=packed(blocks), evidence=unknown, effective=effective)

    def choose_precision(self, x: Any, y: Any) -> LaplaceGaussian:
        """The prior's precision under which held-out targets are most probable, by golden-section search.

        argmax_a  sum_b log p(y_b | x_b, data; a P)

        Args:
            x: inputs (B, ...) that were not trained on.
            y: their targets.

        Examples:
            `posterior = credo.fit(net, data, credo.Laplace()).choose_precision(x_held_out, y_held_out)`
        """

        def loss(log_factor: float) -> float:
            return -float(self.with_precision(math.exp(log_factor)).predict(x).log_prob(y).double().mean())

        return self.with_precision(math.exp(_golden_section(loss, -FARTHEST, FARTHEST, tolerance=0.05)))

    def at_mean(self) -> Draws:
        """The plain network at the modes: no epistemic part, one forward pass."""
        return Draws(self.model, self.mean, Draws.uniform(self.mean), record=self.record)

    def members(self, count: int | None = None) -> Variables:
        return dealt(self.mean, count)

    def covariance(self, member: int = 0) -> Tensor:
        """Covariance of the weights of one member, written out, (P, P), in the order of `blocks`; for small nets."""
        found = []
        roots = self._root(member)
        for block in self._of_member[member]:
            shapes = zip(block.layout.names, block.layout.shapes, strict=True)
            root = block.layout.join({name: roots[name].expand(1, *shape) for name, shape in shapes})[0]
            eye = torch.eye(block.layout.size, dtype=root.dtype, device=root.device).unsqueeze(0)
            found.append(block.precision.solve(eye)[0] * root * root.unsqueeze(1))
        return torch.block_diag(*found)  # type: ignore[no-untyped-call]

    def check(self) -> None:
        super().check()
        members = (self.mean.members,)
        if tuple(self.evidence.shape) != members or tuple(self.effective.shape) != members:
            raise ValueError("the evidence and the number of effective parameters are not one for each member")
        one_of("prediction", self.prediction, PredictionFrom)
        check_positive("temperature", self.temperature)
        covered = [name for block in self.blocks for name in block.layout.names]
        if sorted(covered) != sorted(self.precision):
            raise ValueError("the blocks of the curvature and the precisions of the prior name different parameters")
        for name, p in self.precision.items():
            like = self.mean.params[name]
            if p.ndim != like.ndim or p.shape[0] != like.shape[0] or bool((p <= 0).any()):
                raise ValueError(f"the prior precision of {name!r} is not positive, or not like the parameter")
            if p[0].numel() != 1 and p.shape != like.shape:
                raise ValueError(f"the prior precision of {name!r} has shape {tuple(p.shape)}")


def effective_parameters(blocks: Iterable[WeightBlock]) -> Tensor:
    """tr K (K + I)^-1 of each member, (M,): the parameters that the data determine rather than the prior."""
    return torch.stack([block.effective for block in blocks]).sum(0)


def check_prediction(prediction: PredictionFrom, likelihood: Likelihood) -> None:
    """Refuse approximations for targets that they are not made for; of several heads one must be of this kind."""
    each = [head.likelihood for head in likelihood.heads] if isinstance(likelihood, Joint) else [likelihood]
    if prediction is PredictionFrom.PROBIT and not any(isinstance(one, Categorical | Bernoulli) for one in each):
        raise ValueError(f"prediction='probit' is for classes, and the likelihood is {likelihood}: use 'linearized'")
    if prediction is PredictionFrom.BRIDGE and not any(isinstance(one, Categorical) for one in each):
        raise ValueError(
            f"prediction='bridge' is for one of K classes, and the likelihood is {likelihood}: use 'linearized'"
        )


def _golden_section(loss: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Where a function of one valley is lowest."""
    inner, outer = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_inner, at_outer = loss(inner), loss(outer)
    while high - low > tolerance:
        if at_inner <= at_outer:
            high, outer, at_outer = outer, inner, at_inner
            inner = high - GOLDEN * (high - low)
            at_inner = loss(inner)
        else:
            low, inner, at_inner = inner, outer, at_outer
            outer = low + GOLDEN * (high - low)
            at_outer = loss(outer)
    return 0.5 * (low + high)
