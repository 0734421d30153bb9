"""A trained autoencoder of images with what was measured of it, in a folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from credo.core.folders import write_whole
from credo.core.storage import SCHEMA, StorageError, find, read_json, write_folder
from credo.generative import FittedVAE
from credo.tabular.saving import json_text
from credo.vision.runs import FILES, REPORT

VAE_FILE = "vae.json"


@dataclass(frozen=True)
class AutoencoderCheck:
    """A question about the autoencoder, and its answer.

    Attributes:
        question: in a few words.
        rating: good, fair or poor.
        answer: a sentence with its numbers.
    """

    question: str
    rating: str
    answer: str


@dataclass(frozen=True)
class AutoencoderEvaluation:
    """What images say that the autoencoder has not seen, beside those that it has.

    Attributes:
        source: name of the file or folder.
        trained: number of images that it learned from.
        held_out: number of those that it did not.
        shape: of one image.
        likelihood: of the pixels, in words.
        density: whether its log probabilities are those of a distribution; the cross-entropy's are not.
        looked_at: images of either kind that the numbers are means over, at most.
        elbo: nats per held-out image.
        elbo_trained: of images that it learned from.
        reconstruction: expected log likelihood, the first term of the bound.
        kl: the second.
        log_prob: log p(x) of held-out images by importance sampling, which is at least the bound.
        samples: draws of z for each of them.
        error: root mean squared error of reconstructed held-out values.
        error_trained: of images that it learned from.
        error_of_mean: of always giving the mean image.
        kl_per_dimension: nats that each latent dimension carries.
        active: whether it carries information.
        best_epoch: when the held-out bound was best.
        epochs: of training.
        seconds: of training.
        seed: of every stream of randomness.
        created: date and time.
        credo: version.
        notes: what was decided and noticed, in sentences.
        checks: questions with answers.
    """

    source: str
    trained: int
    held_out: int
    shape: list[int]
    likelihood: str
    density: bool
    looked_at: int
    elbo: float
    elbo_trained: float
    reconstruction: float
    kl: float
    log_prob: float
    samples: int
    error: float
    error_trained: float
    error_of_mean: float
    kl_per_dimension: list[float]
    active: list[bool]
    best_epoch: float
    epochs: float
    seconds: float
    seed: int
    created: str
    credo: str
    notes: list[str]
    checks: list[AutoencoderCheck]

    @property
    def explained(self) -> float:
        """Part of the variance around the mean image that reconstructions explain."""
        return 1.0 - (self.error / self.error_of_mean) ** 2 if self.error_of_mean > 0 else 0.0


@dataclass(frozen=True, eq=False)
class AutoencoderRun:
    """An autoencoder, what was measured of it, and where it lies.

    Attributes:
        fitted: encodes, decodes, samples.
        evaluation: the numbers of the report.
        folder: None where it was not saved.
    """

    fitted: FittedVAE
    evaluation: AutoencoderEvaluation
    folder: Path | None = None

    @property
    def report(self) -> Path | None:
        """The page for people."""
        return None if self.folder is None else self.folder / REPORT


def save_autoencoder_run(
    fitted: FittedVAE, evaluation: AutoencoderEvaluation, page: str, folder: Path
) -> AutoencoderRun:
    """Write a run, so that the folder holds all of it or what it held before.

    Raises:
        StorageError: if it cannot be written.
    """
    numbers = json_text({"schema": SCHEMA, **asdict(evaluation)})

    def write(made: Path) -> None:
        fitted.save(made)
        write_folder(made, {VAE_FILE: numbers, REPORT: page}, {})

    write_whole(folder, write, FILES)
    return AutoencoderRun(fitted, evaluation, folder)


def open_autoencoder_run(folder: str | Path) -> AutoencoderRun:
    """Read a run that `fit_autoencoder` or `credo vae` wrote.

    Raises:
        StorageError: if the folder is missing, damaged, from a newer credo, or something else.
    """
    path = Path(folder)
    if find(path, VAE_FILE) is None:
        raise StorageError(f"{path} holds no autoencoder: give a folder that `credo vae` wrote")
    data = read_json(path, VAE_FILE)
    try:
        checks = [AutoencoderCheck(**check) for check in data["checks"]]
        known: dict[str, Any] = {f.name: data[f.name] for f in fields(AutoencoderEvaluation)}
        evaluation = AutoencoderEvaluation(**{**known, "checks": checks})
    except (KeyError, TypeError) as error:
        raise StorageError(f"{path / VAE_FILE} is damaged ({error!r})") from None
    return AutoencoderRun(FittedVAE.load(path), evaluation, path)
