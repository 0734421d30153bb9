"""A torch module as a pure function of its parameters, buffers and masks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from credo.core.rng import Stream
from credo.core.trees import Layout, ParameterInfo, Params, Variables
from credo.nets.dense import DenseStack, dense_stack
from credo.nets.dropout import DropoutChange, Drops, Masked, Site, Undropped, put_in
from credo.nets.fan_in import fan_in
from credo.nets.fed import Fed
from credo.nets.plan import Plan, drawing_plan
from credo.nets.threads import own_copy
from credo.nets.tracing import Trace, trace

Net = nn.Module | Callable[[], nn.Module]

Around = Callable[[Params, Sequence[Tensor]], AbstractContextManager[Any]]
"""Makes the context that one member's forward pass runs in, from that member's parameters and masks."""


class Network:
    """A private, functional copy of a module. The caller's module is never modified, nor its train/eval flag.

    Args:
        net: a module that takes a tensor and returns a tensor, or a function without arguments that makes one. A
            function is called once per member, so that a module's own initialisation is respected.
        dropout: None leaves dropout as the module has it.
    """

    def __init__(self, net: Net, dropout: DropoutChange | None = None) -> None:
        self._make = None if isinstance(net, nn.Module) else net
        self.dropout = dropout
        with Stream(0, ("structure",)).borrowed_global():
            self.module = _private_copy(_made(net))
        self._aliases = _aliases(self.module)
        places = [] if dropout is None else dropout.places(self.module)
        connections = dropout is not None and dropout.drops is Drops.WEIGHTS
        self.dropped_weights = tuple(self._weight_of(name) for name in places) if connections else ()
        self._dense = dense_stack(self.module, before=() if connections else places)
        self._skeletons = {
            "evaluating": self._skeleton().eval(),
            "training": self._skeleton().train(),
            "drawing": _freeze_statistics(self._skeleton().train()),
        }
        self._traces: dict[tuple[Any, ...], Trace] = {}
        self._vectorises: dict[tuple[Any, ...], bool] = {}
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
        return Network(self._make or self.module, dropout=change)

    @property
    def dtype(self) -> torch.dtype:
        return self.module.get_parameter(next(iter(self.layout))).dtype

    def given(self) -> Variables:
        """The module's own weights, as one member."""
        return self._variables(self.module)

    def initial(self, members: int, stream: Stream) -> Variables:
        """Fresh weights for each member, by the module's own initialisers."""
        fresh = []
        for member in range(members):
            with stream.child("member", member).borrowed_global():
                module = _made(self._make).to("cpu") if self._make else _reinitialised(self.module)
                fresh.append(self._variables(module))
        return Variables.stack(fresh)

    @cached_property
    def undrawn(self) -> tuple[str, ...]:
        """Random parameters that no initialiser of a layer reaches, so that `initial` gives every member the same.

        None for a network that a function makes.
        """
        if self._make:
            return ()
        with Stream(0, ("undrawn",)).borrowed_global():
            fresh = dict(_reinitialised(self.module).named_parameters())
        given = {name: self.module.get_parameter(name).detach() for name in self.layout}
        return tuple(n for n, p in given.items() if bool((p != p.flatten()[:1]).any()) and torch.equal(p, fresh[n]))

    def _variables(self, module: nn.Module) -> Variables:
        tensors = {name: p.detach().clone().unsqueeze(0) for name, p in module.named_parameters()}
        buffers = {name: b.detach().clone().unsqueeze(0) for name, b in module.named_buffers()}
        frozen = {name: tensors[name] for name in self.frozen}
        return Variables({name: tensors[name] for name in self.layout}, {**buffers, **frozen})

    def _skeleton(self) -> nn.Module:
        """A copy with the structure and no values: those come with every call."""
        module = copy.deepcopy(self.module).to("meta")
        if self.dropout is not None and self.dropout.drops is not Drops.WEIGHTS:
            put_in(module, self.dropout)
        return module

    def _weight_of(self, layer: str) -> str:
        name = f"{layer}.weight" if layer else "weight"
        return self._aliases.get(name, name)

    def trace(self, variables: Variables, x: Tensor) -> Trace:
        """Where the network drops, what it returns and how much memory it takes, for inputs like x (B, ...)."""
        key = (tuple(x.shape[1:]), x.dtype)
        if key not in self._traces:
            lane = {name: t[0] for name, t in variables.params.items() if name in self.layout}
            index = torch.arange(3, device=x.device) % len(x)
            few = x[index]

            def forward(examples: int) -> Tensor:
                kept = {name: t[0].clone() for name, t in variables.buffers.items()}
                return self._call(self._as("drawing"), {**lane, **kept}, few[:examples], (), None)

            with torch.no_grad():
                seen = trace(self._as("drawing"), {id(t): name for name, t in lane.items()}, forward)
            self._traces[key] = replace(seen, sites=self._settled(seen.sites))
        return self._traces[key]

    @property
    def sites(self) -> tuple[Site, ...]:
        """Where the network drops, as the first look at it showed."""
        if not self._traces:
            raise ValueError("nobody has looked at the network yet: call trace(variables, x) first")
        return next(iter(self._traces.values())).sites

    def _settled(self, own: tuple[Site, ...]) -> tuple[Site, ...]:
        """The sites with the rates that are meant; those of weights come first, and leave the others as they are."""
        if self.dropout is None:
            return own
        meant = self._weight_sites() or own
        settled = tuple(replace(site, rate=self.dropout.rate_at(site)) for site in meant)
        return settled if meant is own else settled + own

    def _weight_sites(self) -> tuple[Site, ...]:
        """The weights of which entries are dropped: masks of their own shape, the same for all examples."""
        shapes = {name: tuple(self.module.get_parameter(name).shape) for name in self.dropped_weights}
        return tuple(
            Site(shape, None, 0, 0.0, False, name.rpartition(".")[0], Fed(name, shape[1], shape[0], 1, len(shape) - 2))
            for name, shape in shapes.items()
        )

    def differentiable(self, variables: Variables, x: Tensor) -> bool:
        """Whether outputs have slopes by the weights, for inputs like x (B, ...), tried with a few examples."""
        leaves = {name: variables.params[name][:1].detach().requires_grad_() for name in self.layout}
        buffers = {name: b[:1].clone() for name, b in variables.buffers.items()}
        with torch.enable_grad():
            few = x[torch.arange(2, device=x.device) % len(x)]
            return self.evaluate(Variables(leaves, buffers), few, Plan.ONE_BY_ONE).requires_grad

    def vectorises(self, variables: Variables, x: Tensor) -> bool:
        """Whether torch can compute several members at once for inputs like x (B, ...), tried once with a few examples.

        It cannot where the forward pass looks at values: `if float(h.mean()) > 0`, `h.numpy()`.
        """
        if self._dense and self._dense.takes(x.ndim):
            return True
        key = (tuple(x.shape[1:]), x.dtype)
        if key not in self._vectorises:
            two = variables.take([0, 0])
            try:
                with torch.no_grad():
                    self.evaluate(two, x[torch.arange(2, device=x.device) % len(x)], Plan.TOGETHER)
            except RuntimeError:  # if it is not about values, one by one meets it again
                self._vectorises[key] = False
            else:
                self._vectorises[key] = True
        return self._vectorises[key]

    def drawing_plan(self, variables: Variables, x: Tensor, lanes: int) -> Plan:
        """The plan for a forward pass of so many members or draws, without a measurement."""
        plan = drawing_plan(self.module, lanes, x.device.type == "cpu")
        return plan if plan is Plan.ONE_BY_ONE or self.vectorises(variables, x) else Plan.ONE_BY_ONE

    def evaluate(self, variables: Variables, x: Tensor, plan: Plan = Plan.TOGETHER, *, own_x: bool = False) -> Tensor:
        """Deterministic outputs, (M, B, ...): dropout off, batch norm by its running statistics.

        Args:
            variables: parameters and buffers, (M, *shape) each.
            x: inputs (B, ...), the same for all members.
            plan: members together or one by one.
            own_x: x is (M, B, ...), each member its own inputs.
        """
        if not self.trace(variables, x[0] if own_x else x).sites:
            return self._run(self._as("evaluating"), variables, x, plan, (), own_x=own_x)
        with Undropped():
            return self._run(self._as("evaluating"), variables, x, plan, (), own_x=own_x)

    def train(
        self,
        variables: Variables,
        x: Tensor,
        masks: Sequence[Tensor],
        plan: Plan = Plan.TOGETHER,
        *,
        own_x: bool = False,
        around: Around | None = None,
    ) -> Tensor:
        """Outputs as in training, (M, B, ...): with these masks, batch norm by the batch. Buffers change in place.

        `around` may replace the context that gives the masks to the dropout layers (None) by one that does more.
        """
        return self._run(self._as("training"), variables, x, plan, masks, own_x=own_x, around=around)

    def dense(self, variables: Variables, x: Tensor) -> DenseStack | None:
        """The network as a plain stack of dense layers for inputs like x (B, ...); None if it is more than that."""
        plain = self._dense is not None and self._dense.takes(x.ndim) and not self.dropped_weights
        return self._dense if plain and not self.trace(variables, x).sites else None

    def draw(
        self,
        variables: Variables,
        x: Tensor,
        masks: Sequence[Tensor],
        plan: Plan = Plan.TOGETHER,
        *,
        at_once: int | None = None,
    ) -> Tensor:
        """Outputs of drawn functions, (S, B, ...): with these masks, batch norm by its running statistics.

        With one member and S masks, the weights are shared by all draws.

        Args:
            variables: parameters and buffers, (S or 1, *shape) each.
            x: inputs (B, ...).
            masks: (S, *mask shape) for each site.
            plan: draws together or one by one.
            at_once: how many draws may be computed together where weights are shared; None for all of them. What a
                dense stack does before the first mask is then computed once for all draws.
        """
        if at_once is None or not masks or variables.members > 1:
            return self._run(self._as("drawing"), variables, x, plan, masks)
        if self._dense and self._dense.takes(x.ndim) and not self.dropped_weights:
            return self._dense.drawn({**variables.params, **variables.buffers}, x, masks, at_once)
        parts = zip(
            *(torch.split(mask, at_once if plan is Plan.TOGETHER else len(mask)) for mask in masks), strict=True
        )
        return torch.cat([self._run(self._as("drawing"), variables, x, plan, part) for part in parts])

    def _run(
        self,
        module: nn.Module,
        variables: Variables,
        x: Tensor,
        plan: Plan,
        masks: Sequence[Tensor],
        *,
        own_x: bool = False,
        around: Around | None = None,
    ) -> Tensor:
        params = {name: variables.params[name] for name in self.layout}
        if self.dropped_weights and masks:
            params, masks = self._with_dropped_weights(params, masks)
            variables = Variables(params, _as_many(variables.buffers, len(next(iter(params.values())))))
        context = around or (self._masking(variables, x[0] if own_x else x) if masks else None)
        lanes = max(variables.members, len(masks[0]) if masks else 1)
        shared = variables.members == 1 and lanes > 1
        dense = self._dense if around is None and self._dense and self._dense.takes(x.ndim - own_x) else None
        if dense is not None and lanes == 1:
            masks, x = [mask[0] for mask in masks], x[0] if own_x else x
            return dense({**params, **variables.buffers}, x, masks, own_x=False, shared=True).unsqueeze(0)
        if lanes == 1 or plan is Plan.ONE_BY_ONE:
            columns = {name: _rows(t) for name, t in (*params.items(), *variables.buffers.items())}
            trees = [{name: column[i] for name, column in columns.items()} for i in range(variables.members)]
            noise = [_rows(m) for m in masks]
            outputs = [
                self._call(module, trees[0 if shared else i], x[i] if own_x else x, [m[i] for m in noise], context)
                for i in range(lanes)
            ]
            return torch.stack(outputs) if lanes > 1 else outputs[0].unsqueeze(0)
        if dense is not None:
            return dense({**params, **variables.buffers}, x, masks, own_x=own_x, shared=shared)
        names = [*params, *variables.buffers]
        tensors = [*params.values(), *variables.buffers.values()]

        def one_lane(*flat: Tensor) -> Tensor:
            named = dict(zip(names, flat[: len(names)], strict=True))
            return self._call(module, named, flat[-1], flat[len(names) : -1], context)

        if shared:
            tensors = [t[0] for t in tensors]
        axes = (*([None if shared else 0] * len(names)), *([0] * len(masks)), 0 if own_x else None)
        return torch.func.vmap(one_lane, in_dims=axes)(*tensors, *masks, x)

    def _with_dropped_weights(self, params: Params, masks: Sequence[Tensor]) -> tuple[Params, Sequence[Tensor]]:
        count, lanes = len(self.dropped_weights), len(masks[0])
        dropped = {name: params[name] * mask for name, mask in zip(self.dropped_weights, masks, strict=False)}
        return {**_as_many(params, lanes), **dropped}, masks[count:]

    def _as(self, mode: str) -> nn.Module:
        """The module without weights, as it evaluates, trains or draws; no other thread has the same."""
        return own_copy(self._skeletons[mode])

    def _call(
        self, module: nn.Module, tensors: Params, x: Tensor, masks: Sequence[Tensor], around: Around | None
    ) -> Tensor:
        # torch's own handling of ties leaves tensors behind where a module with a tied weight has two names
        named = {**tensors, **{alias: tensors[name] for alias, name in self._aliases.items()}}
        if around is None:
            return functional_call(module, named, (x,), tie_weights=False)
        with around(tensors, masks):
            return functional_call(module, named, (x,), tie_weights=False)

    def _masking(self, variables: Variables, x: Tensor) -> Around:
        if self.dropout is None:
            return lambda params, masks: Masked(masks)
        rates = [site.rate for site in self.trace(variables, x).sites[len(self.dropped_weights) :]]
        return lambda params, masks: Masked(masks, rates)


