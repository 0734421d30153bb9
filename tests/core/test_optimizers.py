"""Update rules against torch.optim, step for step, on a member axis; schedules against their formulas."""

import math

import pytest
import torch
from torch import Tensor

from credo.core.optimizers import SGD, Adam, Constant, Cosine, Optimizer, StepDecay
from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.nets import Network, Plan

MEMBERS, STEPS = 3, 25


def fresh() -> Params:
    stream = Stream(0, ("optimizer",))
    return {
        "weight": stream.child("w").normal(MEMBERS, 4, 3, dtype=torch.float64),
        "bias": stream.child("b").normal(MEMBERS, 4, dtype=torch.float64),
        "gain": stream.child("g").normal(MEMBERS, dtype=torch.float64),
    }


def loss(params: Params) -> Tensor:
    """Not quadratic, and different for each entry, so that a permuted or shared gradient shows."""
    return sum(
        ((p - k - torch.arange(p.numel()).reshape(p.shape)).cos() + p.square()).sum()
        for k, p in enumerate(params.values())
    )


def gradients(params: Params) -> list[Tensor]:
    leaves = {name: p.detach().requires_grad_() for name, p in params.items()}
    return list(torch.autograd.grad(loss(leaves), list(leaves.values())))


def run_credo(rule: Optimizer, *, transposed: bool = False) -> Params:
    params = fresh()
    state = rule.init(params)
    for step in range(STEPS):
        given = [g.mT.contiguous().mT if transposed and g.ndim > 1 else g for g in gradients(params)]
        rule.update(params, given, state, learning_rate=0.05 / (1 + step))
    return params


def run_torch(make) -> Params:
    params = {name: p.requires_grad_() for name, p in fresh().items()}
    rule = make(list(params.values()))
    for step in range(STEPS):
        rule.param_groups[0]["lr"] = 0.05 / (1 + step)
        rule.zero_grad()
        loss(params).backward()
        rule.step()
    return {name: p.detach() for name, p in params.items()}


RULES = [
    pytest.param(Adam(), lambda p: torch.optim.Adam(p), id="Adam"),
    pytest.param(
        Adam(0.8, 0.95, 1e-5), lambda p: torch.optim.Adam(p, betas=(0.8, 0.95), eps=1e-5), id="Adam with other numbers"
    ),
    pytest.param(SGD(), lambda p: torch.optim.SGD(p), id="SGD"),
    pytest.param(SGD(momentum=0.9), lambda p: torch.optim.SGD(p, momentum=0.9), id="SGD with momentum"),
]


@pytest.mark.parametrize(("rule", "make"), RULES)
@pytest.mark.parametrize("transposed", [False, True], ids=["gradient like parameter", "gradient transposed in memory"])
def test_equals_torch_step_for_step(rule, make, transposed):
    ours, theirs = run_credo(rule, transposed=transposed), run_torch(make)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-12, atol=1e-12)


def test_wrong_numbers_are_told_apart():
    """The broken twin of the comparison above: a rule with other numbers must not pass it."""
    ours, theirs = run_credo(Adam(beta_2=0.99)), run_torch(lambda p: torch.optim.Adam(p))
    assert not torch.allclose(ours["weight"], theirs["weight"], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("plan", list(Plan))
@pytest.mark.parametrize("rule", [Adam(), SGD(momentum=0.9)], ids=["Adam", "SGD"])
def test_members_train_as_they_would_alone(rule, plan):
    """The whole path: gradients of vectorized members come transposed, which a fused kernel does not notice."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).double()
    network = Network(net)
    x = Stream(1).normal(16, 3, dtype=torch.float64)
    start = network.initial(MEMBERS, Stream(0))
    together = _trained(network, start.take(range(MEMBERS)), rule, x, plan)
    for member in range(MEMBERS):
        alone = _trained(network, start.take([member]), rule, x, Plan.ONE_BY_ONE)
        for name, value in alone.items():
            torch.testing.assert_close(together[name][member], value[0], rtol=1e-9, atol=1e-9)  # sums in other order


def _trained(network: Network, variables: Variables, rule: Optimizer, x: Tensor, plan: Plan) -> Params:
    state = rule.init(variables.params)
    for _ in range(10):
        leaves = {name: p.detach().requires_grad_() for name, p in variables.params.items()}
        outputs = network.train(Variables(leaves, variables.buffers), x, [], plan)
        found = torch.autograd.grad((outputs - x[:, :2]).square().sum(), list(leaves.values()))
        rule.update(variables.params, list(found), state, 0.01)
    return variables.params


def test_state_carries_the_step_count():
    """Two halves with the state carried over equal one run; a state begun anew does not."""
    whole, halves, forgetful = fresh(), fresh(), fresh()
    rule = Adam()
    one, two = rule.init(whole), rule.init(halves)
    for step in range(6):
        rule.update(whole, gradients(whole), one, 0.1)
        if step == 3:
            two = [t.clone() for t in two]
        rule.update(halves, gradients(halves), two, 0.1)
        rule.update(forgetful, gradients(forgetful), rule.init(forgetful), 0.1)
    assert all(torch.equal(whole[name], halves[name]) for name in whole)
    assert not torch.allclose(whole["weight"], forgetful["weight"], atol=1e-3)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.5, 0.999, 1.0])
def test_schedules(fraction):
    assert Constant().factor(fraction) == 1.0
    assert Cosine(0.1).factor(fraction) == pytest.approx(0.1 + 0.9 * math.cos(math.pi * fraction / 2) ** 2, abs=1e-12)
    decay = StepDecay(at=(0.5, 0.75), by=0.1).factor(fraction)
    assert decay == pytest.approx(1.0 if fraction < 0.5 else 0.1 if fraction < 0.75 else 0.01, rel=1e-12)


@pytest.mark.parametrize("rule", [Adam(), SGD(momentum=0.9)], ids=["Adam", "SGD"])
def test_nothing_to_move_is_no_mistake(rule: Optimizer) -> None:
    state = rule.init({})
    rule.update({}, [], state, 0.1)
    assert state == []
