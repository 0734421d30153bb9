"""The image job as one call: look at the folder, divide, train, evaluate on the images that were held out, save."""

from __future__ import annotations

import datetime
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from credo.core.folders import MINIMUM_FREE, check_folder, save_or_rescue
from credo.core.status import Status
from credo.core.threads import one_thread
from credo.data import DataError
from credo.data.splits import Split, split
from credo.evaluation.checks import DOUBTS_QUESTION, worst_first
from credo.evaluation.digits import percent
from credo.evaluation.evaluate import HeldOutRows, evaluate
from credo.evaluation.image_metadata import ImageMetadata
from credo.evaluation.metadata import TrainingLength
from credo.evaluation.scores import naive_classes
from credo.evaluation.values import Check, Evaluation, Rating
from credo.fit import fit
from credo.loop.checkpoints import Checkpoint
from credo.loop.progress import Report, clock
from credo.posteriors import Posterior
from credo.posteriors.draws import Draws
from credo.predictive import ClassPredictive, predictive
from credo.tabular.resuming import check_request, interruptible, save_request, training_folder
from credo.vision.alarms import KNOWN, ImageAlarms, doubt_of, neighbors_of, seen
from credo.vision.folder import ImageFolder, Say, scan
from credo.vision.pixels import DecodedImages, ImageRows, ImageShape, decode, unreadable_notes
from credo.vision.predictions import AT_ONCE, ImagePredictor, joined, predicted
from credo.vision.reading import printable
from credo.vision.recipes import VisionRequest
from credo.vision.runs import VisionRun
from credo.vision.saving import save_vision_run, thumbnail

SECONDS, CHECKPOINT = 10.0, "fit"
"""Between two checkpoints, and their folder in that of the training."""
FEWEST = 8
"""Training images."""
ENOUGH = 0.1
"""False alarms that may be promised without a word: more of them means that few images were held out."""
MOST_HELD_OUT = 20_000
"""Images that are held out at most: more would tell nothing new."""


@dataclass(frozen=True, eq=False)
class LoadedImages:
    """A folder that has been looked at, decoded and divided.

    Attributes:
        request: what the user wants.
        folder: what is in it.
        images: its pixels.
        parts: which images are for training and which are held out.
        notes: what was strange, in sentences.
        started: when work began, by the monotonic clock.
    """

    request: VisionRequest
    folder: ImageFolder
    images: DecodedImages
    parts: Split
    notes: tuple[str, ...]
    started: float


def fit_folder(
    folder: str | Path,
    *,
    method: str = "ensemble",
    network: str = "cnn",
    out: str | Path | None = None,
    size: int | None = None,
    test: float = 0.2,
    seed: int = 0,
    epochs: int | None = None,
    flip: bool = False,
    false_alarms: float = 0.05,
    device: str = "cpu",
    resume: bool = False,
    force: bool = False,
    on_loaded: Callable[[LoadedImages], None] | None = None,
    say: Say = lambda text, share: None,
) -> VisionRun:
    """Learn from a folder of images by class, and evaluate the result on images that training has not seen.

    Brings all images to one size, holds some out, trains networks with error bars on the others, evaluates them on the
    held-out ones, chooses from which doubt and which strangeness on a new image rings the alarm and, where there is a
    folder for the run, writes it with a report for people. Images are decoded once into a file that is mapped into
    memory, so that a folder may be larger than that.

    Args:
        folder: has a folder of images for each class. Reading them takes Pillow: `pip install 'credo[images]'`.
        method: ensemble, map, dropout or vi.
        network: cnn, lenet5, resnet20, resnet18 or wide-resnet.
        out: folder for the run; None saves nothing.
        size: height and width to which images are brought; None for that of half of them or less, from 16 to 64.
        test: part of the images that is held out.
        seed: the same seed gives the same numbers.
        epochs: passes over the training images; None for as many as suit their number.
        flip: whether a mirrored image is an image of the same class, so that half of them are mirrored in training.
        false_alarms: part of images like the held-out ones for which the alarm may ring.
        device: where to compute, such as "cuda".
        resume: continue an interrupted training of this run, to the same numbers.
        force: replace a run that lies in the folder, and start over where a training was interrupted.
        on_loaded: called when the images are read, before training.
        say: called with what is going on, and which part of it is done.

    Returns:
        The run: its `evaluation`, `predict(files)`, `posterior`, `alarms`, `report` and more.

    Raises:
        ValueError: if the folder or the arguments make no sense; `StorageError` for the folder of the run.
        SavedElsewhereError: if that could not be written after training; it has the run, in a temporary folder.
        KeyboardInterrupt: Ctrl-C; where there is a folder for the run, the work so far is saved beside it.

    Examples:
        `run = fit_folder("photos", out="run"); run.predict(["new.jpg"])`
    """
    request = VisionRequest(method, network, size, test, seed, epochs, flip, false_alarms, device)
    _check_device(device)
    if out is None:
        if resume:
            raise ValueError("resume=True needs out=, the folder of the run")
        with tempfile.TemporaryDirectory(prefix="credo-") as scratch:
            return _trained(_loaded(folder, request, Path(scratch), on_loaded, say), None, say)
    place = Path(out)
    check_folder(place, force=force)
    training = training_folder(place, resume=resume, force=force)
    check_request(training, request.options, place)
    with interruptible(training):
        loaded = _loaded(folder, request, training, on_loaded, say, out=place, force=force)
        done = _trained(loaded, training / CHECKPOINT, say)
        run = save_or_rescue(partial(save_vision_run, done), place)
    shutil.rmtree(training, ignore_errors=True)
    return run


