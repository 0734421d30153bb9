"""Importance sampling: draws of a proposal, weighted by what they should have been."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_options
from credo.core.pareto import Smoothed, pareto_k, smoothed
from credo.core.record import CredoWarning
from credo.core.rng import Stream
from credo.core.storage import fingerprint
from credo.core.trees import Params, Variables
from credo.methods.base import Info, SampledStates, Sampler, Tick
from credo.methods.mcmc.log_density import WholeDataMethod
from credo.methods.mcmc.metropolis import full_log_likelihood
from credo.model import LIKELIHOOD_PREFIX, Batch, Model, Target, likelihood_params
from credo.posteriors import DiagonalGaussian, NetworkFunctions, Posterior, Weighted

LOG_WEIGHT = "log_weight"
NOTHING = -1e30
"""The logarithm of no weight at all, still a number in single precision."""


@runtime_checkable
class Proposal(Protocol):
    """What can be proposed from: a posterior that can tell the density of weights."""

    def draw(self, count: int | None = None, seed: int = 0) -> NetworkFunctions:
        """`count` drawn functions."""

    def log_prob(self, params: Params) -> Tensor:
        """Log density of S weights (S, *shape), (S,)."""

    def members(self, count: int | None = None) -> Variables:
        """Networks that stand for the components of the mixture."""

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name."""


@dataclass(frozen=True)
class WeighingState:
    """The draws of the last step, (M, *shape), and what they weigh, (M,)."""

    variables: Variables
    log_weights: Tensor


