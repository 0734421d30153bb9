"""A probe at a network: where it drops, its layers, what it returns, and what a forward pass changes on its way."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from credo.core.inputs import Inputs, TensorTree
from credo.core.trees import Params
from credo.nets.checkpointing import Checkpointing, refuse_reentrant
from credo.nets.dropout import Site
from credo.nets.forward import Attribute, Forward, awake, cloned, put_back, thread_copy
from credo.nets.hidden_noise import TORCH, differing, listed, refuse_elsewhere, refuse_in_evaluation
from credo.nets.layer import Layer
from credo.nets.random_calls import DropKind, DropoutCall
from credo.nets.watching import Seen, SeenCall, watched

RECENT = 256
"""How many shapes of inputs are remembered."""
LOOKS = 4
"""More passes of a network with noise of its own, in which a layer may be left out by chance."""

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
    drawing: tuple[DropoutCall, ...]  # those of a pass of a drawn function, with the masks that answer them there
    awake: tuple[str, ...]  # names of the modules that drop in training only, and run as in training for draws
    drops_in_evaluation: bool  # whether the network drops in evaluation too, by itself
    unreached: tuple[str, ...]  # names of the sites that draws never come to
    hidden: tuple[str, ...]  # names of modules that draw noise of their own in training
    repeated: bool  # whether the backward pass calls parts of the module again
    writes_input: bool  # whether a pass works in place on its input
    written: frozenset[str]  # names of the tensors that evaluation writes to
    assigned: frozenset[str]  # names of the buffers that training replaces
    attributes: tuple[Attribute, ...]  # what else a pass changes in the module
    # names of those attributes and buffers that decide later passes, and are not part of any state
    remembers: tuple[str, ...]
    picked: tuple[str, ...] = ()  # which tensor of several is the output, in a sentence
    heads: tuple[tuple[int, ...], ...] = ()  # shapes of the outputs of each head for one example, if there are several

    @property
    def alone(self) -> str | None:
        """Why members are computed one by one in training, if they must be."""
        if self.hidden:
            return f"random numbers inside {listed([*self.hidden])}, drawn for one member at a time"
        return "gradient checkpointing" if self.repeated else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the network, in sentences."""
        notes = self.picked
        if self.hidden:
            notes += (
                f"{listed([*self.hidden])} draws random numbers of its own in training: they come from the seed, one "
                "member at a time, and predictions are without them",
            )
        if not self.remembers:
            return notes
        return (
            *notes,
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


def trace(
    training: Forward, evaluating: Forward, params: Params, buffers: Params, x: Inputs, *, twice: bool = False
) -> Trace:
    """Watch a network in training with two and with three examples, and in evaluation with two.

    A graph is always seen as a whole; its nodes are taken for the examples. `twice` looks also whether two passes with
    the same examples come out alike.
    """
    probe = _Probe(params, buffers, x)
    two, three, once = probe(training, 2), probe(training, 3), probe(evaluating, 2)
    refuse_in_evaluation(once.noise.modules[TORCH])
    refuse_reentrant(max(seen.watcher.checkpointing for seen in (two, three, once)))
    outputs = _checked_outputs(training, two, probe.rows(2), probe.nodes)
    _checked_outputs(training, three, probe.rows(3), probe.nodes)
    _check_modes(outputs, _checked_outputs(evaluating, once, probe.rows(2), probe.nodes))
    calls, others = two.watcher.settled_calls(), three.watcher.settled_calls()
    _check_calls(calls, others)
    if twice:
        probe.compare(training, two, "training")
        probe.compare(evaluating, once, "evaluation")
        for number in range(LOOKS if two.noise.modules[TORCH] else 0):
            _check_calls(calls, probe(training, 2, number=100 + number).watcher.settled_calls())
    repeated = any(seen.watcher.checkpointing is not Checkpointing.NONE for seen in (two, once))
    all_keys = _keys(two.watcher.calls, loose=repeated)
    sites = {key: calls.index(call) for key, call in zip(all_keys, two.watcher.calls, strict=True) if call in calls}
    drawing, names = probe.drawing(evaluating, once, sites, loose=repeated)
    keys = _keys(drawing, loose=repeated)
    answered = [DropoutCall(sites.get(key), call.rate, call.name) for key, call in zip(keys, drawing, strict=True)]
    reached = {call.site for call in answered}
    return Trace(
        sites=tuple(_site(*pair, probe.nodes) for pair in zip(calls, others, strict=True)),
        output=tuple(outputs.shape[1:]),
        activations=max(1, math.ceil(two.watcher.largest / probe.rows(2))),
        layers=tuple(layer for layer in two.watcher.layers if layer in three.watcher.layers or not layer.per_example),
        training=tuple(
            DropoutCall(sites.get(key), call.rate, call.name)
            for key, call in zip(all_keys, two.watcher.calls, strict=True)
        ),
        drawing=tuple(answered),
        awake=names,
        drops_in_evaluation=any(call.rate > 0.0 for call in once.watcher.calls),
        unreached=tuple(call.name for site, call in enumerate(calls) if site not in reached),
        hidden=tuple(dict.fromkeys((*two.noise.modules[TORCH], *three.noise.modules[TORCH]))),
        repeated=repeated,
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

    def __call__(self, forward: Forward, examples: int, *, number: int | None = None) -> Seen:
        """Other numbers of examples find other random numbers, if no number is given."""
        number = examples if number is None else number
        seen = self._alone(forward, examples, number)
        if seen.noise.elsewhere:
            refuse_elsewhere(seen.noise.elsewhere, self._alone(forward, examples, number, closely=True).noise.elsewhere)
        return seen

    def compare(self, forward: Forward, seen: Seen, mode: str) -> None:
        """Refuse a network that a second pass finds otherwise."""
        outputs, again = forward.rule(seen.outputs), forward.rule(self._alone(forward, 2, 2).outputs)
        if not torch.allclose(outputs, again, rtol=1e-3, atol=1e-6, equal_nan=True):  # kernels add in any order
            raise differing(mode)

    def drawing(
        self, evaluating: Forward, once: Seen, sites: Mapping[Any, int], *, loose: bool
    ) -> tuple[list[SeenCall], tuple[str, ...]]:
        """The dropout calls of a pass of a drawn function, and the modules that run there as in training.

        Those are modules that drop in training only, and do nothing else: no parameters, no buffers, no parts.
        """
        calls = once.watcher.calls
        reached = _keys(calls, loose=loose)
        paths = dict.fromkeys(key[0][0] for key in sites if key not in reached)
        names = tuple(path for path in paths if path and _only_drops(evaluating.skeleton.get_submodule(path)))
        return (self(awake(evaluating, names), 2).watcher.calls if names else calls), names

    def _alone(self, forward: Forward, examples: int, number: int, *, closely: bool = False) -> Seen:
        """A pass that leaves the module as it was."""
        seen = self._pass(forward, examples, {}, number, closely=closely)
        put_back(forward.skeleton, thread_copy(forward.skeleton), seen.attributes)
        return seen

    def _pass(
        self, forward: Forward, examples: int, changed: Params, number: int = 2, *, closely: bool = False
    ) -> Seen:
        tensors = {name: t.clone() for name, t in {**self.params, **self.buffers, **changed}.items()}
        module = thread_copy(forward.skeleton)
        x = self.x if self.nodes is not None else self.x[:examples]
        names = (forward.aliases, forward.parameters)
        return watched(module, *names, tensors, self.params, cloned(x), number=number, closely=closely)

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


def _keys(calls: list[SeenCall], *, loose: bool) -> list[Any]:
    """What a call in training and one in evaluation have in common, if they are at the same place.

    Loosely, by the module and the order of its calls: gradient checkpointing in training is other lines of code.
    """
    if not loose:
        return [(call.place, call.mask) for call in calls]
    before = Counter[str]()
    keys = []
    for call in calls:
        name = call.place[0]
        keys.append(((name, before[name]), call.mask))
        before[name] += 1
    return keys


def _check_calls(calls: list[SeenCall], others: list[SeenCall]) -> None:
    """Refuse two passes that drop at other places."""
    names = [[call.name for call in each] for each in (calls, others)]
    if names[0] == names[1]:
        return
    differ = [name for name in dict.fromkeys(names[0] + names[1]) if names[0].count(name) != names[1].count(name)]
    raise ValueError(
        f"the network drops at {', '.join(differ[:5]) or 'its places'} in one pass, and not in the next: whether and "
        "where a network drops must not depend on chance (layer drop) or on values of the input: switch that off"
    )


def _only_drops(module: nn.Module) -> bool:
    return not (module._parameters or module._buffers or module._modules)


def _site(two: SeenCall, three: SeenCall, nodes: int | None) -> Site:
    axis, per_example = _batch_axis(two.mask, three.mask, nodes)
    alpha, fills = two.kind is DropKind.ALPHA, two.kind is DropKind.FILL
    return Site(two.mask, axis, per_example, two.rate, alpha, two.name, two.consumer, fills)


def _batch_axis(two: tuple[int, ...], three: tuple[int, ...], nodes: int | None) -> tuple[int | None, int]:
    """The axis of a mask that grows with the batch, and how many of its entries belong to one example."""
    if nodes is not None and two[:1] == (nodes,):
        return 0, 1
    grows = [axis for axis, (a, b) in enumerate(zip(two, three, strict=True)) if a != b]
    if len(grows) > 1:
        raise ValueError("the network drops entries that belong to pairs of examples, so no mask can be shared by all")
    return (grows[0], three[grows[0]] - two[grows[0]]) if grows else (None, 0)
