"""What a network does with the numbers that it is given, and where its outputs come from."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from credo import nets
from credo.nets.network import Network
from credo.nets.uses import Uses, uses

Body = Callable[["Written", Tensor], Tensor]


class Written(nn.Module):
    """A module of somebody who writes forward() by hand."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body
        self.layer = nn.Linear(3, 1)
        self.gain = nn.Parameter(torch.ones(1))
        self.register_buffer("center", torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self, x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cells(x)[0][:, -1])


class Filled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros(len(x), 1)
        out[:, 0] = self.layer(x)[:, 0]
        return out


HIDDEN = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
CASES: dict[str, tuple[nn.Module, str | None, str | None]] = {
    "MLP": (nets.MLP(3, 1, (4,)), None, None),
    "convolution": (
        nn.Sequential(nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 2, 2), nn.Flatten(), nn.Linear(4, 1)),
        None,
        None,
    ),
    "batch norm": (nn.Sequential(nn.BatchNorm1d(3), HIDDEN), None, None),
    "columns apart": (Written(lambda m, x: m.layer(torch.cat([x[:, :1], x[:, 1:]], 1))), None, None),
    "product": (Written(lambda m, x: x @ m.layer.weight.T + m.layer.bias), None, None),
    "residual": (Written(lambda m, x: m.layer(x) + F.softplus(m.layer(x))), None, None),
    "learned gain": (Written(lambda m, x: m.layer(x) * m.gain), None, None),
    "softplus": (nn.Sequential(HIDDEN, nn.Softplus()), None, "softplus"),
    "sigmoid": (nn.Sequential(HIDDEN, nn.Sigmoid()), None, "sigmoid"),
    "one of two": (Written(lambda m, x: torch.cat([m.layer(x), m.layer(x).exp()], 1)), None, "cat"),
    "units of its own": (Written(lambda m, x: 70_000.0 + 10_000.0 * m.layer(x)), None, "add"),
    "a buffer's units": (Written(lambda m, x: m.layer(x) * m.center[:1]), None, "mul"),
    "filled": (Filled(), None, "zeros"),
    "logarithm": (Written(lambda m, x: m.layer(x.log())), "log", None),
    "bytes": (Written(lambda m, x: m.layer(x / 255.0)), "div", None),
    "padding": (Written(lambda m, x: m.layer(x * (x != 0))), "ne", None),
    "code": (Written(lambda m, x: m.layer(x) + m.layer.weight[0, x[:, 0].long()][:, None]), "long", None),
    "a look": (Written(lambda m, x: m.layer(x) if float(x[0, 0]) > 0 else -m.layer(x)), "float", None),
    "formula": (Written(lambda m, x: m.gain * x[:, :1] + m.layer.bias), "mul", "add"),
    "waves": (Written(lambda m, x: m.layer(torch.sin(x))), "sin", None),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_network_does_with_numbers(name: str) -> None:
    module, inputs, outputs = CASES[name]
    network = Network(module)
    assert uses(network, network.given(), torch.rand(5, 3) + 0.5) == Uses(
        {} if inputs is None else {"": inputs}, outputs
    )


def test_recurrent_networks_take_any_units() -> None:
    network = Network(Recurrent())
    assert uses(network, network.given(), torch.rand(4, 5, 3)) == Uses({}, None)
