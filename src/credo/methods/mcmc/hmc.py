"""Hamiltonian Monte Carlo with trajectories of one length for all chains."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_positive
from credo.methods.mcmc.chees import LengthSearch, chees_slope, van_der_corput
from credo.methods.mcmc.density import Density
from credo.methods.mcmc.hamiltonian import HamiltonianSampler, HamiltonianState, Moved, acceptance_of
from credo.methods.mcmc.leapfrog import Place, WithGradient, leapfrog
from credo.methods.mcmc.metric import Metric

MOST_STEPS = 1000
"""Leapfrog steps of one trajectory at most."""


@dataclass(frozen=True)
class Trajectory:
    """A proposal of each chain: where a trajectory ends.

    Attributes:
        place: its end.
        momentum: there, (C, P).
        acceptance: probability with which it is accepted, (C,).
        diverging: whether the energy ran away, (C,).
    """

    place: Place
    momentum: Tensor
    acceptance: Tensor
    diverging: Tensor


def trajectory(
    density: WithGradient, place: Place, momentum: Tensor, step: float, metric: Metric, count: int
) -> Trajectory:
    """`count` leapfrog steps of all chains, as a proposal."""
    end, after = leapfrog(density, place, momentum, step, metric, count)
    return Trajectory(end, after, *acceptance_of(place.energy(momentum), end.energy(after)))


def decided(place: Place, momentum: Tensor, proposal: Trajectory, uniform: Tensor, count: int) -> Moved:
    """Metropolis: the proposal where its acceptance exceeds a uniform number, (C,), the old place elsewhere."""
    accepted = uniform < proposal.acceptance
    after = proposal.place.where(accepted, place)
    energy = torch.where(accepted, proposal.place.energy(proposal.momentum), place.energy(momentum))
    steps = torch.full_like(proposal.acceptance, count)
    return Moved(after, proposal.acceptance, proposal.diverging, energy, steps)


@dataclass(frozen=True)
class HMC(HamiltonianSampler):
    """Hamiltonian Monte Carlo: a random push, a trajectory without friction, and a test of its end.

    r ~ N(0, I);   (q', r') = leapfrog steps from (q, r);   accept with min(1, exp(H(q, r) - H(q', r')))

    All chains take the same number of steps, so that no lane ever waits. Each iteration's length is drawn evenly
    between a half and three halves of `length`, since trajectories of a fixed length can come full circle.

    Args:
        length: of a trajectory, in units of the posterior's spread as the metric knows it; None learns it in warm-up
            from how far the chains move (ChEES).

    Reference: S. Duane et al., "Hybrid Monte Carlo", 1987; R. Neal, "MCMC using Hamiltonian dynamics", 2011,
        https://arxiv.org/abs/1206.1901

    Example:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> model = credo.Model(torch.nn.Linear(1, 1), credo.likelihoods.Gaussian(0.1))
        >>> posterior = credo.fit(model, (x, 2 * x), credo.HMC(draws=100, warmup=100))
        >>> posterior.predict(x).draws.shape
        torch.Size([400, 20, 1])
    """

    length: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length is not None:
            check_positive("length", self.length)

    def first_extra(self) -> LengthSearch:
        return LengthSearch.around(self.length or 0.5 * math.pi)

    def move(
        self, density: Density, place: Place, state: HamiltonianState, generator: torch.Generator, iteration: int
    ) -> tuple[Moved, LengthSearch]:
        position, metric, step = place.position, state.adaptation.metric, state.adaptation.search.step
        search: LengthSearch = state.extra
        wanted = search.length * (0.5 + van_der_corput(iteration + 1))
        count = min(max(1, round(wanted / step)), MOST_STEPS)
        momentum = torch.randn(position.shape, generator=generator, dtype=position.dtype, device=position.device)
        uniform = torch.rand(len(position), generator=generator, dtype=position.dtype, device=position.device)
        proposal = trajectory(density.with_gradient, place, momentum, step, metric, count)
        if self.length is None and iteration < self.warmup:
            search = self._searched(search, place, proposal, state, count * step, iteration)
        return decided(place, momentum, proposal, uniform, count), search

    def _searched(
        self,
        search: LengthSearch,
        place: Place,
        proposal: Trajectory,
        state: HamiltonianState,
        length: float,
        iteration: int,
    ) -> LengthSearch:
        """After an iteration of warm-up. Until there is a mean to speak of, the length stays."""
        moments, metric = state.adaptation.moments, state.adaptation.metric
        if moments.seen >= 10:
            before = metric.whiten(place.position - moments.mean)
            after = metric.whiten(proposal.place.position - moments.mean)
            slope = chees_slope(before, after, proposal.momentum, proposal.acceptance, length)
            search = search.updated(slope)
        return search.ended() if iteration == self.warmup - 1 else search
