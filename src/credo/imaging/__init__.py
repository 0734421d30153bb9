"""The whole way from images to an autoencoder, its pictures and a report."""

from credo.imaging.fitting import fit_images
from credo.imaging.reading import ImageSet, read_images
from credo.imaging.runs import ImageCheck, ImageEvaluation, ImageRun, open_image_run

__all__ = ["ImageCheck", "ImageEvaluation", "ImageRun", "ImageSet", "fit_images", "open_image_run", "read_images"]
