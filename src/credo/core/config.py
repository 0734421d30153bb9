"""Values of numbers to JSON and back: final dataclasses, by the name of their class, from a table of known classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Kinds = Mapping[str, type]


def encode(value: Any) -> Any:
    """A dataclass as `{"kind": its class, field: value, ...}`, whatever it holds likewise.

    A field that takes no part in comparisons is left out: it is data, and another field stands for it.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value) if f.compare}
        return {"kind": type(value).__name__, **fields}
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
