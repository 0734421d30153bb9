"""Hamiltonian Monte Carlo with trajectories of one length for all chains."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_positive
from credo.methods.mcmc.hamiltonian import HamiltonianSampler, HamiltonianState, Moved, Trajectory
from credo.methods.mcmc.integrators import ChainState
from credo.methods.mcmc.log_density import LogDensity

MOST_STEPS = 1000
"""Steps of one trajectory at most."""

_RATE, _FAST, _SLOW = 0.025, 0.9, 0.95
"""Adam's learning rate for the logarithm of the length, and its decays."""
_SETTLING = 0.5
"""Exponent of the weights with which iterates are averaged: late ones count more."""


@dataclass(frozen=True)
class LengthSearch:
    """Ascent on the change in the estimator of the expected square (ChEES).

    1/4 E[(|z' - m|^2 - |z - m|^2)^2],   z' = z after a trajectory of length t, m the mean

    Lengths are in units of the posterior's spread. The gradient needs one inner product per trajectory.

    Reference: M. Hoffman, A. Radul, P. Sountsov, "An adaptive-MCMC scheme for setting trajectory lengths in
        Hamiltonian Monte Carlo", 2021, https://proceedings.mlr.press/v130/hoffman21a.html
    """

    numbers: Tensor  # log length, its average, Adam's two memories and the count, (5,)

    @staticmethod
    def around(length: float) -> LengthSearch:
        return LengthSearch(torch.tensor([math.log(length), math.log(length), 0.0, 0.0, 0.0]).double())

    @property
    def length(self) -> float:
        return math.exp(self.numbers[0])

    def updated(self, gradient: float) -> LengthSearch:
        """After one iteration with this estimated gradient of the criterion by the log of the length."""
        log_length, average, first, second, count = self.numbers.tolist()
        if not math.isfinite(gradient):
            return self
        count += 1.0
        first, second = _FAST * first + (1 - _FAST) * gradient, _SLOW * second + (1 - _SLOW) * gradient**2
        direction = first / (1 - _FAST**count) / (math.sqrt(second / (1 - _SLOW**count)) + 1e-30)
        log_length += _RATE * direction
        weight = count**-_SETTLING
        average = weight * log_length + (1 - weight) * average
        return LengthSearch(torch.tensor([log_length, average, first, second, count]).double())

    def ended(self) -> LengthSearch:
        """The search at rest, at the averaged length."""
        return LengthSearch(self.numbers[[1, 1, 2, 3, 4]])


def chees_gradient(before: Tensor, after: Tensor, velocity: Tensor, acceptance: Tensor, length: float) -> float:
    """The gradient of the criterion, averaged over chains by their acceptance.

    Args:
        before: z - m, (C, P), white.
        after: z' - m of the proposals.
        velocity: r' of the proposals: dz'/dt.
        acceptance: of the proposals, (C,).
        length: t of this iteration.
    """
    change = torch.linalg.vecdot(after, after) - torch.linalg.vecdot(before, before)
    gradients = length * change * torch.linalg.vecdot(after, velocity)
    weighted = torch.where(acceptance > 0, gradients * acceptance, 0.0).sum() / acceptance.sum().clamp_min(1e-30)
    return float(weighted)


def van_der_corput(index: int) -> float:
    """A number between 0 and 1 for every index, more evenly spread than random ones.

    Examples:
        >>> [van_der_corput(i) for i in range(1, 6)]
        [0.5, 0.25, 0.75, 0.125, 0.625]
    """
    if index < 0:
        raise ValueError(f"a run has no iteration {index}: its checkpoint is damaged; start the run anew")
    value, part = 0.0, 0.5
    while index:
        value += part * (index & 1)
        index, part = index >> 1, 0.5 * part
    return value


def accept(start: ChainState, proposal: Trajectory, uniform: Tensor, count: int) -> Moved:
    """Metropolis: the proposal where its acceptance exceeds a uniform number, (C,), the start elsewhere."""
    accepted = uniform < proposal.acceptance
    after = proposal.end.where(accepted, start)
    energy = torch.where(accepted, proposal.energy, proposal.start_energy)
    steps = torch.full_like(proposal.acceptance, count)
    return Moved(after, proposal.acceptance, proposal.diverging, energy, steps)


@dataclass(frozen=True)
class TrajectorySampler(HamiltonianSampler, ABC):
    """A fresh velocity, a trajectory with equally many steps for all chains, so that none waits, and a test of its end.

    Each iteration's length is drawn evenly between a half and three halves of `length`, since trajectories of a fixed
    length can come full circle.

    Args:
        length: of a trajectory, in units of the posterior's spread as the metric knows it; None learns it in warm-up
            from how far the chains move (ChEES).
    """

    length: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length is not None:
            check_positive("length", self.length)

    def first_length(self, size: int) -> float:
        """Where the search for the length begins, with so many weights: a quarter of a swing."""
        return 0.5 * math.pi

    def first_extra(self, size: int) -> LengthSearch:
        return LengthSearch.around(self.length or self.first_length(size))

    def move(
        self, log_density: LogDensity, chains: ChainState, state: HamiltonianState, rng: torch.Generator, iteration: int
    ) -> tuple[Moved, LengthSearch]:
        position, metric, step = chains.position, state.adaptation.metric, state.adaptation.search.step
        search: LengthSearch = state.extra
        wanted = search.length * (0.5 + van_der_corput(iteration + 1))
        count = min(max(1, round(wanted / step)), MOST_STEPS)
        noise = torch.randn(position.shape, generator=rng, dtype=position.dtype, device=position.device)
        uniform = torch.rand(len(position), generator=rng, dtype=position.dtype, device=position.device)
        velocity = self.velocity(noise)
        proposal = self.trajectory(log_density.value_and_gradient, chains, velocity, step, metric, count)
        if self.length is None and iteration < self.warmup:
            moments = state.adaptation.moments
            if moments.seen >= 10:  # until there is a mean to speak of, the length stays
                before = metric.whiten(position - moments.mean)
                after = metric.whiten(proposal.end.position - moments.mean)
                gradient = chees_gradient(before, after, proposal.velocity, proposal.acceptance, count * step)
                search = search.updated(gradient)
            search = search.ended() if iteration == self.warmup - 1 else search
        return accept(chains, proposal, uniform, count), search


@dataclass(frozen=True)
class HMC(TrajectorySampler):
    """Hamiltonian Monte Carlo: a random push, a trajectory without friction, and a test of its end.

    r ~ N(0, I);   (q', r') = leapfrog steps from (q, r);   accept with min(1, exp(H(q, r) - H(q', r')))

    Reference: S. Duane et al., "Hybrid Monte Carlo", 1987; R. Neal, "MCMC using Hamiltonian dynamics", 2011,
        https://arxiv.org/abs/1206.1901

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> model = credo.Model(torch.nn.Linear(1, 1), credo.likelihoods.Gaussian(0.1))
        >>> posterior = credo.fit(model, (x, 2 * x), credo.HMC(draws=100, warmup=100))
        >>> posterior.predict(x).draws.shape
        torch.Size([400, 20, 1])
    """
