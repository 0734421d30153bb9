"""Laplace's method: a normal distribution around a mode, by the curvature there."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor

from credo.core.available import available_bytes, shown_bytes
from credo.core.checks import check_at_least, check_options, check_positive, one_of, patterns
from credo.core.inputs import Inputs
from credo.core.record import CredoWarning, Record
from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.methods.base import Info, Method, StartFrom, Tick
from credo.methods.laplace.admission import check_model, subset_names
from credo.methods.laplace.curvature import CURVATURES, Curvature, GaussNewton, Outputs
from credo.methods.laplace.noise import NoiseSums, estimated_parameters, noise_sums, settled_noise
from credo.methods.laplace.result import NormalAtMode
from credo.methods.laplace.structures import (
    STRUCTURES,
    DenseCurvature,
    DiagonalCurvature,
    KroneckerCurvature,
    Layouts,
    Structure,
)
from credo.methods.point import PointMethod, PointState
from credo.model import Batch, Model, Target, likelihood_params
from credo.nets.calls import capture, last_layer, layer_uses
from credo.nets.layer import LayerUse
from credo.posteriors import Draws, Posterior, PredictionFrom


class PrecisionFrom(StrEnum):
    """Where the precision of the prior comes from."""

    EVIDENCE = "evidence"
    """The one under which the evidence is largest, and likewise the noise where that is learned."""
    MODEL = "model"
    """The prior of the model as it is, and the noise at its estimate."""


@dataclass(frozen=True)
class LaplaceState:
    """Weights, and sums of curvature over the batches so far.

    Attributes:
        point: weights and memory of the method that comes first.
        sums: of the curvature, (M, ...) each.
        gradient: of the log likelihood, (M, *shape) each.
        log_likelihood: summed, (M,).
        noise: residuals and targets, as far as noise is learned.
        count: batches in these sums, (M,).
    """

    point: PointState
    sums: Params
    gradient: Params
    log_likelihood: Tensor
    noise: NoiseSums
    count: Tensor


def _by_after(alone: Any, afterwards: Any) -> Any:
    """What a method is by itself, and what it is after another."""
    return property(lambda method: alone if method.after is None else afterwards)


@dataclass(frozen=True)
class Laplace(Method[LaplaceState]):
    """A normal distribution around trained weights, whose precision is the curvature there.

    q(w) = N(w*, (H + P)^-1),   H = -d^2 log p(data | w*) / dw^2 (approximately),   P of the prior
    log p(data) ~ log p(data | w*) + log p(w*) + P/2 log 2 pi - 1/2 log |H + P|

    The weights are those that the module has, and stay as they are; `after=MAP(...)` finds them first. Then one pass
    over the data sums up the curvature; before it, one without `after` says the log likelihood, and the noise where
    that is learned. Nothing of the size inputs x outputs x weights is ever made. Predictions are those of the network
    made linear in its weights.

    Args:
        structure: "kronecker", "diagonal" or "dense"; or `KroneckerCurvature(sharing="reduce")` and the like.
        subset: the parameters that get a distribution: "all", "last" for the last linear layer, or patterns of their
            names, as in file names ("head.*"). The others are points.
        curvature: "ggn" (generalized Gauss-Newton), "fisher" (of the observed targets), or "hessian" (dense or
            diagonal).
        precision: of the prior. "evidence" multiplies that of a normal prior, and the variance of learned noise, by
            what makes the evidence largest; "model" keeps both. By held-out data: `posterior.choose_precision(x, y)`.
        by_layer: whether each layer has a precision of its own.
        prediction: "linearized"; for classes in closed form "probit" or "bridge"; "weights" for the network itself
            at drawn weights. `posterior.with_prediction(...)` changes it.
        after: the point method by which weights are found first, such as `MAP(epochs=100)`.
        batch_size: examples at a time; None for all of them.
        memory: GiB that the curvature may take; None for what is free.

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 64)[:, None]
        >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x, x.sin()), Laplace(after=credo.MAP(epochs=50)))
        >>> posterior.predict(x).epistemic.shape
        torch.Size([64, 1])
        >>> posterior.log_evidence.value > -100
        True

    Reference: D. J. C. MacKay, "A practical Bayesian framework for backpropagation networks", 1992; E. Daxberger et
        al., "Laplace redux: effortless Bayesian deep learning", 2021, https://arxiv.org/abs/2106.14806; A. Immer et
        al., "Improving predictions of Bayesian neural nets via local linearization", 2021,
        https://arxiv.org/abs/2008.08400
    """

    structure: Structure | str = KroneckerCurvature()
    subset: str | tuple[str, ...] = "all"
    curvature: Curvature | str = GaussNewton()
    precision: str = PrecisionFrom.EVIDENCE
    by_layer: bool = False
    prediction: str = PredictionFrom.LINEARIZED
    after: PointMethod | None = None
    batch_size: int | None = 128
    memory: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "structure", _resolved("structure", self.structure, STRUCTURES))
        object.__setattr__(self, "curvature", _resolved("curvature", self.curvature, CURVATURES))
        check_options(self)
        object.__setattr__(self, "precision", one_of("precision", self.precision, PrecisionFrom))
        object.__setattr__(self, "prediction", one_of("prediction", self.prediction, PredictionFrom))
        object.__setattr__(self, "subset", patterns("subset", self.subset))
        if self.batch_size is not None:
            check_at_least("batch_size", self.batch_size, 1)
        if self.memory is not None:
            check_positive("memory", self.memory)
        self._check_pairs()

    def _check_pairs(self) -> None:
        """Refuse options that have no meaning together."""
        if isinstance(self.structure, KroneckerCurvature) and not self._curvature.by_outputs:
            raise ValueError(
                "a Hessian is no sum of products of inputs and gradients, so it has no Kronecker factors: use "
                "curvature='ggn', or structure='dense' or 'diagonal'"
            )
        if self.by_layer and isinstance(self.structure, DenseCurvature):
            raise ValueError(
                "a precision for each layer has a closed form where layers are independent: use "
                "structure='kronecker' or 'diagonal', or by_layer=False"
            )
        if self.after is not None and self.after.batch_size != self.batch_size:
            raise ValueError(
                f"batch_size is {self.batch_size} here and {self.after.batch_size} in after={self.after!r}: the data "
                "are cut into batches once, so give both the same"
            )

    start_from = _by_after(StartFrom.MODULE, StartFrom.FRESH)

    @property
    def _by_evidence(self) -> bool:
        return self.precision == PrecisionFrom.EVIDENCE

    @property
    def _structure(self) -> Structure:
        assert isinstance(self.structure, Structure)
        return self.structure

    @property
    def _curvature(self) -> Curvature:
        assert isinstance(self.curvature, Curvature)
        return self.curvature

    @property
    def _epochs(self) -> tuple[int, int]:
        """Those of the method that comes first, and of this one: for the noise, and for the curvature."""
        return (0, 2) if self.after is None else (self.after.epochs, 1)

    def steps(self, batches: int) -> int:
        return sum(self._epochs) * batches

    def prepare(self, model: Model, x: Inputs) -> tuple[Model, tuple[str, ...]]:
        check_model(model, self._structure, PredictionFrom(self.prediction), by_evidence=self._by_evidence)
        network, variables = model.network, model.network.given().to(x.device)
        uses = layer_uses(network, variables, x, subset_names(self.subset, model, variables, x))
        needed = self.nbytes(self._structure, model, uses)
        limit = available_bytes(x.device) if self.memory is None else int(self.memory * 2**30)
        if needed > limit:
            last = layer_uses(network, variables, x, last_layer(network, variables, x))
            raise ValueError(self._too_much(model, {"": uses, ", subset='last'": last}, needed, limit))
        weights = sum(math.prod(network.layout[name].shape) for use in uses for name in use.names)
        notes = [
            f"{self._structure.name} curvature of {weights:,} of {_count(model):,} weights, which takes "
            f"{shown_bytes(needed)}"
        ]
        notes += self._note_of_parameters(model, variables, x)
        shared = [use.names[0] for use in uses if use.product and use.positions > 1]
        if shared and isinstance(self.structure, KroneckerCurvature):
            more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
            notes.append(f"weights that positions share, of {shared[0]}{more}: sharing='{self.structure.sharing}'")
        return model.with_network(network.with_layer_uses(uses)), tuple(notes)

    def _note_of_parameters(self, model: Model, variables: Variables, x: Inputs) -> list[str]:
        """Of learned parameters of the likelihood that no residuals say, where no method comes first."""
        known = estimated_parameters(model.likelihood)
        others = [name for name in model.likelihood.parameters(model.outputs(variables, x)) if name not in known]
        if self.after is not None or not others:
            return []
        return [
            f"{', '.join(others)} of the likelihood stay as they are at the start, which is their first values unless "
            "start= is a posterior: let Laplace(after=MAP(...)) find them otherwise"
        ]

    def nbytes(self, structure: Structure, model: Model, uses: Sequence[LayerUse]) -> int:
        """Bytes that a curvature takes whose layers do this with its parameters."""
        itemsize = torch.finfo(model.network.dtype).bits // 8
        return self.members * structure.nbytes(structure.layouts(uses, _shapes(model)), itemsize)

    def _too_much(self, model: Model, uses: Mapping[str, Sequence[LayerUse]], needed: int, limit: int) -> str:
        """A sentence that names a structure which fits, of what layers do with some subsets, by the words for these."""
        normal = model.prior.precision(model.network.layout) is not None
        structures = [KroneckerCurvature(), DiagonalCurvature()] if normal else [DiagonalCurvature()]
        advice = "memory=... allows more"
        for words, each in reversed([*uses.items()]):
            for structure in reversed(structures):
                size = self.nbytes(structure, model, each)
                if size <= limit:
                    advice = f"structure={structure.name!r}{words} takes {shown_bytes(size)}"
        return (
            f"the {self._structure.name} curvature would take {shown_bytes(needed)}, and there are "
            f"{shown_bytes(limit)}: {advice}"
        )

    def init(self, target: Target, variables: Variables, rng: Stream) -> LaplaceState:
        members, first = variables.members, next(iter(variables.params.values()))
        point = PointState(variables, [])
        if self.after is not None:
            point = self.after.init(target, variables, rng)
        layouts, zeros = self._layouts(target), first.new_zeros(members, dtype=torch.float64)
        names = [name for layout in layouts for name in layout.names]
        return LaplaceState(
            point=point,
            sums=self._structure.zeros(layouts, members, first),
            gradient={name: torch.zeros_like(variables.params[name], dtype=torch.float64) for name in names},
            log_likelihood=zeros,
            noise=NoiseSums.zeros(target, variables),
            count=zeros.clone(),
        )

    def _layouts(self, target: Target) -> Layouts:
        return self._structure.layouts(target.model.network.layer_uses, _shapes(target.model))

    def attempt(self, target: Target, state: LaplaceState, batch: Batch, tick: Tick) -> None:
        if self.after is not None:
            self.after.attempt(target, state.point, batch, tick)

    def step(self, target: Target, state: LaplaceState, batch: Batch, tick: Tick) -> tuple[LaplaceState, Info]:
        before, own = self._epochs
        batches = tick.total // (before + own)
        if self.after is not None and tick.step < before * batches:
            first = replace(tick, total=before * batches)
            point, info = self.after.step(target, state.point, batch, first)
            return replace(state, point=point), info
        if tick.step < (before + own - 1) * batches:
            return self._noise_step(target, state, batch)
        if self.after is None and tick.step == batches:
            variables = settled_noise(target, state.point.variables, state.noise)
            fresh = NoiseSums.zeros(target, variables)
            state = replace(state, point=replace(state.point, variables=variables), noise=fresh)
        return self._curvature_step(target, state, batch, tick)

    def _noise_step(self, target: Target, state: LaplaceState, batch: Batch) -> tuple[LaplaceState, Info]:
        """Residuals, where noise has to be estimated before curvature can be summed."""
        with torch.no_grad():
            each = target.log_likelihood(state.point.variables, batch)
            info = self._info(target, state, target.data_term(each, batch))
        if not estimated_parameters(target.model.likelihood):
            return state, info
        return replace(state, noise=state.noise.plus(noise_sums(target, state.point.variables, batch))), info

    def _curvature_step(
        self, target: Target, state: LaplaceState, batch: Batch, tick: Tick
    ) -> tuple[LaplaceState, Info]:
        variables, layouts = state.point.variables, self._layouts(target)
        log_likelihood = torch.stack(
            [self._add(target, state, layouts, m, batch, tick.rng.child(m)) for m in range(variables.members)]
        )
        if estimated_parameters(target.model.likelihood):
            state = replace(state, noise=state.noise.plus(noise_sums(target, variables, batch)))
        state = replace(state, log_likelihood=state.log_likelihood + log_likelihood.double(), count=state.count + 1.0)
        return state, self._info(target, state, log_likelihood)

    def _add(
        self, target: Target, state: LaplaceState, layouts: Layouts, member: int, batch: Batch, rng: Stream
    ) -> Tensor:
        """Add a batch to the sums of a member, in place; its log likelihood on the scale of all data."""
        one, mine = state.point.variables.take([member]), batch.take([member])
        x, y = (mine.x[0], mine.y[0]) if mine.per_member else (mine.x, mine.y)
        weight = _weights(mine, target, len(x), one.device)
        names = [name for layout in layouts for name in layout.names]
        leaves = {name: one.params[name].detach().requires_grad_() for name in names}
        one = Variables({**one.params, **leaves}, one.buffers)
        with torch.enable_grad():
            captured = capture(target.model.network, one, x, names)
            outputs = Outputs(target.model.likelihood, captured.outputs, y, likelihood_params(one.params), weight, rng)
            log_likelihood = (outputs.log_prob * weight.to(outputs.log_prob)).sum()
            if not self._curvature.by_outputs:
                self._structure.add_hessian(state.sums, member, layouts, outputs, leaves)
        gradients = torch.autograd.grad(
            log_likelihood, list(leaves.values()), retain_graph=True, materialize_grads=True
        )
        for name, g in zip(leaves, gradients, strict=True):
            state.gradient[name][member] += g[0]
        if self._curvature.by_outputs and captured.outputs.requires_grad:
            with torch.no_grad():
                self._structure.add(state.sums, member, layouts, captured, outputs, self._curvature)
        return log_likelihood.detach()

    @staticmethod
    def _info(target: Target, state: LaplaceState, log_likelihood: Tensor) -> Info:
        log_prior = target.log_prior(state.point.variables.params)
        return {
            name: t.detach() / target.size for name, t in (("log_likelihood", log_likelihood), ("log_prior", log_prior))
        }

    def loss(self, target: Target, metrics: Info) -> Tensor | None:
        if self.after is not None:
            return self.after.loss(target, metrics)
        return -torch.stack([metrics[name] for name in ("log_likelihood", "log_prior") if name in metrics]).sum(0)

    def current(self, state: LaplaceState) -> Variables:
        return state.point.variables

    def posterior(self, target: Target, state: LaplaceState) -> Posterior:
        variables = state.point.variables
        point = Draws(target.model, variables, Draws.uniform(variables))
        finite = self.is_finite(state)
        if not bool((state.count > 0).all()) or not bool(finite.any()):
            stopped = bool(finite.any())
            return replace(point, record=Record(notes=(POINT,))) if stopped else point
        try:
            return NormalAtMode(
                target,
                self._structure,
                self._layouts(target),
                variables,
                by_evidence=self._by_evidence,
                by_layer=self.by_layer,
                prediction=self.prediction,
            ).posterior(state, finite)
        except ValueError as error:
            note = f"{error}: the posterior is a point, the network at its weights"
            warnings.warn(note, CredoWarning, stacklevel=4)
            return replace(point, record=Record(notes=(note,)))


POINT = "the run ended before there was any curvature, so that the posterior is a point: continue it with resume=True"


def _weights(batch: Batch, target: Target, examples: int, device: torch.device) -> Tensor:
    """By how much each example counts on the scale of all data, (B,) in float64."""
    factor = target.factor(batch)
    if batch.weight is None:
        return torch.full((examples,), factor, dtype=torch.float64, device=device)
    weight = batch.weight[0] if batch.weight.ndim == 2 else batch.weight
    return weight.double() * factor


def _resolved(name: str, value: Any, known: dict[str, Any]) -> Any:
    if isinstance(value, str):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
        return known[value]
    return value


def _shapes(model: Model) -> dict[str, tuple[int, ...]]:
    return {name: info.shape for name, info in model.network.layout.items()}


def _count(model: Model) -> int:
    return sum(math.prod(info.shape) for info in model.network.layout.values())
