"""Calibration of one of several heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from credo.calibration.base import Calibrator
from credo.core.checks import check_kind
from credo.predictive import JointPredictive, Predictive


@dataclass(frozen=True, eq=False)
class OfHead(Calibrator):
    """A calibrator of one head: the others, and what the draws say about all of them together, stay as they are.

    `Calibrated.of(posterior, price=CdfMap.of(prediction["price"], y["price"]))` makes it.

    Attributes:
        name: of the head.
        calibrator: of its predictions.
    """

    name: str
    calibrator: Calibrator

    def __post_init__(self) -> None:
        check_kind("name", self.name, "'price'", str)
        check_kind("calibrator", self.calibrator, "calibration.Temperature.of(prediction['price'], y)", Calibrator)

    @property
    def label(self) -> str:
        return f"{self.calibrator.label} of {self.name!r}"

    def apply(self, prediction: Predictive) -> Predictive:
        if not isinstance(prediction, JointPredictive):
            raise ValueError(f"a calibrator is for the head {self.name!r}, and the prediction has no heads")
        return prediction.with_head(self.name, self.calibrator.apply(prediction[self.name]))


def of_heads(calibrators: tuple[Calibrator, ...], heads: dict[str, Any], names: tuple[str, ...]) -> list[Calibrator]:
    """All of them as calibrators of a prediction, or a sentence where they do not fit its heads.

    Args:
        calibrators: of the whole.
        heads: calibrators by the name of the head.
        names: of the heads that there are; none where there is one output.
    """
    for name in (*(each.name for each in calibrators if isinstance(each, OfHead)), *heads):
        if name not in names:
            have = f"it has {', '.join(map(repr, names))}" if names else "it has but one output: give it without a name"
            raise ValueError(f"a calibrator is given for the head {name!r} of the posterior, and {have}")
    if names and not all(isinstance(each, OfHead) for each in calibrators):
        raise ValueError(
            f"there are several heads, {', '.join(map(repr, names))}, and a calibrator is of one: say of which, "
            f"Calibrated.of(posterior, {names[0]}=...)"
        )
    return [*calibrators, *(OfHead(name, each) for name, each in heads.items())]
