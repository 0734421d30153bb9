"""The likelihood of a network: the given one where the outputs lie, or one that is chosen by the targets."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from credo.core.inputs import Targets, TensorTree
from credo.likelihoods.base import Likelihood
from credo.likelihoods.classes import Bernoulli, Categorical
from credo.likelihoods.gaussian import LearnedGaussian
from credo.likelihoods.joint import Head, Joint
from credo.likelihoods.placing import placed

Shape = tuple[int, ...]
Choice = tuple[Likelihood, str | None]
"""A likelihood, and a sentence that says what was chosen, if anything was."""


def settled(given: Likelihood | None, y: Targets, shape: Shape, class_axis: int | None) -> Choice:
    """The likelihood of one tensor of outputs.

    Args:
        given: by a person; None chooses by the targets.
        y: targets, as they came.
        shape: of the outputs for one example.
        class_axis: which axis of (B, *shape) holds classes or channels, if a person said it.
    """
    if given is not None and (len(shape) < 2 or given.event_axes > 1):
        given.outputs_of(shape)
        _check_class_axis(class_axis, shape, given.class_axis)
        return given, None
    if isinstance(y, TensorTree):
        takes = "no likelihood was given that has a place for each" if given is None else f"{given} takes one tensor"
        raise ValueError(f"y has parts with names, {y!r}, and {takes}")
    if len(shape) > 1:
        return placed(given, y, shape, class_axis)
    outputs = LearnedGaussian().outputs_of(shape)
    _check_class_axis(class_axis, shape, -1)
    if y.is_floating_point():
        chosen, why = LearnedGaussian(), "y holds real numbers"
        return chosen, f"likelihood: {chosen}, because {why}"
    return _of_classes(outputs)


def _of_classes(outputs: int) -> Choice:
    if outputs > 1:
        chosen: Likelihood = Categorical()
        return chosen, f"likelihood: {chosen}, because y holds whole numbers and the network has {outputs} outputs"
    chosen = Bernoulli()
    return chosen, f"likelihood: {chosen}, because y holds whole numbers and the network has one output"


def settled_heads(
    given: Mapping[str, Likelihood | None], y: Targets, shapes: Mapping[str, Shape], class_axis: int | None
) -> Choice:
    """The likelihood of several heads, each with the shape of its outputs.

    Args:
        given: of each head, by a person; None chooses by its targets.
        y: targets by head, as they came.
        shapes: of the outputs of each head for one example.
        class_axis: of all heads with positions, if a person said it.
    """
    heads, notes = list[Head](), list[str]()
    for name, likelihood in given.items():
        part = _part(y, name, given)
        axis = class_axis if len(shapes[name]) > 1 else None
        try:
            chosen, note = settled(likelihood, part, shapes[name], axis)
        except ValueError as error:
            raise ValueError(f"of the head {name!r}: {error}") from None
        heads.append(Head(name, chosen, shapes[name]))
        notes += [] if note is None else [f"head {name!r}: {note}"]
    return Joint(heads=tuple(heads)), "; ".join(notes) or None


def _part(y: Targets, name: str, given: Mapping[str, Likelihood | None]) -> Tensor:
    """The targets of one head."""
    example = ", ".join(f"{each!r}: ..." for each in given)
    if not isinstance(y, TensorTree) or not isinstance(y.value, dict):
        raise ValueError(f"y has no names, and there are several heads: give a dict, {{{example}}}")
    part = y.value.get(name)
    if not isinstance(part, Tensor):
        what = "has no targets" if part is None else "has no single tensor"
        raise ValueError(f"y {what} for the head {name!r}: give a dict, {{{example}}}")
    return part


def _check_class_axis(stated: int | None, shape: Shape, axis: int) -> None:
    """Refuse an axis that was stated where the likelihood has another one."""
    if stated not in (None, axis, axis + 1 + len(shape)):
        raise ValueError(
            f"class_axis={stated} was stated, and the outputs of the network, (B, {', '.join(map(str, shape))}), have "
            f"theirs along axis {axis + 1 + len(shape)}"
        )
