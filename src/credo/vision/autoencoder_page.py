"""The report of an autoencoder: one HTML file that needs nothing else."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from credo.generative import FittedVAE
from credo.reports.autoencoder_figures import bound_curve, by_class, dimensions, displayable, pairs, show
from credo.reports.page import MARKS
from credo.reports.pictures import ReportFigure
from credo.reports.template import filled
from credo.vision.autoencoder_evaluation import evenly
from credo.vision.autoencoder_runs import AutoencoderEvaluation

PAIRS, SAMPLES, STEPS, SIDE = 10, 40, 10, 14
"""Images that are reconstructed, drawn samples, pictures between two images, and points along a side of the map."""
CLASSES = 20
"""Classes that can be told apart in a picture, at most."""


class LatentPoints(NamedTuple):
    """Where held-out images lie, (N, 2), the names of their classes where they have some, and what the axes are."""

    points: NDArray[Any]
    labels: Sequence[str] | None
    axis: str


def autoencoder_page(
    fitted: FittedVAE,
    evaluation: AutoencoderEvaluation,
    x: Tensor,
    held_out: Tensor,
    points: LatentPoints | None,
    run: str,
) -> str:
    """The report as HTML.

    Args:
        fitted: the autoencoder.
        evaluation: what was measured.
        x: images that it learned from.
        held_out: images that it did not.
        points: where the latter lie in the latent space.
        run: name of the run folder, for the examples.
    """
    return filled(
        "autoencoder.html.jinja",
        found=evaluation,
        size=" x ".join(map(str, evaluation.shape)),
        used=sum(evaluation.active),
        marks=MARKS,
        tiles=_tiles(evaluation),
        rows=_rows(evaluation),
        pictures=_pictures(fitted, x, held_out),
        space=[*_space(fitted, held_out), *_points(points)],
        training=_training(fitted, held_out),
        run_quoted=shlex.quote(run),
        snippet=_snippet(run),
    )


def _tiles(found: AutoencoderEvaluation) -> list[dict[str, str]]:
    return [
        {
            "value": f"{100 * max(0.0, found.explained):.0f} %",
            "text": "of what varies between held-out images is reconstructed",
        },
        {"value": f"{found.kl:.3g} nats", "text": "about an image are in its latent variable, on average"},
        {"value": f"{sum(found.active)} of {len(found.active)}", "text": "latent dimensions carry information"},
    ]


def _rows(found: AutoencoderEvaluation) -> list[dict[str, str]]:
    """The table of numbers."""
    nats = "nats" if found.density else "nats of the cross-entropy, which is no density"
    return [
        {"name": f"evidence lower bound, {nats}", "held": f"{found.elbo:.2f}", "seen": f"{found.elbo_trained:.2f}"},
        {"name": "its reconstruction", "held": f"{found.reconstruction:.2f}", "seen": ""},
        {"name": "less its KL", "held": f"{found.kl:.2f}", "seen": ""},
        {"name": f"log p(x) by {found.samples} draws, {nats}", "held": f"{found.log_prob:.2f}", "seen": ""},
        {"name": "error of reconstructed values", "held": f"{found.error:.4g}", "seen": f"{found.error_trained:.4g}"},
        {"name": "error of the mean image", "held": f"{found.error_of_mean:.4g}", "seen": ""},
    ]


def _height(images: NDArray[Any], columns: int) -> float:
    """In inches, of a mosaic across the page."""
    rows, (height, width) = -(-len(images) // columns), images.shape[1:3]
    return float(max(0.8, 5.2 * rows * (height + 1) / (columns * (width + 1)) + 0.35))


def _pictures(fitted: FittedVAE, x: Tensor, held_out: Tensor) -> list[ReportFigure]:
    """Reconstructions and samples; none where the examples are no images."""
    found = []
    for name, some, what in (("held", held_out, "Held-out images"), ("seen", x, "Images that it learned from")):
        before = evenly(some, PAIRS)
        shown = displayable(torch.cat([before, fitted.reconstruct(before).to(before)]))
        if shown is None:
            return []
        draw = partial(pairs, before=shown[: len(before)], after=shown[len(before) :])
        label = f"{what} in the upper row, and their reconstructions in the lower one."
        caption = f"{what} above, and below each its reconstruction, E[x | z] at the mean of q(z | x)."
        found.append(ReportFigure(name, label, caption, draw, _height(shown, len(before))))
    samples = displayable(fitted.sample(SAMPLES))
    assert samples is not None
    caption = "New images, E[x | z] for z drawn from the prior. Blurred or odd ones show where no training image lies."
    draw = partial(show, images=samples, columns=PAIRS)
    return [*found, ReportFigure("samples", "A grid of new images.", caption, draw, _height(samples, PAIRS))]


def _space(fitted: FittedVAE, held_out: Tensor) -> list[ReportFigure]:
    """The map of two dimensions, and the way from one image to another."""
    if displayable(held_out[:1]) is None:
        return []
    ends = evenly(held_out, 8)
    rows = [fitted.interpolate(a, b, STEPS) for a, b in zip(ends[::2], ends[1::2], strict=False)]
    found = []
    between = displayable(torch.cat(rows)) if rows else None
    if between is not None:
        caption = "From one held-out image to another, by the decoder along the straight line between their z."
        draw = partial(show, images=between, columns=STEPS)
        found.append(
            ReportFigure("between", "Rows of images that change step by step.", caption, draw, _height(between, STEPS))
        )
    if fitted.latent == 2:
        grid = fitted.manifold(SIDE)
        tiles = displayable(grid.reshape(-1, *grid.shape[2:]))
        assert tiles is not None
        caption = "What the decoder makes of a grid of equal probability over the two latent dimensions."
        draw = partial(show, images=tiles, columns=SIDE)
        found.append(ReportFigure("map", "A square grid of images.", caption, draw, _height(tiles, SIDE)))
    return found


def _points(found: LatentPoints | None) -> list[ReportFigure]:
    """Held-out images as points."""
    if found is None:
        return []
    named = found.labels is not None and len(set(found.labels)) <= CLASSES
    what = "by their class, which training did not know" if named else "each a point"
    how = (
        "Means of q(z | x)"
        if found.axis != "t-SNE"
        else "A map (t-SNE) of the means of q(z | x), on which neighbors lie together"
    )
    draw = partial(by_class, points=np.asarray(found.points), labels=found.labels if named else None, axis=found.axis)
    return [ReportFigure("points", "Scatter of images in two dimensions.", f"{how}: held-out images, {what}.", draw)]


def _training(fitted: FittedVAE, held_out: Tensor) -> list[ReportFigure]:
    """What each dimension carries, and how the bound rose."""
    x = evenly(held_out, 1000)
    active = fitted.active(x) if len(x) > 1 else torch.zeros(fitted.latent, dtype=torch.bool)
    caption = (
        "How many nats each latent dimension carries about a held-out image. An idle one has collapsed: its q(z | x) "
        "is the prior, whatever the image."
    )
    draw = partial(dimensions, kl=fitted.kl_per_dimension(x), active=active)
    found = [ReportFigure("dimensions", "Bars: nats of each latent dimension.", caption, draw)]
    if len(fitted.history) > 1:
        caption = (
            "The bound in the course of training (higher is better). Where the curve of held-out images falls, the "
            "decoder learns training images by heart."
        )
        draw = partial(bound_curve, history=fitted.history)
        found.append(ReportFigure("training", "Curves: bound against epoch.", caption, draw))
    return found


def _snippet(run: str) -> str:
    return (
        "from credo.vision import open_autoencoder_run\n\n"
        f"run = open_autoencoder_run({run!r})\n"
        "vae = run.fitted\n"
        "mean, scale = vae.encode(x)   # q(z | x); x as it was in the file, bytes divided by 255\n"
        "vae.reconstruct(x)            # E[x | z] at the mean\n"
        "vae.sample(16)                # new images\n"
        "vae.log_prob(x, samples=500)  # nats; no alarm to rely on\n"
    )
