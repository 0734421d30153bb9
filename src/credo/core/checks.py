"""Sentences for options that cannot be meant.

What kind of value an option takes is said once, by the annotation of its field; `check_options` reads it there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import MISSING, fields
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from inspect import isclass
from numbers import Real
from textwrap import shorten
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from torch import Tensor

Choice = TypeVar("Choice", bound=StrEnum)

WORDS = {int: "a whole number", float: "a number", bool: "True or False", str: "text"}
"""Kinds of values, for a person; all others are called by their class."""
EXAMPLES = {int: "10", float: "0.1"}
"""Where neither the caller nor a default gives one."""


def check_options(options: object, **examples: str) -> None:
    """Refuse fields of a dataclass whose values are not what their annotations say; for its `__post_init__`.

    Numbers of numpy and tensors of one number become plain numbers, which compare and are saved as such.

    Args:
        options: a method, or a part of one.
        examples: by the name of a field, a value that it takes, where its default shows none.

    Examples:
        >>> from credo.methods import MAP
        >>> MAP(optimizer="adam")
        Traceback (most recent call last):
        TypeError: optimizer must be an Optimizer such as Adam(), got 'adam'
    """
    owner: Any = type(options)
    for name, kinds in _kinds(owner).items():
        given = getattr(options, name)
        value = _plain(given)
        if not any(_fits(value, kind) for kind in kinds):
            example = examples.get(name) or _example(owner, name, kinds)
            raise TypeError(f"{name} must be {_wanted(kinds, example)}, got {_described(value, kinds)}")
        if value is not given:
            object.__setattr__(options, name, value)


def check_kind(name: str, value: object, example: str, *kinds: type) -> None:
    """Refuse an argument that is of none of these kinds."""
    if not any(_fits(value, kind) for kind in kinds):
        raise TypeError(f"{name} must be {_wanted(kinds, example)}, got {_described(value, kinds)}")


def check_at_least(name: str, value: int, smallest: int) -> None:
    if not _fits(_plain(value), int) or value < smallest:
        raise ValueError(f"{name} must be a whole number of at least {smallest}, got {value!r}")


def _number_check(wanted: str, right: Callable[[float], bool]) -> Callable[[str, float], None]:
    def check(name: str, value: float) -> None:
        if not (is_number(value) and right(value) and math.isfinite(value)):
            raise ValueError(f"{name} must {wanted}, got {shorten(repr(value), 100)}")

    return check


check_positive = _number_check("be a positive number", lambda value: value > 0)
check_not_negative = _number_check("be zero or a positive number", lambda value: value >= 0)
check_finite = _number_check("be a finite number", lambda value: True)
check_rate = _number_check("lie between 0 and 1 (1 excluded)", lambda value: 0.0 <= value < 1.0)
check_between = _number_check("lie between 0 and 1", lambda value: 0.0 < value < 1.0)


def is_number(value: object) -> bool:
    """Whether a value is one number: Python's, numpy's or a tensor without axes; True and False are none."""
    return _fits(_plain(value), float)


def whole_number(name: str, value: object) -> int:
    """A whole number from 1 on, as Python's own."""
    number = _plain(value)
    if not _fits(number, int):
        raise TypeError(f"{name} must be a whole number such as {EXAMPLES[int]}, got {_described(number, ())}")
    check_at_least(name, number, 1)
    return int(number)


def finite_numbers(name: str, value: Any) -> tuple[float, ...]:
    """One number, or several, as a tuple of Python's own."""
    numbers = _listed(value)
    if not numbers or not all(_fits(number, float) and math.isfinite(number) for number in numbers):
        raise ValueError(f"{name} must be a finite number, or several in a tuple, got {_described(value, ())}")
    return tuple(map(float, numbers))


def fractions(name: str, value: Any) -> tuple[float, ...]:
    """One fraction of a run, or several, as a tuple of plain numbers."""
    numbers = _listed(value)
    if not all(_fits(number, float) and 0.0 <= number <= 1.0 for number in numbers):
        raise ValueError(
            f"{name} must be a fraction of the run between 0 and 1, or several such as (0.5, 0.75), "
            f"got {_described(value, ())}"
        )
    return numbers


def one_of(name: str, value: str, choices: type[Choice]) -> Choice:
    """The choice of this name."""
    if value not in list(choices):
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return choices(value)


def patterns(name: str, value: str | Collection[str]) -> str | tuple[str, ...]:
    """One pattern for names, as in file names, or several as a tuple."""
    listed = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not listed or not all(isinstance(pattern, str) for pattern in listed):
        raise TypeError(
            f"{name} must be a pattern such as '*weight', or several in a tuple ('layers.1.*', 'layers.3.*'), "
            f"got {_described(value, ())}"
        )
    return value if isinstance(value, str) else listed


def unmatched(patterns: str | Collection[str], names: Collection[str]) -> list[str]:
    """Those of some patterns, as in file names, that match none of the names."""
    listed = (patterns,) if isinstance(patterns, str) else patterns
    return [pattern for pattern in listed if not any(fnmatchcase(name, pattern) for name in names)]


@cache
def _kinds(owner: type) -> dict[str, tuple[type, ...]]:
    """The classes that the annotations of a dataclass allow, for each field that can be checked."""
    try:
        hints = get_type_hints(owner)
    except (NameError, AttributeError):  # names that only a type checker sees: the author's own checks must do
        return {}
    allowed = {}
    for name in (field.name for field in fields(owner) if field.init):
        parts = get_args(hints[name]) if get_origin(hints[name]) in (Union, UnionType) else (hints[name],)
        allowed[name] = tuple(get_origin(part) or part for part in parts)
    return {name: kinds for name, kinds in allowed.items() if all(map(_checkable, kinds))}


def _checkable(kind: Any) -> bool:
    try:
        isinstance(None, kind)
    except TypeError:  # Any, literals and protocols that exist for type checkers alone
        return False
    return True


def _listed(value: Any) -> tuple[Any, ...]:
    several = isinstance(value, Iterable) and not isinstance(value, str | bytes) and not is_number(value)
    return tuple(map(_plain, value if several else [value]))


def _plain(value: Any) -> Any:
    single = isinstance(value, np.generic | np.ndarray | Tensor) and value.ndim == 0
    return value.item() if single else value


def _fits(value: Any, kind: type) -> bool:
    """As isinstance, except that a whole number is a number, and True is none."""
    if kind in (int, float):
        return isinstance(value, int if kind is int else Real) and not isinstance(value, bool)
    return isinstance(value, kind)


def _example(owner: Any, name: str, kinds: tuple[type, ...]) -> str:
    default = next(field.default for field in fields(owner) if field.name == name)
    if default is None or default is MISSING:
        return EXAMPLES.get(kinds[0], f"{kinds[0].__name__}()")
    return repr(default) if isinstance(default, int | float | str) else f"{type(default).__name__}()"


def _wanted(kinds: tuple[type, ...], example: str) -> str:
    first, *others = (_word(kind) for kind in kinds if kind is not NoneType)
    known = "a value" if example == f"{kinds[0].__name__}()" else first
    shown = first if kinds[0] is bool else f"{known} such as {example}"
    return " or ".join([shown, *others, *(["None"] if NoneType in kinds else [])])


def _word(kind: type) -> str:
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    return WORDS.get(kind, f"{article} {kind.__name__}")


def _described(value: Any, kinds: tuple[type, ...]) -> str:
    if not isclass(value):
        return shorten(repr(value), 100)
    return f"the class {value.__name__}: write {value.__name__}()" if issubclass(value, kinds) else repr(value)
