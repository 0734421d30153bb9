"""Several outputs of a network, its heads, side by side in one tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from credo.nets.outputs import OutputRule, tensors_of

Places = tuple[str | int, ...] | Callable[[Any], Mapping[str, Tensor]] | None
Shapes = tuple[tuple[int, ...], ...]
"""Of the outputs of each head for one example."""


@dataclass(frozen=True)
class HeadsRule:
    """Puts the outputs of several heads side by side: a tensor (B, E), with those of each head flattened.

    Args:
        names: of the heads, in the order that they have in the tensor.
        path: None where the network returns a dict, named tuple or dataclass with these names; or the key or place of
            each; or a function from what the network returns to a dict of tensors by head.

    Examples:
        >>> import torch
        >>> rule = HeadsRule(("price", "kind"))
        >>> rule({"kind": torch.ones(5, 3), "price": torch.zeros(5, 1)}).sum(0)
        tensor([0., 5., 5., 5.])
    """

    names: tuple[str, ...]
    path: Places = None

    def __post_init__(self) -> None:
        if isinstance(self.path, tuple) and len(self.path) != len(self.names):
            raise ValueError(f"outputs says where {len(self.path)} head(s) are, and there are {len(self.names)}")
        for place in self.path if isinstance(self.path, tuple) else ():
            OutputRule(place)

    @staticmethod
    def of(names: tuple[str, ...], given: Any) -> HeadsRule:
        """The rule for what a person gave as `outputs`: nothing, a place for each head, or a function."""
        if given is None or callable(given):
            return HeadsRule(names, given)
        if not isinstance(given, Mapping):
            listed = ", ".join(f"{name!r}: ..." for name in names)
            raise TypeError(f"outputs must say where each head is, as in {{{listed}}}, got {given!r}")
        if set(given) != set(names):
            raise ValueError(f"outputs names {_listed(given)}, and the heads are {_listed(names)}")
        return HeadsRule(names, tuple(given[name] for name in names))

    def __call__(self, returned: Any) -> Tensor:
        """The outputs of all heads, (B, E)."""
        heads = self.heads(returned)
        return torch.cat([t.flatten(1) if t.ndim > 1 else t.unsqueeze(1) for t in heads.values()], dim=1)

    def heads(self, returned: Any) -> dict[str, Tensor]:
        """The outputs of each head, in order, or a sentence that says which is not there."""
        if callable(self.path):
            found = self._called(self.path, returned)
        elif self.path is not None:
            found = {name: OutputRule(place)(returned) for name, place in zip(self.names, self.path, strict=True)}
        else:
            found = self._named(returned)
        first, rows = next(iter(found.items()))
        for name, t in found.items():
            if t.shape[:1] != rows.shape[:1]:
                raise ValueError(
                    f"the network returns {_shown(found)}: the heads {first!r} and {name!r} must have the same first "
                    "axis, the batch"
                )
        return found

    def shapes(self, training: Any, evaluation: Any) -> Shapes:
        """Shape of each head for one example, which must be the same in training and in evaluation."""
        found = [{name: tuple(t.shape[1:]) for name, t in self.heads(each).items()} for each in (training, evaluation)]
        if found[0] != found[1]:
            raise ValueError(f"the heads of the network have shapes {found[0]} in training, {found[1]} in evaluation")
        return tuple(found[0].values())

    def note(self, training: Any, evaluation: Any) -> tuple[str, ...]:
        """A sentence about tensors that are no heads."""
        others = [path for path in tensors_of(training) if path not in self.names]
        if self.path is not None or not others:
            return ()
        return (f"the network returns {_listed(self.names)} and, beside its heads, {_listed(others)}",)

    def _called(self, pick: Callable[[Any], Mapping[str, Tensor]], returned: Any) -> dict[str, Tensor]:
        found = pick(returned)
        if not isinstance(found, Mapping) or not all(isinstance(found.get(name), Tensor) for name in self.names):
            got = _listed(found) if isinstance(found, Mapping) else f"a {type(found).__name__}"
            raise ValueError(
                f"the function outputs= gives {got}: it must give a dict of tensors with the heads "
                f"{_listed(self.names)}"
            )
        return {name: found[name] for name in self.names}

    def _named(self, returned: Any) -> dict[str, Tensor]:
        if isinstance(returned, Tensor):
            raise ValueError(
                f"the network returns one tensor of shape {tuple(returned.shape)}, and there are several heads, "
                f"{_listed(self.names)}: let forward() return a dict with these names, or cut the tensor, as in "
                f"Model(net, ..., outputs=lambda out: {{{self.names[0]!r}: out[:, :1], ...}})"
            )
        leaves = tensors_of(returned)
        for name in self.names:
            if name not in leaves:
                places = ", ".join(f"{each!r}: {i}" for i, each in enumerate(self.names))
                raise ValueError(
                    f"the network returns a {type(returned).__name__} with {_shown(leaves) or 'no tensor'}, and none "
                    f"is called {name!r}, as a head is: say where the heads are, as in "
                    f"Model(net, ..., outputs={{{places}}})"
                )
        return {name: leaves[name] for name in self.names}


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names)) or "nothing"


def _shown(tensors: Mapping[str, Tensor]) -> str:
    return ", ".join(f"{name} {tuple(t.shape)}" for name, t in tensors.items())
