"""Measures of doubt that need no labels, and alarms that follow from them."""

from credo.uncertainty.alarm import Alarm
from credo.uncertainty.distances import ClassDensity, NearestNeighbors, features
from credo.uncertainty.familiarity import Familiarity, disagreement
from credo.uncertainty.scores import (
    Doubt,
    energy,
    entropy,
    expected_entropy,
    maximum_probability,
    mutual_information,
    per_draw,
    score,
    stddev,
    total_stddev,
    variation_ratio,
)
from credo.uncertainty.sensitivity import doubt_gradient
from credo.uncertainty.support import Support

__all__ = [
    "Alarm",
    "ClassDensity",
    "Doubt",
    "Familiarity",
    "NearestNeighbors",
    "Support",
    "disagreement",
    "doubt_gradient",
    "energy",
    "entropy",
    "expected_entropy",
    "features",
    "maximum_probability",
    "mutual_information",
    "per_draw",
    "score",
    "stddev",
    "total_stddev",
    "variation_ratio",
]
