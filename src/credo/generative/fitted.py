"""A trained variational autoencoder, and what it is good for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from credo.core.arrays import check_finite, tensor
from credo.core.checks import whole_number
from credo.core.inputs import TensorTree
from credo.core.rng import Stream
from credo.generative.bound import (
    AutoEncodingBayes,
    Latents,
    binarized,
    elbo,
    encoded,
    importance_weighted,
    kl_to_standard_normal,
    log_weights,
)
from credo.generative.inputs import check_shape, check_support, values_of
from credo.likelihoods import Likelihood
from credo.model import Batch, Target, likelihood_params
from credo.nets.autoencoder import Autoencoder
from credo.posteriors import Draws, Posterior, load

ENTRIES = 2**23
"""Entries of the decoder's outputs that are held at a time."""
ACTIVE = 0.01
"""Variance over examples of a dimension's mean from which on it carries information."""

EDGE = 0.02
"""Probability beyond the outermost points of a map, on each side."""


class Encoding(NamedTuple):
    """q(z | x) = N(mean, scale^2), (B, L) each."""

    mean: Tensor
    scale: Tensor


class Bounds(NamedTuple):
    """The evidence lower bound of each x and its two terms, (B,) each, in nats."""

    elbo: Tensor
    reconstruction: Tensor
    kl: Tensor


