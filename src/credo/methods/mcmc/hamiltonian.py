"""What Hamiltonian samplers share: their numbers, their state, warm-up, and the sentences about how it went."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_options
from credo.core.record import Record
from credo.core.rng import Stream
from credo.core.trees import Variables, ravel
from credo.kernels import ValueAndGradient
from credo.methods.base import Info, SampledStates, Sampler, StateT, Tick
from credo.methods.mcmc.integrators import ChainState, Metric, leapfrog
from credo.methods.mcmc.log_density import LogDensity, WholeDataMethod
from credo.methods.mcmc.warmup import Adaptation, stan_windows
from credo.model import Batch, Target
from credo.posteriors import Chains

DIVERGENCE = 1000.0
"""A rise of energy along a trajectory that no accurate integration shows."""


@dataclass(frozen=True)
class WholeDataSampler(WholeDataMethod[StateT], Sampler[StateT], ABC):
    """Chains as one tensor axis, a warm-up, and draws at even distances.

    Args:
        draws: draws from each chain.
        warmup: iterations before the first one, in which the sampler is tuned.
        chains: C.
        thin: iterations from one draw to the next.
    """

    draws: int = 1000
    warmup: int = 1000
    chains: int = 4
    thin: int = 1

    def __post_init__(self) -> None:
        check_options(self)
        for name in ("draws", "chains", "thin"):
            check_at_least(name, getattr(self, name), 1)
        check_at_least("warmup", self.warmup, 0)

    @property
    def members(self) -> int:
        return self.chains

    def steps(self, batches: int) -> int:
        return self.warmup + self.draws * self.thin

    def is_draw(self, step: int, total: int) -> bool:
        return step >= self.warmup and (step - self.warmup + 1) % self.thin == 0

    def attempt(self, target: Target, state: StateT, batch: Batch, tick: Tick) -> None:
        """One gradient: a whole step may have a thousand of them."""
        variables = self.current(state)
        log_density = LogDensity(target, batch, variables)
        with torch.no_grad():
            log_density.value_and_gradient(log_density.flat(variables.params))

    def from_draws(self, target: Target, state: StateT, states: SampledStates) -> Chains:
        chain, record = Chains.numbered(states.variables, self.chains), Record(notes=self.notes(states))
        return Chains(target.model, states.variables, chain, states.statistics, record=record)

    @abstractmethod
    def notes(self, states: SampledStates) -> tuple[str, ...]:
        """What went wrong after warm-up, in sentences."""


@dataclass(frozen=True)
class HamiltonianState:
    """Where the chains are, and what warm-up has learned."""

    variables: Variables  # weights, (C, *shape) each
    log_joint: Tensor  # log density there, (C,)
    gradient: Tensor  # of the log density, (C, P)
    adaptation: Adaptation  # step size and metric
    extra: Any  # what a sampler learns beside these


@dataclass(frozen=True)
class Trajectory:
    """A proposal of each chain: where a trajectory ends."""

    end: ChainState  # its last state
    velocity: Tensor  # there, by white positions, (C, P)
    start_energy: Tensor  # H where it began, (C,)
    energy: Tensor  # H at its end, (C,)

    @cached_property
    def error(self) -> Tensor:
        """H' - H, (C,): zero for exact motion; infinite where it is no number."""
        error = self.energy - self.start_energy
        return torch.where(error.isnan(), torch.inf, error)

    @property
    def acceptance(self) -> Tensor:
        """min(1, exp(H - H')), (C,): the probability with which the proposal is accepted."""
        return torch.exp(-self.error).clamp_max(1.0)

    @property
    def diverging(self) -> Tensor:
        """Whether the energy rose by far too much, (C,)."""
        return self.error > DIVERGENCE


def hamiltonian_trajectory(
    value_and_gradient: ValueAndGradient, start: ChainState, momentum: Tensor, step: float, metric: Metric, count: int
) -> Trajectory:
    """`count` leapfrog steps: H = -log p(q) + |r|^2 / 2."""
    end, after = leapfrog(value_and_gradient, start, momentum, step, metric, count)
    return Trajectory(end, after, start.energy(momentum), end.energy(after))


@dataclass(frozen=True)
class Moved:
    """One iteration of all chains."""

    chains: ChainState  # where they are now
    acceptance: Tensor  # mean probability of acceptance along the trajectory, (C,)
    diverging: Tensor  # whether the energy ran away, (C,)
    energy: Tensor  # H at the end, with the momentum there, (C,)
    steps: Tensor  # leapfrog steps taken, (C,)
    depth: Tensor | None = None  # of the tree, (C,); None where there is no tree

    def info(self, step: float) -> Info:
        """What a person may want to know, by ArviZ's names."""
        kind = self.chains.log_density
        info = {
            "acceptance_rate": self.acceptance,
            "diverging": self.diverging.to(kind),
            "energy": self.energy,
            "lp": kind,
            "n_steps": self.steps.to(kind),
            "step_size": torch.full_like(kind, step),
        }
        return info if self.depth is None else {**info, "tree_depth": self.depth.to(kind)}


