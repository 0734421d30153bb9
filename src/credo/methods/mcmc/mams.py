"""Metropolis-adjusted microcanonical sampling: MCLMC's motion, with a test that makes it exact."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Variables
from credo.kernels import ValueAndGradient
from credo.methods.mcmc.hamiltonian import HamiltonianState, Trajectory
from credo.methods.mcmc.hmc import TrajectorySampler
from credo.methods.mcmc.integrators import ChainState, Metric, isokinetic_step, unit_vectors
from credo.model import Target


def microcanonical_trajectory(
    value_and_gradient: ValueAndGradient, start: ChainState, direction: Tensor, step: float, metric: Metric, count: int
) -> Trajectory:
    """`count` isokinetic steps: H = -log p(q) + K, where K is the kinetic energy gained on the way."""
    chains, error = start, torch.zeros_like(start.log_density)
    for _ in range(count):
        chains, direction, change = isokinetic_step(value_and_gradient, chains, direction, step, metric)
        error = error + change
    return Trajectory(chains, direction, -start.log_density, error - start.log_density)


@dataclass(frozen=True)
class MAMS(TrajectorySampler):
    """Metropolis-adjusted microcanonical sampling: motion at constant speed, and a test of its end.

    u uniform on the sphere;   (q', u') = isokinetic steps from (q, u);   accept with min(1, exp(-W))
    W = sum of the changes of energy: log p(q) - log p(q') + (P - 1) sum log(cosh d + (e.u) sinh d)

    The steps are those of `MCLMC`, whose bias the test removes: exp(-W) is the ratio of the densities times the volume
    that the steps stretch. It is to MCLMC what HMC is to Langevin dynamics without a test.

    Args:
        length: of a trajectory, in units of the posterior's spread; None learns it in warm-up, from the root of the
            number of weights on.
        target_acceptance: what the step size is tuned to.

    Reference: J. Robnik, R. Cohn-Gordon, U. Seljak, "Metropolis adjusted microcanonical Hamiltonian Monte Carlo", 2025,
        https://arxiv.org/abs/2503.01707

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> model = credo.Model(torch.nn.Linear(1, 1), credo.likelihoods.Gaussian(0.1))
        >>> posterior = credo.fit(model, (x, 2 * x), credo.MAMS(draws=100, warmup=100))
        >>> posterior.predict(x).draws.shape
        torch.Size([400, 20, 1])
    """

    target_acceptance: float = 0.9

    def first_length(self, size: int) -> float:
        return math.sqrt(size)

    def velocity(self, noise: Tensor) -> Tensor:
        return unit_vectors(noise)

    def trajectory(
        self,
        value_and_gradient: ValueAndGradient,
        start: ChainState,
        velocity: Tensor,
        step: float,
        metric: Metric,
        count: int,
    ) -> Trajectory:
        return microcanonical_trajectory(value_and_gradient, start, velocity, step, metric, count)

    def init(self, target: Target, variables: Variables, rng: Stream) -> HamiltonianState:
        if sum(w[0].numel() for w in variables.params.values()) < 2:
            raise ValueError("MAMS turns in the space of weights and needs at least two of them: use HMC or NUTS")
        return super().init(target, variables, rng)
