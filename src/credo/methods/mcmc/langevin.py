"""Stochastic gradient Langevin dynamics."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from credo.methods.mcmc.stochastic import StochasticSampler


@dataclass(frozen=True)
class SGLD(StochasticSampler):
    """Gradient steps on minibatches with as much noise as makes them a sampler.

    w <- w + l G grad log p(data, w) / N + sqrt(2 l G / N) noise

    With eps = 2 l / N this is w + eps/2 grad + sqrt(eps) noise: the noise has its true scale, there is no factor to
    turn it down. `fit(temperature=...)` makes a cold or hot posterior where that is wanted.

    Example:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 64)[:, None]
        >>> model = credo.Model(credo.nets.MLP(1, 1, (10,)), credo.likelihoods.Gaussian(0.2))
        >>> posterior = credo.fit(model, (x, x.sin()), SGLD(epochs=20, batch_size=16, draws=10))
        >>> len(posterior.draw())
        10

    Reference: M. Welling, Y. W. Teh, "Bayesian learning via stochastic gradient Langevin dynamics", 2011,
        https://www.stats.ox.ac.uk/~teh/research/compstats/WelTeh2011a.pdf
    """

    def move(
        self, weights: Tensor, velocity: Tensor | None, gradient: Tensor, step: Tensor, noise: Tensor, size: int
    ) -> None:
        weights.add_(step * gradient + (step * (2.0 / size)).sqrt() * noise)
