"""The structure of a module: a private copy, fresh weights, names of tied tensors, and inputs per weight."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from itertools import chain

import torch
from torch import Tensor, nn

from credo.core.trees import Params
from credo.nets.checkpointing import without_reentrant
from credo.nets.dropout import DropoutChange, insert_dropout

_NOT_SUMMED = (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.RMSNorm)
"""Layers whose weight picks or rescales, and sums over nothing."""
_WEIGHTS = ("weight", "in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
"""How the names of weights begin, in the layers of torch that multiply by them."""
_COMPUTED_FROM = ("_g", "_orig")
"""How torch's hooks call the parameters that they compute a weight from."""
COMPILED = "_orig_mod"
"""How torch.compile calls the module that it has compiled."""
SIZE_RATIO = 1.5
"""Between two typical sizes of a parameter, from which on they are told apart."""
FEWEST_ENTRIES = 100
"""Entries of a parameter that show its size: the ratio of two samples of 100 normal numbers is off by 10 %."""
NAMED = 5
"""Parameters that a note names."""


def made(net: object) -> nn.Module:
    """The module, or what a function without arguments makes."""
    module = net if isinstance(net, nn.Module) or not callable(net) else _called(net)
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"the network is of type {type(module).__name__}: give a torch module, or a function without arguments "
            "that makes one"
        )
    return module


def _called(make: Callable[[], object]) -> object:
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise TypeError(
            f"the network is a function or class that needs arguments ({error}): give a torch module, or a function "
            "without arguments that makes one, such as lambda: Net(...)"
        ) from None
    except ValueError:  # some built-in ones do not say what they take
        pass
    return make()


def _uncompiled(module: nn.Module) -> nn.Module:
    """The module as it was before `torch.compile`, which guards against other weights than its own."""
    for part in list(module.modules()):
        for name, child in part.named_children():
            if COMPILED in child._modules:
                setattr(part, name, child._modules[COMPILED])
    original = module._modules.get(COMPILED)
    return module if original is None else original


def private_copy(module: nn.Module) -> nn.Module:
    """A copy on the CPU, or a sentence that says why there is none."""
    if any(nn.parameter.is_lazy(p) for p in module.parameters()):
        raise ValueError(
            "the network has lazy layers with no shape yet: call it once on an input, then give it to Model"
        )
    for layer in module.modules():
        _check_layer(layer)
    _check_numbers({name: p for name, p in module.named_parameters() if p.requires_grad})
    try:
        copied = copy.deepcopy(module, _computed_weights(module)).to("cpu")
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"the network cannot be copied ({error}): give Model a function that makes it") from None
    copied = _uncompiled(copied)
    without_reentrant(copied)
    for layer in copied.modules():
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
            layer.sparse = False  # a prior has a gradient by all weights
    return copied


def _check_layer(layer: nn.Module) -> None:
    """Refuse what computes with no other weights than its own."""
    if isinstance(layer, torch.jit.ScriptModule):
        raise ValueError(
            "the network has a part that torch.jit has compiled, which takes no other weights than its own: give "
            "the module as it was before torch.jit.script or torch.jit.trace"
        )
    if isinstance(layer, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise ValueError(
            f"the network is wrapped in {type(layer).__name__}, which spreads a module's own weights over devices: "
            "give the module inside, net.module"
        )


def _check_numbers(inferred: Params) -> None:
    """Refuse parameters that priors and methods have no density for."""
    for name, parameter in inferred.items():
        if parameter.is_complex():
            raise ValueError(
                f"the parameter {name!r} is complex, and priors and methods are for real numbers: keep it as a real "
                "parameter with its real and imaginary parts along a last axis of 2, and join them by torch.complex "
                "in forward()"
            )
    kinds = {parameter.dtype: name for name, parameter in inferred.items()}
    if len(kinds) > 1:
        listed = ", ".join(f"{name!r} is {str(dtype).removeprefix('torch.')}" for dtype, name in kinds.items())
        raise ValueError(
            f"the network's parameters are of several precisions ({listed}): bring them to one, as in net.float(); "
            "frozen ones may differ"
        )


def _computed_weights(module: nn.Module) -> dict[int, Tensor]:
    """Copies of the weights that hooks of torch's weight norm and pruning compute anew in every pass, by identity."""
    return {
        id(value): value.detach().clone()
        for part in module.modules()
        for name, value in vars(part).items()
        if isinstance(value, Tensor) and any(f"{name}{kind}" in part._parameters for kind in _COMPUTED_FROM)
    }


def reinitialized(module: nn.Module) -> nn.Module:
    """A copy whose layers have drawn new weights; frozen parameters keep their values."""
    fresh = copy.deepcopy(module)

    def reset(layer: nn.Module) -> None:
        initialize = getattr(layer, "reset_parameters", None) or getattr(layer, "_reset_parameters", None)
        if callable(initialize) and any(p.requires_grad for p in layer.parameters(recurse=False)):
            initialize()

    fresh.apply(reset)
    with torch.no_grad():
        for (_, old), (_, new) in zip(module.named_parameters(), fresh.named_parameters(), strict=True):
            if not old.requires_grad:
                new.copy_(old)
    return fresh


def skeleton(module: nn.Module, change: DropoutChange | None) -> nn.Module:
    """A copy with the structure and no values, which come with every call; with the dropout that a change puts in."""
    empty = copy.deepcopy(module).to("meta")
    if change is not None:
        insert_dropout(empty, change)
    return empty


def quiet(skeleton: nn.Module) -> nn.Module:
    """A skeleton in evaluation whose batch norm goes by the batch, as in training."""
    copied = copy.deepcopy(skeleton)
    for layer in copied.modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase):
            layer.train()
    return copied


