"""From a file of images to a trained autoencoder, its evaluation and a report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, as_tensor

from credo.core.checks import whole_number
from credo.core.optimizers import StepDecay
from credo.core.status import Status
from credo.core.storage import SCHEMA, StorageError, find, read_json, write_folder
from credo.data.splits import split
from credo.generative import VAE, AutoEncodingBayes, FittedVAE, fit
from credo.imaging.evaluating import LOOKED_AT, evaluate_images, evenly
from credo.imaging.neighbors import neighbor_map
from credo.imaging.page import LatentPoints, autoencoder_page
from credo.imaging.reading import ImageSet, read_images
from credo.imaging.runs import ImageRun, is_image_run, save_image_run
from credo.likelihoods import (
    Bernoulli,
    BinarizedBernoulli,
    ContinuousBernoulli,
    GrayCrossEntropy,
    Likelihood,
    SharedGaussian,
)
from credo.loop.progress import Listener

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
REQUEST = "request.json"


@dataclass(frozen=True)
class ImageRequest:
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

    def method(self, count: int) -> AutoEncodingBayes:
        """How so many images are trained on."""
        batches = -(-count // 100)
        epochs = self.epochs or max(FEWEST_EPOCHS, min(MOST_EPOCHS, STEPS // batches))
        return AutoEncodingBayes(epochs=epochs, batch_size=100, learning_rate=1e-3, schedule=StepDecay((0.5,)))


def fit_images(
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
) -> ImageRun:
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
    request, folder = ImageRequest(latent, likelihood, epochs, test, seed), Path(out)
    _check_folder(folder, force=force)
    training = _training_folder(folder, request, resume=resume, force=force)
    images = read_images(source)
    x, held_out, labels = _divided(images, request)
    if on_loaded is not None:
        on_loaded(images, len(x))
    fitted = _trained(x, held_out, request, training, listener)
    notes = images.notes if images.x_test is None else (*images.notes, "the file says which images are held out")
    evaluation = evaluate_images(fitted, images, x, held_out, notes, seed)
    page = autoencoder_page(fitted, evaluation, x, held_out, _points(fitted, held_out, labels, seed), folder.name)
    try:
        run = save_image_run(fitted, evaluation, page, folder)
    except StorageError as error:
        raise StorageError(f"{error}; the training is in {training}: make room, and continue with --resume") from None
    shutil.rmtree(training, ignore_errors=True)
    return run


def _divided(images: ImageSet, request: ImageRequest) -> tuple[Tensor, Tensor, tuple[str, ...] | None]:
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
    x: Tensor, held_out: Tensor, request: ImageRequest, training: Path, listener: Listener | None
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
    status, reason = fitted.posterior.record.status, fitted.posterior.record.reason
    if status is Status.INTERRUPTED:
        raise KeyboardInterrupt(
            "the training so far is saved: the same command with --resume (resume=True) continues it"
        )
    if status is Status.DIVERGED:
        shutil.rmtree(training, ignore_errors=True)
        raise ValueError(f"training {reason}")
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


def _check_folder(folder: Path, *, force: bool) -> None:
    """Find out before the work begins whether a run can be written to a folder."""
    where = folder.resolve()
    if where.exists() and not where.is_dir():
        raise StorageError(f"{folder} is a file: choose another folder (--out)")
    if where.is_dir() and any(where.iterdir()):
        if not is_image_run(where):
            raise StorageError(f"{folder} holds other files, which are not touched: choose another folder (--out)")
        if not force:
            raise StorageError(
                f"{folder} holds a run already: choose another folder (--out), or replace it with --force (force=True)"
            )
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written ({error.strerror}): choose another folder (--out)") from None


def _training_folder(out: Path, request: ImageRequest, *, resume: bool, force: bool) -> Path:
    """The folder beside that of the run in which its training is saved until it is over.

    Raises:
        StorageError: if there is an interrupted training and the user has not said what to do with it, or the reverse.
    """
    folder = out.resolve().with_name(f"{out.resolve().name}.training")
    begun = folder.is_dir() and any(path.name != REQUEST for path in folder.iterdir())
    asked = {"schema": SCHEMA, "options": json.loads(json.dumps(_options(request)))}
    if begun and not resume and not force:
        raise StorageError(
            f"{folder} holds an interrupted training: continue it with --resume (resume=True), or start over with "
            "--force (force=True)"
        )
    if resume and not begun:
        raise StorageError(f"there is no training to resume: {folder} does not exist; leave --resume out")
    if begun and resume and find(folder, REQUEST) is not None:
        _check_request(read_json(folder, REQUEST).get("options"), asked["options"], out)
        return folder
    if not resume:
        shutil.rmtree(folder, ignore_errors=True)
        write_folder(folder, {REQUEST: json.dumps(asked) + "\n"}, {})
    return folder


def _options(request: ImageRequest) -> dict[str, Any]:
    return {f"--{name}": value for name, value in vars(replace(request)).items()}


def _check_request(before: Any, now: dict[str, Any], out: Path) -> None:
    for option, value in now.items():
        was = before.get(option) if isinstance(before, dict) else None
        if was != value:
            raise StorageError(
                f"the training of {out} was started with {option} {was}, and now it is {value}: use the options of the "
                "first start, or start over with --force and without --resume"
            )
