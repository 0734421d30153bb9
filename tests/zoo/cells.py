"""What makes a cell of the zoo right, and not only running."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import credo
from credo import Graph, likelihoods
from credo.core.inputs import Inputs, TensorTree, inputs
from credo.core.trees import Variables
from credo.methods import Method
from credo.nets import Network, Plan
from credo.posteriors import Posterior
from zoo.entry import Entry


def seeded(entry: Entry) -> nn.Module:
    """The module, the same in every test."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return entry.make()


def fitted(entry: Entry, net: nn.Module, method: Method, plan: Plan | None = None) -> Posterior:
    model = credo.Model(net, likelihoods.Categorical(), class_axis=_class_axis(entry))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return credo.fit(model, (entry.x, entry.y), method, seed=1, plan=plan)


def _class_axis(entry: Entry) -> int | None:
    return 1 if entry.y.ndim == 3 else None


def check_cell(entry: Entry, method: Method, folder: Path) -> None:
    """A fit, repeated; predictions, repeated, by rows, and after saving; and everything as it was found."""
    net, before = seeded(entry), torch.get_rng_state()
    state, modes = copy.deepcopy(net.state_dict()), [m.training for m in net.modules()]
    posterior = fitted(entry, net, method)
    assert posterior.record.status == "finished", posterior.record.reason
    again = fitted(entry, net, method, next(p for p in Plan if posterior.record.plan.startswith(p.value)))
    _assert_same(posterior.tensors(), again.tensors())
    kept = copy.deepcopy(posterior.tensors())
    first = posterior.predict(entry.x, draws=2, seed=3).probs
    assert bool(first.isfinite().all())
    assert torch.equal(first, posterior.predict(entry.x, draws=2, seed=3).probs)
    _assert_same(posterior.tensors(), kept)
    if not isinstance(entry.x, Graph):
        functions, some = posterior.draw(2, seed=4), [4, 1, 2]
        whole, part = functions(entry.x), functions(_rows(entry.x, some))
        torch.testing.assert_close(part, whole[:, some], rtol=1e-3, atol=1e-5)  # kernels sum in other orders
    loaded = credo.load(posterior.save(folder), net=net)
    assert torch.equal(first, loaded.predict(entry.x, draws=2, seed=3).probs)
    assert torch.equal(torch.get_rng_state(), before)
    _assert_same(net.state_dict(), state)
    assert [m.training for m in net.modules()] == modes


def check_module(entry: Entry) -> None:
    """In evaluation, outputs and gradients of the module's own weights are torch's."""
    net = seeded(entry).eval()
    network, x = Network(net), tree(entry.x)
    given = network.given()
    leaves = {name: w.clone().requires_grad_() for name, w in given.params.items()}
    outputs = network.evaluate(Variables(leaves, given.buffers), x, Plan.ONE_BY_ONE)
    expected = network.output_rule(_called(net, entry.x))
    torch.testing.assert_close(outputs[0], expected, rtol=1e-4, atol=1e-6)  # kernels choose by memory layout
    if not expected.requires_grad:
        return
    found = torch.autograd.grad(outputs.square().sum(), list(leaves.values()), allow_unused=True)
    theirs = [p for p in net.parameters() if p.requires_grad]
    for ours, other in zip(found, torch.autograd.grad(expected.square().sum(), theirs, allow_unused=True), strict=True):
        assert (ours is None) == (other is None)
        if ours is not None and other is not None:
            torch.testing.assert_close(ours[0], other, rtol=1e-3, atol=1e-5)  # likewise


def tree(x: Any) -> Inputs:
    if isinstance(x, Graph):
        return TensorTree(x.x, nodes=len(x.x["x"]))
    return inputs(x, "x", torch.float32)


def _called(net: nn.Module, x: Any) -> Any:
    x = x.x if isinstance(x, Graph) else x
    if isinstance(x, dict):
        return net(**x)
    return net(*x) if isinstance(x, tuple) else net(x)


def _rows(x: Any, rows: list[int]) -> Any:
    if isinstance(x, dict):
        return {name: t[rows] for name, t in x.items()}
    return tuple(t[rows] for t in x) if isinstance(x, tuple) else x[rows]


def _assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, t in found.items():
        torch.testing.assert_close(t, expected[name], rtol=0, atol=0, equal_nan=True)
