"""The images, and the autoencoders with their settings: the tutorial's, and those whose bounds are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from credo.core.config import encode
from credo.core.optimizers import Cosine, StepDecay
from credo.core.rng import Stream
from credo.data.sets import load
from credo.generative import VAE, AutoEncodingBayes
from credo.likelihoods import BinarizedBernoulli, ContinuousBernoulli, GrayCrossEntropy

PER_CLASS = 100
"""Images of each class to learn from, and as many to test, in the tutorial's split."""
REPETITIONS = 5
"""Runs whose first epochs are averaged."""
LOGGED = 6
"""Epochs that the tutorial's log prints."""
GARMENTS = 10_000
"""Images that the model for unknown images learns from."""
SCORED = 1_000
"""Test images of each kind that it scores."""


@dataclass(frozen=True)
class GrayImages:
    """Gray values from 0 to 1, (N, side, side), and classes."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor


def tutorial_images() -> GrayImages:
    """The tutorial's thousand images: the first 100 of each class in MNIST's training set, and the next 100 to test."""
    data = load("mnist")
    x, y = gray(data.x), torch.as_tensor(data.y).long()
    each = [torch.nonzero(y == k).squeeze(1) for k in range(10)]
    train, test = (torch.cat([rows[start : start + PER_CLASS] for rows in each]) for start in (0, PER_CLASS))
    return GrayImages(x[train], y[train], x[test], y[test])


def small_images(seed: int) -> GrayImages:
    """Scikit-learn's images of 8 x 8, 1,400 to learn from and 397 to test."""
    data = load("digits")
    x, y = torch.as_tensor(data.x).float().reshape(-1, 8, 8) / 16.0, torch.as_tensor(data.y).long()
    order = Stream(seed, ("vae-mnist", "split")).permutation(len(x))
    train, test = order[:1400], order[1400:]
    return GrayImages(x[train], y[train], x[test], y[test])


def all_images(name: str) -> GrayImages:
    """Training and test set of MNIST or Fashion-MNIST."""
    data = load(name)
    assert data.test is not None
    y, y_test = (torch.as_tensor(each).long() for each in (data.y, data.test[1]))
    return GrayImages(gray(data.x), y, gray(data.test[0]), y_test)


def gray(pixels: Any) -> Tensor:
    """Bytes as values from 0 to 1."""
    return torch.as_tensor(pixels).float() / 255.0


def tutorial_method(epochs: int = 100) -> AutoEncodingBayes:
    """The tutorial's: Adam with 0.001, a tenth of it in the second half, batches of 100, one draw of z."""
    return AutoEncodingBayes(epochs=epochs, learning_rate=1e-3, batch_size=100, schedule=StepDecay((0.5,)))


def first_epochs() -> AutoEncodingBayes:
    """The epochs of the log, in which the step size has not fallen yet."""
    return AutoEncodingBayes(epochs=LOGGED, learning_rate=1e-3, batch_size=100)


def tutorial_vae(latent: int = 20) -> VAE:
    """784-500-500-latent with ReLU and back, and the cross-entropy of gray values, as the tutorial has it."""
    return VAE(latent, GrayCrossEntropy())


def density_vae() -> VAE:
    """The same with a density of gray values."""
    return VAE(20, ContinuousBernoulli())


def unknown_method() -> AutoEncodingBayes:
    """For the model that scores unknown images."""
    return AutoEncodingBayes(epochs=10, learning_rate=1e-3, batch_size=100)


@dataclass(frozen=True)
class BoundRow:
    """An autoencoder of binarized images, trained by one of the two bounds.

    Attributes:
        name: for people and files.
        vae: what is trained.
        method: how.
        tested: test images, evenly from the whole test set.
        samples: draws of z for each of them, by which log p(x) is estimated.
    """

    name: str
    vae: VAE
    method: AutoEncodingBayes
    tested: int
    samples: int

    def settings(self, seed: int) -> dict[str, Any]:
        """All that the result depends on, beside the images."""
        sizes = {"latent": self.vae.latent, "hidden": list(self.vae.hidden), "activation": self.vae.activation}
        measured = {"tested": self.tested, "samples": self.samples}
        return {**sizes, **measured, "method": encode(self.method), "seed": seed}


BOUNDS = (("vae", "elbo", 1), ("iwae-5", "iwae", 5), ("iwae-50", "iwae", 50))
"""Name, bound and draws of z in training."""


def _rows(suffix: str, vae: VAE, tested: int, samples: int, **numbers: Any) -> list[BoundRow]:
    methods = ((n, AutoEncodingBayes(bound=bound, samples=k, schedule=Cosine(), **numbers)) for n, bound, k in BOUNDS)
    return [BoundRow(f"{name}{suffix}", vae, method, tested, samples) for name, method in methods]


def published_vae() -> VAE:
    """One stochastic layer of 50 units and two of 200 with tanh on each side."""
    return VAE(50, BinarizedBernoulli(), hidden=(200, 200), activation="tanh")


def long() -> list[BoundRow]:
    """300,000 steps with batches of 100 in place of the published 9.8 million with 20: for a GPU."""
    return _rows("", published_vae(), 10_000, 5_000, epochs=500, batch_size=100, learning_rate=1e-3)


def short() -> list[BoundRow]:
    """The same networks and images for 4,800 steps, on a CPU too."""
    return _rows("-short", published_vae(), 1_000, 1_000, epochs=8, batch_size=100, learning_rate=3e-3)


def quick() -> list[BoundRow]:
    """Small ones for scikit-learn's digits."""
    vae = VAE(16, BinarizedBernoulli(), hidden=(64,), activation="tanh")
    return _rows("-digits", vae, 397, 500, epochs=25, batch_size=100, learning_rate=1e-2)
