"""Simulated annealing: a chain that cools down until it rests in the best place that it has found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_options, check_positive, check_rate
from credo.core.optimizers import Schedule
from credo.core.rng import Stream
from credo.core.schedules import Geometric
from credo.core.trees import Variables, ravel
from credo.methods.base import Info, Tick
from credo.methods.mcmc.log_density import WholeDataMethod
from credo.methods.mcmc.metropolis import LogDensityTerms, Particles, metropolis_step, to_float32
from credo.model import Batch, Target
from credo.posteriors import Draws, Posterior

ADAPTATION = 0.1
"""Change of the log scale of jumps by a proposal that is accepted for sure, or not at all."""


@dataclass(frozen=True)
class AnnealingState:
    """Where the chain of each member is, and the best place it has been to, (M, ...) each."""

    variables: Variables
    best: Variables
    best_log_joint: Tensor
    log_scale: Tensor


@dataclass(frozen=True)
class SimulatedAnnealing(WholeDataMethod[AnnealingState]):
    """The most probable weights by a Metropolis chain on p(w | data)^(1/T), whose temperature T falls.

    w' = w + scale * noise,   accepted with probability min(1, (p(w' | data) / p(w | data))^(1/T))

    While it is hot the chain crosses valleys; when it is cold it climbs. An optimizer without gradients, for densities
    with several peaks or with steps and few weights. The result is the best place that was visited, one point:
    `Ensemble(SimulatedAnnealing(), members=8)` anneals eight at once. `fit`'s own temperature does not move the
    maximum, and scales T.

    Args:
        sweeps: temperatures, one after the other.
        moves: proposals at each of them.
        temperature: T at the beginning, in units of the log joint density: differences that are crossed with ease.
        schedule: what T is multiplied by in the course of the run.
        acceptance: what the length of the jumps is adapted to, at all times: an optimizer need not be a Markov chain.
        scale: first length of a jump in every weight.

    Reference: S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, "Optimization by simulated annealing", 1983,
        https://doi.org/10.1126/science.220.4598.671
    """

    graph_safe: ClassVar[bool] = True

    sweeps: int = 1000
    moves: int = 10
    temperature: float = 10.0
    schedule: Schedule = Geometric(final=1e-4)
    acceptance: float = 0.3
    scale: float = 0.1

    def __post_init__(self) -> None:
        check_options(self)
        check_at_least("sweeps", self.sweeps, 1)
        check_at_least("moves", self.moves, 1)
        check_positive("temperature", self.temperature)
        check_positive("scale", self.scale)
        check_rate("acceptance", self.acceptance)

    @property
    def needs_gradient(self) -> bool:
        return False

    def steps(self, batches: int) -> int:
        return self.sweeps

    def init(self, target: Target, variables: Variables, rng: Stream) -> AnnealingState:
        flat = ravel(variables.params)
        lowest = torch.full((len(flat),), -math.inf, dtype=torch.float64, device=flat.device)
        log_scale = torch.full_like(lowest, math.log(self.scale))
        best = Variables({name: w.clone() for name, w in variables.params.items()}, variables.buffers)
        return AnnealingState(variables, best, lowest, log_scale)

    def step(self, target: Target, state: AnnealingState, batch: Batch, tick: Tick) -> tuple[AnnealingState, Info]:
        terms = LogDensityTerms(target, batch, state.variables)
        particles, log_scale = terms.here(), state.log_scale
        best, record = _better(target, particles, ravel(state.best.params), state.best_log_joint)
        heat = tick.scheduled(lambda now: to_float32(self.temperature * self.schedule.factor(now.fraction)))
        generator = tick.rng.child("proposal").generator(particles.position.device)
        accepted = torch.zeros_like(log_scale)
        for _ in range(self.moves):
            jump = torch.randn(best.shape, generator=generator, dtype=best.dtype, device=best.device)
            uniform = torch.rand(len(best), generator=generator, dtype=torch.float64, device=best.device)
            jump = jump * log_scale.exp().unsqueeze(1).to(best.dtype)
            particles, probability = metropolis_step(
                terms, particles, lambda at: at.log_joint(target) / heat, jump, uniform
            )
            best, record = _better(target, particles, best, record)
            log_scale = log_scale + ADAPTATION * (probability - self.acceptance)
            accepted = accepted + probability / self.moves
        after = AnnealingState(terms.named(particles.position), terms.named(best), record, log_scale)
        info = {"acceptance_rate": accepted, "log_likelihood": particles.log_likelihood / target.size}
        return after, info | {"log_prior": particles.log_prior / target.size, "best_log_joint": record}

    def loss(self, target: Target, metrics: Info) -> Tensor:
        return -(metrics["log_likelihood"] + metrics["log_prior"])

    def current(self, state: AnnealingState) -> Variables:
        return state.best

    def is_finite(self, state: AnnealingState) -> Tensor:
        """Whether a member has found any weights with a density, once it has looked."""
        started = state.best_log_joint.isfinite().any()
        return super().is_finite(state) & (state.best_log_joint.isfinite() | ~started)

    def posterior(self, target: Target, state: AnnealingState) -> Posterior:
        return Draws(target.model, state.best, Draws.uniform(state.best))


def _better(target: Target, particles: Particles, best: Tensor, record: Tensor) -> tuple[Tensor, Tensor]:
    """The best weights so far, (M, P), and their log joint density, (M,), now that these were visited."""
    found = particles.log_joint(target)
    better = found > record
    return torch.where(better.unsqueeze(1), particles.position, best), torch.where(better, found, record)
