"""Random-walk Metropolis: a chain that needs nothing but values of the density."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_options, check_positive, check_rate
from credo.core.rng import Stream
from credo.core.trees import Variables, ravel
from credo.methods.base import Info, SampledStates, Sampler, Tick
from credo.methods.mcmc.log_density import FlatWeights, WholeDataMethod
from credo.model import Batch, Target
from credo.posteriors import Chains, Posterior

ENTRIES = 2**24
"""Of the largest activation of all chains together: as many examples are looked at in one pass."""


@dataclass(frozen=True)
class Particles:
    """Where C chains are, with likelihood and prior there."""

    position: Tensor  # their weights side by side, (C, P)
    log_likelihood: Tensor  # of all the data, (C,), in float64
    log_prior: Tensor  # of the weights, (C,), in float64

    def log_joint(self, target: Target) -> Tensor:
        """log p(data, w) / T, (C,)."""
        return target.temper(self.log_likelihood + self.log_prior)

    def where(self, chosen: Tensor, other: Particles) -> Particles:
        """These for the chains that are chosen, (C,), the others for the rest."""
        return Particles(
            torch.where(chosen.unsqueeze(1), self.position, other.position),
            torch.where(chosen, self.log_likelihood, other.log_likelihood),
            torch.where(chosen, self.log_prior, other.log_prior),
        )


ParticleDensity = Callable[[Particles], Tensor]
"""The log density that chains explore, made of likelihood and prior, (C,)."""


class LogDensityTerms(FlatWeights):
    """Likelihood and prior of C chains, without gradients."""

    @torch.no_grad()
    def __call__(self, flat: Tensor) -> Particles:
        """What is found at these weights, (C, P)."""
        variables = self.named(flat)
        log_prior = self.target.log_prior(variables.params).double()
        return Particles(flat, full_log_likelihood(self.target, variables, self.batch), log_prior)

    def here(self) -> Particles:
        """What is found where the variables are."""
        return self(ravel(self.variables.params))


def to_float32(value: float) -> float:
    """The nearest number of single precision, in which steps that are recorded on a GPU keep what changes."""
    return float(torch.tensor(value, dtype=torch.float32))


@torch.no_grad()
def full_log_likelihood(target: Target, variables: Variables, batch: Batch) -> Tensor:
    """sum_n log p(y_n | x_n, w) of each chain, (C,), summed in float64, some examples at a time."""
    activations = target.model.network.trace(variables, batch.example).activations
    rows = ENTRIES // (max(1, activations) * variables.members)
    each = torch.cat([target.log_likelihood(variables, part).double() for part in batch.parts(rows)], dim=1)
    return target.data_term(each, batch)


def acceptance(log_ratio: Tensor) -> Tensor:
    """min(1, p(new) / p(old)) of each chain, (C,); what has no density is not accepted."""
    return log_ratio.nan_to_num(nan=-math.inf, posinf=math.inf, neginf=-math.inf).clamp_max(0.0).exp()


def metropolis_step(
    terms: LogDensityTerms, particles: Particles, log_density: ParticleDensity, jump: Tensor, uniform: Tensor
) -> tuple[Particles, Tensor]:
    """One proposal w + jump for every chain, accepted with probability min(1, p(w + jump) / p(w)).

    Returns:
        Where the chains are now, and the probability with which the proposal was accepted, (C,).
    """
    new = terms(particles.position + jump)
    probability = acceptance(log_density(new) - log_density(particles))
    return new.where(uniform < probability, particles), probability


OPTIMAL = 2.38
"""Length of a jump in standard deviations of the posterior, times the root of the number of weights."""
FORGETTING = 0.6
"""The warm-up's averages give the t-th state the weight t^-0.6: early states, far from the posterior, are forgotten."""


@dataclass(frozen=True)
class MetropolisState:
    """Where the chains are, (C, ...), and what the warm-up has learned about jumps."""

    variables: Variables  # weights
    log_scale: Tensor  # log length of the jumps of each chain, (C,)
    mean: Tensor  # running average of each chain's weights, (C, P)
    variance: Tensor  # running average of their squared deviations, over all chains, (C, P): the same in every row


