"""Modules of every kind that a user may bring, each with inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from credo import Stream
from credo.nets import MLP


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **options: bool) -> None:
        super().__init__()
        self.cell = kind(3, 4, batch_first=True, **options)
        self.readout = nn.Linear(8 if options.get("bidirectional") else 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.readout(self.cell(x)[0][:, -1])


class Words(nn.Module):
    """Whole numbers in, and an embedding that skips one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.readout = nn.Embedding(10, 4, padding_idx=0), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.readout(self.table(x).mean(1))


class Extras(nn.Module):
    """Parameters and tensors that are not those of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.gain = nn.Parameter(torch.tensor(1.5))
        self.shift = torch.tensor([0.5, -0.5])
        self.register_buffer("center", torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("passing", torch.tensor(2.0), persistent=False)
        self.parts = nn.ParameterList([torch.ones(2), torch.ones(2) * 2])

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.layer(x - self.center) * self.gain * self.passing
        return hidden * self.parts[0] + self.shift.to(x) * self.parts[1]


class Frozen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.head = nn.Linear(3, 4), nn.Linear(4, 2)
        self.backbone.requires_grad_(False)
        self.head.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x).relu())


class Attention(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, dropout=dropout, batch_first=True)
        self.readout = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.readout(self.attention(x, x, x, need_weights=False)[0].mean(1))


class Encoder(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(4, 2, 8, dropout=dropout, batch_first=True)
        self.readout = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.readout(self.block(x).mean(1))


class Residual(nn.Module):
    """One layer, used twice, with a skip and a functional activation."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.readout = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = x + F.silu(self.layer(x))
        return self.readout(x)


def image_net(*norm: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), *norm, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2)
    )


ROWS, IMAGE, SEQUENCE = (5, 3), (5, 2, 6, 6), (5, 7, 3)


@dataclass(frozen=True)
class Kind:
    """A way to make a module, the shape of its inputs, and whether torch can vectorize it."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...] = ROWS
    vectorized: bool = True
    whole_numbers: bool = False

    def module(self, dtype: torch.dtype = torch.float64) -> nn.Module:
        with Stream(11).borrowed_global():
            return self.make().to(dtype)

    def inputs(self, dtype: torch.dtype = torch.float64, examples: int | None = None) -> Tensor:
        shape = self.shape if examples is None else (examples, *self.shape[1:])
        noise = Stream(12).normal(*shape, dtype=dtype)
        return noise.mul(100).long() % 10 if self.whole_numbers else noise


ZOO = {
    "credo's own MLP": Kind(lambda: MLP(3, 2, (8, 8))),
    "one layer": Kind(lambda: nn.Linear(3, 2)),
    "rows of a sequence": Kind(lambda: nn.Sequential(nn.Linear(3, 2), nn.Flatten(), nn.Linear(14, 2)), SEQUENCE),
    "conv": Kind(lambda: image_net(), IMAGE),
    "conv, channels last": Kind(lambda: image_net().to(memory_format=torch.channels_last), IMAGE),
    "conv, grouped": Kind(
        lambda: nn.Sequential(nn.Conv1d(4, 8, 3, groups=2), nn.Flatten(), nn.Linear(40, 2)), (5, 4, 7)
    ),
    "conv, transposed": Kind(
        lambda: nn.Sequential(nn.ConvTranspose2d(2, 3, 2, 2), nn.Flatten(), nn.Linear(432, 2)), IMAGE
    ),
    "batch norm": Kind(lambda: nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 2))),
    "conv, batch norm": Kind(lambda: image_net(nn.BatchNorm2d(4)), IMAGE),
    "batch norm without statistics": Kind(lambda: image_net(nn.BatchNorm2d(4, track_running_stats=False)), IMAGE),
    "layer norm": Kind(lambda: nn.Sequential(nn.Linear(3, 6), nn.LayerNorm(6), nn.Linear(6, 2))),
    "layer norm of images": Kind(lambda: image_net(nn.LayerNorm((4, 6, 6))), IMAGE),
    "group norm": Kind(lambda: image_net(nn.GroupNorm(2, 4)), IMAGE),
    "instance norm": Kind(lambda: image_net(nn.InstanceNorm2d(4, affine=True)), IMAGE),
    "RNN": Kind(lambda: Recurrent(nn.RNN), SEQUENCE, vectorized=False),
    "GRU": Kind(lambda: Recurrent(nn.GRU), SEQUENCE, vectorized=False),
    "LSTM": Kind(lambda: Recurrent(nn.LSTM), SEQUENCE, vectorized=False),
    "LSTM, both ways": Kind(lambda: Recurrent(nn.LSTM, bidirectional=True), SEQUENCE, vectorized=False),
    "attention": Kind(Attention, (5, 7, 4), vectorized=False),
    "encoder": Kind(Encoder, (5, 7, 4), vectorized=False),
    "words": Kind(Words, (5, 6), whole_numbers=True),
    "tied weights": Kind(Tied),
    "tied weights in a stack": Kind(lambda: nn.Sequential(tied := Tied(), nn.Tanh(), tied.second, nn.Linear(3, 2))),
    "frozen parameters": Kind(Frozen),
    "parameters of its own": Kind(Extras),
    "a layer used twice": Kind(Residual),
    "weight norm": Kind(
        lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(3, 4)), nn.Tanh(), nn.Linear(4, 2))
    ),
    "bilinear": Kind(lambda: nn.Sequential(_Pairs(), nn.Linear(4, 2))),
    "PReLU": Kind(lambda: nn.Sequential(nn.Linear(3, 4), nn.PReLU(4), nn.Linear(4, 2))),
}


class _Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Bilinear(3, 3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, x.flip(1))


@pytest.fixture(params=ZOO.values(), ids=ZOO.keys())
def kind(request: pytest.FixtureRequest) -> Kind:
    """Every kind of module."""
    return request.param


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where torch vectorizes by a loop it says so, which is no failure."""
    for item in items:
        if "vectorized" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"))


@pytest.fixture(params=[k for k in ZOO.values() if k.vectorized], ids=[n for n, k in ZOO.items() if k.vectorized])
def vectorized(request: pytest.FixtureRequest) -> Kind:
    """Every kind of module that torch can vectorize."""
    return request.param
