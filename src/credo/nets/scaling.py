"""Inputs in numbers of order one, whatever units they come in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from credo.core.arrays import shown_by
from credo.core.checks import check_at_least, check_kind, check_positive, finite_numbers
from credo.core.inputs import Inputs, leaves_of
from credo.core.trees import map_tensors

SMALL, LARGE = 1e-30, 1e30
"""Between which numbers lie that float32 divides without a loss."""
FARTHEST = 1e38
"""As far from zero as a standardized number goes: beyond, sums would no longer be numbers."""


@dataclass(frozen=True)
class LeafScaling:
    """z = (x - loc) / scale for one tensor of the inputs.

    Args:
        path: of the tensor in the tree of inputs; "" for inputs that are one tensor.
        loc: what is subtracted, one number for each of F features, or one for the whole tensor.
        scale: what each is divided by.
        positions: axes behind that of the features: 0 for the columns of a table, 2 for the channels of an image.
    """

    path: str
    loc: tuple[float, ...]
    scale: tuple[float, ...]
    positions: int = 0
    _tensors: dict[object, tuple[Tensor, Tensor]] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_kind("path", self.path, "'image'", str)
        check_kind("positions", self.positions, "2", int)
        check_at_least("positions", self.positions, 0)
        for name in ("loc", "scale"):
            object.__setattr__(self, name, finite_numbers(name, getattr(self, name)))
        for each in self.scale:
            check_positive("scale", each)
        if len(self.loc) != len(self.scale) or not self.loc:
            raise ValueError(
                f"loc has {len(self.loc)} number(s) and scale {len(self.scale)}: give one for each feature"
            )

    def __call__(self, x: Tensor) -> Tensor:
        """z, in float64 for float64 and in float32 for shorter numbers, of inputs (B, ...) or (M, B, ...)."""
        if len(self.loc) > 1 and (x.ndim < 2 + self.positions or x.shape[-1 - self.positions] != len(self.loc)):
            name = f"x[{self.path!r}]" if self.path else "x"
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, and the model standardizes {len(self.loc)} features: give as many "
                "as in training"
            )
        loc, scale = self._loc_scale(x.device, self._working(x.dtype))
        z = (x.to(loc.dtype) - loc) / scale
        return z.clamp(-FARTHEST, FARTHEST) if z.dtype is torch.float64 else z

    def held_by(self, dtype: torch.dtype) -> bool:
        """Whether numbers of this precision hold the inputs and show the differences between them."""
        return all(shown_by(dtype, loc, scale) for loc, scale in zip(self.loc, self.scale, strict=True))

    def _working(self, dtype: torch.dtype) -> torch.dtype:
        safe = all(SMALL <= scale <= LARGE for scale in self.scale) and all(abs(loc) <= LARGE for loc in self.loc)
        return torch.promote_types(dtype, torch.float32) if safe else torch.float64

    def _loc_scale(self, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """As tensors, which are made once for a device: a step that is recorded on a GPU must not make them."""
        if (device, dtype) not in self._tensors:
            with torch.inference_mode(False):
                shape = (-1, *[1] * self.positions) if len(self.loc) > 1 else ()
                loc, scale = (
                    torch.tensor(each, dtype=torch.float64).to(device, dtype).reshape(shape)
                    for each in (self.loc, self.scale)
                )
            self._tensors[device, dtype] = loc, scale
        return self._tensors[device, dtype]


@dataclass(frozen=True)
class InputScaling:
    """Standardizes some tensors of the inputs and leaves the others as they are.

    z = (x - loc) / scale

    Args:
        leaves: which tensors, and by what numbers.

    Examples:
        >>> import torch
        >>> from credo.nets.scaling import InputScaling, LeafScaling
        >>> scaling = InputScaling((LeafScaling("", loc=(1990.0,), scale=(10.0,)),))
        >>> scaling(torch.tensor([[2000.0]]), torch.float32)
        tensor([[1.]])
    """

    leaves: tuple[LeafScaling, ...]

    def __post_init__(self) -> None:
        for leaf in self.leaves:
            check_kind("leaves", leaf, "LeafScaling('', (0.0,), (1.0,))", LeafScaling)

    def __call__(self, x: Inputs, dtype: torch.dtype) -> Inputs:
        """Inputs as the network sees them, real numbers in its precision."""
        if isinstance(x, Tensor):
            return self.leaves[0](x).to(dtype) if self._paths == [""] and x.is_floating_point() else self._misfit(x)
        leaves = leaves_of(x)
        if any(path not in leaves or not leaves[path].is_floating_point() for path in self._paths):
            return self._misfit(x)
        scaled = {leaf.path: leaf(leaves[leaf.path]) for leaf in self.leaves}
        return replace(
            x,
            value=map_tensors(
                lambda path, t: scaled.get(path, t).to(dtype) if t.is_floating_point() else t,
                x.value,
            ),
        )

    @property
    def _paths(self) -> list[str]:
        return [leaf.path for leaf in self.leaves]

    def _misfit(self, x: Inputs) -> Inputs:
        here = {path: str(t.dtype).removeprefix("torch.") for path, t in leaves_of(x).items()}
        raise ValueError(
            f"the model standardizes real numbers in {_listed(self._paths)} of its inputs, and x has "
            f"{_listed([f'{path!r} of {kind}' if path else kind for path, kind in here.items()])}: give x in the form "
            "that it had in training"
        )

    def held_by(self, dtype: torch.dtype) -> bool:
        """Whether inputs of this precision show the differences between examples."""
        return all(leaf.held_by(dtype) for leaf in self.leaves)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(name or "the tensor" for name in names)
