"""A posterior whose predictions go through calibrators."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self, get_type_hints

import torch
from torch import Tensor

from credo.calibration import Calibrator
from credo.calibration.heads import of_heads
from credo.core.checks import check_kind
from credo.core.config import kind_name
from credo.core.inputs import Inputs
from credo.core.trees import Params, Variables, move
from credo.likelihoods import Joint
from credo.posteriors.base import Posterior
from credo.posteriors.draws import Draws
from credo.posteriors.functions import Functions
from credo.posteriors.writing import write_posterior
from credo.predictive import Predictive
from credo.priors import Prior

PREFIX = "calibrators/"
"""Of the tensors of calibrators in a file."""


@dataclass(frozen=True, eq=False)
class Calibrated(Posterior):
    """Another posterior, with its predictions calibrated; `save` and `credo.load` know both.

    Draws, members and the network at the mean are those of the posterior itself; `predict` and `predict_batches` apply
    the calibrators to its predictions, in their order.

    Attributes:
        base: the posterior itself.
        calibrators: of `credo.calibration`, in the order in which they are applied.
    """

    base: Posterior
    calibrators: tuple[Calibrator, ...]

    @staticmethod
    def of(posterior: Posterior, /, *calibrators: Calibrator, **heads: Calibrator) -> Calibrated:
        """A posterior with one more calibrator, or several.

        Args:
            posterior: with calibrators of its own or without.
            calibrators: in the order in which they are applied.
            heads: of a posterior with several heads, the calibrator of each that has one, by its name.

        Examples:
            >>> import torch, credo
            >>> x, y = torch.linspace(-1, 1, 40)[:, None], (torch.arange(40) > 19).long()
            >>> posterior = credo.fit(credo.nets.MLP(1, 2), (x, y), credo.MAP(epochs=5))
            >>> temperature = credo.calibration.Temperature(2.0)
            >>> Calibrated.of(posterior, temperature).predict(x).probs.max() < posterior.predict(x).probs.max()
            tensor(True)
        """
        check_kind("posterior", posterior, "credo.fit(...)", Posterior)
        if not calibrators and not heads:
            raise ValueError("there is no calibrator: give one, such as calibration.Temperature.of(prediction, y)")
        for calibrator in (*calibrators, *heads.values()):
            check_kind("calibrator", calibrator, "calibration.Temperature.of(prediction, y)", Calibrator)
        likelihood = posterior.model.likelihood
        names = likelihood.names if isinstance(likelihood, Joint) else ()
        every = tuple(of_heads(calibrators, heads, names))
        if isinstance(posterior, Calibrated):
            return Calibrated(posterior.model, posterior.base, posterior.calibrators + every, record=posterior.record)
        return Calibrated(posterior.model, posterior, every, record=posterior.record)

    def predictor(self, draws: int | None = None, seed: int = 0) -> Callable[[Inputs], Predictive]:
        predict = self.base.predictor(draws, seed)

        def calibrated(x: Inputs) -> Predictive:
            prediction = predict(x)
            for calibrator in self.calibrators:
                prediction = calibrator.apply(prediction)
            return prediction

        return calibrated

    def draw(self, count: int | None = None, seed: int = 0) -> Functions:
        """Functions of the posterior itself: what calibrates is no part of a function, but of their mixture."""
        return self.base.draw(count, seed)

    def at_mean(self) -> Draws:
        """The network of the posterior itself at its mean, which is not calibrated."""
        return self.base.at_mean()

    def members(self, count: int | None = None) -> Variables:
        return self.base.members(count)

    @property
    def default_draws(self) -> int:
        return self.base.default_draws

    @property
    def prior(self) -> Prior:
        return self.base.prior

    @property
    def notes(self) -> tuple[str, ...]:
        names = ", ".join(each.label for each in self.calibrators)
        return (*self.base.notes, f"predictions are calibrated by {names}")

    def __repr__(self) -> str:
        return f"Calibrated({self.base!r}, {', '.join(each.label for each in self.calibrators)})"

    def of_members(self, members: Tensor) -> Self:
        raise ValueError(
            "what calibrates all members together does not calibrate some of them: take posterior.base.of_members(...) "
            "and calibrate that"
        )

    def tensors(self) -> Params:
        return self.base.tensors()

    def to(self, device: torch.device | str) -> Self:
        calibrators = tuple(move(each, device) for each in self.calibrators)
        return replace(self, base=self.base.to(device), calibrators=calibrators)

    def save(self, folder: str | Path) -> Path:
        """Write the posterior and its calibrators to a folder; `credo.load` reads both."""
        written = [_written(each) for each in self.calibrators]
        tensors = dict[str, Tensor]()
        for i, each in enumerate(self.calibrators):
            tensors.update(_tensors(each, f"{PREFIX}{i}/"))
        return write_posterior(
            Path(folder),
            kind_name(type(self.base)),
            self.model,
            {**self.base.tensors(), **tensors},
            self.base.numbers(),
            self.record,
            calibrators=written,
        )

    def check(self) -> None:
        self.base.check()


def _tensors(calibrator: Calibrator, prefix: str) -> Params:
    """The tensors of a calibrator, and of those in it, by the names that they have in a file."""
    found = dict[str, Tensor]()
    for name, value in vars(calibrator).items():
        if isinstance(value, Tensor):
            found[prefix + name] = value
        elif isinstance(value, Calibrator):
            found.update(_tensors(value, f"{prefix}{name}/"))
    return found


def _written(calibrator: Calibrator) -> dict[str, Any]:
    """A calibrator as JSON: its class and its numbers, which may be calibrators themselves."""
    values = {f.name: getattr(calibrator, f.name) for f in fields(calibrator)}
    numbers = {
        name: _written(value) if isinstance(value, Calibrator) else value
        for name, value in values.items()
        if not isinstance(value, Tensor)
    }
    try:
        json.dumps(numbers)
    except TypeError as error:
        raise TypeError(
            f"{type(calibrator).__name__} cannot be saved: it holds more than tensors and numbers"
        ) from error
    return {"kind": kind_name(type(calibrator)), "numbers": numbers}


def calibrators_from(data: list[dict[str, Any]], tensors: Params) -> tuple[Calibrator, ...]:
    """The calibrators that `save` has written, made anew."""
    return tuple(_made(each, f"{PREFIX}{i}/", tensors) for i, each in enumerate(data))


def _made(data: dict[str, Any], prefix: str, tensors: Params) -> Calibrator:
    kind = Calibrator.registry.find(data["kind"])
    hints, values = get_type_hints(kind), dict[str, Any]()
    for name in (f.name for f in fields(kind) if f.init):
        if hints[name] is Tensor:
            values[name] = tensors[prefix + name]
        elif hints[name] is Calibrator:
            values[name] = _made(data["numbers"][name], f"{prefix}{name}/", tensors)
        else:
            values[name] = data["numbers"][name]
    made: Calibrator = kind(**values)
    return made
