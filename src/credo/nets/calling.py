"""How a tree of inputs meets `forward`: as keywords, by position, or as one argument, by its signature."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from torch import Tensor, nn

from credo.core.inputs import Inputs
from credo.core.trees import map_tensors

_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Passing(StrEnum):
    """How a tree is given to `forward`."""

    KEYWORDS = "keywords"
    POSITIONS = "positions"
    ONE = "one argument"


class Parameters(NamedTuple):
    """What a module's `forward` takes."""

    module: str  # its name, for sentences
    places: tuple[str, ...]  # names of what it takes by position, in order
    names: tuple[str, ...]  # names of what it takes as keywords
    required: tuple[str, ...]  # those of either that it cannot do without
    any_places: bool = False  # whether it has *args
    any_names: bool = False  # whether it has **kwargs

    def takes(self, count: int) -> bool:
        """Whether it can be called with so many arguments by position."""
        filled = self.places[:count]
        return (count <= len(self.places) or self.any_places) and all(name in filled for name in self.required)

    @property
    def shown(self) -> str:
        """Its arguments, for a person."""
        optional = {name: name if name in self.required else f"{name}=" for name in (*self.places, *self.names)}
        return f"{self.module}.forward({', '.join(optional.values())})"


def parameters_of(module: nn.Module) -> Parameters:
    """What `forward` says that it takes; anything where it does not say."""
    name = type(module).__name__
    try:
        found = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return Parameters(name, (), (), (), any_places=True, any_names=True)
    return Parameters(
        name,
        tuple(p.name for p in found if p.kind in _BY_PLACE),
        tuple(p.name for p in found if p.kind in _BY_NAME),
        tuple(p.name for p in found if p.kind in (*_BY_PLACE, *_BY_NAME) and p.default is p.empty),
        any_places=any(p.kind is p.VAR_POSITIONAL for p in found),
        any_names=any(p.kind is p.VAR_KEYWORD for p in found),
    )


def arguments(parameters: Parameters, x: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that `forward` is called with for these inputs."""
    if isinstance(x, Tensor):
        return (x,), {}
    how = passing(parameters, x.value)
    value = map_tensors(lambda _, t: t, x.value)  # dicts of its own, from which the module may take things
    if how is Passing.KEYWORDS:
        return (), dict(_by_name(value))
    return (tuple(value), {}) if how is Passing.POSITIONS else ((value,), {})


def passing(parameters: Parameters, value: Any) -> Passing:
    """How a tree is given to `forward`, or a sentence where it cannot be."""
    names = tuple(_by_name(value)) if isinstance(value, dict) or hasattr(value, "_fields") else None
    return _passing(parameters, names, len(value) if isinstance(value, tuple) else None)


@lru_cache
def _passing(parameters: Parameters, names: tuple[Any, ...] | None, length: int | None) -> Passing:
    if names is not None and _are_keywords(parameters, names):
        return Passing.KEYWORDS
    known = [name for name in names or () if name in parameters.names]
    if length is not None and parameters.takes(length) and (not known or known == list(parameters.places[:length])):
        return Passing.POSITIONS
    if parameters.takes(1) and (not known or (len(parameters.names) == 1 and not parameters.any_names)):
        return Passing.ONE
    raise ValueError(_misfit(parameters, names, length))


def _are_keywords(parameters: Parameters, names: tuple[Any, ...]) -> bool:
    taken = all(isinstance(name, str) and (name in parameters.names or parameters.any_names) for name in names)
    return taken and all(name in names for name in parameters.required)


def _misfit(parameters: Parameters, names: tuple[Any, ...] | None, length: int | None) -> str:
    """Why a tree cannot be given to `forward`."""
    if names is None:
        return f"x has {length} parts, and the network is called as {parameters.shown}: give as many as it takes"
    unknown = [name for name in names if name not in parameters.names and not parameters.any_names]
    if unknown:
        return (
            f"the network is called as {parameters.shown}, which does not take x[{unknown[0]!r}]: leave it out of x "
            "(inputs=... of credo.fit names what x is made of), or give it the name of an argument"
        )
    missing = [name for name in parameters.required if name not in names]
    return (
        f"the network is called as {parameters.shown}, and x has no {missing[0]!r}: it has {', '.join(map(str, names))}"
    )


def passing_note(parameters: Parameters, x: Inputs) -> tuple[str, ...]:
    """A sentence about how a tree is given to `forward`, where that is not what anybody would expect."""
    if isinstance(x, Tensor):
        return ()
    how = passing(parameters, x.value)
    if how is Passing.ONE and isinstance(x.value, tuple | dict):
        return (f"the network is called as {parameters.shown}: it gets all of x as one {type(x.value).__name__}",)
    if how is Passing.POSITIONS and len(x.value) > sum(name in parameters.places for name in parameters.required):
        places = [*parameters.places, *("another argument" for _ in x.value)][: len(x.value)]
        return (f"the network is called as {parameters.shown}: it gets the parts of x as {', '.join(places)}",)
    return ()


def _by_name(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, dict) else value._asdict()