@dataclass(frozen=True, eq=False)
class FittedVAE:
    """A trained variational autoencoder.

    Attributes:
        posterior: the weights, as `credo.fit` gives them.
    """

    posterior: Posterior

    def __post_init__(self) -> None:
        if not isinstance(self.posterior.model.network.module, Autoencoder) or not isinstance(self.posterior, Draws):
            raise TypeError("the posterior is none of a variational autoencoder: make one with generative.fit")
        method = self.posterior.record.method.get("kind")
        if method not in (None, AutoEncodingBayes.__name__, "Ensemble"):
            raise ValueError(
                f"the posterior was trained by {method}, which does not train q(z | x): use generative.fit"
            )
        if self.posterior.variables.members != 1:
            raise ValueError(
                f"the posterior holds {self.posterior.variables.members} autoencoders, whose latent dimensions have "
                "nothing to do with each other: take one, FittedVAE(posterior.of_members(torch.tensor([0])))"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one x."""
        return self._module.shape

    @property
    def latent(self) -> int:
        """L, the number of latent dimensions."""
        return self._module.latent

    @property
    def history(self) -> tuple[dict[str, float], ...]:
        """One row per epoch: the bound per example, its reconstruction and KL."""
        return self.posterior.history

    @property
    def notes(self) -> tuple[str, ...]:
        """What credo chose for you and what it noticed, in sentences."""
        return self.posterior.notes

    @property
    def _module(self) -> Autoencoder:
        return cast("Autoencoder", self.posterior.model.network.module)

    def encode(self, x: Any) -> Encoding:
        """q(z | x) of x (B, ...); for binarized models of the gray values themselves."""
        parts = [self._latents(part, 1, Stream(0)) for part in self._parts(self._checked(x), 1)]
        return Encoding(torch.cat([p.mean[0] for p in parts]), torch.cat([p.scale[0] for p in parts]))

    def decode(self, z: Any) -> Tensor:
        """E[x | z] for latents (B, L): (B, ...)."""
        latents = tensor(z, "z").to(self._like)
        if latents.ndim != 2 or latents.shape[1] != self.latent or len(latents) == 0:
            raise ValueError(f"z has shape {tuple(latents.shape)}: it needs {self.latent} numbers per row")
        check_finite(latents, "z")
        outputs = self._decoded(latents)
        return self._likelihood.mean(outputs, self._params).reshape(len(outputs), *self.shape)

    def reconstruct(self, x: Any) -> Tensor:
        """E[x | z] at the mean of q(z | x), (B, ...)."""
        return self.decode(self.encode(x).mean)

    def sample(self, count: int, seed: int = 0, *, noise: bool = False) -> Tensor:
        """New x from z ~ N(0, I), (count, ...): their expectations, or with the noise of the likelihood."""
        stream = Stream(seed, ("vae", "sample"))
        z = stream.child("z").normal(whole_number("count", count), self.latent, dtype=self._like.dtype).to(self._like)
        if not noise:
            return self.decode(z)
        outputs = self._decoded(z)
        drawn = self._likelihood.sample(outputs, self._params, stream.child("x").generator(outputs.device))
        return drawn.reshape(len(drawn), *self.shape)

    def interpolate(self, first: Any, last: Any, steps: int = 9) -> Tensor:
        """E[x | z] on the straight line between the means of two encoded examples, (steps, ...).

        Args:
            first: one example, of the shape of x without the axis of examples.
            last: another one.
            steps: points on the line, both ends included.
        """
        pair = values_of([tensor(first, "first"), tensor(last, "last")], "the pair", self._likelihood)
        ends = self.encode(pair).mean
        where = torch.linspace(0.0, 1.0, whole_number("steps", steps)).to(ends)[:, None]
        return self.decode(ends[0] + where * (ends[1] - ends[0]))

    def manifold(self, side: int = 20) -> Tensor:
        """E[x | z] on a grid over the two latent dimensions, (side, side, ...): z_2 falls by row, z_1 rises by column.

        The grid has equal probability between its lines: z are quantiles of the prior, from 0.02 to 0.98.

        Args:
            side: points along each dimension.
        """
        if self.latent != 2:
            raise ValueError(f"the model has {self.latent} latent dimensions, and a map needs 2: train VAE(latent=2)")
        levels = torch.linspace(EDGE, 1.0 - EDGE, whole_number("side", side), dtype=torch.float64)
        z = torch.special.ndtri(levels).to(self._like)
        grid = torch.stack(torch.meshgrid(z.flip(0), z, indexing="ij"), dim=-1).flip(-1).reshape(-1, 2)
        return self.decode(grid).reshape(side, side, *self.shape)

    def bounds(self, x: Any, samples: int = 1, seed: int = 0) -> Bounds:
        """The evidence lower bound of each x, with `samples` draws of z."""
        stream, found = Stream(seed, ("vae", "bounds")), []
        for number, part in enumerate(self._parts(self._checked(x), whole_number("samples", samples))):
            batch = binarized(self._target, part, stream.child(number, "binary"))
            latents = self._latents(batch, samples, stream.child(number))
            log_likelihood = self._log_likelihood(latents, batch)
            kl = kl_to_standard_normal(latents.mean, latents.scale).sum(-1)
            found.append((elbo(log_likelihood, kl)[0], log_likelihood.mean(0)[0], kl[0]))
        return Bounds(*(torch.cat(parts) for parts in zip(*found, strict=True)))

    def log_prob(self, x: Any, samples: int = 1000, seed: int = 0) -> Tensor:
        """log p(x) of each x, (B,), by importance sampling with q(z | x) as proposal.

        log p(x) ~ log 1/S sum_s p(x, z_s) / q(z_s | x)

        In expectation it is a lower bound, which rises to log p(x) with the number of draws. Gray values of a model of
        binary ones are drawn as 0 or 1 first, by the seed.
        """
        stream, found = Stream(seed, ("vae", "log_prob")), []
        samples = whole_number("samples", samples)
        for number, part in enumerate(self._parts(self._checked(x), min(samples, 64))):
            batch, weights = binarized(self._target, part, stream.child(number, "binary")), []
            for piece, size in enumerate(_pieces(samples, max(1, self._rows(1) // batch.examples))):
                latents = self._latents(batch, size, stream.child(number, piece))
                each = log_weights(self._log_likelihood(latents, batch), latents)
                weights.append(importance_weighted(each)[0] + math.log(size))
            found.append(torch.logsumexp(torch.stack(weights), 0) - math.log(samples))
        return torch.cat(found)

    def kl_per_dimension(self, x: Any) -> Tensor:
        """KL(q(z_l | x) || N(0, 1)) of each latent dimension in nats, averaged over x, (L,)."""
        return kl_to_standard_normal(*self.encode(x)).mean(0)

    def active(self, x: Any) -> Tensor:
        """Which latent dimensions carry information about x, (L,): the variance of their means is above 0.01."""
        mean = self.encode(x).mean
        if len(mean) < 2:
            raise ValueError("x has one example, and what varies between examples takes several")
        return mean.var(0) > ACTIVE

    def save(self, folder: str | Path) -> Path:
        """Write it to a folder of JSON and safetensors."""
        return self.posterior.save(folder)

    @staticmethod
    def load(folder: str | Path, net: Autoencoder | None = None, device: str = "cpu") -> FittedVAE:
        """Read what `save` wrote; `net` is needed where encoder or decoder are modules of your own."""
        return FittedVAE(load(folder, net, device=device))

    @property
    def _target(self) -> Target:
        return Target(self.posterior.model, size=1)

    @property
    def _likelihood(self) -> Likelihood:
        return self.posterior.model.likelihood

    @property
    def _params(self) -> dict[str, Tensor]:
        """Of the likelihood, without an axis of members."""
        return {name: t[0] for name, t in likelihood_params(self.posterior.members().params).items()}

    @property
    def _like(self) -> Tensor:
        return next(iter(self.posterior.members().params.values()))

    def _rows(self, samples: int) -> int:
        """Rows at a time."""
        return max(1, ENTRIES // (samples * math.prod(self.shape)))

    def _checked(self, x: Any) -> Tensor:
        values = values_of(x, "x", self._likelihood).to(self._like)
        check_shape(values, self.shape, "x")
        check_support(values, self._likelihood, self.posterior.model.outputs(self.posterior.members(), values), "x")
        return values

    def _parts(self, x: Tensor, samples: int) -> Iterator[Batch]:
        yield from (Batch(part, part.flatten(1)) for part in torch.split(x, self._rows(samples)))

    @torch.no_grad()
    def _latents(self, batch: Batch, samples: int, rng: Stream) -> Latents:
        return encoded(self._target, self.posterior.members(1), batch, samples, rng, training=False)

    @torch.no_grad()
    def _decoded(self, z: Tensor) -> Tensor:
        """Outputs (B, E)."""
        network, variables = self.posterior.model.network, self.posterior.members(1)
        parts = torch.split(z, self._rows(1))
        return torch.cat([network.evaluate(variables, TensorTree({"z": part}))[0] for part in parts])

    def _log_likelihood(self, latents: Latents, batch: Batch) -> Tensor:
        """Of one member, (S, 1, B)."""
        return self._likelihood.log_prob(latents.outputs, batch.y, self._params)


def _pieces(total: int, size: int) -> Iterator[int]:
    return (min(size, total - start) for start in range(0, total, size))
