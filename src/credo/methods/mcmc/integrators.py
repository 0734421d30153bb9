"""Motion of chains on the log density, and the metric that makes all directions look alike.

Momenta are kept white. With the covariance estimated as L L^T, the usual momentum p = L^-T r has the mass matrix
(L L^T)^-1, and in terms of r ~ N(0, I) the mass matrix drops out of the kinetic energy |r|^2 / 2, from U-turns and from
the drawing of momenta: it enters where positions and gradients do, in these two products.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.kernels import ValueAndGradient


class Metric(ABC):
    """A factor L of the posterior's covariance."""

    @abstractmethod
    def kick(self, momentum: Tensor, gradient: Tensor, step: float) -> Tensor:
        """r + step L^T g, (C, P)."""

    @abstractmethod
    def drift(self, position: Tensor, momentum: Tensor, step: float) -> Tensor:
        """q + step L r, (C, P)."""

    @abstractmethod
    def force(self, gradient: Tensor) -> Tensor:
        """L^T g, (C, P): the gradient with respect to white positions."""

    @abstractmethod
    def whiten(self, offset: Tensor) -> Tensor:
        """L^-1 q, (C, P): differences of positions in units of the posterior's spread."""


@dataclass(frozen=True)
class DiagonalMetric(Metric):
    """Standard deviations of the weights one by one."""

    scale: Tensor  # (P,)

    def kick(self, momentum: Tensor, gradient: Tensor, step: float) -> Tensor:
        return torch.addcmul(momentum, gradient, self.scale, value=step)

    def drift(self, position: Tensor, momentum: Tensor, step: float) -> Tensor:
        return torch.addcmul(position, momentum, self.scale, value=step)

    def force(self, gradient: Tensor) -> Tensor:
        return gradient * self.scale

    def whiten(self, offset: Tensor) -> Tensor:
        return offset / self.scale


