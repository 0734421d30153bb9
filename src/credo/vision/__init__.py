"""The image jobs as Python calls: from a folder of images by class to an evaluated posterior with a report, and from
images to an autoencoder with one."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from credo.vision.autoencoder import fit_autoencoder
    from credo.vision.autoencoder_runs import (
        AutoencoderCheck,
        AutoencoderEvaluation,
        AutoencoderRun,
        open_autoencoder_run,
    )
    from credo.vision.fitting import fit_folder
    from credo.vision.image_sets import ImageSet, read_image_set
    from credo.vision.labeling import label_images
    from credo.vision.reading import read_image
    from credo.vision.runs import VisionRun, open_vision_run

__all__ = [
    "AutoencoderCheck",
    "AutoencoderEvaluation",
    "AutoencoderRun",
    "ImageSet",
    "VisionRun",
    "fit_autoencoder",
    "fit_folder",
    "label_images",
    "open_autoencoder_run",
    "open_vision_run",
    "read_image",
    "read_image_set",
]

_HOMES = {
    "fit_folder": "fitting",
    "label_images": "labeling",
    "VisionRun": "runs",
    "open_vision_run": "runs",
    "read_image": "reading",
    "fit_autoencoder": "autoencoder",
    "AutoencoderCheck": "autoencoder_runs",
    "AutoencoderEvaluation": "autoencoder_runs",
    "AutoencoderRun": "autoencoder_runs",
    "open_autoencoder_run": "autoencoder_runs",
    "ImageSet": "image_sets",
    "read_image_set": "image_sets",
}


def __getattr__(name: str) -> Any:
    """Loaded when first asked for: who only predicts need not wait for what draws reports."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
