"""What samplers on minibatches share: the gradient, the step size, when noise is on and which states are draws."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_options, check_positive, check_rate
from credo.core.inputs import Inputs
from credo.core.optimizers import Constant, Schedule
from credo.core.rng import Stream
from credo.core.schedules import Cyclical
from credo.core.trees import Params, Variables
from credo.methods.ascent import leaves_of, per_example_gradient
from credo.methods.base import Info, SampledStates, Sampler, Tick
from credo.model import Batch, Model, Target
from credo.posteriors import Chains, Posterior


@dataclass(frozen=True)
class RMSPreconditioner:
    """Step sizes by weight, from the root mean square of each weight's gradients (RMSprop).

    G_i = 1 / (floor + sqrt(v_i)),   v <- decay v + (1 - decay) gradient^2, with gradients per example

    G is learned while no draws are made, and held while they are. A matrix that went on changing with the weights would
    need a further term, the divergence of G, in every step; held still, it needs none.

    Args:
        decay: of the running average.
        floor: keeps flat directions from leaping.

    Reference: C. Li, C. Chen, D. Carlson, L. Carin, "Preconditioned stochastic gradient Langevin dynamics for deep
        neural networks", 2016, https://arxiv.org/abs/1512.07666
    """

    decay: float = 0.99
    floor: float = 1e-2

    def __post_init__(self) -> None:
        check_options(self)
        check_rate("decay", self.decay)
        check_positive("floor", self.floor)


@dataclass(frozen=True)
class StochasticState:
    """Weights of C chains, (C, *shape), and what their next step needs beside them."""

    variables: Variables  # weights, and running statistics of batch norm
    squares: Params  # running average of squared gradients, from zero on; empty without a preconditioner
    learned: Tensor  # total weight of the gradients in that average, (C,), from 0 to 1
    velocity: Params  # by standard deviations of its own distribution; empty where there is none


@dataclass(frozen=True)
class StochasticSampler(Sampler[StochasticState]):
    """A sampler that follows gradients of minibatches and accepts every step.

    Without a Metropolis correction the distribution of its states is off by an amount that falls with the step size,
    and the noise of minibatches adds to it.

    Args:
        epochs: passes over the data, warm-up included.
        learning_rate: step size l on the gradient per example, as for an optimizer: the step on the log joint density
            of N examples is l / N.
        batch_size: examples per step; None for all of them.
        draws: states of each chain, spread evenly over the time of the diffusion (the sum of the step sizes) after the
            warm-up, so that all of them count alike whatever the schedule.
        warmup: epochs before the first draw; None for half of them. With `Cyclical` its exploration takes this place.
        chains: independent chains, advanced together.
        schedule: how the step size changes: `Constant()`, `Polynomial()`, or `Cyclical()`, which looks for a mode
            without noise in the first part of every cycle and samples in the rest.
        preconditioner: step sizes by weight; None for the same everywhere.
    """

    noise_off: ClassVar[bool] = True

    epochs: int = 200
    learning_rate: float = 1e-2
    batch_size: int | None = 128
    draws: int = 100
    warmup: int | None = None
    chains: int = 1
    schedule: Schedule = Constant()
    preconditioner: RMSPreconditioner | None = None

    def __post_init__(self) -> None:
        check_options(self)
        for name in ("epochs", "draws", "chains"):
            check_at_least(name, getattr(self, name), 1)
        check_positive("learning_rate", self.learning_rate)
        if self.batch_size is not None:
            check_at_least("batch_size", self.batch_size, 1)
        if self.warmup is not None:
            check_at_least("warmup", self.warmup, 0)
            if isinstance(self.schedule, Cyclical):
                raise ValueError(
                    "with a Cyclical schedule warmup must be None: there are no draws while a cycle explores"
                )
            if self.warmup >= self.epochs:
                raise ValueError(f"warmup must be less than epochs ({self.epochs}), got {self.warmup}")
        if self.preconditioner is not None and self.samples(0.0):
            raise ValueError(
                "a preconditioner is learned before the first draw: it needs a warm-up, or cycles that explore"
            )

    @property
    def members(self) -> int:
        return self.chains

    def steps(self, batches: int) -> int:
        return self.epochs * batches

    def samples(self, fraction: float) -> bool:
        """Whether the chains sample, when this part of the run is over; before, or between, they only look around."""
        if isinstance(self.schedule, Cyclical):
            return not self.schedule.explores(fraction)
        return fraction >= (0.5 if self.warmup is None else self.warmup / self.epochs)

    def is_draw(self, step: int, total: int) -> bool:
        return step in _draw_steps(self, total)

    def prepare(self, model: Model, x: Inputs) -> tuple[Model, tuple[str, ...]]:
        network, notes = model.network, list[str]()
        if any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in network.module.modules()):
            notes.append(
                "batch norm sees one batch at a time, so the chains follow a density that changes from step to step; "
                "every draw keeps its own running statistics"
            )
        return model, tuple(notes)

    def init(self, target: Target, variables: Variables, rng: Stream) -> StochasticState:
        squares = {name: torch.zeros_like(w) for name, w in variables.params.items()} if self.preconditioner else {}
        learned = next(iter(variables.params.values())).new_zeros(variables.members)
        return StochasticState(
            variables, squares, learned, self.first_velocity(variables.params, rng.child("velocity"))
        )

    def first_velocity(self, params: Params, rng: Stream) -> Params:
        """Velocities before the first step; none unless the method has them."""
        return {}

    def step(self, target: Target, state: StochasticState, batch: Batch, tick: Tick) -> tuple[StochasticState, Info]:
        gradient, info = _gradient(target, state.variables, batch, tick)
        noise = tick.rng.child("diffusion").normal_like(state.variables.params)
        rate = tick.scheduled(lambda now: self.learning_rate * self.schedule.factor(now.fraction))
        noise_scale = tick.scheduled(self._noise_scale)
        steps = self._step_sizes(state, gradient, rate, tick)
        with torch.no_grad():
            for name, weights in state.variables.params.items():
                velocity = state.velocity.get(name)
                self.move(weights, velocity, gradient[name], steps[name], noise_scale * noise[name], target.size)
        return state, info

    @abstractmethod
    def move(
        self, weights: Tensor, velocity: Tensor | None, gradient: Tensor, step: Tensor, noise: Tensor, size: float
    ) -> None:
        """Move one parameter of all chains, in place.

        Args:
            weights: (C, *shape).
            velocity: likewise, or None.
            gradient: of the log joint density per example, at these weights.
            step: step size l, by weight or for all of them.
            noise: standard normal numbers, or zero while the chains look around.
            size: N, the number of data, or their total weight.
        """

    def _noise_scale(self, tick: Tick) -> float:
        """1, and 0 while a cycle explores."""
        return 0.0 if isinstance(self.schedule, Cyclical) and self.schedule.explores(tick.fraction) else 1.0

    def _step_sizes(self, state: StochasticState, gradient: Params, rate: float | Tensor, tick: Tick) -> Params:
        chosen, first = self.preconditioner, next(iter(gradient.values()))
        step = torch.as_tensor(rate, dtype=first.dtype, device=first.device)
        if chosen is None:
            return dict.fromkeys(gradient, step)
        newest = tick.scheduled(lambda now: 0.0 if self.samples(now.fraction) else 1.0 - chosen.decay)
        state.learned.add_(newest * (1.0 - state.learned))
        for name, squares in state.squares.items():
            squares.add_(newest * (gradient[name].square() - squares))
        weight = {name: state.learned.view(-1, *[1] * (s.ndim - 1)) for name, s in state.squares.items()}
        return {name: step / (chosen.floor + (s / weight[name]).sqrt()) for name, s in state.squares.items()}

    def current(self, state: StochasticState) -> Variables:
        return state.variables

    def from_draws(self, target: Target, state: StochasticState, states: SampledStates) -> Posterior:
        return Chains(target.model, states.variables, Chains.numbered(states.variables, self.chains), states.statistics)


def _gradient(target: Target, variables: Variables, batch: Batch, tick: Tick) -> tuple[Params, Info]:
    """Of the tempered log joint density per example, unbiased under minibatches, (C, *shape) each."""
    params = leaves_of(variables.params)
    each = target.training_log_likelihood(Variables(params, variables.buffers), batch, tick.rng)
    log_likelihood, log_prior = target.data_term(each, batch), target.log_prior(params)
    objective = target.temper(log_likelihood + log_prior)
    gradients = per_example_gradient(objective, list(params.values()), target)
    info = {"log_likelihood": log_likelihood.detach() / target.size, "log_prior": log_prior.detach() / target.size}
    return dict(zip(params, gradients, strict=True)), info


@lru_cache(maxsize=8)
def _draw_steps(method: StochasticSampler, total: int) -> frozenset[int]:
    """The steps after which the state is a draw: evenly in the time of the diffusion, the sum of the step sizes."""

    def size(step: int) -> float:
        return method.schedule.factor(step / total) if method.samples(step / total) else 0.0

    whole, time, chosen = math.fsum(map(size, range(total))), 0.0, set[int]()
    if whole == 0.0:  # a run so short that it ends before the first time to sample
        return frozenset({total - 1})
    for i in range(total):
        before, time = time, time + size(i)
        if math.floor(method.draws * time / whole + 1e-9) > math.floor(method.draws * before / whole + 1e-9):
            chosen.add(i)
    return frozenset(chosen)


@dataclass(frozen=True)
class SGLD(StochasticSampler):
    """Gradient steps on minibatches with as much noise as makes them a sampler.

    w <- w + l G grad log p(data, w) / N + sqrt(2 l G / N) noise

    With eps = 2 l / N this is w + eps/2 grad + sqrt(eps) noise: the noise has its true scale, there is no factor to
    turn it down. `fit(temperature=...)` makes a cold or hot posterior where that is wanted.

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 64)[:, None]
        >>> model = credo.Model(credo.nets.MLP(1, 1, (10,)), credo.likelihoods.Gaussian(0.2))
        >>> posterior = credo.fit(model, (x, x.sin()), SGLD(epochs=20, batch_size=16, draws=10))
        >>> len(posterior.draw())
        10

    Reference: M. Welling, Y. W. Teh, "Bayesian learning via stochastic gradient Langevin dynamics", 2011,
        https://www.stats.ox.ac.uk/~teh/research/compstats/WelTeh2011a.pdf
    """

    graph_safe: ClassVar[bool] = True

    def move(
        self, weights: Tensor, velocity: Tensor | None, gradient: Tensor, step: Tensor, noise: Tensor, size: float
    ) -> None:
        weights.add_(step * gradient + (step * (2.0 / size)).sqrt() * noise)


@dataclass(frozen=True)
class SGHMC(StochasticSampler):
    """SGLD with momentum: friction takes out what the noise of minibatches puts in.

    u <- u + s grad log p(data, w),   w <- w + s/2 u
    u <- (1 - friction) u + sqrt(1 - (1 - friction)^2) noise,   w <- w + s/2 u,   with s = sqrt(l G / N)

    u is the velocity in units of its own standard deviation, so that a change of the step size leaves its distribution
    as it is, and friction and noise balance exactly, at any friction. The two half moves around the friction make the
    positions right to second order in s, and exact for a normal posterior and full batches. (With one whole move after
    the friction their variance would be off by friction / 2 at any step size.) 1 - friction is the momentum of an
    optimizer with learning rate l.

    Args:
        friction: part of the velocity that is lost in a step.

    Reference: T. Chen, E. B. Fox, C. Guestrin, "Stochastic gradient Hamiltonian Monte Carlo", 2014,
        https://arxiv.org/abs/1402.4102; B. Leimkuhler, C. Matthews, "Rational construction of stochastic numerical
        methods for molecular sampling", 2013, https://arxiv.org/abs/1203.5428
    """

    friction: float = 0.1

    graph_safe: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.friction <= 1.0:
            raise ValueError(f"friction must lie between 0 and 1 (0 excluded), got {self.friction!r}")

    def first_velocity(self, params: Params, rng: Stream) -> Params:
        return rng.normal_like(params)

    def move(
        self, weights: Tensor, velocity: Tensor | None, gradient: Tensor, step: Tensor, noise: Tensor, size: float
    ) -> None:
        assert velocity is not None
        left, root = 1.0 - self.friction, (step / size).sqrt()
        velocity.add_(root * size * gradient)
        weights.add_(0.5 * root * velocity)
        velocity.mul_(left).add_(math.sqrt(1.0 - left * left) * noise)
        weights.add_(0.5 * root * velocity)
