"""From a file of images to a trained autoencoder, its evaluation and a report."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from torch import Tensor, as_tensor

from credo.core.checks import whole_number
from credo.core.folders import check_folder
from credo.core.optimizers import StepDecay
from credo.core.status import Status
from credo.core.storage import StorageError
from credo.data.splits import split
from credo.generative import VAE, AutoEncodingBayes, FittedVAE, fit
from credo.likelihoods import (
    Bernoulli,
    BinarizedBernoulli,
    ContinuousBernoulli,
    GrayCrossEntropy,
    Likelihood,
    SharedGaussian,
)
from credo.loop.progress import Listener
from credo.tabular.resuming import check_request, interruptible, save_request, training_folder
from credo.vision.autoencoder_evaluation import LOOKED_AT, evaluate_autoencoder, evenly
from credo.vision.autoencoder_page import LatentPoints, autoencoder_page
from credo.vision.autoencoder_runs import AutoencoderRun, save_autoencoder_run
from credo.vision.image_sets import ImageSet, read_image_set
from credo.vision.neighbors import neighbor_map

LIKELIHOODS: dict[str, Likelihood | None] = {
    "auto": None,
    "bernoulli": Bernoulli(),
    "binarized": BinarizedBernoulli(),
    "continuous-bernoulli": ContinuousBernoulli(),
    "cross-entropy": GrayCrossEntropy(),
    "gaussian": SharedGaussian(initial_scale=0.3),
}
"""By the names of the command line."""
STEPS, FEWEST_EPOCHS, MOST_EPOCHS = 10_000, 10, 200
"""About how long training is where nobody says it."""


@dataclass(frozen=True)
class AutoencoderRequest:
    """What is asked of a training.

    Attributes:
        latent: number of latent dimensions.
        likelihood: one of `LIKELIHOODS`.
        epochs: passes over the images; None for about 10,000 steps.
        test: part of the images that is held out, where the file does not say which.
        seed: of every stream of randomness.
    """

    latent: int = 20
    likelihood: str = "auto"
    epochs: int | None = None
    test: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("latent", self.latent)
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood must be one of {', '.join(LIKELIHOODS)}, got {self.likelihood!r}")
        if self.epochs is not None:
            whole_number("epochs", self.epochs)
        if not 0.0 < self.test < 1.0:
            raise ValueError(f"test must be a part of the images between 0 and 1, got {self.test}")

    @property
    def options(self) -> dict[str, object]:
        """What a training must be resumed with, by the names of the command line."""
        return {f"--{name}": value for name, value in asdict(self).items()}

    def method(self, count: int) -> AutoEncodingBayes:
        """How so many images are trained on."""
        batches = -(-count // 100)
        epochs = self.epochs or max(FEWEST_EPOCHS, min(MOST_EPOCHS, STEPS // batches))
        return AutoEncodingBayes(epochs=epochs, batch_size=100, learning_rate=1e-3, schedule=StepDecay((0.5,)))


def fit_autoencoder(
    source: str | Path,
    *,
    out: str | Path,
    latent: int = 20,
    likelihood: str = "auto",
    epochs: int | None = None,
    test: float = 0.1,
    seed: int = 0,
    resume: bool = False,
    force: bool = False,
    on_loaded: Callable[[ImageSet, int], None] | None = None,
    listener: Listener | None = None,
) -> AutoencoderRun:
    """Learn a variational autoencoder of images, evaluate it on images it has not seen, and write a report.

    Args:
        source: an npz or npy file, or a folder of pictures.
        out: folder for the run.
        latent: number of latent dimensions; 2 gives a map of the images that can be drawn as such.
        likelihood: of pixels: auto, bernoulli, binarized, continuous-bernoulli, cross-entropy or gaussian.
        epochs: passes over the images; None for about 10,000 steps.
        test: part of the images that is held out, where the file does not say which.
        seed: the same seed gives the same numbers.
        resume: continue an interrupted training of this run, to the same numbers.
        force: replace a run that lies in the folder, and start over where a training was interrupted.
        on_loaded: called with the images and the number of those to learn from, before training.
        listener: called with the progress of training.

    Returns:
        The run: its `fitted` autoencoder, `evaluation`, `report` and folder.

    Raises:
        ValueError: if images or arguments make no sense; `StorageError` for the folder.
        KeyboardInterrupt: Ctrl-C; the training so far is saved beside the folder.
    """
    request, folder = AutoencoderRequest(latent, likelihood, epochs, test, seed), Path(out)
    check_folder(folder, force=force)
    training = training_folder(folder, resume=resume, force=force)
    check_request(training, request.options, folder)
    with interruptible(training):
        images = read_image_set(source)
        x, held_out, labels = _divided(images, request)
        if on_loaded is not None:
            on_loaded(images, len(x))
        save_request(training, request.options)
        fitted = _trained(x, held_out, request, training, listener)
    notes = images.notes if images.x_test is None else (*images.notes, "the file says which images are held out")
    evaluation = evaluate_autoencoder(fitted, images, x, held_out, notes, seed)
    page = autoencoder_page(fitted, evaluation, x, held_out, _points(fitted, held_out, labels, seed), folder.name)
    try:
        run = save_autoencoder_run(fitted, evaluation, page, folder)
    except StorageError as error:
        raise StorageError(f"{error}; the training is in {training}: make room, and continue with --resume") from None
    shutil.rmtree(training, ignore_errors=True)
    return run


def _divided(images: ImageSet, request: AutoencoderRequest) -> tuple[Tensor, Tensor, tuple[str, ...] | None]:
    """Images to learn from, held-out ones, and the labels of these."""
    if images.x_test is not None:
        return images.x, images.x_test, images.test_labels
    if len(images.x) < 2:
        raise ValueError(f"{images.source} holds one image, and an autoencoder learns what differs between images")
    parts = split(len(images.x), test=request.test, seed=request.seed, classes=images.labels)
    train, test = as_tensor(parts.train), as_tensor(parts.test)
    labels = None if images.labels is None else tuple(images.labels[int(i)] for i in parts.test)
    return images.x[train], images.x[test], labels


def _trained(
    x: Tensor, held_out: Tensor, request: AutoencoderRequest, training: Path, listener: Listener | None
) -> FittedVAE:
    vae = VAE(request.latent, LIKELIHOODS[request.likelihood])
    fitted = fit(
        vae,
        x,
        request.method(len(x)),
        seed=request.seed,
        validation=evenly(held_out, LOOKED_AT),
        checkpoint=training,
        resume=True,
        progress=listener or False,
    )
    record = fitted.posterior.record
    if record.interrupted:
        raise KeyboardInterrupt
    if record.status is Status.DIVERGED:
        shutil.rmtree(training, ignore_errors=True)
        raise ValueError(f"training {record.reason}")
    return fitted


def _points(fitted: FittedVAE, held_out: Tensor, labels: tuple[str, ...] | None, seed: int) -> LatentPoints | None:
    """Where held-out images lie in the latent space: the plane itself, or a map of neighbors."""
    rows = evenly(as_tensor(np.arange(len(held_out))), LOOKED_AT)
    mean = fitted.encode(held_out[rows]).mean
    names = None if labels is None else [labels[int(i)] for i in rows]
    if fitted.latent == 2:
        return LatentPoints(mean.cpu().numpy(), names, "latent dimension")
    found = neighbor_map(mean, seed) if fitted.latent > 2 else None
    return None if found is None else LatentPoints(found, names, "t-SNE")
