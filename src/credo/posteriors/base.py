"""What is believed about the weights after the data: the one interface that all methods end in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sized
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from credo.core.arrays import tensor
from credo.core.checks import is_number, whole_number
from credo.core.record import Record
from credo.core.trees import Variables, flatten, move
from credo.model import Model
from credo.posteriors.functions import Functions
from credo.posteriors.inputs import checked_outputs
from credo.posteriors.writing import write_posterior
from credo.predictive import Predictive, predictive

BATCH_ENTRIES = 2**22
"""Entries of the draws that `predict_batches` holds at a time."""


@dataclass(frozen=True, eq=False)
class Posterior(ABC):
    """A distribution over functions, learnt from data.

    Where there are several members the posterior is their equal mixture.

    Attributes:
        model: network, likelihood and prior.
        record: how the run went: notes, history, time.
    """

    model: Model
    record: Record = field(default_factory=Record, kw_only=True)

    @abstractmethod
    def draw(self, count: int | None = None, seed: int = 0) -> Functions:
        """`count` drawn functions; None gives the number that suits the posterior.

        Example:
            `functions = posterior.draw(5); functions(x)` has shape (5, B, outputs).
        """

    @abstractmethod
    def point(self) -> Variables:
        """The weights at their expectation, one per member, (M, *shape): the naive approximation to the posterior."""

    def predict(self, x: Any, draws: int | None = None, seed: int = 0) -> Predictive:
        """The predictive distribution at new inputs.

        Args:
            x: inputs (B, ...), a tensor or an array.
            draws: number of drawn functions; None for the posterior's own choice.
            seed: of the draws; the same seed gives the same functions.
        """
        functions = self.draw(_count(draws), seed)
        inputs = self.inputs(x)
        return predictive(self.model.likelihood, functions(inputs), functions.likelihood_params, functions.log_weights)

    def predict_batches(
        self, x: Any, draws: int | None = None, seed: int = 0, rows: int | None = None
    ) -> Iterator[Predictive]:
        """The predictive distributions at many inputs, some inputs at a time and in their order, by the same functions.

        `predict` holds the outputs of all draws at all inputs, (S, B, E); here only those of a few inputs are held.

        Args:
            x: inputs (B, ...), a tensor or an array.
            draws: number of drawn functions; None for the posterior's own choice.
            seed: of the draws; the same seed gives the same functions as in `predict`.
            rows: inputs at a time; None for as many as make draws of 16 MiB.

        Example:
            `mean = torch.cat([prediction.mean for prediction in posterior.predict_batches(x, draws=100)])`
        """
        rows = None if rows is None else whole_number("rows", rows)
        functions, inputs = self.draw(_count(draws), seed), _array(x)
        outputs = self.model.outputs(self.point(), self.inputs(inputs[:1]))
        size = rows or max(1, BATCH_ENTRIES // (len(functions) * outputs))
        for start in range(0, len(inputs), size):
            drawn = functions(self.inputs(inputs[start : start + size]))
            yield predictive(self.model.likelihood, drawn, functions.likelihood_params, functions.log_weights)

    def inputs(self, x: Any) -> Tensor:
        """Inputs as the network takes them, checked."""
        values = _array(x)
        if values.ndim < 1 or len(values) == 0:
            raise ValueError(f"x has shape {tuple(values.shape)}: there is no example in it")
        if values.is_floating_point():
            values = values.to(self.model.network.dtype)
            if not bool(torch.isfinite(values).all()):
                raise ValueError("x has NaN or infinite values: remove or fill them")
        values = values.to(self.device)
        checked_outputs(self.model, self.point(), values)
        return values

    @property
    def device(self) -> torch.device:
        """Where the tensors are, and where predictions are computed."""
        return self.point().device

    @property
    def history(self) -> tuple[dict[str, float], ...]:
        """One row per epoch."""
        return self.record.history

    @property
    def notes(self) -> tuple[str, ...]:
        """What credo chose for you and what it noticed, in sentences."""
        return self.record.notes

    def tensors(self) -> dict[str, Tensor]:
        """All tensors, by the names under which they are saved."""
        return flatten(self._values())

    def _values(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("model", "record")}

    def to(self, device: torch.device | str) -> Self:
        """The same posterior on another device."""
        return replace(self, **move(self._values(), device))

    def save(self, folder: str | Path) -> Path:
        """Write the posterior to a folder of JSON and safetensors; `credo.load` reads it back."""
        return write_posterior(Path(folder), type(self).__name__, self.model, self.tensors(), self.record)


def _count(draws: Any) -> int | None:
    """The number of draws; who gives targets in its place is told where they go."""
    if isinstance(draws, Sized) and not isinstance(draws, str) and not is_number(draws):
        raise TypeError(
            f"draws must be a whole number such as 100, got a value of type {type(draws).__name__}: predictions take "
            "the inputs alone, as in posterior.predict(x); their log density at targets y is "
            "posterior.predict(x).log_prob(y)"
        )
    return None if draws is None else whole_number("draws", draws)


def _array(x: Any) -> Tensor:
    """Inputs as a tensor; who gives batches is told how to go through them."""
    if isinstance(x, DataLoader | Dataset | Iterator):
        raise TypeError(
            f"x is a {type(x).__name__}, and predictions take a tensor or an array: loop over the batches of a "
            "DataLoader, as in `for inputs, targets in loader: posterior.predict(inputs)`; for one large tensor there "
            "is posterior.predict_batches"
        )
    return tensor(x, "x")
