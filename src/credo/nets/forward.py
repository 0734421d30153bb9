"""Forward passes as pure functions: of one member, of members one by one, and of members together."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call

from credo.core.inputs import Inputs, leaves_of
from credo.core.trees import Params, map_tensors, members_of
from credo.nets.calling import Parameters, arguments
from credo.nets.checkpointing import holding
from credo.nets.heads import HeadsRule
from credo.nets.outputs import OutputRule
from credo.nets.random_calls import Undropped

Around = Callable[[Params, Sequence[Tensor]], AbstractContextManager[Any]]
"""Makes the context that one member's forward pass runs in, from that member's parameters and masks."""

Lend = Callable[[int], AbstractContextManager[None]]
"""Makes the context in which the member of this number may draw random numbers of its own."""

HOOKS = tuple(name for name, value in vars(nn.Module()).items() if "hook" in name and isinstance(value, dict))
"""Where a module keeps what is called before and after it."""
_THREAD = threading.local()


class Attribute(NamedTuple):
    """A plain attribute of a part of a module, or a buffer that was None."""

    path: str
    name: str
    is_buffer: bool

    def store(self, module: nn.Module) -> dict[str, Any]:
        """Where the module has it."""
        part = module.get_submodule(self.path)
        return part._buffers if self.is_buffer else vars(part)


def thread_copy(module: nn.Module) -> nn.Module:
    """This thread's copy of a module that nobody calls: a functional call puts tensors into it while it runs."""
    copies: WeakKeyDictionary[nn.Module, nn.Module] | None = getattr(_THREAD, "copies", None)
    if copies is None:
        copies = _THREAD.copies = WeakKeyDictionary()
    if module not in copies:
        copies[module] = copy.deepcopy(module)
    return copies[module]


@dataclass(frozen=True)
class Forward:
    """The forward pass of one member, as a pure function of its tensors, inputs and masks."""

    skeleton: nn.Module  # the module without values, which nobody calls; each thread calls a copy
    aliases: Mapping[str, str]  # other names of tied tensors
    parameters: Parameters  # what it takes
    around: Around | None = None  # the context of the pass; None for none
    # names of the tensors that get what the pass assigned to them (in training, the buffers)
    carried: Collection[str] = ()
    # names of the tensors that are copied before the pass, since it writes to them or assigns them
    copied: Collection[str] = ()
    attributes: Sequence[Attribute] = ()  # what else the pass changes in the module, to be put back
    copies_input: bool = False  # whether the pass works in place on its input
    rule: OutputRule | HeadsRule = OutputRule()  # which tensor of what it returns is the output
    repeated: bool = False  # whether the backward pass calls parts of the module again

    def __call__(self, tensors: Params, x: Inputs, masks: Sequence[Tensor] = ()) -> Tensor:
        given = {**tensors, **{name: tensors[name].clone() for name in self.copied}} if self.copied else tensors
        # torch's own handling of ties leaves tensors behind where a module with a tied weight has two names
        named = {**given, **{alias: given[name] for alias, name in self.aliases.items()}}
        args, kwargs = arguments(self.parameters, cloned(x) if self.copies_input else x)
        with nullcontext() if self.around is None else self.around(given, masks):
            returned = self._held(named, args, kwargs) if self.repeated else self._lent(named, args, kwargs)
            outputs = self.rule(returned)
        self._carry(tensors, named)
        return outputs

    def _lent(self, named: Params, args: Any, kwargs: Any) -> Any:
        """Call this thread's copy, which has the tensors for as long as it runs."""
        module = thread_copy(self.skeleton)
        try:
            return functional_call(module, named, args, kwargs, tie_weights=False)
        finally:
            if self.attributes:
                put_back(self.skeleton, module, self.attributes)

    def _held(self, named: Params, args: Any, kwargs: Any) -> Any:
        """Call a copy that keeps the tensors, to be called again in the backward pass; buffers are its own."""
        buffers = {name: named[name].clone() for name in self.carried}
        tied = {alias: buffers[name] for alias, name in self.aliases.items() if name in buffers}
        module = holding(self.skeleton, {**named, **buffers, **tied})
        returned = module(*args, **kwargs)
        found = dict(module.named_buffers(remove_duplicate=False))
        named.update({name: found[name].detach().clone() for name in self.carried if name in found})
        return returned

    def _carry(self, tensors: Params, named: Params) -> None:
        """Write what was assigned to a buffer into the state; torch has left it in `named`."""
        assigned = [name for name in self.carried if named[name] is not tensors[name]]
        values = [named[name].detach().clone() for name in assigned]  # two buffers may have changed places
        for name, value in zip(assigned, values, strict=True):
            if value.shape == tensors[name].shape:
                tensors[name].copy_(value)


