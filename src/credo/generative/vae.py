"""The variational autoencoder: its description, and its training."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from credo.core.checks import check_kind, whole_number
from credo.core.rng import Stream
from credo.core.status import Status
from credo.fit import fit as fit_model
from credo.generative.bound import AutoEncodingBayes
from credo.generative.fitted import FittedVAE
from credo.generative.inputs import check_shape, check_sizes, check_support, values_of
from credo.likelihoods import Bernoulli, ContinuousBernoulli, Likelihood, SharedGaussian, Standardized
from credo.model import Model
from credo.nets.autoencoder import Autoencoder
from credo.posteriors import Posterior

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
            values give `Bernoulli`, values between 0 and 1 `ContinuousBernoulli`, others `SharedGaussian`, around
            values that are standardized inside.
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
        for name in ("encoder", "decoder"):
            if not (getattr(self, name) is None or callable(getattr(self, name))):
                raise TypeError(f"{name} must be a module, or a function that makes one, got {getattr(self, name)!r}")

    def model(self, x: Tensor) -> tuple[Model, str | None]:
        """The model of such x (N, ...), and a sentence about what was chosen, if anything was."""
        likelihood, why = (self.likelihood, None) if self.likelihood is not None else self._chosen(x)
        per_value = int(getattr(likelihood, "outputs_per_target", 1))
        loc, scale = self._standards(x)

        def make() -> Autoencoder:
            net = Autoencoder(x.shape[1:], self.latent, per_value, self.hidden, self.activation, **self._parts())
            net.to(self._dtype(net, x))
            net.loc.fill_(loc)
            net.scale.fill_(scale)
            return net

        with Stream(0, ("structure",)).borrowed_global():
            check_sizes(make(), x, per_value)
        return Model(make, likelihood), why

    def _parts(self) -> dict[str, nn.Module]:
        """Encoder and decoder of one's own: copies, which go on sharing what they share."""
        given = {"encoder": self.encoder, "decoder": self.decoder}
        copies = copy.deepcopy({name: part for name, part in given.items() if isinstance(part, nn.Module)})
        made = {name: make() for name, make in given.items() if make is not None and name not in copies}
        return {**copies, **made}

    def _dtype(self, net: Autoencoder, x: Tensor) -> torch.dtype:
        """The precision of a person's own module; without one, that of x."""
        own = (part for part, maker in ((net.encoder, self.encoder), (net.decoder, self.decoder)) if maker is not None)
        return next((p.dtype for part in own for p in part.parameters() if p.is_floating_point()), x.dtype)

    @property
    def _is_bare(self) -> bool:
        """Whether credo makes both networks, which may then work in numbers of order one."""
        return self.encoder is None and self.decoder is None

    def _standards(self, x: Tensor) -> tuple[float, float]:
        """Mean and standard deviation of all values, where x is not between 0 and 1 anyway and credo may choose."""
        if not self._is_bare or bool(((x >= 0) & (x <= 1)).all()):
            return 0.0, 1.0
        values = x.double()
        return float(values.mean()), float(values.std()) or 1.0

    def _chosen(self, x: Tensor) -> tuple[Likelihood, str]:
        likelihood: Likelihood
        if bool(((x == 0) | (x == 1)).all()):
            likelihood, why = Bernoulli(), "x is binary"
        elif bool(((x >= 0) & (x <= 1)).all()):
            likelihood, why = ContinuousBernoulli(), "x lies between 0 and 1"
        else:
            likelihood, why = SharedGaussian(), "x holds numbers beyond 0 and 1"
            if self._is_bare:
                (loc, scale), count = self._standards(x), x[0].numel()
                said = f"likelihood: {likelihood} of values standardized by mean {loc:.4g} and standard deviation"
                return Standardized(likelihood, (loc,) * count, (scale,) * count), f"{said} {scale:.4g}, because {why}"
        return likelihood, f"likelihood: {likelihood}, because {why}"


def fit(vae: VAE, x: Any, method: AutoEncodingBayes | None = None, **around: Any) -> FittedVAE:
    """Train a variational autoencoder.

    Args:
        vae: what to train.
        x: (N, ...), such as images (N, 28, 28) with gray values from 0 to 1; or a Dataset or DataLoader of them (or of
            pairs of an image and a label), which is read into memory once.
        method: how; None for `AutoEncodingBayes()`.
        around: what `credo.fit` takes beside: weights, seed, device, checkpoint, resume, progress, seconds; and
            validation, which is more x here, whose bound joins the history.

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
    check_kind("method", method, "AutoEncodingBayes(epochs=100)", AutoEncodingBayes, type(None))
    values = values_of(x, "x", vae.likelihood)
    model, why = vae.model(values)
    shape, outputs = tuple(values.shape[1:]), _outputs(model, values)
    targets = check_support(values, model.likelihood, outputs, "x")
    if around.get("validation") is not None:
        others = values_of(around["validation"], "validation", vae.likelihood)
        check_shape(others, shape, "validation")
        around["validation"] = (others, check_support(others, model.likelihood, outputs, "validation"))
    posterior = fit_model(model, (values, targets), method or AutoEncodingBayes(), **around)
    return FittedVAE(_with_notes(posterior, values, why))


def _outputs(model: Model, x: Tensor) -> int:
    return model.outputs(model.network.given(), x)


def _with_notes(posterior: Posterior, x: Tensor, why: str | None) -> Posterior:
    """The posterior with what was chosen, and with a word on dimensions that carry nothing."""
    notes = (*((why,) if why else ()), *posterior.record.notes)
    if posterior.record.status is not Status.DIVERGED and len(x) > 1:
        rows = torch.linspace(0, len(x) - 1, min(len(x), LOOKED_AT)).round().long()  # from everywhere: x may be sorted
        notes = (*notes, *_idle_note(FittedVAE(posterior), x[rows]))
    return replace(posterior, record=replace(posterior.record, notes=notes))


def _idle_note(fitted: FittedVAE, x: Tensor) -> tuple[str, ...]:
    idle = (~fitted.active(x)).nonzero()[:, 0].tolist()
    if not idle:
        return ()
    if len(idle) == fitted.latent:
        which = f"none of the {fitted.latent} latent dimensions carries information about x, and all reconstructions "
        which += "are alike: the posterior has collapsed"
    else:
        numbers = ", ".join(str(i + 1) for i in idle)
        which = f"{len(idle)} of the {fitted.latent} latent dimensions carry no information about x ({numbers}): "
        which += "q(z | x) is nearly the prior there, and fewer dimensions would do"
    advice = "if they should be used, train longer, let the KL come in later (warm_up=0.5) or weigh it less (beta=0.5)"
    return (f"{which}; {advice}",)
