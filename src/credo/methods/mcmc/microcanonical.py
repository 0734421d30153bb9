"""Microcanonical Langevin Monte Carlo: no rejections, and about as many effective draws as gradients allow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_positive
from credo.core.record import Record
from credo.core.rng import Stream
from credo.core.trees import Variables, ravel
from credo.methods.base import Info, Kept, Tick
from credo.methods.mcmc.density import Density
from credo.methods.mcmc.energy_search import EnergySearch
from credo.methods.mcmc.leapfrog import Place
from credo.methods.mcmc.metric import Metric, unit_metric
from credo.methods.mcmc.moments import Moments
from credo.methods.mcmc.walk import Walk, walk
from credo.methods.mcmc.whole_data import WholeDataSampler
from credo.methods.mcmc.windows import early_windows
from credo.model import Batch, Target
from credo.posteriors import Chains

FIRST_STEP = 0.01
"""The first step, in units of the prior's scale times the root of the number of weights."""
TOO_ROUGH = 5.0
"""How much larger than wished the variance of the energy's change may be before a note says so."""
MOST_STEPS = 40
"""Steps of one iteration at most, while the step is still being sought."""


@dataclass(frozen=True)
class MicrocanonicalState:
    """Where the chains are, where they are going, and what warm-up has learnt.

    Attributes:
        variables: weights, (C, *shape) each.
        log_joint: log density there, (C,).
        gradient: of the log density, (C, P).
        direction: unit vectors, (C, P).
        search: for the step.
        metric: in use.
        moments: of the window that will give the next metric.
    """

    variables: Variables
    log_joint: Tensor
    gradient: Tensor
    direction: Tensor
    search: EnergySearch
    metric: Metric
    moments: Moments


