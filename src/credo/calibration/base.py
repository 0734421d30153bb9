"""What a calibrator is: a few numbers, and a change of predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from credo.core.arrays import tensor
from credo.core.config import Registry
from credo.core.weights import example_weights
from credo.predictive import JointPredictive, Predictive


@dataclass(frozen=True, eq=False)
class Calibrator(ABC):
    """A change of predictions, learned from predictions and what was observed.

    Subclasses are frozen dataclasses of tensors and numbers, which is how they are saved with a posterior. They are
    registered by their names, so that `credo.load` can make them; a `__post_init__` refuses values from a file that
    cannot be.
    """

    registry: ClassVar = Registry("calibrator")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.registry.add(cls)

    @property
    def label(self) -> str:
        """What it is called in notes."""
        return type(self).__name__

    @abstractmethod
    def apply(self, prediction: Predictive) -> Predictive:
        """The calibrated prediction."""


Predictions = Predictive | Sequence[Predictive]
"""One prediction, or several, such as those of the folds of cross-validation, each for its own rows."""


@dataclass(frozen=True, eq=False)
class CalibrationRows:
    """Some rows of the predictions, with their targets and weights; a row is an example, or an observed position."""

    prediction: Predictive
    y: Tensor  # (N, D) or (N,)
    weights: Tensor  # (N,) in float64: of its example
    shares: Tensor  # likewise, but shared by the positions of an example, which add up to its weight


def parts(predictions: Predictions, y: Any, weights: Any = None) -> list[CalibrationRows]:
    """Predictions with their targets, part by part.

    Args:
        predictions: one, or several.
        y: what was observed; of several predictions a list of as many.
        weights: how much each example counts, likewise; None for one each.
    """
    several = not isinstance(predictions, Predictive)
    listed = [predictions] if isinstance(predictions, Predictive) else list(predictions)
    if not listed or not all(isinstance(each, Predictive) for each in listed):
        raise TypeError(
            "calibrators take predictions, as posterior.predict(x) gives them, or a list of such: "
            f"got {type(predictions).__name__}"
        )
    targets, each = _listed(y, "y", len(listed), several), _listed(weights, "weights", len(listed), several)
    return list(_checked(listed, targets, each))


def _listed(values: Any, name: str, count: int, several: bool) -> Sequence[Any]:
    if not several or values is None:
        return [values] * count
    if not isinstance(values, list | tuple) or len(values) != count:
        raise ValueError(f"there are {count} predictions in a list: give {name} as a list of {count}, one for each")
    return values


def _checked(
    predictions: Sequence[Predictive], targets: Sequence[Any], weights: Sequence[Any]
) -> Iterator[CalibrationRows]:
    for prediction, y, weight in zip(predictions, targets, weights, strict=True):
        if isinstance(prediction, JointPredictive):
            name = next(iter(prediction.heads))
            raise ValueError(f"there are several heads: calibrate one, by prediction[{name!r}] and y[{name!r}]")
        if getattr(prediction, "conformal", None) is not None:
            raise ValueError("the predictions are conformal already: calibrate them before, and conformal ones last")
        outputs = prediction.likelihood.outputs_of(tuple(prediction.draws.shape[2:]))
        values = prediction.likelihood.check_targets(tensor(y, "y"), outputs).to(prediction.draws.device)
        if len(values) != len(prediction):
            raise ValueError(f"y has {len(values)} rows and the prediction {len(prediction)}: they must agree")
        if weight is None:
            each = torch.ones(len(values), dtype=torch.float64, device=values.device)
        else:
            each = example_weights(weight, (len(values),)).double().to(values.device)
        if prediction.likelihood.event_axes == 1:
            yield CalibrationRows(prediction, values, each, each)
            continue
        rows, observed, example = prediction.elements(values)
        count = torch.bincount(example, minlength=len(values))
        yield CalibrationRows(rows, observed, each[example], (each / count)[example])
