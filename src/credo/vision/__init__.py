"""The image job as a Python call: from a folder of images by class to an evaluated posterior with a report."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from credo.vision.fitting import fit_folder
    from credo.vision.labeling import label_images
    from credo.vision.reading import read_image
    from credo.vision.runs import VisionRun, open_vision_run

__all__ = ["VisionRun", "fit_folder", "label_images", "open_vision_run", "read_image"]

_HOMES = {
    "fit_folder": "fitting",
    "label_images": "labeling",
    "VisionRun": "runs",
    "open_vision_run": "runs",
    "read_image": "reading",
}


def __getattr__(name: str) -> Any:
    """Loaded when first asked for: who only predicts need not wait for what draws reports."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
