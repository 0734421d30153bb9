"""Trees of tensors: cut and joined, to flat names and back, one member or many."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import (
    ParameterInfo,
    Params,
    Variables,
    flatten,
    map_tensors,
    members_of,
    move,
    ravel,
    restore,
    unbind,
    unravel,
)

SHAPES = {"layer.weight": (4, 3), "layer.bias": (4,), "gain": (), "empty": (0, 2), "kernel": (2, 1, 3, 3)}
LAYOUT = {name: ParameterInfo(shape, 1) for name, shape in SHAPES.items()}


def tree(members: int) -> Params:
    return {name: Stream(0, (name,)).normal(members, *shape) for name, shape in SHAPES.items()}


@pytest.mark.parametrize("members", [1, 3])
def test_ravel_and_back(members):
    params = tree(members)
    flat = ravel(params)
    assert flat.shape == (members, 12 + 4 + 1 + 0 + 18)
    back = unravel(flat, LAYOUT)
    assert list(back) == list(params)
    assert all(torch.equal(back[name], params[name]) for name in params)


def test_ravel_keeps_the_order_of_the_layout():
    params = tree(2)
    assert torch.equal(ravel(params)[:, :12], params["layer.weight"].reshape(2, 12))
    assert torch.equal(ravel(params)[:, 16], params["gain"])
    turned = dict(reversed(params.items()))
    assert not torch.equal(ravel(turned), ravel(params))


def test_ravel_is_differentiable():
    params = {name: t.requires_grad_() for name, t in tree(2).items()}
    found = torch.autograd.grad(ravel(params).square().sum(), list(params.values()))
    assert all(torch.equal(g, 2 * t) for g, t in zip(found, params.values(), strict=True))


@dataclass(frozen=True)
class Inner:
    values: list[Tensor]
    label: str = "kept"


@dataclass(frozen=True)
class Outer:
    variables: Variables
    inner: Inner
    steps: tuple[Tensor, int] = (torch.tensor(3), 7)
    nothing: None = None
    more: dict[str, Tensor] = field(default_factory=dict)


def state(seed: int) -> Outer:
    rng = Stream(seed)
    return Outer(
        Variables({"a.b": rng.child(0).normal(2, 3)}, {"count": torch.tensor([seed, 1])}),
        Inner([rng.child(1).normal(2), rng.child(2).normal(2, 2).double()]),
        (torch.tensor(seed), 7),
        more={"x": rng.child(3).normal(1)},
    )


def test_flatten_names_every_tensor_once():
    flat = flatten(state(0))
    assert list(flat) == [
        "variables/params/a.b",
        "variables/buffers/count",
        "inner/values/0",
        "inner/values/1",
        "steps/0",
        "more/x",
    ]


def test_flatten_and_restore():
    saved, template = state(1), state(2)
    back = restore(template, flatten(saved))
    assert isinstance(back, Outer)
    assert back.inner.label == "kept"
    assert back.steps[1] == 7
    for (name, ours), (_, theirs) in zip(flatten(back).items(), flatten(saved).items(), strict=True):
        assert torch.equal(ours, theirs), name
        assert ours.dtype == theirs.dtype
    with pytest.raises(KeyError, match="more/x"):
        restore(template, {n: t for n, t in flatten(saved).items() if n != "more/x"})


def test_map_tensors_leaves_the_original_alone():
    original = state(0)
    before = {name: t.clone() for name, t in flatten(original).items()}
    doubled = map_tensors(lambda _, t: t * 2, original)
    assert all(torch.equal(t, before[name]) for name, t in flatten(original).items())
    assert all(torch.equal(t, 2 * before[name]) for name, t in flatten(doubled).items())
    assert flatten(torch.ones(1)) == {"": torch.ones(1)}


def test_members():
    variables = Variables(tree(3), {"mean": torch.arange(3.0)})
    assert variables.members == 3
    assert members_of({}) == 1
    picked = variables.take([2, 0, 2])
    assert picked.buffers["mean"].tolist() == [2.0, 0.0, 2.0]
    assert torch.equal(picked.params["gain"], variables.params["gain"][[2, 0, 2]])
    assert torch.equal(variables.take(torch.tensor([1])).repeat(4).params["gain"], variables.params["gain"][[1] * 4])
    again = Variables.stack([variables.take([m]) for m in range(3)])
    assert all(torch.equal(t, flatten(variables)[name]) for name, t in flatten(again).items())
    assert Variables({}, {"mean": torch.zeros(2, 5)}).members == 2


def test_unbind_gives_views_that_write_through():
    """Running statistics are updated in place, so the members must share memory with the tree."""
    buffers = {"mean": torch.zeros(3, 2)}
    unbind(buffers, 3)[1]["mean"].add_(1.0)
    assert buffers["mean"].tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    assert unbind({}, 2) == [{}, {}]


def test_move_reaches_every_tensor():
    moved = move(state(0), "meta")
    assert {t.device.type for t in flatten(moved).values()} == {"meta"}
    assert Variables(tree(1)).to("meta").device.type == "meta"
