"""Which weights a network can do without, and a file that leaves them out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from credo.core.arrays import tensor
from credo.core.storage import StorageError, read_tensors, write_folder
from credo.core.trees import Params
from credo.decide.compression import check_member
from credo.posteriors import DiagonalGaussian, UnitNoise
from credo.posteriors.gaussian import independent_normals
from credo.predictive import ClassPredictive

FRACTIONS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99)
"""Parts of the weights that are removed when the caller does not say."""


@dataclass(frozen=True)
class PruningCurve:
    """What removing weights costs.

    Attributes:
        fractions: of the uncertain weights removed, in the order of the removal.
        remaining: weights of each member's network that are not zero, for each fraction.
        log_likelihood: mean log predictive density of the targets, for each fraction.
        accuracy: part of the labels that are right, for each fraction; None where targets are numbers.
    """

    fractions: tuple[float, ...]
    remaining: tuple[int, ...]
    log_likelihood: tuple[float, ...]
    accuracy: tuple[float, ...] | None


def pruning_curve(
    posterior: DiagonalGaussian,
    data: tuple[Any, Any],
    fractions: Sequence[float] = FRACTIONS,
    *,
    names: str | tuple[str, ...] = "*",
    draws: int | None = None,
    seed: int = 0,
) -> PruningCurve:
    """Remove more and more weights by their signal-to-noise ratio, and measure on data.

    Args:
        posterior: fitted.
        data: x and y that it was not fitted to.
        fractions: of the weights to remove.
        names: patterns of the parameters that may lose weights.
        draws: functions to predict with; None predicts with the means alone, as the plain pruned network does.
        seed: of the draws.

    Reference: C. Blundell et al., "Weight uncertainty in neural networks", 2015, table 2,
        https://arxiv.org/abs/1505.05424
    """
    posterior = independent_normals(posterior, "pruning_curve")
    x, y = data[0], tensor(data[1], "y").to(posterior.device)
    remaining, fits, hits = [], [], []
    for fraction in fractions:
        pruned = posterior.prune(fraction, names)
        prediction = pruned.at_mean().predict(x) if draws is None else pruned.predict(x, draws, seed)
        remaining.append(_remaining(pruned))
        fits.append(prediction.log_prob(y).mean().item())
        if isinstance(prediction, ClassPredictive):
            rows, targets, _ = prediction.elements(y)
            assert isinstance(rows, ClassPredictive)
            hits.append((rows.label == targets.reshape(rows.label.shape)).double().mean().item())
    return PruningCurve(tuple(fractions), tuple(remaining), tuple(fits), tuple(hits) if hits else None)


def _remaining(posterior: DiagonalGaussian) -> int:
    """Non-zero weights of the network, averaged over members."""
    weights = [posterior.mean.params[name] for name in posterior.model.network.layout]
    return sum(int(w.count_nonzero()) for w in weights) // posterior.mean.members


def write_sparse(posterior: DiagonalGaussian | UnitNoise, file: str | Path, member: int = 0) -> Path:
    """Write the network at its means to a safetensors file that holds only the weights that are not zero.

    Each tensor is stored as `NAME/values` and `NAME/places` (indices into the flattened tensor, 32 bits), or as it is
    where that is smaller; shapes are in the file's metadata. `read_sparse` gives tensors for `load_state_dict`.

    Args:
        posterior: pruned, as a rule.
        file: the path; its name must end in .safetensors.
        member: which network, where there are several.
    """
    path = Path(file)
    if path.suffix != ".safetensors":
        raise ValueError(f"file must end in .safetensors, got {path.name!r}")
    if not isinstance(posterior, UnitNoise):
        posterior = independent_normals(posterior, "write_sparse")
    check_member(member, posterior.mean.members)
    one = posterior.mean.take([member])
    state = {name: t[0] for name, t in {**one.params, **one.buffers}.items()}
    state = {name: t for name, t in state.items() if not name.startswith("likelihood.")}
    stored = {key: t for name, t in state.items() for key, t in _sparse(name, t).items()}
    shapes = json.dumps({name: list(t.shape) for name, t in state.items()})
    write_folder(path.parent, {}, {path.name: (stored, {"shapes": shapes})})
    return path


def _sparse(name: str, dense: Tensor) -> Params:
    flat = dense.flatten()
    places = flat.nonzero().squeeze(1)
    if len(places) * (flat.element_size() + 4) >= flat.numel() * flat.element_size():
        return {name: dense}
    return {f"{name}/values": flat[places], f"{name}/places": places.to(torch.int32)}


def read_sparse(file: str | Path) -> Params:
    """The dense tensors of a file that `write_sparse` wrote, by the names of the module's state."""
    path = Path(file)
    tensors, text = read_tensors(path.parent, path.name)
    if "shapes" not in text:
        raise StorageError(f"{file} has no shapes in its metadata: it was not written by write_sparse")
    return {name: _dense(name, shape, tensors) for name, shape in json.loads(text["shapes"]).items()}


def _dense(name: str, shape: list[int], tensors: Params) -> Tensor:
    if name in tensors:
        return tensors[name]
    values = tensors[f"{name}/values"]
    flat = values.new_zeros(torch.Size(shape).numel())
    flat[tensors[f"{name}/places"].long()] = values
    return flat.view(shape)
