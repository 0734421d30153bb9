"""Random calls of a forward pass that become data: dropout of all kinds, and masks that `bernoulli_` fills.

A mode watches the functions that a forward pass calls and answers those that drop. Everything else goes on to torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from credo.nets.recurrent import RECURRENT, recurrent_call

CHANNEL_AXES = {F.dropout1d: 1, F.dropout2d: 2, F.dropout3d: 3}
"""Dropout of whole channels, and how many axes a channel has."""
_ALPHAS = {F.alpha_dropout, F.feature_alpha_dropout}
DROPOUTS = {F.dropout, torch.dropout, *_ALPHAS, *CHANNEL_AXES}
_ALPHA = -1.0507009873554805 * 1.6732632423543772
"""The value that SELU saturates at; alpha dropout sets dropped units to it."""


class DropKind(Enum):
    """What becomes of units that a call drops."""

    ZERO = "set to zero"
    ALPHA = "set to where SELU saturates"
    FILL = "zeros in a mask of the module's own"


class DropRequest(NamedTuple):
    """A call that drops."""

    kind: DropKind
    x: Tensor  # what units are dropped of; of a mask, the tensor that is filled
    rate: float  # 0 in calls that do not drop
    mask: tuple[int, ...]  # shape of what is dropped independently
    in_place: bool = False  # whether x is overwritten with the result

    @property
    def keep(self) -> float:
        return 1.0 - self.rate


class DropoutCall(NamedTuple):
    """A dropout call of a forward pass."""

    site: int | None  # number of the mask that answers it; None where it drops nothing
    rate: float  # what it was called with; 0 in calls that do not drop
    name: str = ""  # of the module in which it happens


class DropMode(TorchFunctionMode, ABC):
    """While active, calls that drop are answered in some way."""

    def __init__(self) -> None:
        super().__init__()
        # tensors that were to be overwritten, and what stands in their place: under vmap they cannot be written to
        self._placed: dict[int, tuple[Tensor, Tensor]] = {}

    @abstractmethod
    def answer(self, drop: DropRequest) -> Tensor:
        """The result of a call that drops."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._placed:
            args, kwargs = pytree.tree_map_only(Tensor, self._current, (args, kwargs))
        if func in DROPOUTS:
            return self._answered(dropout_call(func, args, kwargs))
        if func is Tensor.bernoulli_ and (fill := _fill(args, kwargs)):
            return self._answered(fill)
        if func in RECURRENT and (call := recurrent_call(func, args)):
            return call(lambda x: self._between(x, call.dropout if call.train else 0.0, packed=call.sizes is not None))
        result = self.other(func, args, kwargs)
        if self._placed:
            self._check_current(result, args, kwargs)
        return result

    def _answered(self, drop: DropRequest) -> Tensor:
        result = self.answer(drop)
        if drop.in_place and (drop.kind is DropKind.FILL or result is not drop.x):
            self._placed[id(drop.x)] = (drop.x, result)
        return result

    def other(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """The result of any other call."""
        return func(*args, **kwargs)

    def _between(self, x: Tensor, rate: float, *, packed: bool) -> Tensor:
        """Between two recurrent layers. The rows of a packed sequence belong to no mask that has a shape of its own."""
        return F.dropout(x, rate) if packed else self.answer(DropRequest(DropKind.ZERO, x, rate, tuple(x.shape)))

    def _current(self, t: Tensor) -> Tensor:
        while (result := self._placed.get(id(t), (t, t))[1]) is not t:
            t = result
        return t

    def _check_current(self, result: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Refuse values that were overwritten through another tensor of the same memory, where they still stand."""
        if not any(isinstance(t, Tensor) for t in pytree.tree_leaves(result)):
            return  # a look at shape or dtype
        used = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor) and id(t) not in self._placed]
        if any(_overlap(t, x) for t in used for x, result in self._placed.values() if t is not result):
            raise ValueError(
                "the network drops in place (bernoulli_ or inplace=True) in a part or another view of a tensor that it "
                "uses afterwards: draws would not have it. Drop out of place: x = F.dropout(x, p, self.training), or "
                "mask = torch.empty(shape).bernoulli_(p) for the whole mask"
            )


def dropout_call(func: Any, args: Any, kwargs: dict[str, Any]) -> DropRequest:
    """What one of `DROPOUTS` is given, by the signature that all of them share."""
    x = args[0] if args else kwargs["input"]
    rate = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
    training = args[2] if len(args) > 2 else kwargs.get("training", kwargs.get("train", func not in _ALPHAS))
    axes = x.ndim - 2 if func is F.feature_alpha_dropout else CHANNEL_AXES.get(func, 0)
    mask = (*x.shape[: x.ndim - axes], *([1] * axes))
    rate = float(rate) if training else 0.0
    in_place = bool(args[3] if len(args) > 3 else kwargs.get("inplace", False))
    return DropRequest(DropKind.ALPHA if func in _ALPHAS else DropKind.ZERO, x, rate, mask, in_place)


def _fill(args: Any, kwargs: dict[str, Any]) -> DropRequest | None:
    """What `bernoulli_` is called with, if that is one probability for all entries."""
    keep = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
    if isinstance(keep, Tensor) or kwargs.get("generator") is not None:
        return None
    return DropRequest(DropKind.FILL, args[0], 1.0 - float(keep), tuple(args[0].shape), in_place=True)


def _overlap(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have an entry at the same place in memory; of tensors under vmap it is not known."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    if a is b or wrapped(a) or wrapped(b) or a.layout is not torch.strided or b.layout is not torch.strided:
        return False
    memory, other = a.untyped_storage(), b.untyped_storage()
    if memory.data_ptr() != other.data_ptr() or memory.nbytes() == 0 or a.dtype != b.dtype:
        return False
    places = torch.zeros(memory.nbytes() // a.element_size(), dtype=torch.bool)
    places.as_strided(a.shape, a.stride(), a.storage_offset()).fill_(True)
    return bool(places.as_strided(b.shape, b.stride(), b.storage_offset()).any())


class Masked(DropMode):
    """While active, the dropout calls of a forward pass multiply by the masks of one member, out of `draw_masks`.

    Rates are those of the masks where they are not the module's. `calls` are all dropout calls of this pass in order,
    whether they drop or not; None gives the k-th mask to the k-th call that drops.
    """

    def __init__(
        self,
        masks: Sequence[Tensor],
        rate: float | Sequence[float] | None = None,
        calls: Sequence[DropoutCall] | None = None,
    ) -> None:
        super().__init__()
        self.masks = list(masks)
        self.rates = [rate] * len(masks) if rate is None or isinstance(rate, float) else list(rate)
        self.calls = None if calls is None else list(calls)
        self.answered = 0  # calls
        self.unasked = iter(range(len(masks)))

    def answer(self, drop: DropRequest) -> Tensor:
        site = self._site(drop.rate)
        mask = None if site is None else self.masks[site]
        if drop.kind is DropKind.FILL:
            return _as_filled(drop, mask)
        if site is None or mask is None:
            return drop.x
        if drop.kind is DropKind.ALPHA:
            rate = self.rates[site]
            return _alpha_dropout(drop.x, mask, drop.rate if rate is None else rate)
        return drop.x * mask

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        if error is None:
            self.finish()

    def finish(self) -> None:
        """Refuse a pass that ends before all of its dropout calls were made."""
        if self.calls is not None and self.answered < len(self.calls):
            self._refuse("a dropout of the network was left out that was there")

    def _site(self, asked: float) -> int | None:
        """The number of the mask for a call with this rate."""
        if self.calls is None:
            return next(self.unasked) if asked > 0.0 else None
        self.answered += 1
        call = self.calls[self.answered - 1] if self.answered <= len(self.calls) else None
        if call is None or call.rate != asked:
            found = "none" if call is None else f"rate {call.rate:g}"
            self._refuse(f"the network drops with rate {asked:g} where it had {found}")
        return self.calls[self.answered - 1].site

    def _refuse(self, what: str) -> None:
        """The order of the calls is all that says which mask belongs to which."""
        assert self.calls is not None
        names = list(dict.fromkeys(call.name for call in self.calls if call.rate > 0.0))
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        raise ValueError(
            f"{what} when it was first called, at one of {shown}. Whether and where a network drops must not "
            "depend on chance (layer drop), on values of the input or on "
            "earlier calls: switch that off"
        )


class Undropped(DropMode):
    """While active, dropout calls do nothing, and masks have the value that they have on average."""

    def answer(self, drop: DropRequest) -> Tensor:
        return average_mask(drop) if drop.kind is DropKind.FILL else drop.x


def average_mask(drop: DropRequest) -> Tensor:
    """A mask of the module's own that drops nothing: its value on average, where its type can hold that."""
    return torch.full_like(drop.x, drop.keep if drop.x.is_floating_point() else 1)


def _as_filled(drop: DropRequest, mask: Tensor | None) -> Tensor:
    """A mask as the module meant to fill it, with zeros and ones: it divides by its own probability by itself."""
    if mask is None:
        return average_mask(drop)
    kept = mask * drop.keep if drop.x.is_floating_point() else mask != 0
    return kept.to(drop.x.dtype).expand(drop.x.shape).clone(memory_format=torch.contiguous_format)


def _alpha_dropout(x: Tensor, mask: Tensor, rate: float) -> Tensor:
    # Klambauer et al. 2017, "Self-normalizing neural networks": an affine map that keeps mean 0 and variance 1
    keep = 1.0 - rate
    if keep == 0.0:
        return x * mask
    gain = (keep + _ALPHA**2 * keep * rate) ** -0.5
    return gain * (x * mask + _ALPHA * (1.0 - mask)) - gain * _ALPHA * rate
