"""A torch module as a pure function of its parameters, buffers and masks."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor, nn

from credo.core.inputs import Inputs, few, leaves_of, shape_key
from credo.core.rng import Stream
from credo.core.trees import Layout, ParameterInfo, Params, Variables, map_tensors, members_of
from credo.nets.calling import parameters_of, passing_note
from credo.nets.checkpointing import refuse_changes
from credo.nets.dense import DenseStack, dense_stack
from credo.nets.dropout import DropoutChange, Drops, Site, weight_sites
from credo.nets.forward import Around, Forward, Lend, awake, one_by_one, together, undropped, untouched
from credo.nets.heads import HeadsRule
from credo.nets.hidden_noise import lend_to_members
from credo.nets.layer import LayerUse
from credo.nets.outputs import OutputRule
from credo.nets.plan import Plan, drawing_plan
from credo.nets.random_calls import DropoutCall, Masked
from credo.nets.scaling import InputScaling
from credo.nets.structure import aliases, fan_in, made, private_copy, quiet, reinitialized, skeleton
from credo.nets.tracing import Recent, Trace, trace
from credo.nets.trainable import check_gradient, explained

Net = nn.Module | Callable[[], nn.Module]


class Network:
    """A private, functional copy of a module. The caller's module is never modified, nor its train/eval flag.

    Args:
        net: a module that takes a tensor, or several, and returns a tensor, or a function without arguments that makes
            one. A function is called once per member, so that a module's own initialization is respected.
        dropout: None leaves dropout as the module has it.
        scaling: standardizes inputs before the module sees them; None gives them to it as they come.
    """

    def __init__(self, net: Net, dropout: DropoutChange | None = None, scaling: InputScaling | None = None) -> None:
        self._make = None if isinstance(net, nn.Module) else net
        self.noise_off = False
        self.dropout, self.scaling = dropout, scaling
        self.output_rule: OutputRule | HeadsRule = OutputRule()
        with Stream(0, ("structure",)).borrowed_global():
            given = made(net)
            self.module = private_copy(given)
        self.hooked = tuple(name for name, p in given.named_parameters() if p._backward_hooks)
        self._aliases = aliases(self.module)
        places = [] if dropout is None else dropout.layer_names(self.module)
        connections = dropout is not None and dropout.drops is Drops.WEIGHTS
        weights = [f"{layer}.weight" if layer else "weight" for layer in places] if connections else []
        self.dropped_weights = tuple(self._aliases.get(name, name) for name in weights)
        self._dense = dense_stack(self.module, before=() if connections else places)
        buffers = [name for name, _ in self.module.named_buffers()]
        inserted = None if connections else dropout
        parameters = parameters_of(self.module)
        self._training = Forward(skeleton(self.module, inserted).train(), self._aliases, parameters, carried=buffers)
        self._evaluating = Forward(skeleton(self.module, inserted).eval(), self._aliases, parameters)
        self._traces, self._vectorizes = Recent[Trace](), Recent[bool]()
        self._awake = Recent[Forward]()
        self._first: Trace | None = None
        self.layer_uses: tuple[LayerUse, ...] = ()  # what its layers do with some parameters, once they were watched
        self.frozen = tuple(name for name, p in self.module.named_parameters() if not p.requires_grad)
        self.layout: Layout = {
            name: ParameterInfo(tuple(p.shape), fan_in(self.module, name))
            for name, p in self.module.named_parameters()
            if p.requires_grad
        }
        if not self.layout:
            raise ValueError("the network has no parameter that requires a gradient: there is nothing to infer")

    def with_dropout(self, change: DropoutChange) -> Network:
        """The same network with other dropout."""
        twin = Network(self._make or self.module, dropout=change, scaling=self.scaling)
        twin = twin.with_outputs(self.output_rule)
        twin.hooked = self.hooked
        return twin.without_noise() if self.noise_off else twin

    def with_outputs(self, rule: OutputRule | HeadsRule) -> Network:
        """The same network, of which another tensor is the output, or several are."""
        if rule == self.output_rule:
            return self
        result = copy.copy(self)  # the module and its copies are shared: nobody changes them
        result.output_rule = rule
        result._training, result._evaluating = (replace(f, rule=rule) for f in (self._training, self._evaluating))
        # a function, or several heads, change what a tensor is
        result._dense = None if callable(rule.path) or isinstance(rule, HeadsRule) else self._dense
        result._traces, result._vectorizes, result._first = Recent[Trace](), Recent[bool](), None
        return result

    def with_scaling(self, scaling: InputScaling | None) -> Network:
        """The same network, which standardizes its inputs first."""
        twin = copy.copy(self)
        twin.scaling, twin._first = scaling, None
        twin._traces, twin._vectorizes = Recent[Trace](), Recent[bool]()
        return twin

    def with_layer_uses(self, uses: tuple[LayerUse, ...]) -> Network:
        """The same network, of which it is known what its layers do with some parameters."""
        twin = copy.copy(self)
        twin.layer_uses = uses
        return twin

    def without_noise(self) -> Network:
        """The same network whose training is evaluation, but for batch norm, which still goes by the batch."""
        twin = copy.copy(self)
        twin.noise_off, twin._training, twin._first = (
            True,
            replace(self._training, skeleton=quiet(self._evaluating.skeleton)),
            None,
        )
        twin._traces, twin._vectorizes = Recent[Trace](), Recent[bool]()
        return twin

    @cached_property
    def dtype(self) -> torch.dtype:
        return self.module.get_parameter(next(iter(self.layout))).dtype

    @property
    def input_dtype(self) -> torch.dtype:
        """The precision of real inputs: its own, or float64 where that alone shows how they differ."""
        return self.dtype if self.scaling is None or self.scaling.held_by(self.dtype) else torch.float64

    def scaled(self, x: Inputs) -> Inputs:
        """Inputs as the module sees them, real numbers in its precision."""
        if self.scaling is not None:
            return self.scaling(x, self.dtype)
        if isinstance(x, Tensor):
            return x.to(self.dtype) if x.is_floating_point() else x
        real = (t.dtype for t in leaves_of(x).values() if t.is_floating_point())
        if all(dtype is self.dtype for dtype in real):
            return x
        return map_tensors(lambda _, t: t.to(self.dtype) if t.is_floating_point() else t, x)

    def given(self) -> Variables:
        """The module's own weights, as one member."""
        return self._variables(self.module)

    def initial(self, members: int, stream: Stream) -> Variables:
        """Fresh weights for each member, by the module's own initializers."""
        fresh = []
        for member in range(members):
            with stream.child("member", member).borrowed_global():
                module = made(self._make).to("cpu") if self._make else reinitialized(self.module)
                fresh.append(self._variables(module))
        return Variables.stack(fresh)

    def module_weights(self, members: int, stream: Stream) -> Variables:
        """The module's own weights for each member; a function that makes modules is called for each."""
        return self.initial(members, stream) if self._make else self.given().repeat(members)

    @cached_property
    def undrawn(self) -> tuple[str, ...]:
        """Random parameters that no initializer of a layer reaches, so that `initial` gives every member the same.

        None for a network that a function makes.
        """
        if self._make:
            return ()
        with Stream(0, ("undrawn",)).borrowed_global():
            fresh = dict(reinitialized(self.module).named_parameters())
        given = {name: self.module.get_parameter(name).detach() for name in self.layout}
        return tuple(n for n, p in given.items() if bool((p != p.flatten()[:1]).any()) and torch.equal(p, fresh[n]))

    def _variables(self, module: nn.Module) -> Variables:
        tensors = {name: p.detach().clone().unsqueeze(0) for name, p in module.named_parameters()}
        buffers = {name: b.detach().clone().unsqueeze(0) for name, b in module.named_buffers()}
        frozen = {name: tensors[name] for name in self.frozen}
        return Variables({name: tensors[name] for name in self.layout}, {**buffers, **frozen})

    def trace(self, variables: Variables, x: Inputs) -> Trace:
        """Where the network drops, its layers, what it returns and what it changes, for inputs like x (B, ...)."""

        def make() -> Trace:
            with torch.inference_mode(False), torch.no_grad():  # inference tensors do not say whether they were changed
                params = {name: variables.params[name][0] for name in self.layout}
                buffers = {name: t[0] for name, t in variables.buffers.items()}
                first = self._first is None
                seen = trace(self._training, self._evaluating, params, buffers, self.scaled(few(x, 3)), twice=first)
            return replace(seen, sites=self._settled(seen.sites))

        found = self._traces.get(shape_key(x), make)
        self._first = self._first or found
        return found

    @property
    def sites(self) -> tuple[Site, ...]:
        """Where the network drops, as its first trace shows."""
        if self._first is None:
            raise ValueError("the network was not traced yet: call trace(variables, x) first")
        return self._first.sites

    def _settled(self, found: tuple[Site, ...]) -> tuple[Site, ...]:
        """The sites with the rates that are meant; those of weights come first, and leave the others as they are."""
        if self.dropout is None:
            return found
        shapes = {name: tuple(self.module.get_parameter(name).shape) for name in self.dropped_weights}
        meant = weight_sites(shapes) or found
        settled = tuple(replace(site, rate=self.dropout.rate_at(site)) for site in meant)
        return settled if meant is found else settled + found

    def differentiable(self, variables: Variables, x: Inputs) -> bool:
        """Whether outputs have gradients by the weights, for inputs like x (B, ...), tried with a few examples."""
        leaves = {name: variables.params[name][:1].detach().requires_grad_() for name in self.layout}
        buffers = {name: b[:1].clone() for name, b in variables.buffers.items()}
        with torch.enable_grad():
            outputs = self.evaluate(Variables(leaves, buffers), few(x, 2), Plan.ONE_BY_ONE)
        if outputs.requires_grad:
            check_gradient(outputs, leaves)
        return outputs.requires_grad

    def vectorizes(self, variables: Variables, x: Inputs) -> bool:
        """Whether torch can compute several members at once for inputs like x (B, ...), tried once with a few examples.

        It cannot where the forward pass looks at values: `if float(h.mean()) > 0`, `h.numpy()`.
        """
        if self._stack(x, self.trace(variables, x)):
            return True

        def attempt() -> bool:
            two = variables.take([0, 0])
            try:
                with torch.no_grad(), warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    self.evaluate(two, few(x, 2), Plan.TOGETHER)
            except RuntimeError:  # if it is not about values, one by one meets it again
                return False
            return not any("batching rule" in str(each.message) for each in said)  # torch would loop by itself

        return self._vectorizes.get(shape_key(x), attempt)

    def drawing_plan(self, variables: Variables, x: Inputs, count: int) -> Plan:
        """The plan for a forward pass of so many members or draws, without a measurement."""
        plan = drawing_plan(self.module, count, x.device.type == "cpu")
        return plan if plan is Plan.ONE_BY_ONE or self.vectorizes(variables, x) else Plan.ONE_BY_ONE

    def dense(self, variables: Variables, x: Inputs) -> DenseStack | None:
        """The network as a plain stack of dense layers for inputs like x (B, ...); None if it is more than that."""
        seen = self.trace(variables, x)
        return None if self.dropped_weights or seen.sites else self._stack(x, seen)

    def _stack(self, x: Inputs, seen: Trace, *, x_per_member: bool = False) -> DenseStack | None:
        if self._dense is None or not isinstance(x, Tensor) or seen.writes_input:
            return None
        return self._dense if self._dense.takes(x.ndim - x_per_member) else None

    def passing_note(self, x: Inputs) -> tuple[str, ...]:
        """A sentence about how the network is called on inputs like x, where that is not obvious."""
        return passing_note(self._training.parameters, x)

    def evaluate(
        self, variables: Variables, x: Inputs, plan: Plan = Plan.TOGETHER, *, x_per_member: bool = False
    ) -> Tensor:
        """Deterministic outputs (M, B, ...) of inputs (B, ...), or (M, B, ...) per member: dropout off, norms fixed."""
        seen = self.trace(variables, x[0] if x_per_member else x)
        around = undropped if seen.drops_in_evaluation else None
        forward = _adapted(self._evaluating, seen, around, seen.written)
        stack = self._stack(x, seen, x_per_member=x_per_member)
        return self._run(forward, stack, variables, self.scaled(x), (), plan, x_per_member=x_per_member)

    def inside(self, variables: Variables, x: Inputs, around: Around) -> Tensor:
        """Outputs (B, ...) of one member in evaluation, computed in a context that is made from its tensors."""
        forward = _adapted(self._evaluating, seen := self.trace(variables, x), around, seen.written)
        tensors = {**{name: variables.params[name] for name in self.layout}, **variables.buffers}
        with untouched(x):
            return forward({name: t.squeeze(0) for name, t in tensors.items()}, self.scaled(x))

    def train(
        self,
        variables: Variables,
        x: Inputs,
        masks: Sequence[Tensor],
        plan: Plan = Plan.TOGETHER,
        *,
        rng: Stream | None = None,
        x_per_member: bool = False,
        around: Around | None = None,
    ) -> Tensor:
        """Outputs as in training, (M, B, ...): with these masks, batch norm by the batch. Buffers change in place.

        `rng` is for noise that the module draws by itself, each member from a child of its own; such members, and those
        of a network with gradient checkpointing, go one by one. `around` may replace the context that gives the masks
        to the dropout layers (None) by one that does more.
        """
        seen = self.trace(variables, x[0] if x_per_member else x)
        masked = len(masks) > len(self.dropped_weights)
        if seen.repeated:
            refuse_changes(changed=masked or around is not None or self.dropout is not None)
        masking = self._masking(seen, seen.training) if masked else None
        forward = _adapted(self._training, seen, around or masking, seen.assigned)
        stack = None if around else self._stack(x, seen, x_per_member=x_per_member)
        lend = None if seen.alone is None else lend_to_members(rng, variables.device)
        plan = plan if seen.alone is None else Plan.ONE_BY_ONE
        given = (forward, stack, variables, self.scaled(x), masks, plan)
        with explained():
            return self._run(*given, x_per_member=x_per_member, lend=lend)

    def draw(
        self,
        variables: Variables,
        x: Inputs,
        masks: Sequence[Tensor],
        plan: Plan = Plan.TOGETHER,
        *,
        at_once: int | None = None,
    ) -> Tensor:
        """Outputs of drawn functions, (S, B, ...): the network in evaluation, but with these masks.

        With one member and S masks, the weights are shared by all draws; `at_once` of them are computed together, and
        what a dense stack does before the first mask is computed once for all of them.
        """
        if not masks:
            return self.evaluate(variables, x, plan)
        seen = self.trace(variables, x)
        seen.check_reached()
        masking = self._masking(seen, seen.drawing) if len(masks) > len(self.dropped_weights) else undropped
        forward = _adapted(self._drawing(seen), seen, masking, seen.written)
        stack, x = self._stack(x, seen), self.scaled(x)
        if at_once is None or variables.members > 1:
            return self._run(forward, stack, variables, x, masks, plan)
        if stack and isinstance(x, Tensor) and not self.dropped_weights:
            return stack.drawn({**variables.params, **variables.buffers}, x, masks, at_once)
        size = at_once if plan is Plan.TOGETHER else len(masks[0])
        parts = zip(*(torch.split(mask, size) for mask in masks), strict=True)
        return torch.cat([self._run(forward, stack, variables, x, part, plan) for part in parts])

    def _drawing(self, seen: Trace) -> Forward:
        """The pass of a drawn function: evaluation, but for modules that drop in training only."""
        if not seen.awake:
            return self._evaluating
        return self._awake.get((seen.awake, self._evaluating.rule), lambda: awake(self._evaluating, seen.awake))

    def masked(self, variables: Variables, x: Inputs, masks: Sequence[Tensor]) -> Masked:
        """The context in which one member's pass in training, on inputs like x, meets these masks.

        For an `around` of `train` that does more than give masks.
        """
        seen = self.trace(variables, x)
        return Masked(masks, self._rates(seen), seen.training)

    def _masking(self, seen: Trace, calls: Sequence[DropoutCall]) -> Around:
        rates = self._rates(seen)
        return lambda params, masks: Masked(masks, rates, calls)

    def _rates(self, seen: Trace) -> list[float]:
        """Of the sites of units."""
        return [site.rate for site in seen.sites[len(self.dropped_weights) :]]

    def _run(
        self,
        forward: Forward,
        stack: DenseStack | None,
        variables: Variables,
        x: Inputs,
        masks: Sequence[Tensor],
        plan: Plan,
        *,
        x_per_member: bool = False,
        lend: Lend | None = None,
    ) -> Tensor:
        """Outputs (M, B, ...) of all members or draws, by the strategy that fits."""
        tensors = {**{name: variables.params[name] for name in self.layout}, **variables.buffers}
        if self.dropped_weights and masks:
            tensors, masks = self._with_dropped_weights(tensors, masks)
        members = members_of(tensors)
        count = max(members, len(masks[0]) if masks else 1)
        if stack is not None and isinstance(x, Tensor) and count == 1:
            return stack.one(tensors, x[0] if x_per_member else x, [mask[0] for mask in masks])
        if stack is not None and isinstance(x, Tensor) and plan is Plan.TOGETHER:
            return stack(tensors, x, masks, x_per_member=x_per_member, shared=members < count)
        given = (forward, tensors, x, masks, count)
        with untouched(x):
            if count == 1 or plan is Plan.ONE_BY_ONE or (forward.repeated and torch.is_grad_enabled()):
                return one_by_one(*given, x_per_member=x_per_member, lend=lend)
            return together(*given, x_per_member=x_per_member)

    def _with_dropped_weights(self, tensors: Params, masks: Sequence[Tensor]) -> tuple[Params, Sequence[Tensor]]:
        """One weight for each mask, and the masks that are left."""
        count, draws = len(self.dropped_weights), len(masks[0])
        dropped = {name: tensors[name] * mask for name, mask in zip(self.dropped_weights, masks, strict=False)}
        return {**{name: t.expand(draws, *t.shape[1:]) for name, t in tensors.items()}, **dropped}, masks[count:]


def _adapted(forward: Forward, seen: Trace, around: Around | None, copied: frozenset[str]) -> Forward:
    """The pass with what tracing has shown to be needed."""
    return replace(
        forward,
        around=around,
        copied=copied,
        attributes=seen.attributes,
        copies_input=seen.writes_input,
        repeated=seen.repeated,
    )
