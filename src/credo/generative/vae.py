"""The variational autoencoder: its description, its training, and what it is good for afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from credo.core.arrays import check_finite, tensor
from credo.core.checks import check_kind, whole_number
from credo.core.rng import Stream
from credo.core.status import Status
from credo.fit import fit as fit_model
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
from credo.likelihoods import Bernoulli, ContinuousBernoulli, Likelihood, SharedGaussian
from credo.model import Batch, Model, Target, likelihood_params
from credo.nets.autoencoder import Autoencoder
from credo.posteriors import Draws, Posterior, load

ENTRIES = 2**23
"""Entries of the decoder's outputs that are held at a time."""
ACTIVE = 0.01
"""Variance over examples of a dimension's mean from which on it carries information."""
LOOKED_AT = 1000
"""Examples by which idle dimensions are found."""

Part = nn.Module | Callable[[], nn.Module] | None


@dataclass(frozen=True)
class VAE:
    """A variational autoencoder, with nothing fitted.

    p(z) = N(0, I),   p(x | z) by the decoder and the likelihood,   q(z | x) = N(mean(x), scale(x)^2) by the encoder

    Args:
        latent: number of latent dimensions.
        likelihood: of the values of x, such as `likelihoods.Bernoulli()` for binary ones. None chooses by x: binary
            values give `Bernoulli`, values between 0 and 1 `ContinuousBernoulli`, others `SharedGaussian`.
        hidden: widths of the encoder's hidden layers; the decoder has them the other way round.
        activation: of the hidden layers.
        encoder: a module from x (B, ...) to (B, 2 latent), or a function that makes one; None for the hidden layers.
        decoder: a module from z (B, latent) to (B, ...), or a function that makes one; None for the hidden layers.
    """

    latent: int = 20
    likelihood: Likelihood | None = None
    hidden: tuple[int, ...] = (500, 500)
    activation: str = "relu"
    encoder: Part = None
    decoder: Part = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "latent", whole_number("latent", self.latent))
        check_kind("likelihood", self.likelihood, "likelihoods.Bernoulli()", Likelihood, type(None))

    def model(self, x: Tensor) -> tuple[Model, str | None]:
        """The model of such x (N, ...), and a sentence about what was chosen, if anything was."""
        likelihood, why = (self.likelihood, None) if self.likelihood is not None else _chosen(x)
        per_value = getattr(likelihood, "outputs_per_target", 1)

        def make() -> Autoencoder:
            parts = {"encoder": _made(self.encoder), "decoder": _made(self.decoder)}
            net = Autoencoder(x.shape[1:], self.latent, per_value, self.hidden, self.activation, **parts)
            return net.to(x.dtype)

        _check_sizes(make(), x, per_value)
        fixed = isinstance(self.encoder, nn.Module) or isinstance(self.decoder, nn.Module)
        return Model(make() if fixed else make, likelihood), why


def fit(vae: VAE, x: Any, method: AutoEncodingBayes | None = None, **around: Any) -> FittedVAE:
    """Train a variational autoencoder.

    Args:
        vae: what to train.
        x: (N, ...), such as images (N, 28, 28) with gray values from 0 to 1.
        method: how; None for `AutoEncodingBayes()`.
        around: what `credo.fit` takes beside: seed, device, checkpoint, resume, progress, seconds; and validation,
            which is more x here.

    Examples:
        >>> import torch
        >>> from credo import generative
        >>> images = (torch.arange(64).view(16, 2, 2) % 3 == 0).float()
        >>> vae = generative.VAE(latent=1, hidden=(8,))
        >>> fitted = generative.fit(vae, images, generative.AutoEncodingBayes(epochs=2))
        >>> fitted.reconstruct(images).shape
        torch.Size([16, 2, 2])
    """
    check_kind("vae", vae, "VAE(latent=20)", VAE)
    values = _values(x, "x")
    model, why = vae.model(values)
    if "validation" in around:
        others = _values(around["validation"], "validation")
        _check_shape(others, tuple(values.shape[1:]), "validation")
        around["validation"] = (others, others.flatten(1))
    posterior = fit_model(model, (values, values.flatten(1)), method or AutoEncodingBayes(), **around)
    return FittedVAE(_with_notes(posterior, values, why))


