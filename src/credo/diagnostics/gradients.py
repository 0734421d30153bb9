"""The spread of gradient estimates: what a figure of estimators side by side is drawn from."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.methods.base import Tick
from credo.methods.vi.mean_field import MeanField, VariationalState
from credo.model import Batch, Target


def gradient_draws(
    methods: Mapping[str, MeanField],
    target: Target,
    state: VariationalState,
    batch: Batch,
    repeats: int = 1000,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Independent estimates of one gradient by several methods, (repeats, P) each: all means first, then all rho.

    Unbiased estimators have the same column means; the better one has the smaller column variances.

    Args:
        methods: by name, for example `{"score": BlackBoxVI(samples=1), "path": BayesByBackprop()}`.
        target: the density.
        state: of one of the methods, where the gradient is taken.
        batch: the examples.
        repeats: estimates of each method.
        seed: of the noise.
    """
    return {
        name: torch.stack([_one(method, target, state, batch, Stream(seed, (name, r))) for r in range(repeats)])
        for name, method in methods.items()
    }


def _one(method: MeanField, target: Target, state: VariationalState, batch: Batch, noise: Stream) -> Tensor:
    memory = {**method.memory(state.mean), **state.memory}
    here = VariationalState(state.mean, state.rho, [], memory)
    gradient = method.gradient(target, here, batch, Tick(0, method.epochs, noise))
    return torch.cat([g.flatten() for g in (*gradient.mean, *gradient.rho)])
