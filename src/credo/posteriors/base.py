"""What is believed about the weights after the data: the one interface that all methods end in."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from credo.core.checks import is_number, whole_number
from credo.core.config import Registry, kind_name
from credo.core.inputs import Inputs, TensorTree, few, inputs, rows_at_once
from credo.core.record import Record
from credo.core.status import Status
from credo.core.trees import Variables, flatten, map_tensors, move
from credo.model import Model
from credo.posteriors.functions import Functions
from credo.posteriors.writing import write_posterior
from credo.predictive import Predictive, predictive
from credo.priors import Prior

if TYPE_CHECKING:
    from credo.posteriors.draws import Draws

BATCH_ENTRIES = 2**22
"""Entries of the draws that `predict_batches` holds at a time."""


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(ABC):
    """A distribution over functions, learned from data: a mixture of one or more components.

    Subclasses are frozen dataclasses whose fields are tensors, trees of tensors (`Variables`, `Params`, other
    dataclasses of tensors) and numbers. They are registered by their names, so that `credo.load` can make them.

    Attributes:
        model: network, likelihood and the prior under which the posterior was found.
        record: how the run went: notes, history, time.
    """

    registry: ClassVar = Registry("posterior")
    unbounded: ClassVar[tuple[str, ...]] = ()
    """Fields in which infinite or missing numbers have a meaning."""

    model: Model
    record: Record = field(default_factory=Record, kw_only=True)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__repr__ = cls.__repr__  # type: ignore[method-assign]  # or @dataclass would write one that prints weights
        cls.registry.add(cls)

    @abstractmethod
    def draw(self, count: int | None = None, seed: int = 0) -> Functions:
        """`count` drawn functions; None gives the number that suits the posterior, `default_draws`.

        Examples:
            `functions = posterior.draw(5); functions(x)` has shape (5, B, outputs).
        """

    @abstractmethod
    def at_mean(self) -> Draws:
        """The posterior with every component of its mixture at its expectation E_q[w]: as many networks, no spread.

        The members of an ensemble are components of their own. All draws of one sampler, weighted or not, are one
        component: a single network at their weighted average.

        Examples:
            `posterior.at_mean().predict(x)` beside `posterior.predict(x, draws=100)`.
        """

    @abstractmethod
    def members(self, count: int | None = None) -> Variables:
        """Equally weighted networks that stand for the posterior, and from which a run can start, (M, *shape).

        They are the components at their means, or draws; where draws have weights, draws resampled by these, in the
        same way at every call.

        Args:
            count: M; None for as many as the posterior has. Components are given in turn where more are asked for.
        """

    @property
    def default_draws(self) -> int:
        """S of a draw, or a prediction, that does not say how many functions it wants."""
        return 100

    @property
    def prior(self) -> Prior:
        """The prior under which the posterior was found: the user's, or the one by which the method replaced it."""
        return self.model.prior

    def predictor(self, draws: int | None = None, seed: int = 0) -> Callable[[Inputs], Predictive]:
        """What gives the predictive distribution at checked inputs: by default the mixture over drawn functions.

        A posterior whose predictions need no draws gives another.
        """
        functions = self.draw(_count(draws), seed)
        likelihood, params, log_weights = self.model.likelihood, functions.likelihood_params, functions.log_weights
        return lambda x: predictive(likelihood, functions(x), params, log_weights)

    def predict(self, x: Any, draws: int | None = None, seed: int = 0) -> Predictive:
        """The predictive distribution at new inputs.

        Args:
            x: inputs (B, ...), a tensor or an array; several of them in a dict or tuple, as in `fit`; or a `Graph`.
            draws: number of drawn functions; None for the posterior's own choice.
            seed: of the draws; the same seed gives the same functions.
        """
        predict = self.predictor(draws, seed)
        return predict(self.inputs(x))

    def predict_batches(
        self, x: Any, draws: int | None = None, seed: int = 0, rows: int | None = None
    ) -> Iterator[Predictive]:
        """The predictive distributions at many inputs, some inputs at a time and in their order, by the same functions.

        `predict` holds the outputs of all draws at all inputs, (S, B, E); here only those of a few inputs are held.

        Args:
            x: inputs (B, ...), as in `predict`.
            draws: number of drawn functions; None for the posterior's own choice.
            seed: of the draws; the same seed gives the same functions as in `predict`.
            rows: inputs at a time; None for as many as make draws of 16 MiB.

        Examples:
            `mean = torch.cat([prediction.mean for prediction in posterior.predict_batches(x, draws=100)])`
        """
        rows = None if rows is None else whole_number("rows", rows)
        predict, inputs = self.predictor(draws, seed), _inputs(x, self.model.network.input_dtype)
        outputs = math.prod(self._shape(few(inputs, 1).to(self.device)))
        wanted = rows or BATCH_ENTRIES // ((_count(draws) or self.default_draws) * outputs)
        size = rows_at_once(inputs, wanted)
        for start in range(0, len(inputs), size):
            yield predict(inputs[start : start + size].to(self.device))

    def inputs(self, x: Any) -> Inputs:
        """Inputs as the network takes them, checked."""
        values = _inputs(x, self.model.network.input_dtype).to(self.device)
        self._shape(values)
        return values

    def _shape(self, x: Inputs) -> tuple[int, ...]:
        """Shape of the outputs for one example of x, checked."""
        shape = checked_shape(self.model, self.members(1), x)
        self.model.likelihood.outputs_of(shape)
        return shape

    @property
    def device(self) -> torch.device:
        """Where the tensors are, and where predictions are computed."""
        return next(iter(self.tensors().values())).device

    @property
    def history(self) -> tuple[dict[str, float], ...]:
        """One row per epoch."""
        return self.record.history

    @property
    def notes(self) -> tuple[str, ...]:
        """What credo chose for you and what it noticed, in sentences."""
        return self.record.notes

    def __repr__(self) -> str:
        """What it is in a few words; `notes` says more."""
        trees = [value for value in self._values().values() if isinstance(value, Variables)]
        parameters = sum(w[0].numel() for w in trees[0].params.values()) if trees else 0
        sizes = f"members={trees[0].members}, parameters={parameters}, " if trees else ""
        return (
            f"{type(self).__name__}({sizes}likelihood={self.model.given_likelihood}, "
            f"method={_method(self.record.method)}, status={self.record.status})"
        )

    def of_members(self, members: Tensor) -> Self:
        """The equal mixture of the members with these numbers alone."""
        return replace(self, **map_tensors(lambda _, t: t[members], self._values()))

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
        kind, tensors = kind_name(type(self)), self.tensors()
        return write_posterior(Path(folder), kind, self.model, tensors, self.numbers(), self.record)

    def numbers(self) -> dict[str, Any]:
        """What is saved beside the tensors, by the names of the fields."""
        return {name: v for name, v in self._values().items() if isinstance(v, bool | int | float | str | None)}

    def check(self) -> None:
        """Look at tensors that come from a file: subclasses add what must hold of theirs.

        Raises:
            ValueError: if they cannot be those of such a posterior.
        """
        for name, value in self._values().items():
            if isinstance(value, Variables):
                _check_members(name, value)
            if name not in self.unbounded and self.record.status is not Status.DIVERGED:
                _check_numbers(name, value)