@dataclass(frozen=True)
class HamiltonianSampler(WholeDataSampler[HamiltonianState]):
    """Chains that follow the gradient of the log posterior, as one tensor axis.

    Args:
        draws: draws from each chain.
        warmup: iterations before the first one, in which step size and metric are learned.
        chains: C.
        thin: iterations from one draw to the next.
        target_acceptance: what the step size is tuned to; more of it means shorter steps and fewer divergences.
        dense: learn all covariances of the weights instead of their variances alone.
    """

    target_acceptance: float = 0.8
    dense: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.target_acceptance < 1.0:
            raise ValueError(f"target_acceptance must lie strictly between 0 and 1, got {self.target_acceptance!r}")

    @abstractmethod
    def move(
        self, log_density: LogDensity, chains: ChainState, state: HamiltonianState, rng: torch.Generator, iteration: int
    ) -> tuple[Moved, Any]:
        """One iteration of all chains, and `extra` after it."""

    def first_extra(self, size: int) -> Any:
        """What this sampler learns beside step size and metric, before the first iteration, with so many weights."""
        return ()

    def velocity(self, noise: Tensor) -> Tensor:
        """A fresh velocity of every chain by its white position, from standard normal numbers, (C, P)."""
        return noise

    def trajectory(
        self,
        value_and_gradient: ValueAndGradient,
        start: ChainState,
        velocity: Tensor,
        step: float,
        metric: Metric,
        count: int,
    ) -> Trajectory:
        """`count` steps of all chains, as a proposal."""
        return hamiltonian_trajectory(value_and_gradient, start, velocity, step, metric, count)

    def init(self, target: Target, variables: Variables, rng: Stream) -> HamiltonianState:
        flat = ravel(variables.params)
        unknown = torch.zeros_like(flat)  # the first step sees the data, and fills it in
        adaptation = Adaptation.fresh(flat, dense=self.dense)
        return HamiltonianState(variables, unknown[:, 0], unknown, adaptation, self.first_extra(flat.shape[1]))

    def step(self, target: Target, state: HamiltonianState, batch: Batch, tick: Tick) -> tuple[HamiltonianState, Info]:
        log_density = LogDensity(target, batch, state.variables)
        position, target_acceptance = log_density.flat(state.variables.params), self.target_acceptance
        windows = stan_windows(self.warmup)
        with torch.no_grad():
            chains = ChainState(position, state.log_joint, state.gradient)
            if tick.step == 0:
                chains = ChainState.at(position, log_density.value_and_gradient)
            trial = self._trial(log_density.value_and_gradient, chains, tick.rng.child("trial"))
            state = replace(state, adaptation=state.adaptation.begun(tick.step, windows, trial, target_acceptance))
            generator = tick.rng.generator(position.device)
            moved, extra = self.move(log_density, chains, state, generator, tick.step)
            adaptation = state.adaptation
            after = moved.chains
            if tick.step < self.warmup:
                adaptation = adaptation.updated(tick.step, windows, after.position, moved.acceptance, target_acceptance)
            log_likelihood = log_density.log_likelihood(after.position, after.log_density)
        variables = log_density.named(after.position)
        following = HamiltonianState(variables, after.log_density, after.gradient, adaptation, extra)
        return following, {**moved.info(state.adaptation.search.step), "log_likelihood": log_likelihood}

    def current(self, state: HamiltonianState) -> Variables:
        return state.variables

    def notes(self, states: SampledStates) -> tuple[str, ...]:
        diverging = states.statistics.get("diverging")
        bad = 0 if diverging is None else int((diverging > 0).sum())
        if diverging is None or bad == 0:
            return ()
        return (
            f"{bad} of {diverging.numel()} draws ended a trajectory whose energy ran away (divergences): near them the "
            f"posterior is too curved for steps this long, and it may be explored in part only; raise "
            f"target_acceptance (now {self.target_acceptance:g}, try {_closer_to_one(self.target_acceptance):g}) or "
            "warmup, or take a narrower prior",
        )

    def _trial(self, value_and_gradient: ValueAndGradient, chains: ChainState, rng: Stream) -> Any:
        """The acceptance of one step from here, for the search of a first step size."""

        def acceptance(step: float, metric: Metric) -> float:
            shape, dtype, device = chains.position.shape, chains.position.dtype, chains.position.device
            velocity = self.velocity(rng.normal(*shape, dtype=dtype, device=device))
            return float(self.trajectory(value_and_gradient, chains, velocity, step, metric, 1).acceptance.mean())

        return acceptance


def _closer_to_one(rate: float) -> float:
    return round(1.0 - 0.4 * (1.0 - rate), 3)