def aliases(module: nn.Module) -> dict[str, str]:
    """Other names of tied tensors, and the name that `named_parameters` gives them."""
    first: dict[int, str] = {}
    names: dict[str, str] = {}
    for path, part in module.named_modules():
        for leaf, tensor in chain(part._parameters.items(), part._buffers.items()):
            name = f"{path}.{leaf}" if path else leaf
            if tensor is not None and first.setdefault(id(tensor), name) != name:
                names[name] = first[id(tensor)]
    return names


def fan_in(module: nn.Module, name: str) -> int:
    """Inputs that feed one output of a weight; 1 for biases, norms and parameters of an unknown kind."""
    owner_name, _, leaf = name.rpartition(".")
    owner = module.get_submodule(owner_name)
    shape = module.get_parameter(name).shape
    if len(shape) < 2 or isinstance(owner, _NOT_SUMMED) or not leaf.startswith(_WEIGHTS):
        return 1
    if isinstance(owner, nn.modules.conv._ConvTransposeNd):
        return int(shape[0] * shape[2:].numel()) // owner.groups
    return int(shape[1:].numel())


def padding_rows(module: nn.Module) -> dict[str, int]:
    """The rows of embeddings that stand for padding and are never learned, by the name of the weight."""
    return {
        f"{path}.weight".removeprefix("."): int(part.padding_idx)
        for path, part in module.named_modules()
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.padding_idx is not None
    }


def other_sizes(module: Params, fresh: Params) -> dict[str, tuple[float, float]]:
    """Root mean squares of parameters where fresh weights (M, *shape) differ from the module's own (1, *shape) in size.

    Small parameters are left out, since their sizes are noise, unless the module's author has set them to a constant:
    weights to any, biases to one that is not zero.
    """
    shown = {n: w for n, w in module.items() if w.numel() >= FEWEST_ENTRIES or _is_chosen(w[0])}
    sizes = {n: (_size(w), _size(fresh[n][:1])) for n, w in shown.items()}
    return {name: pair for name, pair in sizes.items() if max(pair) > SIZE_RATIO * min(pair)}


def _is_chosen(values: Tensor) -> bool:
    """Whether a parameter is a constant that its author must have chosen; a bias of zero is a common habit."""
    first = values.flatten()[:1]
    return values.numel() > 1 and bool((values == first).all()) and (values.ndim > 1 or bool(first != 0))


def _size(values: Tensor) -> float:
    return float(values.double().square().mean().sqrt())


def fresh_note(module: Params, fresh: Params) -> tuple[str, ...]:
    """A sentence about parameters that the module's author initializes otherwise than its layers do."""
    differing = other_sizes(module, fresh)
    if not differing:
        return ()
    named = [f"{name} ({was:.2g}, drawn anew {new:.2g})" for name, (was, new) in list(differing.items())[:NAMED]]
    more = f" and {len(differing) - NAMED} more" if len(differing) > NAMED else ""
    return (
        f"fresh weights differ in size from the module's own: {', '.join(named)}{more}. The layers' initializers were "
        "called, not the module's: give Model a function that makes the network, or begin with its weights by "
        "fit(..., start=module)",
    )
