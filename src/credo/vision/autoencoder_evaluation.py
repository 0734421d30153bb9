"""What held-out images say about an autoencoder, in numbers and in answers to questions."""

from __future__ import annotations

import datetime
import math
from importlib.metadata import version

import torch
from torch import Tensor

from credo.generative import FittedVAE
from credo.likelihoods import GrayCrossEntropy
from credo.vision.autoencoder_runs import AutoencoderCheck, AutoencoderEvaluation
from credo.vision.image_sets import ImageSet

LOOKED_AT = 1_000
"""Images of either kind that numbers are means over."""
SAMPLES = 200
"""Draws of z for each image, by which log p(x) is estimated."""
RISE, SMALL = 0.05, 1e-3
"""How much of the second half's rise of the held-out bound the last tenth of the run may have (a steady rise has a
fifth), and the part of the bound that is no rise."""
GOOD, FAIR, POOR = "good", "fair", "poor"


def evenly(x: Tensor, count: int) -> Tensor:
    """So many examples, evenly from all of them."""
    return x[torch.linspace(0, len(x) - 1, min(count, len(x))).round().long()]


def evaluate_autoencoder(
    fitted: FittedVAE, images: ImageSet, x: Tensor, held_out: Tensor, notes: tuple[str, ...], seed: int
) -> AutoencoderEvaluation:
    """The numbers of a report.

    Args:
        fitted: the autoencoder.
        images: as they were read.
        x: those that it learned from.
        held_out: those that it did not.
        notes: what was decided before training.
        seed: of draws of z.
    """
    seen, unseen = evenly(x, LOOKED_AT), evenly(held_out, LOOKED_AT)
    bounds, kl = fitted.bounds(unseen, 5, seed), fitted.kl_per_dimension(unseen)
    active = fitted.active(unseen) if len(unseen) > 1 else kl > math.inf
    record, likelihood = fitted.posterior.record, fitted.posterior.model.likelihood
    curve = [(row["validation_bound"], row["epoch"]) for row in fitted.history if "validation_bound" in row]
    found = AutoencoderEvaluation(
        source=images.source,
        trained=len(x),
        held_out=len(held_out),
        shape=list(fitted.shape),
        likelihood=type(getattr(likelihood, "base", likelihood)).__name__,
        density=not isinstance(likelihood, GrayCrossEntropy),
        looked_at=LOOKED_AT,
        elbo=float(bounds.elbo.mean()),
        elbo_trained=float(fitted.bounds(seen, 5, seed).elbo.mean()),
        reconstruction=float(bounds.reconstruction.mean()),
        kl=float(bounds.kl.mean()),
        log_prob=float(fitted.log_prob(unseen, SAMPLES, seed).mean()),
        samples=SAMPLES,
        error=_error(fitted.reconstruct(unseen), unseen),
        error_trained=_error(fitted.reconstruct(seen), seen),
        error_of_mean=_error(x.mean(0).expand_as(unseen), unseen),
        kl_per_dimension=kl.tolist(),
        active=active.tolist(),
        best_epoch=max(curve)[1],
        epochs=fitted.history[-1]["epoch"],
        seconds=record.seconds,
        seed=seed,
        created=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        credo=version("credo"),
        notes=[*notes, *fitted.notes],
        checks=[],
    )
    found.checks.extend((_reconstructs(found), _generalizes(found), _uses_its_dimensions(found), _ended(found, curve)))
    return found


def _error(made: Tensor, x: Tensor) -> float:
    return float((made.double() - x.double()).square().mean().sqrt())


def _reconstructs(found: AutoencoderEvaluation) -> AutoencoderCheck:
    part, question = found.explained, "Does it reconstruct images that it has not seen?"
    advice = "more epochs, more latent dimensions (--latent) or more images may help"
    if part <= 0.0:
        return AutoencoderCheck(question, POOR, f"No: always giving the mean image would be nearer; {advice}.")
    rating = GOOD if part >= 0.5 else FAIR if part >= 0.2 else POOR
    word = {GOOD: "Yes", FAIR: "Partly", POOR: "Hardly"}[rating]
    what = "of what varies around the mean image"
    answer = f"{word}: its reconstructions of held-out images explain {100 * part:.0f} % {what}"
    return AutoencoderCheck(question, rating, f"{answer}." if rating == GOOD else f"{answer}; {advice}.")


def _generalizes(found: AutoencoderEvaluation) -> AutoencoderCheck:
    question = "Does it do as well there as on images that it learned from?"
    ratio = found.error / found.error_trained if found.error_trained > 0 else 1.0
    numbers = f"an error of {found.error:.3g} against {found.error_trained:.3g}"
    if ratio <= 1.15:
        return AutoencoderCheck(question, GOOD, f"Yes: {numbers}.")
    rating = FAIR if ratio <= 1.6 else POOR
    return AutoencoderCheck(
        question, rating, f"No: {numbers}. It knows training images by heart; more images or fewer epochs would help."
    )


def _uses_its_dimensions(found: AutoencoderEvaluation) -> AutoencoderCheck:
    question, used, count = "Does it use its latent dimensions?", sum(found.active), len(found.active)
    if used == count:
        return AutoencoderCheck(question, GOOD, f"Yes, all {count}.")
    if used == 0:
        return AutoencoderCheck(
            question, POOR, "No: the posterior has collapsed to the prior, and all reconstructions are alike."
        )
    return AutoencoderCheck(question, FAIR, f"{used} of {count}: --latent {used} would do as well.")


def _ended(found: AutoencoderEvaluation, curve: list[tuple[float, float]]) -> AutoencoderCheck:
    """By the held-out bound, (bound, epoch) for some epochs."""
    question, (last, _) = "Was training as long as it should be?", curve[-1]
    if found.best_epoch < 0.8 * found.epochs:
        answer = (
            f"Too long: the held-out bound was best after epoch {found.best_epoch:.0f} of {found.epochs:.0f} "
            f"(--epochs {max(1, round(found.best_epoch))})."
        )
        return AutoencoderCheck(question, FAIR, answer)
    before = [bound for bound, epoch in curve if epoch <= 0.9 * found.epochs]
    first_half = [bound for bound, epoch in curve if epoch <= 0.5 * found.epochs] or [curve[0][0]]
    least = max(RISE * (last - first_half[-1]), SMALL * abs(last))
    if not before or last - before[-1] > least:
        return AutoencoderCheck(
            question, FAIR, "The held-out bound was still rising when it ended: more epochs would help."
        )
    return AutoencoderCheck(question, GOOD, f"Yes: the held-out bound was best after epoch {found.best_epoch:.0f}.")
