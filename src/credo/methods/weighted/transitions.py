"""Moves of annealed draws: what leaves each tempered target as it is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_options, check_rate
from credo.methods.mcmc.metropolis import LogDensityTerms, Particles, acceptance, metropolis_step

JITTER = 0.2
"""Step sizes vary by this much either way, so that no orbit closes on itself."""


@dataclass(frozen=True)
class TemperedTarget:
    """The distribution between prior and posterior at one power beta.

    log p_beta(w) = log p(w) + beta (log p(data, w) / T - log p(w))
    """

    terms: LogDensityTerms  # prior, likelihood and data
    power: float | Tensor  # beta, from 0, the prior, to 1, the posterior

    def log_ratio(self, particles: Particles) -> Tensor:
        """Log posterior over prior, up to the evidence, (C,): the log likelihood where the temperature is 1."""
        return particles.log_joint(self.terms.target) - particles.log_prior

    def log_density(self, particles: Particles) -> Tensor:
        """The log density, (C,), up to a constant."""
        return particles.log_prior + self.power * self.log_ratio(particles)

    def gradient(self, position: Tensor) -> Tensor:
        """Its gradient, (C, P)."""
        target, leaf = self.terms.target, position.detach().requires_grad_()
        with torch.enable_grad():
            variables = self.terms.named(leaf)
            log_prior = target.log_prior(variables.params)
            batch = self.terms.batch
            log_likelihood = target.data_term(target.log_likelihood(variables, batch), batch)
            value = self.log_density(Particles(leaf, log_likelihood, log_prior))
            return torch.autograd.grad(value.sum(), leaf)[0]


class Transition(ABC):
    """A move that leaves a tempered target as it is."""

    acceptance: float
    """What the length of the steps is adapted to."""

    @abstractmethod
    def first_scale(self, weights: int) -> float:
        """Length of a step in standard deviations, before anything is known."""

    @abstractmethod
    def move(
        self, tempered: TemperedTarget, particles: Particles, scale: Tensor, spread: Tensor, generator: torch.Generator
    ) -> tuple[Particles, Tensor]:
        """Move all draws.

        Args:
            tempered: the distribution.
            particles: where they are.
            scale: length of a step in standard deviations, ().
            spread: standard deviation of every weight, (P,).
            generator: the randomness.

        Returns:
            Where they are now, and the average probability of acceptance, (C,).
        """


@dataclass(frozen=True)
class RandomWalk(Transition):
    """Random-walk Metropolis.

    Args:
        moves: proposals at each temperature.
        acceptance: what the length of the jumps is adapted to.
    """

    moves: int = 10
    acceptance: float = 0.234

    def __post_init__(self) -> None:
        check_options(self)
        check_at_least("moves", self.moves, 1)
        check_rate("acceptance", self.acceptance)

    def first_scale(self, weights: int) -> float:
        return 2.38 / math.sqrt(weights)

    def move(
        self, tempered: TemperedTarget, particles: Particles, scale: Tensor, spread: Tensor, generator: torch.Generator
    ) -> tuple[Particles, Tensor]:
        total = torch.zeros_like(particles.log_prior)
        for _ in range(self.moves):
            jump = _normal(particles.position, generator) * (spread * scale.to(spread))
            particles, probability = metropolis_step(
                tempered.terms, particles, tempered.log_density, jump, _uniform(particles.position, generator)
            )
            total = total + probability
        return particles, total / self.moves


@dataclass(frozen=True)
class Hamiltonian(Transition):
    """One trajectory of Hamiltonian Monte Carlo.

    Args:
        leapfrogs: gradient steps at each temperature.
        acceptance: what their length is adapted to.
    """

    leapfrogs: int = 5
    acceptance: float = 0.7

    def __post_init__(self) -> None:
        check_options(self)
        check_at_least("leapfrogs", self.leapfrogs, 1)
        check_rate("acceptance", self.acceptance)

    def first_scale(self, weights: int) -> float:
        return 0.5 / weights**0.25

    def move(
        self, tempered: TemperedTarget, particles: Particles, scale: Tensor, spread: Tensor, generator: torch.Generator
    ) -> tuple[Particles, Tensor]:
        momentum = _normal(particles.position, generator)
        jitter = 1.0 + JITTER * (2.0 * _uniform(particles.position, generator) - 1.0)
        length = (scale * jitter).unsqueeze(1).to(spread) * spread  # (C, P)
        position, after = particles.position, momentum + 0.5 * length * tempered.gradient(particles.position)
        for i in range(self.leapfrogs):
            position = position + length * after
            last = i == self.leapfrogs - 1
            after = after + (0.5 if last else 1.0) * length * tempered.gradient(position)
        new = tempered.terms(position)
        gained = 0.5 * (momentum.double().square() - after.double().square()).sum(1)
        probability = acceptance(tempered.log_density(new) - tempered.log_density(particles) + gained)
        return new.where(_uniform(particles.position, generator) < probability, particles), probability


def _normal(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)


def _uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.rand(len(like), generator=generator, dtype=torch.float64, device=like.device)