def _check_device(name: str) -> None:
    """Before images are read: whether it is there."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device must be a device of torch's such as 'cpu' or 'cuda', got {name!r}") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {name!r} was asked for, and torch finds no CUDA device on this machine: use 'cpu'")


def _loaded(
    folder: str | Path,
    request: VisionRequest,
    training: Path,
    on_loaded: Callable[[LoadedImages], None] | None,
    say: Say,
    out: Path | None = None,
    force: bool = False,
) -> LoadedImages:
    started = time.monotonic()
    found = scan(folder, say)
    shape = ImageShape(request.size or found.size, found.channels)
    if out is not None:
        check_folder(out, force=force, needed=MINIMUM_FREE + len(found.files) * shape.row_bytes)
        options = {**request.options, "images": found.fingerprint}
        check_request(training, options, out)
        save_request(training, options)
    images = decode(found, shape, training, say)
    try:
        parts = _parts(found, images.readable, request)
    except DataError:  # nothing was trained that the mended folder could go on with
        if out is not None and not (training / CHECKPOINT).exists():
            shutil.rmtree(training, ignore_errors=True)
        raise
    notes = tuple(map(printable, (*found.notes, *unreadable_notes(found, images.readable))))
    loaded = LoadedImages(request, found, images, parts, notes, started)
    if on_loaded is not None:
        on_loaded(loaded)
    return loaded


def _parts(folder: ImageFolder, readable: NDArray[np.bool_], request: VisionRequest) -> Split:
    """Training and held-out images, of which each class has its share."""
    usable = np.flatnonzero(readable)
    left = np.bincount(folder.labels[usable], minlength=len(folder.classes))
    empty = [name for name, count in zip(folder.classes, left, strict=True) if not count]
    if empty:
        raise DataError(
            f"no file of the class {empty[0]!r} in {folder.root} is a readable image: mend them, or remove that folder"
        )
    test = min(request.test, MOST_HELD_OUT / len(usable))
    parts = split(len(usable), test=test, seed=request.seed, classes=folder.labels[usable])
    if len(parts.train) < FEWEST:
        raise DataError(
            f"test={request.test:g} leaves {len(parts.train)} of {len(usable)} images for training, and at least "
            f"{FEWEST} are needed: hold out fewer (--test)"
        )
    return Split(usable[parts.train], usable[parts.validation], usable[parts.test])


def _trained(loaded: LoadedImages, checkpoint: Path | None, say: Say) -> VisionRun:
    """Train on some images and evaluate on the others."""
    request, folder, images, train = loaded.request, loaded.folder, loaded.images, loaded.parts.train
    model = request.model(images.shape, len(folder.classes), *images.moments(train))
    method = request.training_method(len(train))
    loader = DataLoader(
        ImageRows(images, folder.labels, train), request.batch(len(train)), shuffle=True, collate_fn=_as_it_is
    )
    with _threads(request.device):
        posterior = fit(
            model,
            loader,
            method,
            seed=request.seed,
            device=request.device,
            augment=request.augmentation(images.shape.size),
            checkpoint=None if checkpoint is None else Checkpoint(checkpoint, SECONDS),
            resume=checkpoint is not None,
            progress=_listener(say),
        )
        if checkpoint is not None and posterior.record.interrupted:
            raise KeyboardInterrupt  # the checkpoint is there to be resumed
        if posterior.record.status is Status.DIVERGED:
            raise ValueError(f"the training {posterior.record.reason}")
        return _evaluated(loaded, posterior, say)


def _as_it_is(batch: Any) -> Any:
    return batch


@contextmanager
def _threads(device: str) -> Iterator[None]:
    """One thread on a CPU, so that sums do not depend on the number of cores."""
    if torch.device(device).type != "cpu":
        yield
        return
    with one_thread():
        yield


def _listener(say: Say) -> Callable[[Report], None]:
    def listen(report: Report) -> None:
        share = report.step / max(report.total, 1)
        left = f", {clock(report.seconds * (1 - share) / share)} left" if share else ""
        epoch = min(int(report.epoch) + 1, int(report.epochs))
        say(f"training: epoch {epoch} of {int(report.epochs)}{left}", share)

    return listen


def _evaluated(loaded: LoadedImages, posterior: Posterior, say: Say) -> VisionRun:
    request, folder, images, parts = loaded.request, loaded.folder, loaded.images, loaded.parts
    say("judging by the held-out images", None)
    chunks = [parts.test[i : i + AT_ONCE] for i in range(0, len(parts.test), AT_ONCE)]
    prediction = joined([predicted(posterior, images.images(rows)) for rows in chunks])
    features = torch.cat([seen(posterior, images.images(rows)) for rows in chunks])
    chosen = parts.train[:: -(-len(parts.train) // KNOWN)]
    known = torch.cat([seen(posterior, images.images(rows)) for rows in np.array_split(chosen, -(-len(chosen) // 256))])
    distance = neighbors_of(known).score(features)
    alarms = ImageAlarms.of(known, doubt_of(prediction), distance, request.rate)
    length = TrainingLength(request.passes(len(parts.train)), 0, request.passes(len(parts.train)), chosen=False)
    y = torch.from_numpy(folder.labels[parts.test])
    case = HeldOutRows(
        prediction=prediction,
        plain=_single_networks(posterior, prediction, images, chunks),
        naive=naive_classes(torch.from_numpy(folder.labels[parts.train]), len(folder.classes), len(y)),
        y=y,
        row=np.arange(1, len(y) + 1),
        inputs=_facts(folder, images, parts.test),
        trained=_facts(folder, images, parts.train[:: -(-len(parts.train) // KNOWN)]),
        target="class",
        classes=folder.classes,
        record=posterior.record,
        training=length,
    )
    answers = ImagePredictor(posterior, alarms, images.shape, folder.classes).table(prediction, features)
    evaluation = _with_alarm(evaluate(case, request.seed), alarms, answers)
    told = pd.DataFrame(
        {"file": [printable(folder.files[i]) for i in parts.test], "observed": [folder.classes[k] for k in y.tolist()]}
    )
    doubtful = [thumbnail(images.images(parts.test[row.row - 1 : row.row])) for row in evaluation.doubtful]
    metadata = _metadata(loaded, length.epochs)
    return VisionRun(
        posterior.to("cpu"), evaluation, alarms, pd.concat([told, answers], axis=1), metadata, tuple(doubtful)
    )


def _with_alarm(evaluation: Evaluation, alarms: ImageAlarms, answers: pd.DataFrame) -> Evaluation:
    """The evaluation with a check of this alarm in the place of that for tables."""
    rings, promised = float(answers["alarm"].mean()), alarms.false_alarms
    said = f"it rings for {percent(rings)} of the held-out images, and at most {percent(promised)} are promised"
    few = f"{said}; with so few held-out images it rings for hardly any other image either: hold out more (--test)"
    known = Check("Is the alarm set?", Rating.GOOD.value, f"Yes: {said}.")
    if promised > ENOUGH:
        known = Check("Is the alarm set?", Rating.FAIR.value, f"Roughly: {few}.")
    others = tuple(check for check in evaluation.checks if check.question != DOUBTS_QUESTION)
    return replace(evaluation, checks=worst_first((*others, known)))


def _single_networks(
    posterior: Posterior, prediction: ClassPredictive, images: DecodedImages, chunks: list[NDArray[np.int64]]
) -> list[ClassPredictive]:
    """Every member as a network by itself, or the network at the mean; none where the posterior is one network."""
    if isinstance(posterior, Draws):
        if posterior.members().members == 1:
            return []
        singles = [
            predictive(prediction.likelihood, draw[None], prediction.params, torch.zeros(1, dtype=torch.float64))
            for draw in prediction.draws
        ]
        return [single for single in singles if isinstance(single, ClassPredictive)]
    mean = posterior.at_mean()
    return [joined([predicted(mean, images.images(rows)) for rows in chunks])]


def _facts(folder: ImageFolder, images: DecodedImages, places: NDArray[np.int64]) -> pd.DataFrame:
    """What a table can say of images."""
    headers = [folder.headers[i] for i in places]
    parts = [images.images(rows).flatten(1) for rows in np.array_split(places, -(-len(places) // 512))]
    return pd.DataFrame(
        {
            "width": [0 if header is None else header.width for header in headers],
            "height": [0 if header is None else header.height for header in headers],
            "brightness": torch.cat([x.mean(1) for x in parts]).double().numpy(),
            "contrast": torch.cat([x.std(1) for x in parts]).double().numpy(),
        }
    )


def _metadata(loaded: LoadedImages, epochs: int) -> ImageMetadata:
    request, folder = loaded.request, loaded.folder
    counts = np.bincount(folder.labels[loaded.images.readable], minlength=len(folder.classes))
    return ImageMetadata(
        source=printable(folder.root.resolve().name),
        classes=folder.classes,
        counts=tuple(counts.tolist()),
        size=loaded.images.shape.size,
        channels=loaded.images.shape.channels,
        network=request.network,
        method=request.method,
        notes=loaded.notes,
        test=request.test,
        seed=request.seed,
        epochs=epochs,
        device=request.device,
        seconds=time.monotonic() - loaded.started,
        created=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        credo=version("credo"),
    )
