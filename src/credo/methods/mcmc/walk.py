"""Steps at constant speed, each followed by a little forgetting of the direction."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.methods.mcmc.energy_search import EnergySearch
from credo.methods.mcmc.isokinetic import glide, refreshed
from credo.methods.mcmc.leapfrog import Place, WithGradient
from credo.methods.mcmc.metric import Metric

RUNAWAY = 1000.0
"""A change of the energy in one step after which a chain turns round instead."""


@dataclass(frozen=True)
class Walk:
    """Some steps of all chains.

    Attributes:
        place: where they are now.
        direction: where they are going, (C, P).
        search: for the step, after these steps.
        change: mean over the steps of (change of energy)^2 / P, (C,).
        diverging: whether a chain had to turn round, (C,).
    """

    place: Place
    direction: Tensor
    search: EnergySearch
    change: Tensor
    diverging: Tensor


def walk(
    density: WithGradient,
    place: Place,
    direction: Tensor,
    search: EnergySearch,
    metric: Metric,
    count: int,
    length: float,
    generator: torch.Generator,
    wished: float | None = None,
) -> Walk:
    """`count` steps of all chains, each followed by a little forgetting of the direction.

    Args:
        density: log density with its gradient.
        place: where the chains are.
        direction: unit vectors, (C, P).
        search: holds the step.
        metric: in which lengths are measured.
        count: number of steps.
        length: over which the direction is forgotten.
        generator: of the forgetting.
        wished: (change of energy)^2 / P that the step is tuned to; None leaves the step as it is.
    """
    total = torch.zeros_like(place.log_density)
    diverging = torch.zeros_like(total, dtype=torch.bool)
    for _ in range(count):
        step = search.step
        end, onward, change = glide(density, place, direction, step, metric)
        sane = change.abs() < RUNAWAY
        place = end.where(sane, place)
        direction = torch.where(sane.unsqueeze(1), onward, -direction)
        square = torch.where(sane, change.square() / direction.shape[1], 0.0)
        total, diverging = total + square, diverging | ~sane
        if wished is not None:
            search = search.updated(float(square.mean()) if bool(sane.all()) else math.inf, wished)
        noise = torch.randn(direction.shape, generator=generator, dtype=direction.dtype, device=direction.device)
        direction = refreshed(direction, noise, step, length)
    return Walk(place, direction, search, total / count, diverging)
