"""The spread of gradient estimates: what a figure of estimators side by side is drawn from."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.methods.ascent import per_example_gradient
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
    """Independent estimates of one gradient by several methods, (repeats, 2 P) each: by all means, then by all rho.

    Unbiased estimators have the same column means; the better one has the smaller column variances. The gradient is
    that of the negative bound per example.

    Args:
        methods: by name, for example `{"score": BlackBoxVI(samples=1), "path": BayesByBackprop()}`.
        target: the density.
        state: where the gradient is taken, of one member.
        batch: the examples, the same for all estimates.
        repeats: estimates of each method.
        seed: of the noise.

    Examples:
        >>> import credo
        >>> from credo.methods.vi import BayesByBackprop, BlackBoxVI
        >>> x = torch.linspace(-1, 1, 10)[:, None]
        >>> model = credo.Model(credo.nets.MLP(1, 1, (5,)), credo.likelihoods.Gaussian())
        >>> target, path = credo.Target(model, size=10), BayesByBackprop()
        >>> state = path.init(target, model.network.given(), Stream(0))
        >>> methods = {"path": path, "score": BlackBoxVI(samples=1)}
        >>> found = gradient_draws(methods, target, state, credo.Batch(x, x), repeats=100)
        >>> bool(found["score"].var(0).mean() > 10 * found["path"].var(0).mean())
        True
    """
    return {name: _repeated(m, target, state, batch, repeats, Stream(seed, (name,))) for name, m in methods.items()}


def _repeated(
    method: MeanField, target: Target, state: VariationalState, batch: Batch, repeats: int, rng: Stream
) -> Tensor:
    """Members of one run are independent, so as many members as repeats are as many estimates."""
    mean = state.mean.repeat(repeats)
    rho = {name: r.expand(repeats, *r.shape[1:]).contiguous() for name, r in state.rho.items()}
    q = VariationalState(mean, rho).leaves()
    objective, *_ = method.objective(target, q, batch, Tick(0, method.epochs, rng), method.memory(mean))
    gradients = per_example_gradient(-objective, [*q.mean.values(), *q.rho.values()], target)
    return torch.cat([g.flatten(1) for g in gradients], dim=1)