@dataclass(frozen=True)
class Metropolis(WholeDataMethod[MetropolisState], Sampler[MetropolisState]):
    """Random-walk Metropolis: propose a jump, accept it with the ratio of the densities, otherwise stay.

    w' = w + scale * spread * noise,   accepted with probability min(1, p(w' | data) / p(w | data))

    In the warm-up the scale of each chain follows its acceptance (Robbins and Monro), and `spread` the standard
    deviation of every weight; both are held while draws are made, so that the chain is a Markov chain with the
    posterior as its distribution. Only values of the likelihood are used. Good for some dozens of weights; for a
    network prefer a method that follows gradients.

    Args:
        draws: draws from each chain.
        warmup: steps before the first draw.
        chains: independent chains, advanced together.
        moves: proposals of one step; only the state after the last of them can be a draw.
        acceptance: what the scale is adapted to: 0.234 is best for many weights, 0.44 for one.
        scale: first length of a jump in every weight; None is 2.38 / sqrt(number of weights).
        spread: learn the standard deviation of every weight; otherwise all weights jump alike.

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> line = credo.Model(credo.nets.MLP(1, 1, hidden=()), credo.likelihoods.Gaussian(0.5))
        >>> posterior = credo.fit(line, (x, 2 * x), Metropolis(draws=200, warmup=200))
        >>> abs(float(posterior.predict(torch.tensor([[1.0]])).mean) - 2) < 0.3
        True

    Reference: N. Metropolis et al., "Equation of state calculations by fast computing machines", 1953,
        https://doi.org/10.1063/1.1699114; C. Andrieu, J. Thoms, "A tutorial on adaptive MCMC", 2008,
        https://doi.org/10.1007/s11222-008-9110-y
    """

    graph_safe: ClassVar[bool] = True

    draws: int = 1000
    warmup: int = 1000
    chains: int = 4
    moves: int = 10
    acceptance: float = 0.234
    scale: float | None = None
    spread: bool = True

    def __post_init__(self) -> None:
        check_options(self)
        for name, smallest in (("draws", 1), ("warmup", 0), ("chains", 1), ("moves", 1)):
            check_at_least(name, getattr(self, name), smallest)
        check_rate("acceptance", self.acceptance)
        if self.scale is not None:
            check_positive("scale", self.scale)

    @property
    def needs_gradient(self) -> bool:
        return False

    @property
    def members(self) -> int:
        return self.chains

    def steps(self, batches: int) -> int:
        return self.warmup + self.draws

    def is_draw(self, step: int, total: int) -> bool:
        return step >= self.warmup

    def init(self, target: Target, variables: Variables, rng: Stream) -> MetropolisState:
        flat = ravel(variables.params)
        scale = self.scale or OPTIMAL / math.sqrt(flat.shape[1])
        log_scale = torch.full((len(flat),), math.log(scale), dtype=torch.float64, device=flat.device)
        return MetropolisState(variables, log_scale, flat.clone(), torch.ones_like(flat))

    def step(self, target: Target, state: MetropolisState, batch: Batch, tick: Tick) -> tuple[MetropolisState, Info]:
        terms = LogDensityTerms(target, batch, state.variables)
        particles, spread = terms.here(), state.variance.sqrt()
        rate = tick.scheduled(self._learning)
        generator = tick.rng.child("proposal").generator(particles.position.device)
        log_scale, accepted = state.log_scale, torch.zeros_like(state.log_scale)
        for _ in range(self.moves):
            jump = torch.randn(spread.shape, generator=generator, dtype=spread.dtype, device=spread.device) * spread
            jump = jump * log_scale.exp().unsqueeze(1).to(jump.dtype)
            uniform = torch.rand(len(jump), generator=generator, dtype=torch.float64, device=jump.device)
            particles, probability = metropolis_step(terms, particles, lambda at: at.log_joint(target), jump, uniform)
            log_scale = log_scale + rate * (probability - self.acceptance)
            accepted = accepted + probability / self.moves
        mean, variance = _averages(state, particles.position, rate) if self.spread else (state.mean, state.variance)
        after = MetropolisState(terms.named(particles.position), log_scale, mean, variance)
        info = {"acceptance_rate": accepted, "log_likelihood": particles.log_likelihood / target.size}
        return after, info | {"log_prior": particles.log_prior / target.size}

    def _learning(self, tick: Tick) -> float:
        """How much of the newest state enters what is learned: nothing once draws are made."""
        return to_float32((tick.step + 1) ** -FORGETTING) if tick.step < self.warmup else 0.0

    def current(self, state: MetropolisState) -> Variables:
        return state.variables

    def from_draws(self, target: Target, state: MetropolisState, states: SampledStates) -> Posterior:
        return Chains(target.model, states.variables, Chains.numbered(states.variables, self.chains), states.statistics)


def _averages(state: MetropolisState, flat: Tensor, rate: float | Tensor) -> tuple[Tensor, Tensor]:
    """Running averages of each chain's weights, and of the squares of their deviations over all chains."""
    apart = flat - state.mean
    variance = state.variance + rate * (apart.square().mean(0) - state.variance)
    return state.mean + rate * apart, variance
