"""Streams, optimizers and integrals on a GPU. Skipped where there is none."""

from __future__ import annotations

import pytest
import torch

from credo.core.optimizers import SGD, Adam
from credo.core.rng import Stream
from credo.core.trees import Variables, flatten, move, restore

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device on this machine")


def test_streams_repeat_and_leave_the_global_generators_alone():
    torch.cuda.manual_seed(0)
    states = torch.get_rng_state(), torch.cuda.get_rng_state()
    stream = Stream(3, ("noise", 7))
    one, same = (stream.normal(1000, device="cuda") for _ in range(2))
    assert one.is_cuda
    assert torch.equal(one, same)
    assert not bool((one == Stream(3, ("noise", 8)).normal(1000, device="cuda")).any())
    assert sorted(stream.permutation(50, "cuda").tolist()) == list(range(50))
    assert stream.normal_like({"w": torch.zeros(3, device="cuda")})["w"].is_cuda
    assert torch.equal(torch.get_rng_state(), states[0])
    assert torch.equal(torch.cuda.get_rng_state(), states[1])


@pytest.mark.parametrize("rule", [Adam(), SGD(momentum=0.9)], ids=["Adam", "SGD"])
def test_the_same_steps_as_on_the_cpu(rule):
    """Gradients transposed in memory, as vectorized members have them, included."""
    results = []
    for device in ("cpu", "cuda"):
        params = {"w": Stream(0).normal(3, 4, 5, dtype=torch.float64).to(device)}
        state = rule.init(params)
        for step in range(10):
            gradient = Stream(1, (step,)).normal(3, 5, 4, dtype=torch.float64).to(device).mT
            rule.update(params, [gradient], state, 0.1)
        results.append(params["w"].cpu())
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-10)


def test_trees_travel():
    variables = Variables({"w": torch.ones(2, 3)}, {"b": torch.zeros(2)})
    there = move(variables, "cuda")
    assert all(t.is_cuda for t in flatten(there).values())
    assert restore(there, flatten(variables)).device.type == "cuda"
    assert there.take([1, 0]).params["w"].is_cuda
