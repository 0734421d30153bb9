"""A probe at a network: where it drops, its layers, what it returns, and what a forward pass changes on its way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from credo.core.inputs import Inputs, TensorTree
from credo.core.trees import Params
from credo.nets.dropout import DropoutCall, Site
from credo.nets.forward import Attribute, Forward, cloned, put_back, thread_copy
from credo.nets.layer import Layer
from credo.nets.watching import Seen, SeenCall, watched

RECENT = 256
"""How many shapes of inputs are remembered."""

ValueT = TypeVar("ValueT")


class Recent(Generic[ValueT]):
    """What was computed for the keys that were asked for last; threads may ask at the same time."""

    def __init__(self) -> None:
        self._values: dict[object, ValueT] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: object, make: Callable[[], ValueT]) -> ValueT:
        try:
            value = self._values.pop(key)
        except KeyError:
            value = make()
        self._values[key] = value
        if len(self._values) > RECENT:
            for oldest in list(self._values)[:-RECENT]:
                self._values.pop(oldest, None)
        return value


@dataclass(frozen=True)
class Trace:
    """What one probe at a network shows."""

    sites: tuple[Site, ...]  # the places where it drops units, in the order of the calls
    output: tuple[int, ...]  # shape of the outputs for one example
    activations: int  # entries of the largest intermediate tensor, per example
    layers: tuple[Layer, ...]  # the linear and convolutional calls whose weight has no other use
    training: tuple[DropoutCall, ...]  # the dropout calls of a pass in training
    evaluation: tuple[DropoutCall, ...]  # those of a pass in evaluation, with the masks that answer them there
    unreached: tuple[str, ...]  # names of the sites that evaluation never comes to
    writes_input: bool  # whether a pass works in place on its input
    written: frozenset[str]  # names of the tensors that evaluation writes to
    assigned: frozenset[str]  # names of the buffers that training replaces
    attributes: tuple[Attribute, ...]  # what else a pass changes in the module
    # names of those attributes and buffers that decide later passes, and are not part of any state
    remembers: tuple[str, ...]
    picked: tuple[str, ...] = ()  # which tensor of several is the output, in a sentence
    heads: tuple[tuple[int, ...], ...] = ()  # shapes of the outputs of each head for one example, if there are several

    @property
    def drops_in_evaluation(self) -> bool:
        """Whether the network drops in evaluation too, by itself."""
        return any(call.rate > 0.0 for call in self.evaluation)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the network, in sentences."""
        if not self.remembers:
            return self.picked
        return (
            *self.picked,
            f"the network remembers {', '.join(self.remembers)} from one forward pass to the next, outside of its "
            "parameters and buffers: every pass starts from the values it was given with; to carry them through "
            "training make each a buffer of fixed shape (register_buffer)",
        )

    def check_reached(self) -> None:
        """Refuse draws that would lack some of the dropout that the network was trained with."""
        if self.unreached:
            raise ValueError(
                f"the network drops at {', '.join(self.unreached)} in training only, in code that evaluation never "
                "reaches (`if self.training:`), so that draws would not have it: use nn.Dropout, or "
                "F.dropout(x, p, self.training) without the if"
            )


def trace(training: Forward, evaluating: Forward, params: Params, buffers: Params, x: Inputs) -> Trace:
    """Watch a network in training with two and with three examples, and in evaluation with two.

    A graph is always seen as a whole; its nodes are taken for the examples.
    """
    probe = _Probe(params, buffers, x)
    two, three, once = probe(training, 2), probe(training, 3), probe(evaluating, 2)
    outputs = _checked_outputs(training, two, probe.rows(2), probe.nodes)
    _checked_outputs(training, three, probe.rows(3), probe.nodes)
    _check_modes(outputs, _checked_outputs(evaluating, once, probe.rows(2), probe.nodes))
    calls, others = two.watcher.settled_calls(), three.watcher.settled_calls()
    if len(calls) != len(others):
        raise ValueError("the network drops in a different number of places for two and for three examples")
    number = {(call.place, call.mask): site for site, call in enumerate(calls)}
    answered = [DropoutCall(number.get((call.place, call.mask)), call.rate) for call in once.watcher.calls]
    reached = {call.site for call in answered}
    return Trace(
        sites=tuple(_site(*pair, probe.nodes) for pair in zip(calls, others, strict=True)),
        output=tuple(outputs.shape[1:]),
        activations=max(1, math.ceil(two.watcher.largest / probe.rows(2))),
        layers=tuple(layer for layer in two.watcher.layers if layer in three.watcher.layers or not layer.per_example),
        training=tuple(
            DropoutCall(number.get((c.place, c.mask)) if c.rate else None, c.rate) for c in two.watcher.calls
        ),
        evaluation=tuple(answered),
        unreached=tuple(call.name for site, call in enumerate(calls) if site not in reached),
        writes_input=any(seen.writes_input for seen in (two, three, once)),
        written=once.written,
        assigned=two.assigned,
        attributes=tuple(dict.fromkeys((*two.attributes, *three.attributes, *once.attributes))),
        remembers=tuple(dict.fromkeys((*probe.decisive(training, two), *probe.decisive(evaluating, once)))),
        picked=training.rule.note(two.outputs, once.outputs),
        heads=training.rule.shapes(two.outputs, once.outputs),
    )


