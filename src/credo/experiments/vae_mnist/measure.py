"""The tutorial's autoencoder, what gray values need, and whether log p(x) notices unknown images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean

import torch
from torch import Tensor

from credo.experiments.base import Cell, Progress, Table
from credo.experiments.vae_mnist.bounds import finished, spread_over
from credo.experiments.vae_mnist.problem import (
    GARMENTS,
    LOGGED,
    REPETITIONS,
    SCORED,
    GrayImages,
    all_images,
    density_vae,
    first_epochs,
    tutorial_method,
    tutorial_vae,
    unknown_method,
)
from credo.generative import VAE, AutoEncodingBayes, FittedVAE, fit
from credo.likelihoods import ContinuousBernoulli
from credo.metrics import auroc

PRINTED = (-400.160945, -218.883324, -206.140288, -202.247569, -200.175874, -197.606540)
"""The tutorial's train.log: the ELBO of epochs 1 to 6."""


@dataclass(frozen=True)
class Trained:
    """The autoencoders of gray images, and the images.

    Attributes:
        data: the images.
        main: the one whose reconstructions, samples and dimensions are shown.
        flat: with two latent dimensions, for the map.
        density: trained with a density of gray values in place of their cross-entropy; None at the quick size.
        logs: the bound of the first epochs, of several runs.
    """

    data: GrayImages
    main: FittedVAE
    flat: FittedVAE
    density: FittedVAE | None = None
    logs: tuple[tuple[float, ...], ...] = ()


def train_tutorial(data: GrayImages, seed: int, progress: Progress) -> Trained:
    """The tutorial's models, the same with a density, and the first epochs of several runs."""

    def trained(vae: VAE, text: str, method: AutoEncodingBayes, repetition: int = 0) -> FittedVAE:
        return finished(fit(vae, data.x, method, seed=seed + repetition, progress=progress.of(text)))

    runs = [trained(tutorial_vae(), "first epochs", first_epochs(), r) for r in range(REPETITIONS)]
    return Trained(
        data,
        trained(tutorial_vae(), "20 latent dimensions", tutorial_method()),
        trained(tutorial_vae(2), "2 latent dimensions", tutorial_method()),
        trained(density_vae(), "a density of gray values", tutorial_method()),
        tuple(tuple(row["bound"] for row in run.history) for run in runs),
    )


def train_small(data: GrayImages, seed: int, progress: Progress) -> Trained:
    """Small models for scikit-learn's digits."""
    method = AutoEncodingBayes(epochs=40, learning_rate=3e-3, batch_size=100)
    made = [replace(tutorial_vae(latent), hidden=(64,)) for latent in (8, 2)]
    main, flat = (finished(fit(v, data.x, method, seed=seed, progress=progress.of("gray digits"))) for v in made)
    return Trained(data, main, flat)


def tutorial_numbers(found: Trained, seed: int) -> dict[str, float]:
    """The log, and what the cross-entropy of gray values is not."""
    assert found.density is not None
    measured = {f"elbo-{e + 1}": fmean(log[e] for log in found.logs) for e in range(LOGGED)}
    x = found.data.x_test
    read = as_density(found.main)
    gain = found.density.bounds(x, 5, seed).elbo - read.bounds(x, 5, seed).elbo
    return {**measured, "mass": float(log_mass(found.main, x).mean()), "gain": float(gain.mean())}


def as_density(fitted: FittedVAE) -> FittedVAE:
    """The same networks, whose outputs are read as those of a density of gray values."""
    model = fitted.posterior.model.with_likelihood(ContinuousBernoulli())
    return FittedVAE(replace(fitted.posterior, model=model))


def log_mass(fitted: FittedVAE, x: Tensor) -> Tensor:
    """log of what the exponential of the cross-entropy adds up to over all gray images, at the means of q(z | x), (B,).

    log integral exp(sum_d y_d f_d - softplus(f_d)) dy = -sum_d (log C(f_d) + softplus(f_d)), which is 0 for a density;
    log C is the normalization of the continuous Bernoulli.
    """
    p = fitted.reconstruct(x).flatten(1).double().clamp(1e-12, 1.0 - 1e-12)
    logits = torch.logit(p)
    zero = torch.zeros_like(p)
    # at y = 0 the density is C(f), and the cross-entropy -softplus(f)
    log_c = ContinuousBernoulli().log_prob_each(logits, zero, {})
    return -(log_c + torch.nn.functional.softplus(logits)).sum(1)


def unknown_scores(seed: int, progress: Progress) -> dict[str, dict[str, Tensor]]:
    """What models of garments and of digits say of test images of either kind: log p(x), (SCORED,), in nats."""
    sets = {"Fashion-MNIST": all_images("fashion-mnist"), "MNIST": all_images("mnist")}
    tests = {name: spread_over(data.x_test, SCORED) for name, data in sets.items()}
    found = {}
    for name, data in sets.items():
        text = f"{GARMENTS:,} images of {name}"
        vae, x = density_vae(), data.x[:GARMENTS]
        fitted = finished(fit(vae, x, unknown_method(), seed=seed, progress=progress.of(text)))
        progress.say(f"log p(x) by the model of {name}")
        found[name] = {kind: fitted.log_prob(x, 50, seed) for kind, x in tests.items()}
    return found


def unknown_numbers(found: Mapping[str, Mapping[str, Tensor]]) -> dict[str, float]:
    """How well a low log p(x) tells unknown images from known ones, as the area under the ROC curve."""
    areas = {}
    for name, values in found.items():
        other = next(kind for kind in values if kind != name)
        areas[name] = auroc(-values[name], -values[other])
    return {"unknown-digits": areas["Fashion-MNIST"], "unknown-garments": areas["MNIST"]}


def tutorial_tables(found: Trained, seed: int) -> tuple[Table, ...]:
    """The log beside the printed one, and both readings of gray values."""
    assert found.density is not None
    log = Table(
        "ELBO per image in the first epochs, nats",
        ("epoch", "Lee's log", "ours, mean", "least", "largest"),
        tuple(
            (e + 1, round(printed, 1), *(round(f(log[e] for log in found.logs), 1) for f in (fmean, min, max)))
            for e, printed in enumerate(PRINTED)
        ),
        f"Ours: {REPETITIONS} runs. The likelihood is the cross-entropy of gray values, so these are no nats of a "
        "density.",
    )
    return log, _readings(found, seed)


def _readings(found: Trained, seed: int) -> Table:
    assert found.density is not None
    rows: list[tuple[Cell, ...]] = []
    for name, fitted in (
        ("cross-entropy, as it is", found.main),
        ("cross-entropy, its outputs read as a density", as_density(found.main)),
        ("density (continuous Bernoulli)", found.density),
    ):
        elbos = (fitted.bounds(x, 5, seed).elbo.mean() for x in (found.data.x, found.data.x_test))
        error = (fitted.reconstruct(found.data.x_test) - found.data.x_test).square().mean().sqrt()
        rows.append((name, *(round(float(e), 1) for e in elbos), round(float(error), 3)))
    note = (
        "The first row is no log density, and cannot be compared with the others. Densities of exactly black pixels "
        "have no largest value: they grow as long as training goes on. Error: of reconstructed gray values."
    )
    return Table("Gray values", ("trained with", "ELBO, training", "ELBO, test", "error, test"), tuple(rows), note)
