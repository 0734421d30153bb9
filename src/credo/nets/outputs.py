"""Which tensor of what a network returns is its output: by a rule, or as the person says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from credo.core.checks import check_kind

Path = str | int | Callable[[Any], Tensor] | None
"""Where the output is: a key, "key/key" or a place; a function that picks it; None for the rule."""
NAMES = ("logits", "out")
"""What the output is called by networks that return several tensors."""


@dataclass(frozen=True)
class OutputRule:
    """Picks the output out of what a network returns.

    Without a path: the tensor itself; the only tensor of a dict, tuple or dataclass; or the one that is called `logits`
    or `out`. A network may return a tree in training and a tensor in evaluation: a tensor is always the output.

    Args:
        path: a key such as "logits", keys joined by "/", or a place in a tuple; a function from what the network
            returns to a tensor; None for the rule above.

    Examples:
        >>> import torch
        >>> OutputRule()({"out": torch.ones(2, 3), "aux": torch.zeros(2, 3)}).sum()
        tensor(6.)
    """

    path: Path = None

    def __post_init__(self) -> None:
        if not callable(self.path):
            check_kind("outputs", self.path, "'logits', 0 or a function", str, int, type(None))
            if isinstance(self.path, bool):
                raise TypeError(f"outputs must be a key such as 'logits', a place or a function, got {self.path!r}")

    def __call__(self, returned: Any) -> Tensor:
        """The output, or a sentence that says why there is none."""
        if callable(self.path):
            return _called(self.path, returned)
        if isinstance(returned, Tensor):
            return returned
        found = returned
        for key in self.keys(returned):
            found = parts_of(found)[key]
        return found

    def keys(self, returned: Any) -> tuple[str, ...]:
        """The way to the output in a tree."""
        return _ruled(returned) if self.path is None else _stated(str(self.path), returned)

    def shapes(self, training: Any, evaluation: Any) -> tuple[tuple[int, ...], ...]:
        """Shapes of heads, of which there are none."""
        return ()

    def note(self, training: Any, evaluation: Any) -> tuple[str, ...]:
        """A sentence about what was picked, where a rule has chosen among several tensors."""
        if self.path is not None:
            return ()
        choices = {"training": _choice(training), "evaluation": _choice(evaluation)}
        if choices["training"] == choices["evaluation"]:
            said = [text for text in (choices["training"],) if text]
        else:
            said = [f"{text} in {mode}" for mode, text in choices.items() if text]
        return (f"the network returns {', and '.join(said)}; Model(net, outputs=...) picks another",) if said else ()


def _choice(returned: Any) -> str | None:
    """What was picked of several tensors."""
    if isinstance(returned, Tensor) or len(leaves := tensors_of(returned)) < 2:
        return None
    return f"{', '.join(leaves)}, of which {'/'.join(_ruled(returned))} is its output"


def _called(pick: Callable[[Any], Tensor], returned: Any) -> Tensor:
    found = pick(returned)
    if not isinstance(found, Tensor):
        raise ValueError(
            f"the function outputs= gives a {type(found).__name__} for what the network returns, which has "
            f"{_listed(returned)}: it must give one tensor"
        )
    return found


def _ruled(returned: Any) -> tuple[str, ...]:
    """The way to the only tensor, or to the one with a known name."""
    leaves = tensors_of(returned)
    if len(leaves) == 1:
        return tuple(next(iter(leaves)).split("/"))
    named = [name for name in NAMES if name in leaves]
    if len(named) == 1:
        return (named[0],)
    example = repr(next(iter(leaves), "logits"))
    if leaves and example.strip("'").isdigit():
        example = example.strip("'")
    raise ValueError(
        f"the network returns a {type(returned).__name__} with {_listed(returned)}: say which is its output, as in "
        f"Model(net, outputs={example}), or give a function, outputs=lambda returned: ..."
        if leaves
        else f"the network returns a {type(returned).__name__} without a tensor in it that credo can find: give "
        "Model(net, outputs=lambda returned: ...), which picks one"
    )


def _stated(path: str, returned: Any) -> tuple[str, ...]:
    leaves = tensors_of(returned)
    keys = path.split("/")
    if keys[0].startswith("-") and isinstance(returned, tuple | list):
        keys[0] = str(len(returned) + int(keys[0]))
    place = "/".join(keys)
    if place not in leaves and keys[0].isdigit() and int(keys[0]) < len(parts_of(returned)):
        place = "/".join([list(parts_of(returned))[int(keys[0])], *keys[1:]])  # of a named tuple by its place
    if place not in leaves:
        raise ValueError(f"outputs={path!r} is no tensor of what the network returns: it has {_listed(returned)}")
    return tuple(place.split("/"))


def parts_of(returned: Any) -> dict[str, Any]:
    """The parts of a dict, dataclass, tuple or list by their keys; nothing else has parts."""
    if isinstance(returned, Mapping):
        return {str(key): value for key, value in returned.items()}
    if isinstance(returned, list | tuple):
        fields = getattr(returned, "_fields", None) or range(len(returned))
        return {str(key): value for key, value in zip(fields, returned, strict=True)}
    if dataclasses.is_dataclass(returned) and not isinstance(returned, type):
        return {f.name: getattr(returned, f.name) for f in dataclasses.fields(returned)}
    return {}


def tensors_of(returned: Any, path: str = "") -> dict[str, Tensor]:
    """All tensors of a tree, by their paths."""
    if isinstance(returned, Tensor):
        return {path: returned}
    parts = parts_of(returned).items()
    return {p: t for key, part in parts for p, t in tensors_of(part, f"{path}/{key}" if path else key).items()}


def _listed(returned: Any) -> str:
    shown = [f"{path or 'it'} {tuple(t.shape)}" for path, t in tensors_of(returned).items()]
    return ", ".join(shown) or "no tensor"