def awake(forward: Forward, names: Collection[str]) -> Forward:
    """The same pass with these parts of the module as in training."""
    skeleton = copy.deepcopy(forward.skeleton)
    for name in names:
        skeleton.get_submodule(name).train()
    return replace(forward, skeleton=skeleton)


def put_back(skeleton: nn.Module, module: nn.Module, attributes: Iterable[Attribute]) -> None:
    """Give a copy of the skeleton its attributes as they were."""
    for attribute in attributes:
        here, there = attribute.store(module), attribute.store(skeleton)
        if attribute.name in HOOKS:
            _remove(here[attribute.name], there[attribute.name])
        elif attribute.name in there:
            here[attribute.name] = copy.deepcopy(there[attribute.name])
        else:
            here.pop(attribute.name, None)


def _remove(hooks: Any, given: Any) -> None:
    """Take away hooks that a pass has put on."""
    for key in hooks.keys() - given.keys():
        del hooks[key]


def one_by_one(
    forward: Forward,
    tensors: Params,
    x: Inputs,
    masks: Sequence[Tensor],
    count: int,
    *,
    x_per_member: bool,
    lend: Lend | None = None,
) -> Tensor:
    """Outputs (count, B, ...) of members or draws, one after the other.

    Tensors are (count or 1, *shape), masks (count, *mask shape), inputs (B, ...), or (count, B, ...) if per member.
    """

    def one(i: int) -> Tensor:
        member = members[i if len(members) > 1 else 0]
        with nullcontext() if lend is None else lend(i):
            return forward(member, x[i] if x_per_member else x, [row[i] for row in rows])

    columns = {name: _rows(t) for name, t in tensors.items()}
    members = [{name: column[m] for name, column in columns.items()} for m in range(members_of(tensors))]
    rows = [_rows(mask) for mask in masks]
    outputs = [one(i) for i in range(count)]
    return torch.stack(outputs) if count > 1 else outputs[0].unsqueeze(0)


def together(
    forward: Forward, tensors: Params, x: Inputs, masks: Sequence[Tensor], count: int, *, x_per_member: bool
) -> Tensor:
    """The same in one pass, by `torch.func.vmap`."""
    names, shared = list(tensors), members_of(tensors) < count
    if forward.copies_input and not x_per_member:  # what depends on a member cannot be written to what all share
        x, x_per_member = map_tensors(lambda _, t: t.expand(count, *t.shape), x), True
    leaves = leaves_of(x)
    before, behind = len(names), len(names) + len(masks)

    def one(*flat: Tensor) -> Tensor:
        named = dict(zip(names, flat[:before], strict=True))
        return forward(named, _with_leaves(x, dict(zip(leaves, flat[behind:], strict=True))), flat[before:behind])

    values = [t[0] for t in tensors.values()] if shared else list(tensors.values())
    of_x = [0 if x_per_member else None] * len(leaves)
    axes = (*([None if shared else 0] * len(names)), *([0] * len(masks)), *of_x)
    outputs: Tensor = torch.func.vmap(one, in_dims=axes)(*values, *masks, *leaves.values())
    return outputs


def cloned(x: Inputs) -> Inputs:
    """The same values in memory of their own."""
    return map_tensors(lambda _, t: t.clone(), x)


def _with_leaves(x: Inputs, leaves: Mapping[str, Tensor]) -> Inputs:
    """Inputs like x with other tensors in it."""
    return leaves[""] if isinstance(x, Tensor) else replace(x, value=map_tensors(lambda path, _: leaves[path], x.value))


def undropped(params: Params, masks: Sequence[Tensor]) -> Undropped:
    """The context of a pass that drops nothing."""
    return Undropped()


@contextmanager
def untouched(x: Inputs) -> Iterator[None]:
    """Refuse a pass that writes to its input where tracing did not show it."""
    leaves = [t for t in leaves_of(x).values() if not t.is_inference()]
    before = [t._version for t in leaves]
    yield
    if before != [t._version for t in leaves]:
        raise ValueError(
            "the network works in place on its input for these values, and did not when it was first called: the "
            "input has been changed. Write x = x / 255, not x /= 255, in forward()"
        )


def _rows(t: Tensor) -> Sequence[Tensor]:
    """t[0], t[1], ...: views whose gradient costs one pass for all of them, and none where there is but one."""
    return (t.squeeze(0),) if len(t) == 1 else t.unbind(0)
