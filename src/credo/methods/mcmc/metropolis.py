"""Random-walk Metropolis: a chain that needs nothing but values of the density."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_options, check_positive, check_rate
from credo.core.rng import Stream
from credo.core.trees import Variables, ravel
from credo.methods.base import Info, Kept, Sampler, Tick
from credo.methods.mcmc.density import refuse_running_statistics
from credo.methods.mcmc.random_walk import Place, Terrain, single, walk
from credo.model import Batch, Model, Target
from credo.posteriors import Chains, Posterior

OPTIMAL = 2.38
"""Length of a jump in standard deviations of the posterior, times the root of the number of weights."""
FORGETTING = 0.6
"""The warm-up's averages give the t-th state the weight t^-0.6: early states, far from the posterior, are forgotten."""


@dataclass(frozen=True)
class MetropolisState:
    """Where the chains are, (C, ...), and what the warm-up has learnt about jumps.

    Attributes:
        variables: weights.
        log_scale: log length of the jumps of each chain, (C,).
        mean: running average of each chain's weights, (C, P).
        variance: running average of their squared deviations, over all chains, (C, P): the same in every row.
    """

    variables: Variables
    log_scale: Tensor
    mean: Tensor
    variance: Tensor


@dataclass(frozen=True)
class Metropolis(Sampler):
    """Random-walk Metropolis: propose a jump, accept it with the ratio of the densities, otherwise stay.

    w' = w + scale * spread * noise,   accepted with probability min(1, p(w' | data) / p(w | data))

    In the warm-up the scale of each chain follows its acceptance (Robbins and Monro), and `spread` the standard
    deviation of every weight; both are held while draws are kept, so that the chain is a Markov chain with the
    posterior as its distribution. Only values of the likelihood are used. Good for some dozens of weights; for a
    network prefer a method that follows gradients.

    Args:
        draws: kept states of each chain.
        warmup: steps before the first draw.
        chains: independent chains, advanced together.
        thin: proposals of one step; only the state after the last of them can be a draw.
        acceptance: what the scale is adapted to: 0.234 is best for many weights, 0.44 for one.
        scale: first length of a jump in every weight; None is 2.38 / sqrt(number of weights).
        spread: learn the standard deviation of every weight; otherwise all weights jump alike.

    Example:
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

    whole_data: ClassVar[bool] = True

    draws: int = 1000
    warmup: int = 1000
    chains: int = 4
    thin: int = 10
    acceptance: float = 0.234
    scale: float | None = None
    spread: bool = True

    def __post_init__(self) -> None:
        check_options(self)
        for name, smallest in (("draws", 1), ("warmup", 0), ("chains", 1), ("thin", 1)):
            check_at_least(name, getattr(self, name), smallest)
        check_rate("acceptance", self.acceptance)
        if self.scale is not None:
            check_positive("scale", self.scale)

    @property
    def follows_slopes(self) -> bool:
        return False

    @property
    def batch_size(self) -> None:  # type: ignore[override]
        return None

    @property
    def members(self) -> int:
        return self.chains

    def steps(self, batches: int) -> int:
        return self.warmup + self.draws

    def keeps(self, step: int, total: int) -> bool:
        return step >= self.warmup

    def prepare(self, model: Model, x: Tensor) -> tuple[Model, tuple[str, ...]]:
        refuse_running_statistics(model, "Metropolis")
        return model, ()

    def init(self, target: Target, variables: Variables, noise: Stream) -> MetropolisState:
        flat = ravel(variables.params)
        scale = self.scale or OPTIMAL / math.sqrt(flat.shape[1])
        log_scale = torch.full((len(flat),), math.log(scale), dtype=torch.float64, device=flat.device)
        return MetropolisState(variables, log_scale, flat.clone(), torch.ones_like(flat))

    def step(self, target: Target, state: MetropolisState, batch: Batch, tick: Tick) -> tuple[MetropolisState, Info]:
        terrain = Terrain(target, batch, state.variables)
        place, spread = terrain.here(), state.variance.sqrt()
        rate = tick.value(self._learning)
        generator = tick.noise.child("proposal").generator(place.flat.device)
        log_scale, accepted = state.log_scale, torch.zeros_like(state.log_scale)
        for _ in range(self.thin):
            jump = torch.randn(spread.shape, generator=generator, dtype=spread.dtype, device=spread.device) * spread
            jump = jump * log_scale.exp().unsqueeze(1).to(jump.dtype)
            uniform = torch.rand(len(jump), generator=generator, dtype=torch.float64, device=jump.device)
            place, probability = self.move(terrain, place, jump, uniform)
            log_scale = log_scale + rate * (probability - self.acceptance)
            accepted = accepted + probability / self.thin
        mean, variance = _followed(state, place.flat, rate) if self.spread else (state.mean, state.variance)
        after = MetropolisState(terrain.named(place.flat), log_scale, mean, variance)
        info = {"acceptance_rate": accepted, "log_likelihood": place.log_likelihood / target.size}
        return after, info | {"log_prior": place.log_prior / target.size}

    def move(self, terrain: Terrain, place: Place, jump: Tensor, uniform: Tensor) -> tuple[Place, Tensor]:
        """One proposal of every chain."""
        target = terrain.target
        return walk(terrain, place, lambda at: target.temper(at.log_likelihood + at.log_prior), jump, uniform)

    def _learning(self, tick: Tick) -> float:
        """How much of the newest state enters what is learnt: nothing once draws are kept."""
        return single((tick.step + 1) ** -FORGETTING) if tick.step < self.warmup else 0.0

    def current(self, state: MetropolisState) -> Variables:
        return state.variables

    def collected(self, target: Target, state: MetropolisState, kept: Kept) -> Posterior:
        return Chains(target.model, kept.variables, Chains.numbered(kept.variables, self.chains), kept.statistics)


def _followed(state: MetropolisState, flat: Tensor, rate: float | Tensor) -> tuple[Tensor, Tensor]:
    """Running averages of each chain's weights, and of the squares of their deviations over all chains."""
    apart = flat - state.mean
    variance = state.variance + rate * (apart.square().mean(0) - state.variance)
    return state.mean + rate * apart, variance
