"""Small data sets that are made, not read: each shows one thing that error bars must get right."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from credo.core.rng import Stream

InputsAndTargets = tuple[Tensor, Tensor]
"""Inputs (N, F) and targets, (N, 1) numbers or (N,) classes."""


def sine(count: int = 32, *, noise_scale: float = 1.0, seed: int = 0) -> InputsAndTargets:
    """y = 10 sin(2 pi x) + noise on a grid from -0.5 to 0.5, as in the TEK5040 assignment.

    Args:
        count: N.
        noise_scale: standard deviation of the noise.
        seed: of the noise.
    """
    x = torch.linspace(-0.5, 0.5, count).unsqueeze(1)
    return x, 10.0 * torch.sin(2 * math.pi * x) + noise_scale * Stream(seed, ("toys", "sine")).normal(count, 1)


def gap(count: int = 100, *, noise_scale: float = 0.1, seed: int = 0) -> InputsAndTargets:
    """y = sin(3 x) + noise with no data between -0.5 and 0.5: error bars must open in the gap.

    Args:
        count: N.
        noise_scale: standard deviation of the noise.
        seed: of the inputs and the noise.
    """
    stream = Stream(seed, ("toys", "gap"))
    side = torch.arange(count) % 2 * 2.0 - 1.0
    far = 0.5 + 1.0 * _uniform(stream.child("x"), count)
    x = (side * far).unsqueeze(1)
    return x, torch.sin(3.0 * x) + noise_scale * stream.child("noise").normal(count, 1)


def varying_noise(count: int = 500, *, seed: int = 0) -> InputsAndTargets:
    """y = sin(x) + noise of standard deviation 0.05 + 0.3 |x| / 3 on -3 to 3: noise that depends on the input.

    Args:
        count: N.
        seed: of the inputs and the noise.
    """
    stream = Stream(seed, ("toys", "varying noise"))
    x = (6.0 * _uniform(stream.child("x"), count) - 3.0).unsqueeze(1)
    return x, torch.sin(x) + (0.05 + 0.1 * x.abs()) * stream.child("noise").normal(count, 1)


def two_moons(count: int = 200, *, noise_scale: float = 0.1, seed: int = 0) -> InputsAndTargets:
    """Two interleaving half circles, one for each class.

    Args:
        count: N.
        noise_scale: standard deviation of the noise on both inputs.
        seed: of the positions and the noise.
    """
    stream = Stream(seed, ("toys", "two moons"))
    y = torch.arange(count) % 2
    angle = math.pi * _uniform(stream.child("angle"), count)
    upper = torch.stack([angle.cos(), angle.sin()], dim=1)
    lower = torch.stack([1.0 - angle.cos(), 0.5 - angle.sin()], dim=1)
    x = torch.where((y == 0).unsqueeze(1), upper, lower)
    return x + noise_scale * stream.child("noise").normal(count, 2), y


def blobs(count: int = 300, *, classes: int = 3, noise_scale: float = 0.6, seed: int = 0) -> InputsAndTargets:
    """Round clouds on a circle of radius 2, one for each class; the clouds overlap, so some doubt must stay.

    Args:
        count: N.
        classes: K.
        noise_scale: standard deviation of each cloud.
        seed: of the positions.
    """
    y = torch.arange(count) % classes
    angle = 2 * math.pi * y / classes
    center = 2.0 * torch.stack([angle.cos(), angle.sin()], dim=1)
    return center + noise_scale * Stream(seed, ("toys", "blobs")).normal(count, 2), y


def _uniform(stream: Stream, count: int) -> Tensor:
    return torch.rand(count, generator=stream.generator())