@dataclass(frozen=True)
class DenseMetric(Metric):
    """All covariances: worth its P^2 numbers where a few hundred weights are strongly correlated."""

    factor: Tensor  # lower triangular L, (P, P)

    def kick(self, momentum: Tensor, gradient: Tensor, step: float) -> Tensor:
        return torch.addmm(momentum, gradient, self.factor, alpha=step)

    def drift(self, position: Tensor, momentum: Tensor, step: float) -> Tensor:
        return torch.addmm(position, momentum, self.factor.T, alpha=step)

    def force(self, gradient: Tensor) -> Tensor:
        return gradient @ self.factor

    def whiten(self, offset: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(self.factor, offset.T, upper=False).T


def unit_metric(count: int, like: Tensor, *, dense: bool) -> Metric:
    """The metric before anything is known: all scales one."""
    ones = torch.ones(count, dtype=like.dtype, device=like.device)
    return DenseMetric(torch.diag(ones)) if dense else DiagonalMetric(ones)


@dataclass(frozen=True)
class ChainState:
    """Where C chains are, and what the density says there."""

    position: Tensor  # (C, P)
    log_density: Tensor  # (C,)
    gradient: Tensor  # of the log density, (C, P)

    @staticmethod
    def at(position: Tensor, value_and_gradient: ValueAndGradient) -> ChainState:
        return ChainState(position, *value_and_gradient(position))

    def where(self, chosen: Tensor, other: ChainState) -> ChainState:
        """These for the chains that are chosen, (C,), the others for the rest."""
        column = chosen.unsqueeze(1)
        return ChainState(
            torch.where(column, self.position, other.position),
            torch.where(chosen, self.log_density, other.log_density),
            torch.where(column, self.gradient, other.gradient),
        )

    def energy(self, momentum: Tensor) -> Tensor:
        """H(q, r) = -log p(q) + |r|^2 / 2, (C,)."""
        return 0.5 * torch.linalg.vecdot(momentum, momentum) - self.log_density


def leapfrog(
    value_and_gradient: ValueAndGradient,
    chains: ChainState,
    momentum: Tensor,
    step: float,
    metric: Metric,
    count: int = 1,
) -> tuple[ChainState, Tensor]:
    """`count` leapfrog steps of all chains.

    r' = r + e/2 L^T g(q),   q' = q + e L r',   r'' = r' + e/2 L^T g(q')

    The half steps of momentum between two steps are taken as one.

    Args:
        value_and_gradient: log density with its gradient.
        chains: where the chains start.
        momentum: white momenta r, (C, P).
        step: e.
        metric: L.
        count: number of steps, at least one.

    Returns:
        Where the chains end, and their momenta there.

    Examples:
        A ball on a spring after a full swing is back where it was.

        >>> spring = lambda q: (-0.5 * q.square().sum(1), -q)
        >>> start = ChainState.at(torch.tensor([[1.0, -2.0]]), spring)
        >>> metric = unit_metric(2, start.position, dense=False)
        >>> end, _ = leapfrog(spring, start, torch.zeros(1, 2), 0.01, metric, 628)
        >>> [round(q, 2) for q in end.position[0].tolist()]
        [1.0, -2.0]

    Reference: R. Neal, "MCMC using Hamiltonian dynamics", 2011, https://arxiv.org/abs/1206.1901
    """
    position, log_density, gradient = chains.position, chains.log_density, chains.gradient
    momentum = metric.kick(momentum, gradient, 0.5 * step)
    for i in range(count):
        position = metric.drift(position, momentum, step)
        log_density, gradient = value_and_gradient(position)
        momentum = metric.kick(momentum, gradient, step if i < count - 1 else 0.5 * step)
    return ChainState(position, log_density, gradient), momentum


def bend(direction: Tensor, force: Tensor, step: float) -> tuple[Tensor, Tensor]:
    """The direction after a push by the gradient for a time `step`, and the rise of the kinetic energy.

    With e = f / |f| and d = step |f| / (P - 1):
    u' = (u + e (sinh d + (e.u) (cosh d - 1))) / (cosh d + (e.u) sinh d),   rise = (P - 1) log(cosh d + (e.u) sinh d)

    Args:
        direction: unit vectors u, (C, P).
        force: f, the gradient with respect to white positions, (C, P).
        step: time.

    Returns:
        u' (C, P), of length one, and the rise (C,).
    """
    free = max(force.shape[1] - 1, 1)
    size = torch.linalg.vector_norm(force, dim=1).clamp_min(torch.finfo(force.dtype).tiny)
    along = torch.linalg.vecdot(direction, force) / size
    turn = size * (step / free)
    # multiplied by 2 exp(-d), so that nothing overflows where the force is large
    shrunk = torch.exp(-turn)
    total = (1.0 + along) + (1.0 - along) * shrunk.square()
    by_force = (1.0 - shrunk) * (1.0 + shrunk + along * (1.0 - shrunk)) / (total * size)
    bent = torch.addcmul(direction * (2.0 * shrunk / total).unsqueeze(1), force, by_force.unsqueeze(1))
    return bent, free * (turn + torch.log(total) - math.log(2.0))


def isokinetic_step(
    value_and_gradient: ValueAndGradient, chains: ChainState, direction: Tensor, step: float, metric: Metric
) -> tuple[ChainState, Tensor, Tensor]:
    """One step of all chains: a half push, a move, a half push. Reversible, of order 2.

    Args:
        value_and_gradient: log density with its gradient.
        chains: where the chains are.
        direction: unit vectors u, (C, P).
        step: how far to move, in units of the posterior's spread.
        metric: what that spread is.

    Returns:
        The new chains, the new direction, and the change of the energy, (C,), which an exact step would leave at zero.

    Reference: J. Robnik et al., "Microcanonical Hamiltonian Monte Carlo", 2023, https://arxiv.org/abs/2212.08549
    """
    direction, rise = bend(direction, metric.force(chains.gradient), 0.5 * step)
    end = ChainState.at(metric.drift(chains.position, direction, step), value_and_gradient)
    direction, again = bend(direction, metric.force(end.gradient), 0.5 * step)
    return end, direction, rise + again + chains.log_density - end.log_density


def refresh(direction: Tensor, noise: Tensor, step: float, length: float) -> Tensor:
    """The direction after it has been forgotten a little: wholly over paths of about `length`.

    u' = (u + v z) / |u + v z|,   v^2 = (exp(2 step / length) - 1) / P

    Args:
        direction: unit vectors, (C, P).
        noise: standard normal z, (C, P).
        step: length of the step that was taken.
        length: over which the direction is forgotten.
    """
    amount = math.sqrt(math.expm1(2.0 * step / length) / direction.shape[1])
    mixed = torch.add(direction, noise, alpha=amount)
    return unit_vectors(mixed)


def unit_vectors(vectors: Tensor) -> Tensor:
    """v / |v|, (C, P)."""
    return vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
