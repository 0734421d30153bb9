"""Running statistics: one set for each member, as if each were trained alone by torch."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from credo import Stream, Variables
from credo.nets import Network, Plan
from credo.nets.dropout import draw_masks

NETS = {
    "rows": (lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)), (16, 3)),
    "images": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, momentum=0.3), nn.Flatten(), nn.Linear(48, 2)),
        (16, 2, 6, 6),
    ),
}


@pytest.mark.parametrize(("make", "shape"), NETS.values(), ids=NETS.keys())
@pytest.mark.parametrize("plan", list(Plan))
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("x_per_member", [False, True])
def test_each_member_trains_as_torch_would_train_it(make, shape, plan, members, x_per_member):
    """Four steps of gradient descent: weights, statistics and their counter."""
    with Stream(0).borrowed_global():
        module = make().double()
    network = Network(module)
    variables = network.initial(members, Stream(0))
    alone = [_as_module(module, variables, m) for m in range(members)]
    for step in range(4):
        x = 2 + Stream(1, (step,)).normal(*((members, *shape) if x_per_member else shape), dtype=torch.float64)
        leaves = {name: p.requires_grad_() for name, p in variables.params.items()}
        outputs = network.train(Variables(leaves, variables.buffers), x, [], plan, x_per_member=x_per_member)
        found = torch.autograd.grad(outputs.square().sum(), list(leaves.values()))
        moved = {n: (p - 0.01 * g).detach() for (n, p), g in zip(leaves.items(), found, strict=True)}
        variables = Variables(moved, variables.buffers)
        for member, plain in enumerate(alone):
            plain.train().zero_grad()
            plain(x[member] if x_per_member else x).square().sum().backward()
            with torch.no_grad():
                for p in plain.parameters():
                    p -= 0.01 * p.grad
    for member, plain in enumerate(alone):
        for name, expected in plain.state_dict().items():
            ours = {**variables.params, **variables.buffers}[name][member]
            torch.testing.assert_close(ours, expected, rtol=1e-8, atol=1e-8)
    if members > 1:  # the twin: statistics that all members share
        assert not torch.allclose(variables.buffers["1.running_mean"][0], variables.buffers["1.running_mean"][1])
    assert variables.buffers["1.num_batches_tracked"].tolist() == [4] * members


def _as_module(module: nn.Module, variables: Variables, member: int) -> nn.Module:
    plain = copy.deepcopy(module)
    plain.load_state_dict({n: t[member].clone() for n, t in {**variables.params, **variables.buffers}.items()})
    return plain


@pytest.mark.parametrize("plan", list(Plan))
def test_prediction_reads_the_statistics_and_leaves_them(plan):
    network = Network(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)))
    variables = network.initial(3, Stream(0))
    network.train(variables, 5 + Stream(1).normal(8, 3), _masks(network, variables, 3, 8), plan)
    before = {name: t.clone() for name, t in variables.buffers.items()}
    x = Stream(2).normal(6, 3)
    whole = network.evaluate(variables, x, plan)
    drawn = network.draw(variables, x, _masks(network, variables, 3, None), plan)
    assert all(torch.equal(t, before[name]) for name, t in variables.buffers.items())
    # one draw is one function: an input's output does not depend on its neighbors
    torch.testing.assert_close(network.evaluate(variables, x[:1], plan), whole[:, :1])
    torch.testing.assert_close(network.draw(variables, x[:1], _masks(network, variables, 3, None), plan), drawn[:, :1])
    in_training = network.train(variables, x, _masks(network, variables, 3, 6), plan)
    assert not torch.allclose(in_training, whole)


def _masks(network: Network, variables: Variables, count: int, examples: int | None):
    sites = network.trace(variables, torch.zeros(2, 3)).sites
    return draw_masks(sites, Stream(3), count, examples, network.dtype, "cpu")


def test_a_look_at_the_network_leaves_the_statistics():
    network = Network(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)))
    variables = network.initial(2, Stream(0))
    before = {name: t.clone() for name, t in variables.buffers.items()}
    network.trace(variables, torch.ones(5, 3))
    assert all(torch.equal(t, before[name]) for name, t in variables.buffers.items())


def test_a_cumulative_average_cannot_be_vectorized_and_says_so():
    """momentum=None reads the counter in Python: vmap refuses it, and one by one it is right."""
    network = Network(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=None), nn.Linear(4, 2)).double())
    variables = network.initial(2, Stream(0))
    x = Stream(1).normal(8, 3, dtype=torch.float64)
    with pytest.raises(RuntimeError):
        network.train(variables, x, [], Plan.TOGETHER)
    variables = network.initial(2, Stream(0))
    network.train(variables, x, [], Plan.ONE_BY_ONE)
    hidden = torch.nn.functional.linear(x, variables.params["0.weight"][1], variables.params["0.bias"][1])
    torch.testing.assert_close(variables.buffers["1.running_mean"][1], hidden.mean(0))