@dataclass(frozen=True)
class _Probe:
    """Passes of one member with some examples, each with fresh tensors and a module as it was given."""

    params: Params
    buffers: Params
    x: Inputs

    @property
    def nodes(self) -> int | None:
        return self.x.nodes if isinstance(self.x, TensorTree) else None

    def rows(self, examples: int) -> int:
        """Of the outputs."""
        return examples if self.nodes is None else self.nodes

    def __call__(self, forward: Forward, examples: int) -> Seen:
        seen = self._pass(forward, examples, {})
        put_back(forward.skeleton, thread_copy(forward.skeleton), seen.attributes)
        return seen

    def _pass(self, forward: Forward, examples: int, changed: Params) -> Seen:
        tensors = {name: t.clone() for name, t in {**self.params, **self.buffers, **changed}.items()}
        module = thread_copy(forward.skeleton)
        x = self.x if self.nodes is not None else self.x[:examples]
        return watched(module, forward.aliases, forward.parameters, tensors, self.params, cloned(x))

    def decisive(self, forward: Forward, first: Seen) -> list[str]:
        """Names of what a pass leaves behind outside of any state, if a second pass comes out otherwise for it."""
        names = [*first.misfits, *(f"{a.path}.{a.name}".removeprefix(".") for a in first.attributes)]
        if not names:
            return []
        module, attributes = thread_copy(forward.skeleton), set(first.attributes)
        rest = self.x if self.nodes is not None else self.x[1:]  # what is kept of the same examples may not show
        others = _Probe(self.params, self.buffers, rest)
        try:
            fresh = others(forward, 2)
            self._pass(forward, 2, {})
            second = others._pass(forward, 2, first.misfits)
            attributes |= {*fresh.attributes, *second.attributes}
            same = torch.allclose(forward.rule(fresh.outputs), forward.rule(second.outputs), equal_nan=True)
        except (RuntimeError, TypeError, ValueError, IndexError):  # what was left behind does not fit
            same = False
        finally:
            put_back(forward.skeleton, module, attributes)
        return [] if same else names


def _checked_outputs(forward: Forward, seen: Seen, examples: int, nodes: int | None) -> Tensor:
    """The output of a watched pass, or a sentence that says why it cannot be one."""
    outputs = forward.rule(seen.outputs)
    if outputs.shape[:1] != (examples,):
        raise ValueError(
            f"the network gave outputs of shape {tuple(outputs.shape)} for "
            + (
                f"{examples} examples: the first axis must be the batch"
                if nodes is None
                else f"a graph of {nodes} nodes"
            )
        )
    return outputs


def _check_modes(training: Tensor, evaluation: Tensor) -> None:
    if training.shape != evaluation.shape:
        shapes = [f"(B, {', '.join(map(str, t.shape[1:]))})" for t in (training, evaluation)]
        raise ValueError(
            f"the output of the network has shape {shapes[0]} in training and {shapes[1]} in evaluation: pick the same "
            "in both with Model(net, outputs=...), a key, or a function from what the network returns to a tensor"
        )


def _site(two: SeenCall, three: SeenCall, nodes: int | None) -> Site:
    if nodes is not None and two.mask[:1] == (nodes,):
        return Site(two.mask, 0, 1, two.rate, two.alpha, two.name, two.consumer)
    grows = [axis for axis, (a, b) in enumerate(zip(two.mask, three.mask, strict=True)) if a != b]
    if len(grows) > 1:
        raise ValueError("the network drops entries that belong to pairs of examples, so no mask can be shared by all")
    if not grows:
        return Site(two.mask, None, 0, two.rate, two.alpha, two.name, two.consumer)
    axis = grows[0]
    return Site(two.mask, axis, three.mask[axis] - two.mask[axis], two.rate, two.alpha, two.name, two.consumer)
