"""Motion of a frictionless particle in the landscape -log p: the leapfrog integrator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.methods.mcmc.metric import Metric

WithGradient = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Any log density of flat positions (C, P): its values (C,) and gradients (C, P)."""


@dataclass(frozen=True)
class Place:
    """Where C chains are, and what the density says there.

    Attributes:
        position: (C, P).
        log_density: (C,).
        gradient: of the log density, (C, P).
    """

    position: Tensor
    log_density: Tensor
    gradient: Tensor

    @staticmethod
    def at(position: Tensor, density: WithGradient) -> Place:
        return Place(position, *density(position))

    def where(self, chosen: Tensor, other: Place) -> Place:
        """This place for the chains that are chosen, (C,), the other one for the rest."""
        column = chosen.unsqueeze(1)
        return Place(
            torch.where(column, self.position, other.position),
            torch.where(chosen, self.log_density, other.log_density),
            torch.where(column, self.gradient, other.gradient),
        )

    def energy(self, momentum: Tensor) -> Tensor:
        """H(q, r) = -log p(q) + |r|^2 / 2, (C,)."""
        return 0.5 * torch.linalg.vecdot(momentum, momentum) - self.log_density


def leapfrog(
    density: WithGradient, place: Place, momentum: Tensor, step: float, metric: Metric, count: int = 1
) -> tuple[Place, Tensor]:
    """`count` leapfrog steps of all chains.

    r' = r + e/2 L^T g(q),   q' = q + e L r',   r'' = r' + e/2 L^T g(q')

    The half steps of momentum between two steps are taken as one.

    Args:
        density: log density with its gradient.
        place: where the chains start.
        momentum: white momenta r, (C, P).
        step: e.
        metric: L.
        count: number of steps, at least one.

    Returns:
        Where the chains end, and their momenta there.

    Example:
        A ball on a spring after a full swing is back where it was.

        >>> from credo.methods.mcmc.metric import unit_metric
        >>> spring = lambda q: (-0.5 * q.square().sum(1), -q)
        >>> start = Place.at(torch.tensor([[1.0, -2.0]]), spring)
        >>> end, _ = leapfrog(spring, start, torch.zeros(1, 2), 0.01, unit_metric(2, start.position, dense=False), 628)
        >>> [round(q, 2) for q in end.position[0].tolist()]
        [1.0, -2.0]

    Reference: R. Neal, "MCMC using Hamiltonian dynamics", 2011, https://arxiv.org/abs/1206.1901
    """
    position, log_density, gradient = place.position, place.log_density, place.gradient
    momentum = metric.kick(momentum, gradient, 0.5 * step)
    for i in range(count):
        position = metric.drift(position, momentum, step)
        log_density, gradient = density(position)
        momentum = metric.kick(momentum, gradient, step if i < count - 1 else 0.5 * step)
    return Place(position, log_density, gradient), momentum
