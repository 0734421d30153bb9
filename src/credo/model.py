"""The statistical model, and the density that methods explore."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

import torch
from torch import Tensor

from credo.core.checks import check_kind
from credo.core.inputs import Inputs, Targets, TensorTree, rows_at_once
from credo.core.rng import Stream
from credo.core.trees import Layout, Params, Variables
from credo.likelihoods import Joint, Likelihood
from credo.likelihoods.choosing import settled, settled_heads
from credo.likelihoods.joint import targets_of
from credo.nets.dropout import draw_masks
from credo.nets.heads import HeadsRule, Shapes
from credo.nets.network import Net, Network
from credo.nets.outputs import OutputRule, Path
from credo.nets.plan import Plan
from credo.priors import Normal, Prior

LIKELIHOOD_PREFIX = "likelihood."
"""Prefix of the likelihood's learned parameters among `Params`."""


class Model:
    """Network, likelihood and prior: the description of the problem, with nothing fitted.

    With neither likelihood nor prior, `fit` standardizes inputs and targets inside, and predictions are in the units of
    the data; with either, the data are left as they are.

    Args:
        net: a module, or a function without arguments that makes one. It is copied. Its outputs are (B, E), or have
            positions: (B, K, H, W), (B, T, K).
        likelihood: None chooses by the targets: class numbers give `Categorical`, other numbers `LearnedGaussian`.
        prior: of the network's weights; None is `Normal(scale=3.0, fan_in=True)`, which is weak for standardized data
            whatever the width of the net. (At scale 1 the most probable weights of a small data set are all zero.)
        outputs: which tensor is the output of a net that returns several: a key such as "logits", keys joined by "/", a
            place in a tuple, or a function from what it returns to a tensor. None takes the only one, or the one that
            is called `logits` or `out`. With several heads, a dict with the key or place of each, or a function that
            gives a dict of tensors.
        class_axis: which axis of outputs (B, ...) with positions holds the classes or channels: 1 in (B, K, H, W), -1
            in (B, T, K). None leaves it to the shape of y.

    Examples:
        >>> from credo import likelihoods, nets
        >>> Model(nets.MLP(1, 1), likelihoods.Gaussian(scale=0.1)).prior
        Normal(scale=3.0, fan_in=True)
    """

    def __init__(
        self,
        net: Net | Network,
        likelihood: Likelihood | None = None,
        prior: Prior | None = None,
        *,
        outputs: Path | Mapping[str, str | int] = None,
        class_axis: int | None = None,
    ) -> None:
        check_kind("likelihood", likelihood, "likelihoods.Gaussian()", Likelihood, NoneType)
        check_kind("prior", prior, "priors.Normal()", Prior, NoneType)
        check_kind("class_axis", class_axis, "1", int, NoneType)
        if class_axis == 0:
            raise ValueError("class_axis=0 is the batch: 1 is the first axis after it, and -1 the last")
        self.network = net if isinstance(net, Network) else Network(net)
        if (rule := _rule(likelihood, outputs, self.network.output_rule)) is not None:
            self.network = self.network.with_outputs(rule)
        self.class_axis = class_axis
        self.given_likelihood = likelihood
        self.given_prior = prior
        self.prior = prior or Normal(scale=3.0, fan_in=True)

    @property
    def likelihood(self) -> Likelihood:
        if self.given_likelihood is None:
            raise ValueError("the model has no likelihood yet: give Model(net, likelihood=...), or let fit choose by y")
        return self.given_likelihood

    @property
    def is_bare(self) -> bool:
        """Whether nothing was given but the network, so that the rest, and the units, are for `fit` to choose."""
        return self.given_likelihood is None and self.given_prior is None and self.network.scaling is None

    @property
    def data_dtype(self) -> torch.dtype:
        """The precision of inputs and targets: the network's, or float64 where that alone shows how they differ."""
        dtype = self.network.dtype
        held = self.given_likelihood is None or self.given_likelihood.held_by(dtype)
        return self.network.input_dtype if held else torch.float64

    def __repr__(self) -> str:
        scaled = "" if self.network.scaling is None else ", of standardized inputs"
        return f"Model({type(self.network.module).__name__}, {self.given_likelihood}, {self.prior}{scaled})"

    def with_network(self, network: Network) -> Model:
        return Model(network, self.given_likelihood, self.prior, class_axis=self.class_axis)

    def with_prior(self, prior: Prior) -> Model:
        return Model(self.network, self.given_likelihood, prior, class_axis=self.class_axis)

    def with_likelihood(self, likelihood: Likelihood) -> Model:
        return Model(self.network, likelihood, self.prior, class_axis=self.class_axis)

    def with_heads_for(self, y: Targets) -> Model:
        """The model of a network with a head for each part of y, where y is a dict and no likelihood was given."""
        rule = self.network.output_rule
        if self.given_likelihood is not None or isinstance(rule, HeadsRule):
            return self
        if not isinstance(y, TensorTree) or not isinstance(y.value, dict):
            return self
        return self.with_network(self.network.with_outputs(HeadsRule.of(tuple(map(str, targets_of(y))), rule.path)))

    def with_likelihood_for(self, y: Targets, shape: tuple[int, ...], heads: Shapes = ()) -> tuple[Model, str | None]:
        """The model with its likelihood settled, and a sentence that says what was chosen, if anything was.

        Args:
            y: targets, as they came.
            shape: of the network's outputs for one example.
            heads: of the outputs of each head, where there are several.
        """
        given, rule = self.given_likelihood, self.network.output_rule
        if not isinstance(rule, HeadsRule):
            chosen, note = settled(given, y, shape, self.class_axis)
            return self if chosen is given else Model(self.network, chosen, self.prior), note
        parts = {h.name: h.likelihood for h in given.heads} if isinstance(given, Joint) else {}
        wanted = {name: parts.get(name) for name in rule.names}
        chosen, note = settled_heads(wanted, y, dict(zip(rule.names, heads, strict=True)), self.class_axis)
        return Model(self.network, chosen, self.prior), note

    def outputs(self, variables: Variables, x: Inputs) -> int:
        """E, the number of outputs per example, or per position of it."""
        return self.likelihood.outputs_of(self.output_shape(variables, x))

    def positions(self, variables: Variables, x: Inputs) -> int:
        """How many positions of an example of inputs like x have a target; 1 where outputs are (B, E)."""
        shape = self.output_shape(variables, x)
        return math.prod(shape) // max(1, self.likelihood.outputs_of(shape))

    def output_shape(self, variables: Variables, x: Inputs) -> tuple[int, ...]:
        """Shape of the network's outputs for one example of inputs like x."""
        seen = self.network.trace(variables, x)
        if isinstance(self.given_likelihood, Joint):
            self.given_likelihood.check_shapes(seen.heads)
        return seen.output

    def complete(self, variables: Variables, outputs: int) -> Variables:
        """The network's variables together with first values of the likelihood's own parameters."""
        first = next(iter(variables.params.values()))
        learned = {
            LIKELIHOOD_PREFIX + name: value.to(first).expand(len(first), *value.shape).clone()
            for name, value in self.likelihood.parameters(outputs).items()
        }
        return Variables({**variables.params, **learned}, variables.buffers)


