"""Is an input like those that were learned from, in what the network sees of it?"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from credo.core.checks import check_at_least
from credo.core.inputs import rows_at_once
from credo.core.trees import members_of
from credo.nets.calling import arguments, parameters_of
from credo.posteriors import Posterior

ROWS = 1024
"""Inputs at a time."""
ENTRIES = 2**24
"""Distances at a time."""
SHRINKAGE = 1e-3
"""Of the covariance towards a multiple of the identity, so that it can be inverted."""


def features(posterior: Posterior, x: Any, layer: str | None = None) -> Tensor:
    """What goes into a layer of the network at its mean weights, for each input: (B, F).

    Of an ensemble the features of all members lie side by side.

    Args:
        posterior: whose network.
        x: inputs, as in `posterior.predict`.
        layer: name of the layer, as in `module.named_modules()`; None for the last linear one that is called.
    """
    network, variables = posterior.model.network, posterior.at_mean().variables
    inputs, module = posterior.inputs(x), copy.deepcopy(network.module).eval()
    parameters, found = parameters_of(module), []
    tensors = {**{name: variables.params[name] for name in network.layout}, **variables.buffers}
    size = rows_at_once(inputs, ROWS)
    for member in range(members_of(tensors)):
        given = {name: t[member] for name, t in tensors.items()}
        parts = []
        for start in range(0, len(inputs), size):
            seen: dict[str, Tensor] = {}
            with torch.no_grad(), _watched(module, layer, seen):
                args, kwargs = arguments(parameters, inputs[start : start + size])
                functional_call(module, given, args, kwargs)
            parts.append(_seen(seen, layer, module))
        found.append(torch.cat(parts))
    return torch.cat(found, dim=1)


class _watched:  # noqa: N801 (a context, like a function)
    """Notes what goes into a layer, or into the linear layers in the order of their calls."""

    def __init__(self, module: nn.Module, layer: str | None, seen: dict[str, Tensor]) -> None:
        self.layers = {
            name: part
            for name, part in module.named_modules()
            if (isinstance(part, nn.Linear) if layer is None else name == layer)
        }
        self.seen, self.handles = seen, list[Any]()

    def __enter__(self) -> None:
        for name, part in self.layers.items():
            self.handles.append(part.register_forward_pre_hook(self._hook(name)))

    def _hook(self, name: str) -> Any:
        def note(_: nn.Module, args: tuple[Any, ...]) -> None:
            self.seen.pop(name, None)
            self.seen[name] = args[0].detach().flatten(1)

        return note

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()


def _seen(seen: dict[str, Tensor], layer: str | None, module: nn.Module) -> Tensor:
    if not seen:
        names = ", ".join(name for name, part in module.named_modules() if name and not list(part.children()))
        raise ValueError(
            f"the network never calls a layer {layer!r}: name one of {names}"
            if layer is not None
            else f"the network calls no nn.Linear: name the layer whose inputs are the features, one of {names}"
        )
    return list(seen.values())[-1]


@dataclass(frozen=True, eq=False)
class NearestNeighbors:
    """Distance to the k-th nearest of the training inputs, in the network's features scaled to length one.

    Attributes:
        known: features of training inputs, (N, F), of length one.
        k: which neighbor counts.

    Reference: Y. Sun et al., "Out-of-distribution detection with deep nearest neighbors", 2022,
        https://arxiv.org/abs/2204.06507
    """

    known: Tensor
    k: int

    @staticmethod
    def of(known: Tensor, k: int = 50) -> NearestNeighbors:
        """From the features of training inputs, (N, F)."""
        check_at_least("k", k, 1)
        _check_features(known, "known")
        if k > len(known):
            raise ValueError(f"k={k}, and there are {len(known)} inputs to be near to: take a smaller k")
        return NearestNeighbors(_unit(known), k)

    def score(self, values: Tensor) -> Tensor:
        """Distance of features (B, F) to the k-th nearest neighbor, (B,), between 0 and 2."""
        _check_features(values, "features", like=self.known)
        size = max(1, ENTRIES // len(self.known))
        parts = []
        for part in torch.split(_unit(values), size):
            # of unit vectors |a - b|^2 = 2 - 2 a b, one product of matrices
            distance = (2.0 - 2.0 * part @ self.known.T).clamp_min(0.0)
            parts.append(distance.kthvalue(self.k, dim=1).values.sqrt())
        return torch.cat(parts).double()


@dataclass(frozen=True, eq=False)
class ClassDensity:
    """How far features are from the nearest class: a normal for each class around its mean, with one covariance.

    score = min_k (h - mean_k)^T covariance^-1 (h - mean_k)

    Attributes:
        means: of the classes, (K, F), in float64.
        whitening: L^-1 with L L^T = covariance, (F, F).

    Reference: K. Lee et al., "A simple unified framework for detecting out-of-distribution samples and adversarial
        attacks", 2018, https://arxiv.org/abs/1807.03888
    """

    means: Tensor
    whitening: Tensor

    @staticmethod
    def of(known: Tensor, y: Any) -> ClassDensity:
        """From the features (N, F) and classes (N,) of training inputs."""
        _check_features(known, "known")
        labels, values = torch.as_tensor(y, device=known.device).flatten(), known.double()
        if len(labels) != len(values):
            raise ValueError(f"y has {len(labels)} rows and the features {len(values)}: they must agree")
        classes, group = torch.unique(labels, return_inverse=True)
        count = torch.bincount(group).double()
        means = torch.zeros(len(classes), values.shape[1], dtype=torch.float64, device=values.device)
        means = means.index_add(0, group, values) / count.unsqueeze(1)
        apart = values - means[group]
        covariance = apart.T @ apart / len(values)
        level = covariance.diagonal().mean()
        level = torch.where(level > 0, level, 1.0)  # features that are the same for all
        covariance = (1.0 - SHRINKAGE) * covariance
        covariance.diagonal().add_(SHRINKAGE * level)
        lower = torch.linalg.cholesky(covariance)
        return ClassDensity(means, torch.linalg.inv(lower))

    def score(self, values: Tensor) -> Tensor:
        """Squared distance of features (B, F) to the nearest class, (B,)."""
        _check_features(values, "features", like=self.means)
        white, centers = values.double() @ self.whitening.T, self.means @ self.whitening.T
        return torch.cdist(white, centers).square().amin(1)


def _unit(values: Tensor) -> Tensor:
    return values / values.norm(dim=1, keepdim=True).clamp_min(1e-12)


def _check_features(values: Tensor, name: str, like: Tensor | None = None) -> None:
    if values.ndim != 2 or len(values) == 0:
        raise ValueError(
            f"{name} has shape {tuple(values.shape)}: features are (B, F), as credo.uncertainty.features gives"
        )
    if like is not None and values.shape[1] != like.shape[1]:
        raise ValueError(f"{name} has {values.shape[1]} features and the known inputs {like.shape[1]}: they must agree")
    if not bool(values.isfinite().all()):
        raise ValueError(f"{name} holds NaN or infinite numbers")
