"""Small networks of every layer kind, and curvature by loops over single examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import credo
from credo import priors
from credo.core.trees import Variables
from credo.model import likelihood_params
from credo.posteriors import LaplaceGaussian


def inputs(*shape: int, seed: int = 0) -> Tensor:
    return credo.Stream(seed, ("inputs",)).normal(*shape, dtype=torch.float64)


class Tokens(nn.Module):
    """Embeddings with padding, a norm over features, and layers that all tokens share."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(6, 4, padding_idx=0)
        self.norm = nn.LayerNorm(4)
        self.mix = nn.Linear(4, 3)
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.mix(self.norm(self.embedding(x)))).mean(1))


class Tied(nn.Module):
    """One weight in two layers, of which one works in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.relu = nn.ReLU(inplace=True)
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        h += x
        return self.head(torch.tanh(self.second(self.relu(h))))


class Places(nn.Module):
    """A small transformer: embeddings of places that all examples share, attention by hand, a residual stream."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(6, 4), nn.Embedding(3, 4)
        self.norm, self.mix, self.head = nn.LayerNorm(4), nn.Linear(4, 12), nn.Linear(4, 2)
        self.register_buffer("order", torch.arange(3).unsqueeze(0))

    def forward(self, x: Tensor) -> Tensor:
        h = self.words(x)
        h += self.places(self.order)
        q, k, v = self.mix(self.norm(h)).chunk(3, -1)
        return self.head((h + (q @ k.mT).softmax(-1) @ v)[:, 0])


class Checkpointed(nn.Module):
    """Two layers that are computed a second time when gradients are asked for; the input has none."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3), nn.Tanh())
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(self.inner, x, use_reentrant=False))


@dataclass(frozen=True)
class Case:
    """A network with inputs."""

    net: Callable[[], nn.Module]
    x: Callable[[], Tensor]

    def make(self) -> tuple[nn.Module, Tensor]:
        with credo.Stream(1, ("net",)).borrowed_global():
            net = self.net().double()
            for name, b in net.named_buffers():
                if name.endswith("running_var"):
                    b.uniform_(0.5, 2.0)
                elif name.endswith("running_mean"):
                    b.normal_()
            for p in net.parameters():
                p.data += 0.1 * torch.randn_like(p)
        return net.eval(), self.x()


CASES = {
    "linear": Case(lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), lambda: inputs(5, 3)),
    "without bias": Case(
        lambda: nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 2)), lambda: inputs(5, 3)
    ),
    "conv1d": Case(
        lambda: nn.Sequential(nn.Conv1d(2, 3, 3, stride=2, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(9, 2)),
        lambda: inputs(4, 2, 6),
    ),
    "conv2d": Case(
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, (3, 2), padding="same", dilation=(1, 2)),
            nn.BatchNorm2d(3),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(3, 2, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ),
        lambda: inputs(4, 2, 4, 6),
    ),
    "convolution in groups": Case(
        lambda: nn.Sequential(nn.Conv2d(4, 4, 3, groups=2), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(4, 2)),
        lambda: inputs(4, 4, 3, 3),
    ),
    "embedding and layer norm": Case(Tokens, lambda: torch.tensor([[1, 2, 2], [3, 0, 5], [4, 4, 4], [0, 0, 1]])),
    "places that examples share": Case(Places, lambda: torch.tensor([[1, 2, 2], [3, 0, 5], [4, 4, 4], [0, 0, 1]])),
    "RMS norm": Case(lambda: nn.Sequential(nn.Linear(3, 4), nn.RMSNorm(4), nn.Linear(4, 2)), lambda: inputs(5, 3)),
    "gradient checkpointing": Case(Checkpointed, lambda: inputs(5, 3)),
    "tied weights in place": Case(Tied, lambda: inputs(5, 3)),
}


def model_of(net: nn.Module, likelihood: credo.likelihoods.Likelihood, scale: float = 0.7) -> credo.Model:
    return credo.Model(net, likelihood, priors.Normal(scale))


def rows(model: credo.Model, variables: Variables, x: Tensor, names: Iterable[str]) -> Tensor:
    """Derivatives of each output of each example by the parameters, (B, E, P), one number after the other."""
    names = list(names)
    leaves = {name: variables.params[name].clone().requires_grad_() for name in names}
    whole = Variables({**variables.params, **leaves}, variables.buffers)
    found = []
    for b in range(len(x)):
        outputs = model.network.evaluate(whole, x[b : b + 1])[0, 0]
        each = [
            torch.autograd.grad(o, list(leaves.values()), retain_graph=True, materialize_grads=True) for o in outputs
        ]
        found.append(torch.stack([torch.cat([g.flatten() for g in e]) for e in each]))
    return torch.stack(found)


def loop_curvature(model: credo.Model, variables: Variables, x: Tensor, names: Iterable[str]) -> Tensor:
    """The Gauss-Newton matrix by a loop over examples, (P, P)."""
    jacobian = rows(model, variables, x, names)
    outputs = model.network.evaluate(variables, x)
    fisher = model.likelihood.fisher(outputs, likelihood_params(variables.params))[0]
    return torch.stack([j.T @ f @ j for j, f in zip(jacobian, fisher, strict=True)]).sum(0)


def order_of(posterior: LaplaceGaussian) -> list[str]:
    """Parameters as the blocks name them."""
    return [name for block in posterior.blocks for name in block.layout.names]


def places(posterior: LaplaceGaussian) -> Tensor:
    """Where each entry of the blocks' vectors lies among the parameters one behind the other, (P,)."""
    found, start = [], 0
    for block in posterior.blocks:
        tree = {}
        for name, shape in zip(block.layout.names, block.layout.shapes, strict=True):
            tree[name] = torch.arange(start, start + math.prod(shape)).reshape(1, *shape)
            start += math.prod(shape)
        found.append(block.layout.join(tree)[0])
    return torch.cat(found)