def _method(data: dict[str, Any]) -> str:
    """The name of a recorded method, and of the one that it is an ensemble of."""
    inner = data.get("method")
    return f"{data.get('kind')}{f' of {_method(inner)}' if isinstance(inner, dict) else ''}"


def _check_members(name: str, variables: Variables) -> None:
    sizes = {key: t.shape[:1] for tree in (variables.params, variables.buffers) for key, t in tree.items()}
    for key, size in sizes.items():
        if size != next(iter(sizes.values())) or size.numel() == 0 or not size:
            raise ValueError(f"the tensors of {name} must have one leading axis of members, and {key!r} has not")


def _check_numbers(name: str, value: Any) -> None:
    for path, t in flatten({name: value}).items():
        # buffers of a module may hold infinite numbers, such as the mask of an attention
        wrong = t.isnan() if path.startswith(f"{name}/buffers/") else ~t.isfinite()
        if bool(wrong.any()):
            raise ValueError(f"{path!r} holds NaN or infinite numbers")


def checked_shape(model: Model, variables: Variables, x: Inputs) -> tuple[int, ...]:
    """Shape of the outputs for one example, or a sentence that says why the network cannot take x (B, ...)."""
    try:
        return model.output_shape(variables, x)
    except (RuntimeError, TypeError, LookupError, AttributeError, NotImplementedError, AssertionError) as error:
        shapes, advice = _shapes_and_advice(model, x)
        said = str(error) if " " in str(error) else repr(error)  # a KeyError says the key alone
        raise ValueError(f"the network cannot be called on inputs of {shapes}: {said}{advice}") from error


def _shapes_and_advice(model: Model, x: Inputs) -> tuple[str, str]:
    """Of inputs that the network does not take."""
    if isinstance(x, TensorTree):
        return f"shapes {x!r}", "".join(f"; {note}" for note in model.network.passing_note(x))
    shape = f"shape ({', '.join(['B', *map(str, x.shape[1:])])}), {x.dtype}"
    advice = "" if x.is_floating_point() else "; if x holds numbers to compute with, give them as floats"
    return shape, advice + ("; one feature per example is a column, x[:, None]" if x.ndim == 1 else "")


def _count(draws: Any) -> int | None:
    """The number of draws; targets in its place are refused with a hint where they go."""
    if isinstance(draws, Sized) and not isinstance(draws, str) and not is_number(draws):
        raise TypeError(
            f"draws must be a whole number such as 100, got a value of type {type(draws).__name__}: predictions take "
            "the inputs alone, as in posterior.predict(x); their log density at targets y is "
            "posterior.predict(x).log_prob(y)"
        )
    return None if draws is None else whole_number("draws", draws)


def _inputs(x: Any, dtype: torch.dtype) -> Inputs:
    """Inputs as tensors, checked; batches are refused with a hint how to loop over them."""
    if isinstance(x, DataLoader | Dataset | Iterator):
        raise TypeError(
            f"x is a {type(x).__name__}, and predictions take a tensor or an array: loop over the batches of a "
            "DataLoader, as in `for inputs, targets in loader: posterior.predict(inputs)`; for one large tensor there "
            "is posterior.predict_batches"
        )
    if isinstance(x, TensorTree):
        return x
    values = inputs(x, "x", dtype)
    if len(values) == 0:
        raise ValueError(f"x has {_no_rows(values)}: there is no example in it")
    return values


def _no_rows(values: Inputs) -> str:
    return "no rows" if isinstance(values, TensorTree) else f"shape {tuple(values.shape)}"