def _rule(likelihood: Likelihood | None, outputs: Any, known: OutputRule | HeadsRule) -> OutputRule | HeadsRule | None:
    """Which tensors of what the network returns are its outputs; None leaves that as it is."""
    if isinstance(likelihood, Joint):
        if outputs is None and isinstance(known, HeadsRule) and known.names == likelihood.names:
            return None
        return HeadsRule.of(likelihood.names, known.path if outputs is None and callable(known.path) else outputs)
    if isinstance(outputs, Mapping):
        return HeadsRule.of(tuple(map(str, outputs)), outputs)
    return None if outputs is None else OutputRule(outputs)


def likelihood_params(params: Params) -> Params:
    """The likelihood's own parameters, by their short names."""
    return {
        name.removeprefix(LIKELIHOOD_PREFIX): value
        for name, value in params.items()
        if name.startswith(LIKELIHOOD_PREFIX)
    }


@dataclass(frozen=True)
class Batch:
    """Some examples.

    Attributes:
        x: inputs (B, ...), or (M, B, ...) where each member has its own; a tensor, or a tree of tensors.
        y: targets (B, D) or (B,), likewise with a leading M; or a tree of such, for a likelihood that takes one.
        per_member: whether each member has its own examples.
        weight: how much each example counts, (B,) or (M, B); None for one each.
        factor: batches per epoch, by which the sum over this batch stands for the sum over all data; None for N / B.
            It counts batches, whatever their examples weigh, and a batch with weights needs it.
    """

    x: Inputs
    y: Targets
    per_member: bool = False
    weight: Tensor | None = None
    factor: float | None = None

    @property
    def example(self) -> Inputs:
        """Inputs (B, ...) of one member, to look at a forward pass."""
        return self.x[0] if self.per_member else self.x

    @property
    def examples(self) -> int:
        """B."""
        return len(self.example)

    def take(self, members: Tensor | Sequence[int]) -> Batch:
        """The same examples for the members with these numbers; a number may come several times."""
        index = torch.as_tensor(members, device=self.x.device)
        weight = self.weight[index] if self.weight is not None and self.weight.ndim == 2 else self.weight
        if not self.per_member:
            return replace(self, weight=weight)
        return replace(self, x=self.x[index], y=self.y[index], weight=weight)

    def rows(self, start: int, stop: int) -> Batch:
        """Some of the examples, with the factor of the batch: the sums over its parts add up to that over the batch."""
        some: Any = (slice(None), slice(start, stop)) if self.per_member else slice(start, stop)
        weight = None if self.weight is None else self.weight[..., start:stop]
        return Batch(self.x[some], self.y[some], self.per_member, weight, self.factor)

    def repeated(self, times: int) -> Batch:
        """Every example so many times, with the sum over all data that it stands for as before."""
        if times == 1:
            return self
        index = torch.arange(self.examples, device=self.x.device).repeat(times)
        some: Any = (slice(None), index) if self.per_member else index
        weight = None if self.weight is None else self.weight[..., index]
        factor = None if self.factor is None else self.factor / times
        return Batch(self.x[some], self.y[some], self.per_member, weight, factor)

    def parts(self, rows: int) -> Iterator[Batch]:
        """All examples, so many at a time where they can be cut."""
        size = rows_at_once(self.example, rows)
        return (self.rows(start, start + size) for start in range(0, self.examples, size))


