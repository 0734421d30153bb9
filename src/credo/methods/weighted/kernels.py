"""Moves of annealed draws: what leaves each rung's distribution as it is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_options, check_rate
from credo.methods.mcmc.random_walk import Place, Terrain, acceptance, walk

JITTER = 0.2
"""Step sizes vary by this much either way, so that no orbit closes on itself."""


@dataclass(frozen=True)
class Rung:
    """The distribution between prior and posterior at one power beta.

    log p_beta(w) = log p(w) + beta (log p(data, w) / T - log p(w))

    Attributes:
        terrain: prior, likelihood and data.
        power: beta, from 0, the prior, to 1, the posterior.
    """

    terrain: Terrain
    power: float | Tensor

    def gap(self, place: Place) -> Tensor:
        """Log posterior over prior, up to the evidence, (C,): the log likelihood where the temperature is 1."""
        return self.terrain.target.temper(place.log_likelihood + place.log_prior) - place.log_prior

    def level(self, place: Place) -> Tensor:
        """The log density, (C,), up to a constant."""
        return place.log_prior + self.power * self.gap(place)

    def slope(self, flat: Tensor) -> Tensor:
        """Its gradient, (C, P)."""
        target, leaf = self.terrain.target, flat.detach().requires_grad_()
        with torch.enable_grad():
            variables = self.terrain.named(leaf)
            log_prior = target.log_prior(variables.params)
            log_likelihood = target.full(target.log_likelihood(variables, self.terrain.batch))
            level = self.level(Place(leaf, log_likelihood, log_prior))
            return torch.autograd.grad(level.sum(), leaf)[0]


class Kernel(ABC):
    """A move that leaves a rung's distribution as it is."""

    acceptance: float
    """What the length of the steps is adapted to."""

    @abstractmethod
    def first_scale(self, weights: int) -> float:
        """Length of a step in standard deviations, before anything is known."""

    @abstractmethod
    def move(
        self, rung: Rung, place: Place, scale: Tensor, spread: Tensor, generator: torch.Generator
    ) -> tuple[Place, Tensor]:
        """Move all draws.

        Args:
            rung: the distribution.
            place: where they are.
            scale: length of a step in standard deviations, ().
            spread: standard deviation of every weight, (P,).
            generator: the randomness.

        Returns:
            Where they are now, and the average probability of acceptance, (C,).
        """


@dataclass(frozen=True)
class RandomWalk(Kernel):
    """Random-walk Metropolis.

    Args:
        moves: proposals on each rung.
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
        self, rung: Rung, place: Place, scale: Tensor, spread: Tensor, generator: torch.Generator
    ) -> tuple[Place, Tensor]:
        total = torch.zeros_like(place.log_prior)
        for _ in range(self.moves):
            jump = _normal(place.flat, generator) * (spread * scale.to(spread))
            place, probability = walk(rung.terrain, place, rung.level, jump, _uniform(place.flat, generator))
            total = total + probability
        return place, total / self.moves


@dataclass(frozen=True)
class Hamiltonian(Kernel):
    """One trajectory of Hamiltonian Monte Carlo.

    Args:
        leapfrogs: gradient steps on each rung.
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
        self, rung: Rung, place: Place, scale: Tensor, spread: Tensor, generator: torch.Generator
    ) -> tuple[Place, Tensor]:
        momentum = _normal(place.flat, generator)
        jitter = 1.0 + JITTER * (2.0 * _uniform(place.flat, generator) - 1.0)
        length = (scale * jitter).unsqueeze(1).to(spread) * spread  # (C, P)
        flat, after = place.flat, momentum + 0.5 * length * rung.slope(place.flat)
        for i in range(self.leapfrogs):
            flat = flat + length * after
            last = i == self.leapfrogs - 1
            after = after + (0.5 if last else 1.0) * length * rung.slope(flat)
        new = rung.terrain(flat)
        gained = 0.5 * (momentum.double().square() - after.double().square()).sum(1)
        probability = acceptance(rung.level(new) - rung.level(place) + gained)
        return new.where(_uniform(place.flat, generator) < probability, place), probability


def _normal(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)


def _uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.rand(len(like), generator=generator, dtype=torch.float64, device=like.device)
