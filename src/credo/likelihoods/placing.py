"""Which axis of a network's outputs holds the classes or channels, where there are positions: by y, or as stated."""

from __future__ import annotations

from torch import Tensor

from credo.likelihoods.base import ClassLikelihood, Likelihood
from credo.likelihoods.classes import Bernoulli, Categorical
from credo.likelihoods.continuous_bernoulli import ContinuousBernoulli
from credo.likelihoods.gaussian import Gaussian, LearnedGaussian, SharedGaussian
from credo.likelihoods.gray import BinarizedBernoulli, GrayCrossEntropy
from credo.likelihoods.poisson import Poisson
from credo.likelihoods.positions import ClassesAtPositions, NumbersAtPositions, at_positions

ALIKE = (
    Gaussian,
    SharedGaussian,
    Poisson,
    Bernoulli,
    ContinuousBernoulli,
    GrayCrossEntropy,
    BinarizedBernoulli,
)
"""Likelihoods to which all entries are alike, so that it does not matter which axis the channels are."""
ALONE = "where each position has one output of its own, let the network return (B, 1, ...), as by unsqueeze(1)"

Shape = tuple[int, ...]


def placed(
    given: Likelihood | None, y: Tensor, shape: Shape, stated: int | None
) -> tuple[ClassesAtPositions | NumbersAtPositions, str]:
    """A likelihood of a target at each position, and a sentence that says what was chosen.

    Args:
        given: that of one position, if a person gave one.
        y: targets (B, ...), as they came.
        shape: of the network's outputs for one example, with two axes or more.
        stated: the class axis, if a person said it, in (B, ...).
    """
    classes = not y.is_floating_point() if given is None else isinstance(given, ClassLikelihood)
    axis = _settled_axis(given, y, shape, stated, classes=classes)
    base = given or _chosen(y, shape, axis, classes=classes)
    made = at_positions(base, len(shape) - 1, axis)
    of = f"{_shown(shape)} with the {'classes' if classes else 'channels'} along axis {axis + 1 + len(shape)}"
    kind = "whole" if classes else "real"
    because = f"because y holds {kind} numbers and the network returns {of}"
    if given is not None:
        return made, f"likelihood: {given} at each position, because the network returns {of}"
    return made, f"likelihood: {base} at each position, {because}"


def _chosen(y: Tensor, shape: Shape, axis: int, *, classes: bool) -> Likelihood:
    if not classes:
        return LearnedGaussian()
    return Bernoulli() if shape[axis] == 1 else Categorical()


def _settled_axis(given: Likelihood | None, y: Tensor, shape: Shape, stated: int | None, *, classes: bool) -> int:
    """Counted from the end."""
    exclusive = given.exclusive if isinstance(given, ClassLikelihood) else classes
    fitting = [axis for axis in range(-len(shape), 0) if _fits(tuple(y.shape[1:]), shape, axis, exclusive)]
    if given is None and classes and not fitting and tuple(y.shape[1:]) == shape:
        raise ValueError(
            f"y holds whole numbers in the shape of the outputs, {_shown(shape)}: give class numbers, one at each "
            "position, for one class of several; or say what they are, as in likelihoods.Bernoulli() for yes-or-no "
            f"answers, or y.float() for numbers; {ALONE}"
        )
    if stated is not None:
        return _checked_axis(stated, fitting, y, shape)
    if not fitting:
        raise ValueError(_misfit(y, shape))
    # one channel of an image, (B, 1, H, W); but (B, 1, D) may be one step of a series, or one channel of a signal
    ends = (-1,) if len(shape) == 2 else (-1, -len(shape))
    single = [axis for axis in fitting if shape[axis] == 1 and axis in ends]
    if len(fitting) == 1 or len(single) == 1:
        return (single if len(fitting) > 1 else fitting)[0]
    if type(given) in ALIKE:
        return -len(shape) if len(shape) > 2 else -1
    examples = " or ".join(f"Model(net, class_axis={axis + 1 + len(shape)})" for axis in fitting)
    raise ValueError(
        f"the network returns {_shown(shape)} and y has shape {_shown(tuple(y.shape[1:]))}, so that more than one axis "
        f"could be that of the {'classes' if classes else 'channels'}: say which one it is, {examples}"
        + (f"; {ALONE}" if tuple(y.shape[1:]) == shape else "")
    )


def _fits(y: Shape, shape: Shape, axis: int, exclusive: bool) -> bool:
    """Whether targets of this shape lie at the positions that are left without the axis."""
    positions = _without(shape, axis)
    if y == positions:
        return True
    if len(y) != len(shape):
        return False
    if exclusive:
        return (y[axis] == 1 and _without(y, axis) == positions) or y == (*positions, 1)
    return _without(y, axis) == positions and y[axis] > 0 and shape[axis] % y[axis] == 0


def _checked_axis(stated: int, fitting: list[int], y: Tensor, shape: Shape) -> int:
    axis = stated if stated < 0 else stated - len(shape) - 1
    if not -len(shape) <= axis < 0:
        raise ValueError(f"class_axis={stated} is no axis of the outputs {_shown(shape)} after the batch")
    if axis not in fitting:
        raise ValueError(f"{_misfit(y, shape)} (class_axis={stated} was stated)")
    return axis


def _misfit(y: Tensor, shape: Shape) -> str:
    return (
        f"y has shape {tuple(y.shape)} and the network returns outputs of shape {_shown(shape)}: y needs one class, or "
        "one number for each output, at each position; for one target per example end the network with nn.Flatten() or "
        "a linear layer, so that it returns (B, outputs)"
    )


def _without(shape: Shape, axis: int) -> Shape:
    return tuple(size for i, size in enumerate(shape) if i != len(shape) + axis)


def _shown(shape: Shape) -> str:
    return f"(B, {', '.join(map(str, shape))})"