def _as_many(tree: Params, lanes: int) -> Params:
    """One member as so many views of it."""
    return {name: t.expand(lanes, *t.shape[1:]) for name, t in tree.items()}


def _rows(t: Tensor) -> Sequence[Tensor]:
    """t[0], t[1], ...: views whose gradient costs one pass for all of them, and none where there is but one."""
    return (t.squeeze(0),) if len(t) == 1 else t.unbind(0)


def _made(net: Net) -> nn.Module:
    module = net if isinstance(net, nn.Module) or not callable(net) else net()
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"the network is of type {type(module).__name__}: give a torch module, or a function without arguments "
            "that makes one"
        )
    return module


def _private_copy(module: nn.Module) -> nn.Module:
    if any(nn.parameter.is_lazy(p) for p in module.parameters()):
        raise ValueError(
            "the network has lazy layers with no shape yet: call it once on an input, then give it to Model"
        )
    for layer in module.modules():
        if isinstance(layer, nn.RNNBase) and layer.dropout:
            raise ValueError(
                f"{type(layer).__name__}(dropout={layer.dropout}) drops inside its kernel, where credo cannot give it "
                "a seed: set it to 0 and put nn.Dropout between two recurrent layers"
            )
    try:
        return copy.deepcopy(module).to("cpu")
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"the network cannot be copied ({error}): give Model a function that makes it") from None


def _reinitialised(module: nn.Module) -> nn.Module:
    """A copy whose layers have drawn new weights; frozen parameters keep their values."""
    fresh = copy.deepcopy(module)

    def reset(layer: nn.Module) -> None:
        initialise = getattr(layer, "reset_parameters", None) or getattr(layer, "_reset_parameters", None)
        if callable(initialise) and any(p.requires_grad for p in layer.parameters(recurse=False)):
            initialise()

    fresh.apply(reset)
    with torch.no_grad():
        for (_, old), (_, new) in zip(module.named_parameters(), fresh.named_parameters(), strict=True):
            if not old.requires_grad:
                new.copy_(old)
    return fresh


def _aliases(module: nn.Module) -> dict[str, str]:
    """Other names of tied tensors, and the name that `named_parameters` gives them."""
    first: dict[int, str] = {}
    names: dict[str, str] = {}
    for path, part in module.named_modules():
        for leaf, tensor in chain(part._parameters.items(), part._buffers.items()):
            name = f"{path}.{leaf}" if path else leaf
            if tensor is not None and first.setdefault(id(tensor), name) != name:
                names[name] = first[id(tensor)]
    return names


def _freeze_statistics(module: nn.Module) -> nn.Module:
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase):
            layer.eval()
    return module
