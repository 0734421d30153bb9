"""Annealed importance sampling: from the prior to the posterior in many small steps, for the evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_options, check_positive
from credo.core.pareto import Smoothed, pareto_k
from credo.core.rng import Stream
from credo.core.trees import Variables, ravel
from credo.methods.base import Info, Tick
from credo.methods.mcmc.log_density import WholeDataMethod
from credo.methods.mcmc.metropolis import LogDensityTerms, to_float32
from credo.methods.weighted.importance import prior_draws, weighed_draws, weightless
from credo.methods.weighted.transitions import Hamiltonian, TemperedTarget, Transition
from credo.model import Batch, Target
from credo.posteriors import Posterior

ADAPTATION = 0.2
"""Change of the log step size by pilots that accept all, or nothing."""


@dataclass(frozen=True)
class AnnealedState:
    """Draws and pilots, (M, ...) each."""

    variables: Variables  # weights
    log_weights: Tensor  # log importance weights so far, (M,)
    log_ratio: Tensor  # log posterior over prior, up to the evidence, where the draws are, (M,)
    power: Tensor  # beta, how far they have come from prior (0) to posterior (1), (M,), the same for all
    log_scale: Tensor  # log length of the transition's steps, (M,), the same for all


@dataclass(frozen=True)
class AnnealedImportanceSampling(WholeDataMethod[AnnealedState]):
    """Draws that start in the prior and are led to the posterior by raising the likelihood to growing powers.

    log w = sum_t (beta_t - beta_{t-1}) log p(data | w_{t-1})
    w_t from w_{t-1} by moves that leave p(w) p(data | w)^beta_t as it is

    Their weights are unbiased for the evidence, p(data) = E[w], whatever the number of temperatures; more of them make
    the weights equal. `posterior.log_evidence` has its value and standard error. Some further draws, the pilots, serve
    nothing but to choose the steps of the others, which so stay independent. The draws always start in the prior:
    `fit(start=...)` is of no use here. A run that is stopped early makes the rest of the way in one step, and says what
    that costs.

    Args:
        draws: S.
        temperatures: number of intermediate distributions; beta_t = (t / temperatures)^power.
        power: how much of the work is done close to the prior, where the likelihood changes most.
        transition: the moves: `Hamiltonian(leapfrogs)`, or `RandomWalk(moves)` without gradients.
        pilots: draws that set the length of the steps and take no part in the result.

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 10)[:, None]
        >>> line = credo.Model(torch.nn.Linear(1, 1), credo.likelihoods.Gaussian(0.5), credo.priors.Normal(2.0))
        >>> posterior = credo.fit(line, (x, x), AnnealedImportanceSampling(draws=50, temperatures=50))
        >>> posterior.log_evidence.standard_error < 0.3
        True

    Reference: R. M. Neal, "Annealed importance sampling", 2001, https://arxiv.org/abs/physics/9803008
    """

    graph_safe: ClassVar[bool] = True

    draws: int = 100
    temperatures: int = 500
    power: float = 4.0
    transition: Transition = Hamiltonian()
    pilots: int = 16

    def __post_init__(self) -> None:
        check_options(self)
        check_at_least("draws", self.draws, 2)
        check_at_least("temperatures", self.temperatures, 1)
        check_at_least("pilots", self.pilots, 2)
        check_positive("power", self.power)

    @property
    def members(self) -> int:
        """Pilots, then draws."""
        return self.pilots + self.draws

    def steps(self, batches: int) -> int:
        return self.temperatures

    def init(self, target: Target, variables: Variables, rng: Stream) -> AnnealedState:
        drawn = prior_draws(target, variables, rng.child("prior"))
        flat = ravel(drawn.params)
        zeros = torch.zeros(len(flat), dtype=torch.float64, device=flat.device)
        log_scale = math.log(self.transition.first_scale(flat.shape[1]))
        return AnnealedState(drawn, zeros, zeros.clone(), zeros.clone(), torch.full_like(zeros, log_scale))

    def step(self, target: Target, state: AnnealedState, batch: Batch, tick: Tick) -> tuple[AnnealedState, Info]:
        terms = LogDensityTerms(target, batch, state.variables)
        particles, tempered = terms.here(), TemperedTarget(terms, tick.scheduled(self._ladder))
        log_weights = state.log_weights + (tempered.power - state.power) * weightless(tempered.log_ratio(particles))
        generator = tick.rng.child("moves").generator(particles.position.device)
        spread = particles.position[: self.pilots].std(0).clamp_min(1e-12)
        particles, probability = self.transition.move(tempered, particles, state.log_scale[0].exp(), spread, generator)
        excess = probability[: self.pilots].mean() - self.transition.acceptance
        log_ratio, power = weightless(tempered.log_ratio(particles)), tempered.power + torch.zeros_like(state.power)
        after = AnnealedState(
            terms.named(particles.position), log_weights, log_ratio, power, state.log_scale + ADAPTATION * excess
        )
        info = {"acceptance_rate": probability, "power": power}
        return after, info | {"log_likelihood": weightless(particles.log_likelihood) / target.size}

    def _ladder(self, tick: Tick) -> float:
        return to_float32(((tick.step + 1) / tick.total) ** self.power)

    def current(self, state: AnnealedState) -> Variables:
        return state.variables.take(torch.arange(self.pilots, self.members))

    def posterior(self, target: Target, state: AnnealedState) -> Posterior:
        weights = (state.log_weights + (1.0 - state.power) * state.log_ratio)[self.pilots :].cpu()
        return weighed_draws(target.model, self.current(state), Smoothed(weights, pareto_k(weights)))
