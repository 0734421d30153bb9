"""Motion at constant speed whose direction the gradient bends: the integrator of microcanonical samplers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from credo.methods.mcmc.leapfrog import Place, WithGradient
from credo.methods.mcmc.metric import Metric


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


def glide(
    density: WithGradient, place: Place, direction: Tensor, step: float, metric: Metric
) -> tuple[Place, Tensor, Tensor]:
    """One step of all chains: a half push, a move, a half push. Reversible, of order 2.

    Args:
        density: log density with its gradient.
        place: where the chains are.
        direction: unit vectors u, (C, P).
        step: how far to move, in units of the posterior's spread.
        metric: what that spread is.

    Returns:
        The new place, the new direction, and the change of the energy, (C,), which an exact step would leave at zero.

    Reference: J. Robnik et al., "Microcanonical Hamiltonian Monte Carlo", 2023, https://arxiv.org/abs/2212.08549
    """
    direction, rise = bend(direction, metric.force(place.gradient), 0.5 * step)
    end = Place.at(metric.drift(place.position, direction, step), density)
    direction, again = bend(direction, metric.force(end.gradient), 0.5 * step)
    return end, direction, rise + again + place.log_density - end.log_density


def refreshed(direction: Tensor, noise: Tensor, step: float, length: float) -> Tensor:
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
    return mixed / torch.linalg.vector_norm(mixed, dim=1, keepdim=True)