@dataclass(frozen=True)
class Target:
    """A model bound to a data size and a temperature: the log density that every method explores.

    All densities are on the scale of the full data: what a batch says is multiplied by the number of batches in an
    epoch, so that every example weighs the same, however the batches are cut.

    Attributes:
        model: with its likelihood chosen.
        size: N, the number of training examples, or their total weight where they have weights. Methods divide what
            they maximize by it, so that a learning rate means the same for any N; it is no part of the density.
        temperature: T; the posterior is tempered to p(w | data)^(1/T).
        plan: how members are computed.
    """

    model: Model
    size: float
    temperature: float = 1.0
    plan: Plan = Plan.TOGETHER

    @property
    def layout(self) -> Layout:
        return self.model.network.layout

    def log_likelihood(self, variables: Variables, batch: Batch) -> Tensor:
        """log p(y_b | x_b, w_m) of each example under each member, (M, B), by the deterministic network."""
        outputs = self.model.network.evaluate(variables, batch.x, self.plan, x_per_member=batch.per_member)
        return self._log_prob(outputs, variables.params, batch)

    def training_log_likelihood(self, variables: Variables, batch: Batch, rng: Stream) -> Tensor:
        """The same, (M, B), with the network in training: dropout by `rng`, batch norm by the batch.

        Buffers of batch norm are updated in place.
        """
        network = self.model.network
        traced = network.trace(variables, batch.example)
        sites = () if traced.repeated else traced.sites  # which drop by themselves, to be repeated
        count = (variables.members, batch.examples)
        masks = draw_masks(sites, rng.child("dropout"), *count, network.dtype, variables.device)
        own = rng.child("own")
        outputs = network.train(variables, batch.x, masks, self.plan, rng=own, x_per_member=batch.per_member)
        return self._log_prob(outputs, variables.params, batch)

    def _log_prob(self, outputs: Tensor, params: Params, batch: Batch) -> Tensor:
        return self.model.likelihood.log_prob(outputs, batch.y, likelihood_params(params))

    def log_prior(self, params: Params) -> Tensor:
        """log p(w) of each member, (M,): the prior of the weights and that of the likelihood's own parameters."""
        weights = {name: params[name] for name in self.layout}
        of_likelihood = self.model.likelihood.log_prior(likelihood_params(params))
        return self.model.prior.log_prob(weights, self.layout) + of_likelihood

    def log_joint(self, variables: Variables, batch: Batch) -> Tensor:
        """(factor sum_b weight_b log p(y_b | x_b, w) + log p(w)) / T of each member, (M,)."""
        data_term = self.data_term(self.log_likelihood(variables, batch), batch)
        return self.temper(data_term + self.log_prior(variables.params))

    def data_term(self, log_prob_each: Tensor, batch: Batch) -> Tensor:
        """factor sum_b weight_b log p_b, (M,): log probabilities of a batch (M, B) on the scale of all data.

        Over the batches of an epoch its average is the sum over all data, also where they differ in size.
        """
        if batch.weight is None:
            return log_prob_each.sum(1) * self.factor(batch)
        # what weighs nothing may be as improbable as it likes: zero times minus infinity is no number
        counted = torch.where(batch.weight > 0, log_prob_each, 0.0)
        return (counted * batch.weight).sum(1) * self.factor(batch)

    def factor(self, batch: Batch) -> float:
        """What the sum over a batch is multiplied by to stand for all data: batches per epoch, or N / B."""
        if batch.factor is not None:
            return batch.factor
        if batch.weight is not None:
            raise ValueError(
                "a batch with weights does not say which part of the data it is: give Batch(..., factor=1.0) for all "
                "of them, or the number of batches in an epoch"
            )
        return self.size / batch.examples

    def temper(self, log_density: Tensor) -> Tensor:
        return log_density if self.temperature == 1.0 else log_density / self.temperature

    def with_plan(self, plan: Plan) -> Target:
        return replace(self, plan=plan)
