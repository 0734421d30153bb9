"""The small parts: fan-in, the plan, credo's own MLP."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from credo.nets import MLP, Network, Plan, plan
from credo.nets.builders import BUILDERS
from credo.nets.mlp import ACTIVATIONS
from credo.nets.plan import drawing_plan, measured_plan, obvious_plan

FAN_IN = {
    "linear": (nn.Linear(7, 3), {"weight": 7, "bias": 1}),
    "bilinear": (nn.Bilinear(3, 4, 2), {"weight": 12, "bias": 1}),
    "conv": (nn.Conv2d(4, 6, 3), {"weight": 36, "bias": 1}),
    "conv, grouped": (nn.Conv2d(4, 6, 3, groups=2), {"weight": 18}),
    "conv, one axis": (nn.Conv1d(4, 6, 5), {"weight": 20}),
    "conv, transposed": (nn.ConvTranspose2d(4, 6, 3), {"weight": 36, "bias": 1}),
    "conv, transposed, grouped": (nn.ConvTranspose1d(4, 6, 3, groups=2), {"weight": 6}),
    "embedding": (nn.Embedding(10, 4), {"weight": 1}),
    "bag of embeddings": (nn.EmbeddingBag(10, 4), {"weight": 1}),
    "layer norm": (nn.LayerNorm((4, 5)), {"weight": 1, "bias": 1}),
    "RMS norm": (nn.RMSNorm((4, 5)), {"weight": 1}),
    "batch norm": (nn.BatchNorm2d(4), {"weight": 1, "bias": 1}),
    "GRU": (nn.GRU(3, 4), {"weight_ih_l0": 3, "weight_hh_l0": 4, "bias_ih_l0": 1}),
    "attention": (nn.MultiheadAttention(4, 2), {"in_proj_weight": 4, "out_proj.weight": 4, "in_proj_bias": 1}),
    "attention, three kinds": (
        nn.MultiheadAttention(4, 2, kdim=5, vdim=6),
        {"q_proj_weight": 4, "k_proj_weight": 5, "v_proj_weight": 6},
    ),
    "nested": (nn.Sequential(nn.Sequential(nn.Linear(5, 2))), {"0.0.weight": 5, "0.0.bias": 1}),
}


@pytest.mark.parametrize(("module", "expected"), FAN_IN.values(), ids=FAN_IN.keys())
def test_fan_in(module, expected):
    layout = Network(module).layout
    assert {name: layout[name].fan_in for name in expected} == expected


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(30, 500), (1, 30)),
        (nn.Conv2d(4, 500, 3), (1, 4, 3, 3)),
        (nn.Conv1d(8, 500, 3, groups=2), (1, 8, 3)),
        (nn.ConvTranspose2d(6, 500, 1), (1, 6, 4, 4)),
        (nn.ConvTranspose1d(8, 500, 1, groups=2), (1, 8, 4)),
    ],
    ids=lambda v: type(v).__name__,
)
def test_fan_in_counts_the_terms_of_an_output(layer, shape):
    """Weights of variance 1 / fan-in on inputs of one: every output has variance one."""
    fan_in = Network(layer).layout["weight"].fan_in
    with torch.no_grad():
        layer.bias.zero_()
        layer.weight.normal_(generator=torch.Generator().manual_seed(0)).div_(fan_in**0.5)
        outputs = layer(torch.ones(shape))
    units = outputs[0].flatten(1)[:, outputs[0].flatten(1).shape[1] // 2] if outputs.ndim > 2 else outputs[0]
    assert float(units.var()) == pytest.approx(1.0, abs=0.4)  # 500 units: six standard errors


def test_plans_that_need_no_measurement():
    mlp, conv = MLP(3, 2), nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten())
    assert obvious_plan(mlp, 1) == (Plan.ONE_BY_ONE, "one member")
    assert obvious_plan(mlp, 5) == (Plan.TOGETHER, "a small network without convolutions")
    assert obvious_plan(nn.LSTM(3, 3), 5)[0] is Plan.ONE_BY_ONE
    assert obvious_plan(nn.MultiheadAttention(4, 2), 5)[0] is Plan.ONE_BY_ONE
    assert obvious_plan(conv, 5) is None
    assert obvious_plan(MLP(1000, 2, (1000,)), 5) is None
    assert drawing_plan(conv, 5, on_cpu=True) is Plan.ONE_BY_ONE
    assert drawing_plan(conv, 5, on_cpu=False) is Plan.TOGETHER
    assert drawing_plan(mlp, 5, on_cpu=True) is Plan.TOGETHER


@pytest.mark.parametrize("faster", list(Plan))
def test_the_faster_plan_is_chosen(faster, monkeypatch):
    """By a clock of our own, which each attempt moves on."""
    clock = Clock()
    monkeypatch.setattr(plan.time, "perf_counter", clock.read)
    chosen, reason = measured_plan(lambda p: clock.spend(0.001 if p is faster else 0.005))
    assert chosen is faster
    assert f"{faster.value} 1.00 ms" in reason


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


def test_a_plan_that_fails_is_out():
    def attempt(p: Plan) -> None:
        if p is Plan.TOGETHER:
            raise RuntimeError("vmap cannot")

    assert measured_plan(attempt) == (Plan.ONE_BY_ONE, "torch cannot vectorize this network")


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hidden", [(), (4,), (5, 6, 7)])
def test_the_mlp_is_the_stack_it_says(activation, hidden):
    net = MLP(6, 2, hidden, activation, dropout=0.1)
    linear = [m for m in net.modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == list(zip((6, *hidden), (*hidden, 2), strict=True))
    assert sum(isinstance(m, nn.Dropout) for m in net.modules()) == len(hidden)
    assert sum(isinstance(m, ACTIVATIONS[activation]) for m in net.modules()) == len(hidden)
    assert net(torch.zeros(3, 2, 3)).shape == (3, 2)


def test_the_mlp_is_rebuilt_from_its_config():
    net = MLP(6, 2, (4, 5), "tanh", 0.2)
    again = BUILDERS["MLP"](**net.config)
    assert str(again) == str(net)
    with pytest.raises(ValueError, match="activation must be one of relu, tanh"):
        MLP(1, 1, activation="step")
