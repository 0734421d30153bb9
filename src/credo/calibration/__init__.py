"""Predictions that come true as often as they say: temperature, maps of the distribution function, conformal sets.

A calibrator is made of predictions and what was observed, `Calibrator.of(prediction, y)`, on examples that were not
learned from: held-out ones, or the out-of-fold predictions of several fits in a list. `credo.Calibrated.of(posterior,
calibrator)` is a posterior that predicts by it and is saved with it; of several heads, each has its own,
`Calibrated.of(posterior, price=calibrator)`. Where outputs have positions, each that was observed is a row.
"""

from credo.calibration.base import Calibrator
from credo.calibration.cdf_map import CdfMap
from credo.calibration.heads import OfHead
from credo.calibration.intervals import ConformalIntervals
from credo.calibration.mapped import MappedPredictive
from credo.calibration.sets import ConformalSets
from credo.calibration.temperature import Temperature

__all__ = ["Calibrator", "CdfMap", "ConformalIntervals", "ConformalSets", "MappedPredictive", "OfHead", "Temperature"]