@dataclass(frozen=True)
class MCLMC(WholeDataSampler):
    """Microcanonical Langevin Monte Carlo: motion at constant speed, bent by the gradient and by a little noise.

    dq = L u dt,   du = (1 - u u^T) (f dt / (P - 1) + noise),   |u| = 1,   f = L^T grad log p

    The exact motion has the posterior as its stationary law and needs no test of acceptance. Steps of a finite size
    leave a bias, which is small by construction: the step is tuned until the energy, which should stay the same,
    changes by a variance of `energy_variance` per weight. For a network it gives several times as many effective
    draws per gradient as NUTS; where every digit counts, let HMC or NUTS confirm it.

    Args:
        draws: kept states of each chain.
        warmup: iterations before the first one, in which step and metric are learnt.
        chains: C.
        thin: iterations from one kept state to the next. An iteration is a path of half of `length`.
        energy_variance: wished variance of the change of energy per step and weight. The step goes with its sixth
            root, the bias with its third.
        length: of the path over which a chain forgets its direction, in units of the posterior's spread; None for the
            root of the number of weights.
        dense: learn all covariances of the weights instead of their variances alone.

    Reference: J. Robnik et al., "Microcanonical Hamiltonian Monte Carlo", 2023, https://arxiv.org/abs/2212.08549;
        J. Robnik, U. Seljak, "Fluctuation without dissipation: Microcanonical Langevin Monte Carlo", 2024,
        https://arxiv.org/abs/2303.18221

    Example:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> model = credo.Model(credo.nets.MLP(1, 1, (8,)), credo.likelihoods.Gaussian(0.1))
        >>> posterior = credo.fit(model, (x, x.sin()), credo.MCLMC(draws=50, warmup=50))
        >>> posterior.predict(x).draws.shape
        torch.Size([200, 20, 1])
    """

    warmup: int = 500
    energy_variance: float = 5e-4
    length: float | None = None
    dense: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least("warmup", self.warmup, 1)
        check_positive("energy_variance", self.energy_variance)
        if self.length is not None:
            check_positive("length", self.length)

    def init(self, target: Target, variables: Variables, noise: Stream) -> MicrocanonicalState:
        flat = ravel(variables.params)
        unknown = torch.zeros_like(flat)  # the first step sees the data, and fills it in
        size = flat.shape[1]
        if size < 2:
            raise ValueError("MCLMC turns in the space of weights and needs at least two of them: use HMC or NUTS")
        direction = noise.normal(*flat.shape, dtype=flat.dtype, device=flat.device)
        direction = direction / torch.linalg.vector_norm(direction, dim=1, keepdim=True)
        search = EnergySearch.around(FIRST_STEP * math.sqrt(size))
        metric, moments = unit_metric(size, flat, dense=self.dense), Moments.none(flat, dense=self.dense)
        return MicrocanonicalState(variables, unknown[:, 0], unknown, direction, search, metric, moments)

    def step(
        self, target: Target, state: MicrocanonicalState, batch: Batch, tick: Tick
    ) -> tuple[MicrocanonicalState, Info]:
        density = Density(target, batch, state.variables)
        position = density.flat(state.variables.params)
        length = self.length or math.sqrt(position.shape[1])
        warming = tick.step < self.warmup
        with torch.no_grad():
            place = Place(position, state.log_joint, state.gradient)
            if tick.step == 0:
                place = Place.at(position, density.with_gradient)
            count = max(1, math.ceil(0.5 * length / state.search.step))
            count = min(count, MOST_STEPS) if warming else count
            walked = walk(
                density.with_gradient,
                place,
                state.direction,
                state.search,
                state.metric,
                count,
                length,
                tick.noise.generator(position.device),
                self.energy_variance if warming else None,
            )
            metric, moments, search = self._learnt(state, walked, tick.step) if warming else _kept(state)
            after = walked.place
            log_likelihood = density.log_likelihood(after.position, after.log_density)
        following = MicrocanonicalState(
            density.named(after.position), after.log_density, after.gradient, walked.direction, search, metric, moments
        )
        return following, {**_info(walked, count, state.search.step), "log_likelihood": log_likelihood}

    def _learnt(self, state: MicrocanonicalState, walked: Walk, iteration: int) -> tuple[Metric, Moments, EnergySearch]:
        windows, moments = early_windows(self.warmup), state.moments
        if windows.collects(iteration):
            moments = moments.updated(walked.place.position)
        if iteration not in windows.ends:
            return state.metric, moments, walked.search
        fresh = Moments.none(walked.place.position, dense=self.dense)
        # under a metric that fits, lengths are those of a standard normal: a step far too short for it is found quickly
        search = EnergySearch.around(FIRST_STEP * math.sqrt(walked.place.position.shape[1]))
        return moments.metric(), fresh, search

    def current(self, state: MicrocanonicalState) -> Variables:
        return state.variables

    def collected(self, target: Target, state: MicrocanonicalState, kept: Kept) -> Chains:
        chain = Chains.numbered(kept.variables, self.chains)
        record = Record(notes=self.notes(kept))
        return Chains(target.model, kept.variables, chain, kept.statistics, record=record)

    def notes(self, kept: Kept) -> tuple[str, ...]:
        """What went wrong after warm-up, in sentences."""
        diverging, change = kept.statistics.get("diverging"), kept.statistics.get("energy_variance")
        if diverging is None or change is None:
            return ()
        bad, found = int((diverging > 0).sum()), float(change.mean())
        if bad > 0:
            return (
                f"in {bad} of {diverging.numel()} iterations the energy ran away and a chain turned round: the "
                f"posterior is too curved there for steps this long; lower energy_variance (now "
                f"{self.energy_variance:g}, try {self.energy_variance / 10:g}), or give more warmup",
            )
        if found > TOO_ROUGH * self.energy_variance:
            return (
                f"the energy changed by a variance of {found:.2g} per step and weight, not {self.energy_variance:g} as "
                "wished: the chains were still on their way when the step was tuned, and the draws are more biased "
                "than they should be; give more warmup, or start from a trained network",
            )
        return ()


def _kept(state: MicrocanonicalState) -> tuple[Metric, Moments, EnergySearch]:
    return state.metric, state.moments, state.search


def _info(walked: Walk, count: int, step: float) -> Info:
    kind = walked.place.log_density
    return {
        "diverging": walked.diverging.to(kind),
        "energy_variance": walked.change,
        "lp": kind,
        "n_steps": torch.full_like(kind, count),
        "step_size": torch.full_like(kind, step),
    }
