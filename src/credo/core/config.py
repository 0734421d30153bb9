"""Values of numbers to JSON and back: final dataclasses, by the name of their class, from a table of known classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Kinds = Mapping[str, type]


def kind_name(kind: type) -> str:
    """The name by which files speak of a class: the short one of credo's own, with its module for all others."""
    ours = kind.__module__.partition(".")[0] == "credo"
    return kind.__name__ if ours else f"{kind.__module__}.{kind.__qualname__}"


class Registry:
    """Classes of one family that a file may name: those that are defined at the time, hence imported, and no others."""

    def __init__(self, family: str) -> None:
        self.family = family
        self.kinds: dict[str, type] = {}
        self._ambiguous: set[str] = set()

    def add(self, kind: type) -> None:
        """Take in a class. One that is defined again, as by running a cell of a notebook twice, replaces the first."""
        name = kind_name(kind)
        known = self.kinds.get(name)
        if known is not None and (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
            raise TypeError(
                f"there is a {self.family} called {name!r} in {known.__module__} already, and files could not tell "
                f"the two apart: give the one in {kind.__module__} another name"
            )
        if known is not None and "<locals>" in name:
            self._ambiguous.add(name)
        self.kinds[name] = kind

    def find(self, name: object) -> type:
        """The class of this name; a LookupError if there is none, or several that a function has made."""
        if not isinstance(name, str) or name not in self.kinds:
            first = ""
            if isinstance(name, str) and "." in name:
                here = "run what defines it" if name.startswith("__main__.") else "import the module that defines it"
                first = f": {here} first"
            raise LookupError(f"the {self.family} is of an unknown kind, {name!r}{first}")
        if name in self._ambiguous:
            raise LookupError(f"which {self.family} is meant is not known: a function has made several called {name!r}")
        return self.kinds[name]


def encode(value: Any) -> Any:
    """A dataclass as `{"kind": its class, field: value, ...}`, whatever it holds likewise.

    A field that takes no part in comparisons is left out: it is data, and another field stands for it.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value) if f.compare}
        return {"kind": kind_name(type(value)), **fields}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {str(name): encode(item) for name, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} cannot be written to JSON; use numbers, text, lists and dataclasses")


def decode(data: Any, kinds: Kinds) -> Any:
    """The inverse of `encode`. Only the classes in `kinds` are ever made, so a file cannot choose code to run."""
    if isinstance(data, list):
        return tuple(decode(item, kinds) for item in data)
    if not isinstance(data, dict):
        return data
    if "kind" not in data:
        return {name: decode(item, kinds) for name, item in data.items()}
    name = data["kind"]
    if name not in kinds:
        raise KeyError(name)
    fields = {key: decode(item, kinds) for key, item in data.items() if key != "kind"}
    return kinds[name](**fields)
