"""Several targets of different kinds for each example: a price and a kind, a class and a mask."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from credo.core.checks import check_kind, check_options
from credo.core.inputs import Targets, TensorTree
from credo.core.trees import Params
from credo.likelihoods.base import ClassLikelihood, Elements, Likelihood
from credo.likelihoods.positions import MASKED, UNOBSERVED

SEPARATORS = "./"
"""What joins the name of a head and that of a parameter, or of a part of a tree."""
SHARE = "\0weight"
"""What follows a head's name in that of its part of the examples' weights, among the targets: no name of a person's."""


@dataclass(frozen=True)
class Head:
    """One of several outputs of a network, and the likelihood of its targets.

    An example may have no target for a head: NaN among numbers, -100 among classes. It says nothing about that head.

    Args:
        name: of the head, and of its targets.
        likelihood: of its targets.
        shape: of its outputs for one example; `fit` finds it.
    """

    name: str
    likelihood: Likelihood
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_options(self, name="'price'", likelihood="likelihoods.Gaussian()", shape="(3,)")
        if not self.name or any(mark in self.name for mark in SEPARATORS):
            raise ValueError(f"name must be text without dots and slashes, got {self.name!r}")
        if isinstance(self.likelihood, Joint):
            raise TypeError(f"likelihood must be one of a single tensor, got {self.likelihood!r}")

    @property
    def event(self) -> tuple[int, ...]:
        """Shape of the outputs for one example, once it is known."""
        if self.shape is None:
            raise ValueError(f"the outputs of the head {self.name!r} are not known yet: fit looks at the network")
        return self.shape

    @property
    def size(self) -> int:
        """How many outputs of an example belong to the head."""
        return math.prod(self.event)

    @property
    def outputs(self) -> int:
        """E of the head's own likelihood."""
        return self.likelihood.outputs_of(self.event)

    @property
    def _rows(self) -> bool:
        """Whether there is one row of targets for each example; likelihoods at positions know what is missing."""
        return self.likelihood.event_axes == 1

    @property
    def _columns(self) -> bool:
        """Whether targets are (B, D), and not (B,) class numbers."""
        return not (isinstance(self.likelihood, ClassLikelihood) and self.likelihood.exclusive)

    def check_targets(self, y: Tensor) -> Tensor:
        """Targets (B, ...) as the likelihood wants them, with NaN or -100 where an example has none."""
        if not self._rows:
            return self.likelihood.check_targets(y, self.outputs)
        missing = self._missing(y)
        values = self.likelihood.check_targets(y[~missing], self.outputs)
        if self._columns and not values.is_floating_point():
            values = values.to(torch.get_default_dtype())  # which have a NaN
        full = values.new_full((len(y), *values.shape[1:]), math.nan if values.is_floating_point() else UNOBSERVED)
        full[~missing] = values
        return full

    def _missing(self, y: Tensor) -> Tensor:
        """Which examples have no target, as a person, or a mask, says it, (B,)."""
        missing = y.isnan() if y.is_floating_point() else y == MASKED
        if isinstance(self.likelihood, ClassLikelihood):
            missing = missing | (y == UNOBSERVED)
        each = missing.flatten(1) if y.ndim > 1 else missing.unsqueeze(1)
        if bool((each.any(1) & ~each.all(1)).any()):
            raise ValueError("some columns have a target and others none: an example has all targets of a head or none")
        return each.all(1)

    def observed(self, y: Tensor) -> Tensor | None:
        """Which checked targets were observed, in the shape of `log_prob_each`; None for all of them."""
        if not self._rows:
            return self.likelihood.observed(y)
        return ~y.isnan() if self._columns else y != UNOBSERVED

    def has_target(self, y: Tensor) -> Tensor:
        """Which examples have a target for the head, (..., B), of checked targets."""
        if not self._rows:
            observed = self.likelihood.observed(y)
            every = torch.ones(len(y), dtype=torch.bool, device=y.device)
            return every if observed is None else observed.flatten(1).any(1)
        return ~y.isnan().any(-1) if self._columns else y != UNOBSERVED

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        """log p(y | outputs) of each example, (..., B); zero where it has no target."""
        found = self._log_prob(outputs, y, params)
        if found.shape != outputs.shape[: outputs.ndim - len(self.event)]:
            raise ValueError(
                f"{type(self.likelihood).__name__}.log_prob of the head {self.name!r} gives shape {tuple(found.shape)} "
                f"for outputs {tuple(outputs.shape)}: it must be one number for each example"
            )
        return found

    def _log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        if not self._rows:
            return self.likelihood.log_prob(outputs, y, params)
        targets, kept = self.filled(y)
        # what says nothing is replaced before anything is computed: no NaN among it reaches a gradient
        rows = torch.where(kept.unsqueeze(-1), outputs, 0.0)
        return torch.where(kept, self.likelihood.log_prob(rows, targets, params), 0.0)

    def filled(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Targets with one that the likelihood can take in the place of what is missing, and which are there, (..., B).

        Targets at positions stay what they are: their likelihood knows what is missing.
        """
        kept = self.has_target(y)
        if not self._rows:
            return y, kept
        first = kept.int().argmax(-1, keepdim=True)  # any observed target is one that the likelihood can take
        if not self._columns:
            return torch.where(kept, y, y.take_along_dim(first, -1).clamp_min(0)), kept
        some = y.take_along_dim(first.unsqueeze(-1), -2).nan_to_num()
        return torch.where(kept.unsqueeze(-1), y, some), kept


@dataclass(frozen=True, init=False, repr=False)
class Joint(Likelihood):
    """Several heads, each with a likelihood of its own; their targets are independent given the outputs.

    log p(y | f) = sum over heads h of log p_h(y_h | f_h)

    The network returns a dict of tensors with the names of the heads (`Model(net, Joint(...), outputs=...)` says where
    they are otherwise), y is a dict with the same names, and `prediction["price"]` is the prediction of one head.
    Learned parameters are called `likelihood.price.log_scale` and so on. Where heads have weights,
    `fit(..., weights={"price": ...})`, each term is multiplied by that of its head.

    An example may lack the target of a head: NaN among numbers, -100 among classes, or a mask.

    Args:
        heads: the likelihood of each head by its name.

    Examples:
        >>> from credo import likelihoods
        >>> likelihoods.Joint(price=likelihoods.Gaussian(), kind=likelihoods.Categorical())
        Joint(price=Gaussian(scale=1.0), kind=Categorical())
    """

    heads: tuple[Head, ...]

    def __init__(self, /, **heads: Any) -> None:
        # a file, and `dataclasses.replace`, give the heads as they are
        found = heads["heads"] if set(heads) == {"heads"} and isinstance(heads["heads"], tuple) else None
        if found is None:
            for name, likelihood in heads.items():
                check_kind(f"the head {name!r}", likelihood, "likelihoods.Gaussian()", Likelihood)
            found = tuple(Head(name, likelihood) for name, likelihood in heads.items())
        if not found or not all(isinstance(head, Head) for head in found):
            raise ValueError("give the likelihood of each head by its name, as in Joint(price=Gaussian())")
        if len({head.name for head in found}) < len(found):
            raise ValueError("two heads have the same name")
        object.__setattr__(self, "heads", found)

    def __repr__(self) -> str:
        return f"Joint({', '.join(f'{head.name}={head.likelihood}' for head in self.heads)})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(head.name for head in self.heads)

    def with_heads(self, heads: tuple[Head, ...]) -> Joint:
        """The same with heads whose outputs are known."""
        return replace(self, heads=heads)

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(head.size for head in self.heads))

    @cached_property
    def places(self) -> dict[str, slice]:
        """Where the outputs of each head lie among those of all heads side by side."""
        pairs = pairwise([0, *self._ends])
        return {head.name: slice(*pair) for head, pair in zip(self.heads, pairs, strict=True)}

    def check_shapes(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Refuse outputs of heads, for one example, of other shapes than those that are known."""
        if any(h.shape not in (None, shape) for h, shape in zip(self.heads, shapes, strict=True)):
            raise ValueError(self._misfit(", ".join(f"{h.name} {s}" for h, s in zip(self.heads, shapes, strict=True))))

    def _misfit(self, found: str) -> str:
        known = ", ".join(f"{head.name} {head.event}" for head in self.heads)
        return (
            f"the heads have outputs {known} for each example, and the network gives {found} for these inputs: give "
            "inputs of the same shape"
        )

    def split(self, outputs: Tensor) -> dict[str, Tensor]:
        """Outputs of each head, (..., B, *event), of those of all heads side by side, (..., B, E)."""
        self.outputs_of(tuple(outputs.shape[-1:]))
        front = outputs.shape[:-1]
        return {head.name: outputs[..., self.places[head.name]].reshape(*front, *head.event) for head in self.heads}

    def params_of(self, name: str, params: Params) -> Params:
        """The learned parameters of one head, by their short names."""
        prefix = f"{name}."
        return {key.removeprefix(prefix): value for key, value in params.items() if key.startswith(prefix)}

    def outputs_of(self, shape: tuple[int, ...]) -> int:
        if shape != (self._ends[-1],):
            raise ValueError(self._misfit(f"{shape} of all heads"))
        return shape[0]

    def check_targets(self, y: Targets, outputs: int) -> Any:
        values = self._values(y)
        found = dict[str, Any]()
        for head in self.heads:
            try:
                found[head.name] = head.check_targets(values[head.name])
            except ValueError as error:
                raise ValueError(f"of the head {head.name!r}: {error}") from None
        shares = {name: values[name] for name in (head + SHARE for head in self.names) if name in values}
        return TensorTree(found | shares)

    def _values(self, y: Targets) -> dict[str, Tensor]:
        """Targets by head, one tensor each."""
        example = ", ".join(f"{name!r}: ..." for name in self.names)
        if not isinstance(y, TensorTree) or not isinstance(y.value, dict):
            raise ValueError(f"y has no names, and there are several heads: give a dict, {{{example}}}")
        values = y.value
        for name in (*targets_of(y), *self.names):
            if name not in values or name not in self.names:
                where = "y has no targets for the head" if name in self.names else "there is no head for the part of y"
                raise ValueError(f"{where} {name!r}: give {{{example}}}")
            if not isinstance(values[name], Tensor):
                raise ValueError(f"y[{name!r}] must be one tensor, got a {type(values[name]).__name__}")
        return values

    def held_by(self, dtype: torch.dtype) -> bool:
        return all(head.likelihood.held_by(dtype) for head in self.heads)

    def observed(self, y: TensorTree) -> Tensor:  # type: ignore[override]  # y has names
        """Of all heads side by side, (B, ...)."""
        found = list[Tensor]()
        for head in self.heads:
            each = head.observed(y[head.name])
            each = torch.ones(len(y), 1, dtype=torch.bool, device=y.device) if each is None else each
            found.append(each.reshape(len(each), -1))
        return torch.cat(found, dim=1)

    def parameters(self, outputs: int) -> Params:
        return {
            f"{head.name}.{name}": value
            for head in self.heads
            for name, value in head.likelihood.parameters(head.outputs).items()
        }

    def log_prior(self, params: Params) -> Tensor | float:
        return sum((head.likelihood.log_prior(self.params_of(head.name, params)) for head in self.heads), 0.0)

    def draw_parameters(self, outputs: int, members: int, generator: torch.Generator) -> Params:
        return {
            f"{head.name}.{name}": value
            for head in self.heads
            for name, value in head.likelihood.draw_parameters(head.outputs, members, generator).items()
        }

    def log_prob(self, outputs: Tensor, y: Targets, params: Params) -> Tensor:
        parts = self.split(outputs)
        each = (self._weighted(head, parts[head.name], y, self.params_of(head.name, params)) for head in self.heads)
        return reduce(torch.add, each)

    def _weighted(self, head: Head, outputs: Tensor, y: Targets, params: Params) -> Tensor:
        log_prob, share = head.log_prob(outputs, y[head.name], params), share_of(y, head.name)
        return log_prob if share is None else log_prob * share

    def elements(self, outputs: Tensor, y: Tensor | None, params: Params) -> Elements:
        raise ValueError(f"there are several heads, {', '.join(self.names)}: look at one, as in prediction['...']")

    def fisher(self, outputs: Tensor, params: Params) -> Tensor:
        """Blocks on the diagonal, one for each head."""
        parts, result = self.split(outputs), outputs.new_zeros(*outputs.shape, outputs.shape[-1])
        for head, place in zip(self.heads, self.places.values(), strict=True):
            if head.likelihood.event_axes > 1:
                raise ValueError(f"the head {head.name!r} has positions, and no curvature of a single row")
            block = head.likelihood.fisher(parts[head.name], self.params_of(head.name, params))
            result[..., place, place] = block
        return result

    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        """Of all heads side by side, (..., B, D)."""
        return self._side_by_side("mean", outputs, params)

    def variance(self, outputs: Tensor, params: Params) -> Tensor:
        """Of all heads side by side, (..., B, D)."""
        return self._side_by_side("variance", outputs, params)

    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        """Of all heads side by side, (..., B, D), class numbers too."""
        parts, front = self.split(outputs), outputs.ndim - 1
        each = (
            head.likelihood.sample(parts[head.name], self.params_of(head.name, params), generator)
            for head in self.heads
        )
        return torch.cat([t.to(outputs.dtype).reshape(*t.shape[:front], -1) for t in each], dim=-1)

    def entropy(self, outputs: Tensor, params: Params) -> Tensor:
        """Of all targets of an example, (..., B): the sum over heads."""
        parts, front = self.split(outputs), outputs.ndim - 1
        each = (head.likelihood.entropy(parts[head.name], self.params_of(head.name, params)) for head in self.heads)
        return torch.stack([t.reshape(*t.shape[:front], -1).sum(-1) for t in each]).sum(0)

    def _side_by_side(self, of: str, outputs: Tensor, params: Params) -> Tensor:
        parts, front = self.split(outputs), outputs.ndim - 1
        each = (
            getattr(head.likelihood, of)(parts[head.name], self.params_of(head.name, params)) for head in self.heads
        )
        return torch.cat([t.reshape(*t.shape[:front], -1) for t in each], dim=-1)


def share_of(y: Targets, head: str) -> Tensor | None:
    """What the target of a head counts beside those of the others of its example, (B,); None where all count alike."""
    values = y.value if isinstance(y, TensorTree) else y
    share: Tensor | None = values.get(head + SHARE)
    return share


def targets_of(y: TensorTree) -> list[Any]:
    """The names of the targets, without those of the weights that are among them."""
    return [name for name in y.value if not str(name).endswith(SHARE)]
