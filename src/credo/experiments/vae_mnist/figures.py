"""The pictures of the tutorial: reconstructions, samples, maps, and what each latent dimension carries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from credo.experiments.base import Figure
from credo.experiments.vae_mnist.bounds import BoundResult, spread_over
from credo.experiments.vae_mnist.measure import PRINTED, Trained
from credo.generative import FittedVAE
from credo.likelihoods import ContinuousBernoulli, GrayCrossEntropy
from credo.reports.autoencoder_figures import Array, by_class, dimensions, displayable, pairs, scores, show
from credo.reports.style import BLUE, COLORS, GRAY, RED, drawing
from credo.vision.neighbors import neighbor_map

PAIRS, SAMPLES, STEPS, SIDE = 12, 60, 12, 16
"""Images that are reconstructed, drawn samples, pictures between two images, and points along a side of the map."""
LOGIT = 3.0
"""Of the pixel whose two curves are shown."""


def draw_trained(folder: Path, found: Trained, seed: int) -> tuple[Figure, ...]:
    """Every picture of the models of gray images."""
    log = (first_epochs(folder, found), gray(folder)) if found.logs else ()
    return (
        *log,
        reconstructions(folder, found),
        samples(folder, found.main, seed),
        manifold(folder, found.flat),
        latent_map(folder, found, seed),
        between(folder, found),
        active(folder, found),
    )


def images(x: Tensor) -> Array:
    found = displayable(x)
    assert found is not None
    return found


def first_epochs(folder: Path, found: Trained) -> Figure:
    """The log beside the printed one."""
    with drawing(folder / "log.png") as figure:
        axes = figure.subplots()
        epochs = range(1, len(PRINTED) + 1)
        for i, log in enumerate(found.logs):
            axes.plot(epochs, log, color=BLUE, alpha=0.5, linewidth=1.0, label="ours, single runs" if i == 0 else None)
        axes.plot(epochs, PRINTED, "s", color=RED, label="Lee's log")
        axes.set(xlabel="epoch", ylabel="ELBO per image (nats)")
        axes.legend(loc="lower right")
    return Figure("log.png", "The first epochs of the tutorial's autoencoder: its printed log, and runs of ours.")


def gray(folder: Path) -> Figure:
    """One pixel: the exponential of the cross-entropy, and a density."""
    y = torch.linspace(0.0, 1.0, 401)[:, None]
    outputs = torch.full_like(y, LOGIT)
    curves = {
        "exp of the cross-entropy": (GrayCrossEntropy().log_prob(outputs, y, {}).exp(), RED, "--"),
        "continuous Bernoulli": (ContinuousBernoulli().log_prob(outputs, y, {}).exp(), BLUE, "-"),
    }
    with drawing(folder / "gray.png") as figure:
        axes = figure.subplots()
        for name, (values, color, style) in curves.items():
            area = float(torch.trapezoid(values, y[:, 0]))
            label = f"{name}: area {area:.2f}"
            axes.plot(y[:, 0].numpy(), values.numpy(), color=color, linestyle=style, label=label)
            axes.fill_between(y[:, 0].numpy(), values.numpy(), color=color, alpha=0.12, linewidth=0)
        axes.set(xlabel="gray value", ylabel="per unit of gray value", xlim=(0, 1), ylim=(0, None))
        axes.legend(loc="upper left")
    return Figure(
        "gray.png",
        f"One pixel with a logit of {LOGIT:g}. The area under a density is one; under the cross-entropy of gray values "
        "it is at most one half, and how much is missing depends on the network's output.",
    )


def reconstructions(folder: Path, found: Trained) -> Figure:
    """Training and test images above, their reconstructions below."""
    with drawing(folder / "reconstructions.png", 8.0, 3.9) as figure:
        for axes, x, title in zip(
            figure.subplots(2, 1), (found.data.x, found.data.x_test), ("training images", "test images"), strict=True
        ):
            shown = spread_over(x, PAIRS)
            pairs(axes, images(shown), images(found.main.reconstruct(shown)), title)
    return Figure("reconstructions.png", "Images above, and below each its reconstruction at the mean of q(z | x).")


def samples(folder: Path, fitted: FittedVAE, seed: int) -> Figure:
    """New images."""
    with drawing(folder / "samples.png", 8.0, 4.2) as figure:
        show(figure.subplots(), images(fitted.sample(SAMPLES, seed)), PAIRS)
    return Figure("samples.png", "E[x | z] for draws of z from the prior: images that nobody has written.")


def manifold(folder: Path, fitted: FittedVAE) -> Figure:
    """What the decoder makes of the plane."""
    grid = fitted.manifold(SIDE)
    with drawing(folder / "manifold.png", 6.4, 6.4) as figure:
        show(figure.subplots(), images(grid.reshape(-1, *grid.shape[2:])), SIDE)
    return Figure(
        "manifold.png",
        "Two latent dimensions: what the decoder makes of a grid of equal probability. Neighbors look alike.",
    )


def latent_map(folder: Path, found: Trained, seed: int) -> Figure:
    """Means of q(z | x) by class: the plane itself, and t-SNE of more dimensions."""
    x, labels = found.data.x_test, [str(int(k)) for k in found.data.y_test]
    plane = found.flat.encode(x).mean.numpy()
    neighbors = neighbor_map(found.main.encode(x).mean, seed)
    assert neighbors is not None
    with drawing(folder / "latent.png", 10.0, 4.4) as figure:
        left, right = figure.subplots(1, 2)
        by_class(left, plane, labels, "latent dimension")
        legend = left.get_legend()
        assert legend is not None
        legend.remove()
        by_class(right, neighbors, labels, "t-SNE")
        left.set_title("two latent dimensions")
        right.set_title(f"t-SNE of {found.main.latent} latent dimensions")
    return Figure(
        "latent.png",
        "Means of q(z | x) of test images by class. No label was used in training: they separate anyway.",
    )


def between(folder: Path, found: Trained) -> Figure:
    """From one test image to another along a straight line of z."""
    x, y = found.data.x_test, found.data.y_test
    first = [x[y == k][0] for k in (0, 2, 4, 6, 8)]
    last = [x[y == k][1] for k in (1, 3, 5, 7, 9)]
    rows = [images(found.main.interpolate(a, b, STEPS)) for a, b in zip(first, last, strict=True)]
    with drawing(folder / "between.png", 8.0, 3.6) as figure:
        show(figure.subplots(), np.concatenate(rows), STEPS)
    return Figure("between.png", "From one test image to another: the decoder along the line between their z.")


def active(folder: Path, found: Trained) -> Figure:
    """What each dimension carries."""
    x = found.data.x_test
    with drawing(folder / "active.png") as figure:
        dimensions(figure.subplots(), found.main.kl_per_dimension(x), found.main.active(x))
    return Figure(
        "active.png",
        "How many nats each latent dimension carries about a test image. An idle one has collapsed to the prior.",
    )


def unknown(folder: Path, found: Mapping[str, Mapping[str, Tensor]]) -> Figure:
    """log p(x) of known and unknown images."""
    with drawing(folder / "unknown.png", 10.0, 3.8) as figure:
        for axes, (name, values) in zip(figure.subplots(1, 2), found.items(), strict=True):
            scores(axes, {f"test images of {kind}": each for kind, each in values.items()}, "log p(x) (nats)")
            axes.set_title(f"a model of {name}")
    return Figure(
        "unknown.png",
        "log p(x) by a model of garments (left) and one of digits (right). The left one gives digits, which it has "
        "never seen, higher densities than garments: a low log p(x) is no alarm to rely on.",
    )


def three_bounds(folder: Path, found: Mapping[str, BoundResult]) -> Figure:
    """The bound in training, and log p(x) of test images in the end."""
    with drawing(folder / "bounds.png") as figure:
        axes = figure.subplots()
        for (name, result), color in zip(found.items(), COLORS, strict=False):
            epochs = range(1, len(result.curve) + 1)
            axes.plot(epochs, result.curve, color=color, label=name)
            axes.errorbar(len(epochs) + 0.4, result.log_prob, yerr=result.stderr, fmt="o", color=color, capsize=3)
        values = [v for result in found.values() for v in (*result.curve[len(result.curve) // 3 :], result.log_prob)]
        room = 0.08 * (max(values) - min(values))
        axes.set_ylim(min(values) - room, max(values) + room)
        axes.set(xlabel="epoch", ylabel="nats per image")
        axes.plot([], [], "o", color=GRAY, label="log p(x), test images, ± s.e.")
        axes.legend(loc="lower right")
    return Figure(
        "bounds.png",
        "Lines: the bound that is climbed, which is higher with more draws. Dots: log p(x) of test images.",
    )
