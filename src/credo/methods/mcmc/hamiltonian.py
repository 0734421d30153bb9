"""What Hamiltonian samplers share: their numbers, their state, warm-up, and the sentences about how it went."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from credo.core.record import Record
from credo.core.rng import Stream
from credo.core.trees import Variables, ravel
from credo.methods.base import Info, Kept, Tick
from credo.methods.mcmc.adaptation import Adaptation
from credo.methods.mcmc.density import Density
from credo.methods.mcmc.leapfrog import Place, WithGradient, leapfrog
from credo.methods.mcmc.metric import Metric
from credo.methods.mcmc.whole_data import WholeDataSampler
from credo.methods.mcmc.windows import stan_windows
from credo.model import Batch, Target
from credo.posteriors import Chains

DIVERGENCE = 1000.0
"""A rise of energy along a trajectory that no honest integration shows."""


@dataclass(frozen=True)
class HamiltonianState:
    """Where the chains are, and what warm-up has learnt.

    Attributes:
        variables: weights, (C, *shape) each.
        log_joint: log density there, (C,).
        gradient: of the log density, (C, P).
        adaptation: step size and metric.
        extra: what a sampler learns beside these.
    """

    variables: Variables
    log_joint: Tensor
    gradient: Tensor
    adaptation: Adaptation
    extra: Any


@dataclass(frozen=True)
class Moved:
    """One iteration of all chains.

    Attributes:
        place: where they are now.
        acceptance: mean probability of acceptance along the trajectory, (C,).
        diverging: whether the energy ran away, (C,).
        energy: H at the end, with the momentum there, (C,).
        steps: leapfrog steps taken, (C,).
        depth: of the tree, (C,); None where there is no tree.
    """

    place: Place
    acceptance: Tensor
    diverging: Tensor
    energy: Tensor
    steps: Tensor
    depth: Tensor | None = None

    def info(self, step: float) -> Info:
        """What a person may want to know, by ArviZ's names."""
        kind = self.place.log_density
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
class HamiltonianSampler(WholeDataSampler):
    """Chains that follow the gradient of the log posterior, as one tensor axis.

    Args:
        draws: kept states of each chain.
        warmup: iterations before the first one, in which step size and metric are learnt.
        chains: C.
        thin: iterations from one kept state to the next.
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
        self, density: Density, place: Place, state: HamiltonianState, generator: torch.Generator, iteration: int
    ) -> tuple[Moved, Any]:
        """One iteration of all chains, and the sampler's own `extra` after it."""

    def first_extra(self) -> Any:
        """The sampler's own part of the state before the first iteration."""
        return ()

    def init(self, target: Target, variables: Variables, noise: Stream) -> HamiltonianState:
        flat = ravel(variables.params)
        unknown = torch.zeros_like(flat)  # the first step sees the data, and fills it in
        adaptation = Adaptation.fresh(flat, dense=self.dense)
        return HamiltonianState(variables, unknown[:, 0], unknown, adaptation, self.first_extra())

    def step(self, target: Target, state: HamiltonianState, batch: Batch, tick: Tick) -> tuple[HamiltonianState, Info]:
        density = Density(target, batch, state.variables)
        position, wished = density.flat(state.variables.params), self.target_acceptance
        windows = stan_windows(self.warmup)
        with torch.no_grad():
            place = Place(position, state.log_joint, state.gradient)
            if tick.step == 0:
                place = Place.at(position, density.with_gradient)
            trial = _trial(density.with_gradient, place, tick.noise.child("trial"))
            state = replace(state, adaptation=state.adaptation.begun(tick.step, windows, trial, wished))
            generator = tick.noise.generator(position.device)
            moved, extra = self.move(density, place, state, generator, tick.step)
            adaptation = state.adaptation
            after = moved.place
            if tick.step < self.warmup:
                adaptation = adaptation.updated(tick.step, windows, after.position, moved.acceptance, wished)
            log_likelihood = density.log_likelihood(after.position, after.log_density)
        variables = density.named(after.position)
        following = HamiltonianState(variables, after.log_density, after.gradient, adaptation, extra)
        return following, {**moved.info(state.adaptation.search.step), "log_likelihood": log_likelihood}

    def current(self, state: HamiltonianState) -> Variables:
        return state.variables

    def collected(self, target: Target, state: HamiltonianState, kept: Kept) -> Chains:
        record = Record(notes=self.notes(kept))
        chain = Chains.numbered(kept.variables, self.chains)
        return Chains(target.model, kept.variables, chain, kept.statistics, record=record)

    def notes(self, kept: Kept) -> tuple[str, ...]:
        """What went wrong after warm-up, in sentences."""
        diverging = kept.statistics.get("diverging")
        bad = 0 if diverging is None else int((diverging > 0).sum())
        if diverging is None or bad == 0:
            return ()
        return (
            f"{bad} of {diverging.numel()} draws ended a trajectory whose energy ran away (divergences): near them the "
            f"posterior is too curved for steps this long, and it may be explored in part only; raise "
            f"target_acceptance (now {self.target_acceptance:g}, try {_closer_to_one(self.target_acceptance):g}) or "
            "warmup, or take a narrower prior",
        )


def _closer_to_one(rate: float) -> float:
    return round(1.0 - 0.4 * (1.0 - rate), 3)


def _trial(density: WithGradient, place: Place, noise: Stream) -> Any:
    """The acceptance of one leapfrog step from here, for the search of a first step size."""

    def acceptance(step: float, metric: Metric) -> float:
        shape, dtype, device = place.position.shape, place.position.dtype, place.position.device
        momentum = noise.normal(*shape, dtype=dtype, device=device)
        end, after = leapfrog(density, place, momentum, step, metric)
        return float(acceptance_of(place.energy(momentum), end.energy(after))[0].mean())

    return acceptance


def acceptance_of(before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """min(1, exp(H - H')) of each chain, and whether it diverged: H' rose by far too much, or is no number."""
    error = after - before
    error = torch.where(error.isnan(), torch.inf, error)
    return torch.exp(-error).clamp_max(1.0), error > DIVERGENCE