@dataclass(frozen=True)
class ImportanceSampling(WholeDataMethod[WeighingState], Sampler[WeighingState]):
    """Draws of a proposal q, weighted by the posterior over q.

    w_s = p(data, draw_s) / q(draw_s),   E[f] = sum_s w_s f_s / sum_s w_s,   p(data) = 1/S sum_s w_s

    The largest weights are smoothed by a Pareto tail, whose shape k-hat says whether the proposal covers the posterior.
    Where it does not (k-hat above 0.7) that is said in a warning and a note, and nothing computed from the weights
    should be believed.

    Args:
        proposal: a posterior that can tell its density, such as the result of `BayesByBackprop`; None for the prior,
            which serves for a handful of weights at most.
        draws: S, at least; a few more where steps of equal size need them.
        draws_per_step: draws that are computed side by side: what memory allows.
        smoothing: whether the largest weights are smoothed.

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 5)[:, None]
        >>> line = credo.Model(torch.nn.Linear(1, 1), credo.likelihoods.Gaussian(1.0), credo.priors.Normal(1.0))
        >>> posterior = credo.fit(line, (x, x), ImportanceSampling(draws=2000))
        >>> posterior.reliable, posterior.effective_draws > 500
        (True, True)

    Reference: A. Vehtari, D. Simpson, A. Gelman, Y. Yao, J. Gabry, "Pareto smoothed importance sampling", 2015,
        https://arxiv.org/abs/1507.02646
    """

    proposal: Proposal | None = field(default=None, compare=False)
    draws: int = 1000
    draws_per_step: int = 100
    smoothing: bool = True
    fingerprint: str | None = field(default=None, init=False)
    """Stands for the proposal where methods are compared and recorded."""

    def __post_init__(self) -> None:
        proposal: object = self.proposal
        if isinstance(proposal, Posterior):
            _check_density(proposal)
        check_options(self, proposal="the result of BayesByBackprop")
        check_at_least("draws", self.draws, 1)
        check_at_least("draws_per_step", self.draws_per_step, 1)
        if self.proposal is not None:
            object.__setattr__(self, "fingerprint", fingerprint(self.proposal.tensors()))

    @property
    def needs_gradient(self) -> bool:
        return False

    @property
    def members(self) -> int:
        """Draws of one step; those of a mixture are dealt to its members in turn, so each gets equally many."""
        parts = 1 if self.proposal is None else self.proposal.members().members
        each = -(-self.draws // self.steps(1))
        return -(-each // parts) * parts

    def steps(self, batches: int) -> int:
        return -(-self.draws // self.draws_per_step)

    def is_draw(self, step: int, total: int) -> bool:
        return True

    def init(self, target: Target, variables: Variables, rng: Stream) -> WeighingState:
        if self.proposal is not None:
            _check_fit(self.proposal.members(), variables)
        zeros = torch.zeros(variables.members, dtype=torch.float64, device=variables.device)
        return WeighingState(variables, zeros)

    @torch.no_grad()
    def step(self, target: Target, state: WeighingState, batch: Batch, tick: Tick) -> tuple[WeighingState, Info]:
        rng = tick.rng.child("proposal")
        if self.proposal is not None:
            variables, log_q = _proposed(self.proposal, state.variables, rng)
        else:
            variables = prior_draws(target, state.variables, rng)
            log_q = target.log_prior(variables.params)
        log_likelihood = full_log_likelihood(target, variables, batch)
        log_joint = target.temper(log_likelihood + target.log_prior(variables.params).double())
        log_weights = weightless(log_joint - log_q.to(log_joint))
        info = {LOG_WEIGHT: log_weights, "log_likelihood": weightless(log_likelihood) / target.size}
        return WeighingState(variables, log_weights), info

    def current(self, state: WeighingState) -> Variables:
        return state.variables

    def from_draws(self, target: Target, state: WeighingState, states: SampledStates) -> Posterior:
        raw = states.statistics[LOG_WEIGHT].reshape(-1) if states.statistics else state.log_weights
        weighed = smoothed(raw) if self.smoothing else Smoothed(raw.double().cpu(), pareto_k(raw))
        return weighed_draws(target.model, states.variables, weighed)


def _proposed(proposal: Proposal, like: Variables, rng: Stream) -> tuple[Variables, Tensor]:
    """Draws of the proposal, as many as there are members, and their log density."""
    drawn = proposal.draw(like.members, rng.key()).variables.params
    params = {name: drawn[name].to(w) for name, w in like.params.items()}
    return Variables(params, like.buffers), proposal.log_prob(drawn)


def weightless(log_weights: Tensor) -> Tensor:
    """What has no density weighs nothing: infinite or missing numbers as very small ones."""
    return log_weights.nan_to_num(NOTHING, neginf=NOTHING).clamp_min(NOTHING)


def weighed_draws(model: Model, variables: Variables, weighed: Smoothed) -> Weighted:
    """The posterior of weighted draws; with a warning where the weights cannot be relied on."""
    device = variables.device
    k = torch.tensor(weighed.k, dtype=torch.float64, device=device)
    found = Weighted(model, variables, weighed.log_weights.to(device), k)
    if not found.reliable:
        warnings.warn(found.verdicts[-1], CredoWarning, stacklevel=5)
    return found


def _check_density(proposal: Any) -> None:
    kind = type(proposal).__name__
    if not isinstance(proposal, Proposal):
        raise TypeError(
            f"proposal is a posterior of kind {kind}, which has no density: give one that has, such as the result of "
            "BayesByBackprop, or None for the prior"
        )
    if isinstance(proposal, DiagonalGaussian):
        scale = proposal.scale
        sure = [name for name in proposal.mean.params if name not in scale or not bool(scale[name].all())]
        if sure:
            raise ValueError(
                f"proposal holds {sure[0]!r} at a point, so that it misses almost all of the posterior: give one in "
                "which every weight is uncertain (bayesian='*', not pruned)"
            )


def _check_fit(proposal: Variables, variables: Variables) -> None:
    theirs = {name: tuple(w.shape[1:]) for name, w in proposal.params.items()}
    ours = {name: tuple(w.shape[1:]) for name, w in variables.params.items()}
    if theirs != ours:
        raise ValueError(
            "the proposal's parameters are not those of the model: fit both with the same network and likelihood"
        )


def prior_draws(target: Target, variables: Variables, rng: Stream) -> Variables:
    """As many draws from the prior as there are members, with their buffers."""
    model, members = target.model, variables.members
    weights = model.prior.sample(model.network.layout, members, rng.child("weights"))
    learned = likelihood_params(variables.params)
    outputs = next(iter(learned.values())).shape[1] if learned else 0
    drawn = model.likelihood.draw_parameters(outputs, members, rng.child("likelihood").generator()) if learned else {}
    missing = [name for name in learned if name not in drawn]
    if missing:
        raise ValueError(
            f"the likelihood {type(model.likelihood).__name__} cannot draw its own {missing[0]!r} from the prior: give "
            "it a method draw_parameters, or give a proposal"
        )
    found = {**weights, **{LIKELIHOOD_PREFIX + name: t for name, t in drawn.items()}}
    params = {name: found[name].to(w) for name, w in variables.params.items()}
    return Variables(params, variables.buffers)