def _with_notes(posterior: Posterior, x: Tensor, why: str | None) -> Posterior:
    """The posterior with what was chosen, and with a word on dimensions that carry nothing."""
    fitted = FittedVAE(posterior)
    if posterior.record.status is Status.DIVERGED:
        return posterior
    idle = (~fitted.active(x[:LOOKED_AT])).nonzero()
    numbers = ", ".join(str(int(i) + 1) for i in idle)
    verdict = (
        f"{len(idle)} of the {fitted.latent} latent dimensions carry no information about x ({numbers}): "
        "q(z | x) is the prior there. Fewer dimensions would do; if all should be used, let the KL come later "
        "(warm_up=0.5) or weigh it less (beta)"
    )
    notes = (*((why,) if why else ()), *posterior.record.notes, *((verdict,) if len(idle) else ()))
    return replace(posterior, record=replace(posterior.record, notes=notes))


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
        """L."""
        return self._module.latent

    @property
    def notes(self) -> tuple[str, ...]:
        """What was chosen and what was noticed, in sentences."""
        return self.posterior.notes

    @property
    def history(self) -> tuple[dict[str, float], ...]:
        """One row per epoch: the bound and its terms."""
        return self.posterior.history

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
        if latents.ndim != 2 or latents.shape[1] != self.latent:
            raise ValueError(f"z has shape {tuple(latents.shape)}: it needs {self.latent} numbers per row")
        outputs = torch.cat([self._decoded(part) for part in torch.split(latents, self._rows(1))])
        return self._mean(outputs)

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

    def active(self, x: Any) -> Tensor:
        """Which latent dimensions carry information about x, (L,): the variance of their means is above 0.01."""
        return self.encode(x).mean.var(0) > ACTIVE

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
        values = _values(x, "x").to(self._like)
        _check_shape(values, self.shape, "x")
        self._likelihood.check_targets(
            values.flatten(1), self.posterior.model.outputs(self.posterior.members(), values)
        )
        return values

    def _parts(self, x: Tensor, samples: int) -> Iterator[Batch]:
        yield from (Batch(part, part.flatten(1)) for part in torch.split(x, self._rows(samples)))

    @torch.no_grad()
    def _latents(self, batch: Batch, samples: int, rng: Stream) -> Latents:
        return encoded(self._target, self.posterior.members(1), batch, samples, rng, training=False)

    @torch.no_grad()
    def _decoded(self, z: Tensor) -> Tensor:
        """Outputs (B, E)."""
        variables = self.posterior.members(1)
        tensors = {name: t[0] for name, t in {**variables.params, **variables.buffers}.items()}
        inside = {name.removeprefix("decoder."): t for name, t in tensors.items() if name.startswith("decoder.")}
        outputs: Tensor = torch.func.functional_call(self._module.decoder.eval(), inside, (z,))
        return outputs.flatten(1)

    def _log_likelihood(self, latents: Latents, batch: Batch) -> Tensor:
        """Of one member, (S, 1, B)."""
        return self._likelihood.log_prob(latents.outputs, batch.y, self._params)

    def _mean(self, outputs: Tensor) -> Tensor:
        return self._likelihood.mean(outputs, self._params).reshape(len(outputs), *self.shape)


def _pieces(total: int, size: int) -> Iterator[int]:
    return (min(size, total - start) for start in range(0, total, size))


def _made(part: Part) -> nn.Module | None:
    return part if part is None or isinstance(part, nn.Module) else part()


def _values(x: Any, name: str) -> Tensor:
    values = tensor(x, name)
    if values.ndim < 2 or len(values) == 0:
        raise ValueError(f"{name} has shape {tuple(values.shape)}: it needs one row per example, such as (N, 28, 28)")
    if not values.is_floating_point():
        largest = int(values.max())
        if largest > 1:
            raise ValueError(f"{name} holds whole numbers up to {largest}: divide bytes by 255, as in x / 255")
        values = values.float()
    check_finite(values, name)
    return values


def _check_shape(values: Tensor, shape: tuple[int, ...], name: str) -> None:
    if tuple(values.shape[1:]) != shape:
        raise ValueError(f"{name} has examples of shape {tuple(values.shape[1:])}, and the model is for {shape}")


def _chosen(x: Tensor) -> tuple[Likelihood, str]:
    likelihood: Likelihood
    if bool(((x == 0) | (x == 1)).all()):
        likelihood, why = Bernoulli(), "x is binary"
    elif bool(((x >= 0) & (x <= 1)).all()):
        likelihood, why = ContinuousBernoulli(), "x lies between 0 and 1"
    else:
        likelihood, why = SharedGaussian(), "x holds numbers beyond 0 and 1"
    return likelihood, f"likelihood: {likelihood}, because {why}"


def _check_sizes(net: Autoencoder, x: Tensor, per_value: int) -> None:
    """Refuse an encoder or decoder whose outputs do not fit."""
    wanted = per_value * math.prod(x.shape[1:])
    with torch.no_grad():
        try:
            encoding = net.eval().encoder(x[:2])
            outputs = net.decoder(torch.zeros(2, net.latent, dtype=encoding.dtype))
        except RuntimeError as error:
            raise ValueError(
                f"encoder and decoder do not take x {tuple(x.shape)} and z (B, {net.latent}): {error}"
            ) from None
    if encoding.flatten(1).shape[1] != 2 * net.latent:
        raise ValueError(
            f"the encoder gives {encoding.flatten(1).shape[1]} numbers, and latent={net.latent} needs "
            f"{2 * net.latent}: a mean and a scale for each dimension"
        )
    if outputs.flatten(1).shape[1] != wanted:
        raise ValueError(
            f"the decoder gives {outputs.flatten(1).shape[1]} numbers, and x of shape {tuple(x.shape[1:])} needs "
            f"{wanted}"
        )
