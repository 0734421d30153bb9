"""What a network does with the numbers that it is given, and where those that it returns come from.

Standardized inputs are an affine function of what a person gave. A layer that multiplies by weights learns the same
functions of either; code that takes logarithms of inputs, reads codes out of them or divides them by 255 expects them
as they came. Likewise standardized targets need outputs of any size and sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from credo.core.inputs import Inputs, few, leaves_of
from credo.core.trees import Variables, tensors_in
from credo.nets.network import Network
from credo.nets.plan import Plan

_SAME = {
    *("clone", "contiguous", "to", "float", "double", "half", "bfloat16", "type", "type_as", "detach", "requires_grad"),
    *(
        "view",
        "view_as",
        "reshape",
        "reshape_as",
        "flatten",
        "unflatten",
        "squeeze",
        "unsqueeze",
        "expand",
        "expand_as",
    ),
    *("permute", "transpose", "swapaxes", "movedim", "moveaxis", "t", "get", "adjoint", "ravel", "select", "narrow"),
    *("getitem", "index_select", "gather", "chunk", "split", "tensor_split", "unbind", "unfold"),
    *("cat", "concat", "concatenate", "stack", "hstack", "vstack", "flip", "roll", "repeat", "tile", "pad", "rot90"),
    *(
        "mean",
        "sum",
        "repeat_interleave",
        "pixel_shuffle",
        "pixel_unshuffle",
        "channel_shuffle",
        "interpolate",
        "upsample",
    ),
}
"""Functions that hand numbers on."""
_AFFINE = {
    *("add", "sub", "subtract", "rsub", "mul", "multiply", "div", "divide", "true_divide", "truediv", "neg"),
    *("radd", "rmul", "iadd", "isub", "imul", "itruediv"),
}
"""Functions that keep a number of any size and sign one."""
_LAYERS = {
    *(f"{name}{axes}d" for name in ("conv", "conv_transpose") for axes in (1, 2, 3)),
    *("linear", "bilinear", "matmul", "rmatmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "dot", "vecdot"),
    *("einsum", "tensordot", "inner"),
    *("lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"),
    *("multi_head_attention_forward", "scaled_dot_product_attention", "_transformer_encoder_layer_fwd"),
    *("batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm", "local_response_norm"),
    *(f"{kind}_pool{axes}d" for kind in ("max", "avg", "adaptive_max", "adaptive_avg", "lp") for axes in (1, 2, 3)),
    *(f"{kind}dropout{axes}" for kind in ("", "alpha_", "feature_") for axes in ("", "1d", "2d", "3d")),
    *("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices", "feature_alpha_dropout"),
    *("index_add", "scatter_add", "scatter_reduce", "segment_reduce", "sparse_mm", "smm", "spmm"),
}
"""Functions that may have inputs in any units: they have weights, or treat all units alike."""
_OPEN = {
    *(f"{name}{axes}d" for name in ("conv", "conv_transpose") for axes in (1, 2, 3)),
    *("linear", "bilinear", "matmul", "rmatmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "dot", "vecdot"),
    *("einsum", "tensordot", "inner", "embedding", "addcmul", "lerp", "index_add", "scatter_add"),
}
"""Functions whose results have any size and sign, where weights do."""
_READS = {"item", "tolist", "numpy", "bool", "float", "int", "index", "array", "complex"}
"""Functions that hand numbers to plain Python."""
_HARMLESS = {"isnan", "isfinite", "isinf", "isreal", "result_type", "get", "size", "numel", "zeros_like", "ones_like"}
_HARMLESS |= {"empty_like", "new_zeros", "new_ones", "new_empty", "new_full", "full_like", "rand_like", "randn_like"}
"""Functions that do not ask for the units."""
EXAMPLES = 3


@dataclass(frozen=True)
class Uses:
    """What one forward pass shows.

    Attributes:
        inputs: the functions that need tensors of the inputs in their own units, by the paths of these tensors.
        outputs: the function that keeps outputs from taking any size and sign, or may; None where there is none.
    """

    inputs: dict[str, str]
    outputs: str | None


@torch.no_grad()
def uses(network: Network, variables: Variables, x: Inputs) -> Uses:
    """Watch a network in evaluation with a few examples x (B, ...)."""
    one = variables.take([0])
    watcher = _UnitWatcher(few(x, EXAMPLES), list(one.params.values()))
    network.trace(one, watcher.x)  # which looks at values of its own
    with torch.inference_mode(False), watcher:
        outputs = network.evaluate(one, watcher.x, Plan.ONE_BY_ONE)
    return Uses(watcher.units, watcher.closed(outputs))


class _UnitWatcher(TorchFunctionMode):
    """Follows inputs until something computes with them, and remembers what made every tensor."""

    def __init__(self, x: Inputs, params: list[Tensor]) -> None:
        super().__init__()
        self.x = x
        self.units: dict[str, str] = {}
        self._inputs = {_storage(t): {path} for path, t in leaves_of(x).items() if t.is_floating_point()}
        self._computed = set(self._inputs) | {_storage(t) for t in params}
        self._makers: dict[int, tuple[Tensor, str, list[Tensor]]] = {}  # holding a tensor keeps its id from another

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = str(getattr(func, "__name__", "unknown")).strip("_")
        read = list(tensors_in((args, kwargs)))
        ours = {path for t in read for path in self._inputs.get(_storage(t), ())}
        result = func(*args, **kwargs)
        made = list(tensors_in(result))
        if ours:
            self._take(name, ours, made)
        for t in made:
            if name not in _SAME or all(t is not each for each in read):  # flatten and others may give t itself
                self._makers[id(t)] = (t, name, read)
        return result

    def _take(self, name: str, paths: set[str], made: list[Tensor]) -> None:
        """One use of inputs."""
        real = [t for t in made if t.is_floating_point()]
        if name in _HARMLESS or (name in _LAYERS and real) or (not made and name not in _READS):
            return
        if name in _SAME and made and len(real) == len(made):
            for t in real:
                self._inputs[_storage(t)] = self._inputs.get(_storage(t), set()) | paths
            return
        for path in paths:
            self.units.setdefault(path, name)

    def closed(self, outputs: Tensor) -> str | None:
        """The function by which outputs came about, if that may bound them."""
        return None if self._is_open(outputs) else self._maker(self._origin(outputs))[0]

    def _origin(self, t: Tensor) -> Tensor:
        """The tensor that was only handed on, so that it became this one."""
        while id(t) in self._makers:
            _, name, read = self._makers[id(t)]
            if name not in _SAME or len(read) != 1 or read[0] is t:
                break
            t = read[0]
        return t

    def _maker(self, t: Tensor) -> tuple[str, list[Tensor]]:
        """The function that made a tensor, and of what."""
        _, name, read = self._makers.get(id(t), (t, "code that cannot be followed", []))
        return name, read

    def _is_constant(self, t: Tensor) -> bool:
        """Whether it is neither learned nor computed from inputs or weights."""
        return id(t) not in self._makers and _storage(t) not in self._computed

    def _is_open(self, t: Tensor, depth: int = 8) -> bool:
        """Whether values of any size and sign come out of weights of any size and sign, in no units of its own."""
        name, read = self._maker(t := self._origin(t))
        if name in _OPEN:
            return True
        parts = [part for part in read if part.is_floating_point() and part is not t]
        if depth == 0 or not parts:
            return False
        if name in _SAME:
            return all(self._is_open(part, depth - 1) for part in parts)
        if name not in _AFFINE or (len(parts) == 1 and name != "neg"):  # with a plain number, the author's own units
            return False
        constant = any(self._is_constant(self._origin(part)) for part in parts)
        return not constant and any(self._is_open(part, depth - 1) for part in parts)


def _storage(t: Tensor) -> int:
    """What tensors that share memory have in common; a tensor without memory of the usual kind is alone."""
    try:
        return t.untyped_storage().data_ptr() or id(t)
    except (RuntimeError, NotImplementedError):  # sparse, or a batch of torch.func
        return id(t)
