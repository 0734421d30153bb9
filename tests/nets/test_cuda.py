"""Networks on a GPU: the same numbers as on the CPU, masks and members included. Skipped where there is none."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from credo import Stream
from credo.nets import MLP, Network, Plan
from credo.nets.dropout import draw_masks

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device on this machine")


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # where torch vectorizes by a loop
@pytest.mark.parametrize("plan", list(Plan))
def test_members_as_on_the_cpu(kind, plan):
    if plan is Plan.TOGETHER and not kind.vectorized:
        pytest.skip("torch cannot vectorize it")
    network, x = Network(kind.module()), kind.inputs()
    variables = network.initial(3, Stream(0))
    here, there = (network.evaluate(variables.to(d), x.to(d), plan).cpu() for d in ("cpu", "cuda"))
    torch.testing.assert_close(here, there, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("plan", list(Plan))
def test_masks_live_on_the_device(plan):
    network = Network(MLP(3, 2, dropout=0.3))
    variables, x = network.initial(1, Stream(0)).to("cuda"), Stream(1).normal(5, 3).cuda()
    sites = network.trace(variables, x).sites
    masks, again = (draw_masks(sites, Stream(2), 20, None, torch.float32, "cuda") for _ in range(2))
    assert all(torch.equal(a, b) and a.is_cuda for a, b in zip(masks, again, strict=True))
    assert float(network.draw(variables, x, masks, plan).std(0).min()) > 0.0


def test_noise_that_has_no_seed_is_refused():
    class Noise(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x):
            return self.layer(x) + torch.randn(len(x), 2, device=x.device)

    network = Network(Noise())
    state = torch.cuda.get_rng_state()
    with pytest.raises(ValueError, match="draws random numbers of its own"):
        network.trace(network.given().to("cuda"), torch.zeros(5, 3, device="cuda"))
    assert torch.equal(torch.cuda.get_rng_state(), state)


def test_a_module_that_lives_on_the_gpu():
    module = MLP(3, 2).cuda()
    network = Network(module)
    assert next(module.parameters()).is_cuda
    assert network.given().device.type == network.initial(2, Stream(0)).device.type == "cpu"
    made = Network(lambda: MLP(3, 2).cuda())
    assert made.initial(2, Stream(0)).device.type == "cpu"
