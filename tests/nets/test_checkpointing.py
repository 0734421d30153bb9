"""Gradient checkpointing: the gradients of the network without it, noise included."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import credo
from credo import Stream, likelihoods
from credo.core.trees import Variables
from credo.nets import Network, Plan

X, Y = Stream(1).normal(12, 3), torch.arange(12) % 2


@pytest.fixture(autouse=True)
def _weights() -> None:
    torch.manual_seed(0)


class Deep(nn.Module):
    """Blocks with a tied weight, batch norm, dropout and noise of their own."""

    def __init__(self, how: bool | None, *, always: bool = False, dropout: float = 0.3) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(dropout), nn.BatchNorm1d(4)) for _ in range(2)
        )
        self.blocks[1][0].weight = self.blocks[0][0].weight
        self.how, self.always, self.noise = how, always, dropout > 0
        self.call = partial(checkpoint, use_reentrant=True)

    def block(self, i: int, h: Tensor) -> Tensor:
        h = self.blocks[i](h)
        return h + torch.randn_like(h) if self.training and self.noise else h

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for i in range(2):
            if self.how is None or not (self.training or self.always):
                h = self.block(i, h)
            else:
                h = checkpoint(self.block, i, h, use_reentrant=self.how)
        return self.last(h)


def gradients(net: nn.Module, rng: Stream) -> tuple[Tensor, list[Tensor], dict[str, Tensor]]:
    network = Network(net)
    given = network.given().repeat(2)
    leaves = {name: w.clone().requires_grad_() for name, w in given.params.items()}
    variables = Variables(leaves, {name: b.clone() for name, b in given.buffers.items()})
    assert network.trace(variables, X).repeated
    outputs = network.train(variables, X, [], Plan.TOGETHER, rng=rng)
    found = torch.autograd.grad(outputs.square().sum(), list(leaves.values()))
    return outputs, list(found), variables.buffers


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_gradients_are_those_of_torch_without_checkpoints(dropout: float) -> None:
    """For each of two members, to the last bit; the running statistics of batch norm move once."""
    net, rng = Deep(False, dropout=dropout), Stream(2)
    state = torch.get_rng_state()
    outputs, found, buffers = gradients(net, rng)
    assert torch.equal(torch.get_rng_state(), state)
    for member in range(2):
        plain = copy.deepcopy(net)
        plain.how = None
        with rng.child("member", member).borrowed_global():
            expected = plain(X)
        assert torch.equal(outputs[member], expected)
        for ours, theirs in zip(
            found, torch.autograd.grad(expected.square().sum(), list(plain.parameters())), strict=True
        ):
            assert torch.equal(ours[member], theirs)
        for name, b in plain.named_buffers():
            assert torch.equal(buffers[name][member], b)
    assert torch.equal(outputs[0], outputs[1]) == (dropout == 0.0)


def test_a_run_is_that_without_checkpoints() -> None:
    """Nothing is random in it, so that both have the same numbers."""
    runs = [
        credo.fit(
            credo.Model(Deep(how, dropout=0.0), likelihoods.Categorical()),
            (X, Y),
            credo.DeepEnsemble(members=2, epochs=3),
            plan=plan,
        )
        for how, plan in ((False, None), (None, Plan.ONE_BY_ONE))
    ]
    assert runs[0].record.plan == "one by one (gradient checkpointing)"
    for name, t in runs[0].tensors().items():
        assert torch.equal(t, runs[1].tensors()[name])


def test_samplers_follow_gradients_of_a_net_that_is_checkpointed_in_evaluation_too() -> None:
    def net(how: bool | None) -> nn.Module:
        deep = Deep(how, always=True, dropout=0.0)
        for block in deep.blocks:
            block[3] = nn.LayerNorm(4)
        return deep

    runs = [
        credo.fit(credo.Model(net(how), likelihoods.Categorical()), (X, Y), credo.HMC(draws=2, warmup=2, chains=2))
        for how in (False, None)
    ]
    for name, t in runs[0].tensors().items():
        torch.testing.assert_close(t, runs[1].tensors()[name], rtol=1e-4, atol=1e-5)  # together, and one by one


def test_reentrant_checkpoints_are_refused_where_code_says_so_and_changed_where_an_attribute_does() -> None:
    network = Network(Deep(True))
    with (
        pytest.warns(UserWarning, match="None of the inputs have requires_grad"),
        pytest.raises(ValueError, match=r"use_reentrant=True.*call .*use_reentrant=False"),
    ):
        network.trace(network.given(), X)
    assert network.module.call.keywords == {"use_reentrant": False}


@pytest.mark.parametrize("method", [credo.MCDropout(rate=0.2), credo.BayesByBackprop(estimator="flipout")])
def test_methods_that_change_a_pass_are_refused(method: credo.methods.Method) -> None:
    with pytest.raises(ValueError, match="gradient checkpointing, whose second pass"):
        credo.fit(credo.Model(Deep(False), likelihoods.Categorical()), (X, Y), method)


def test_mc_dropout_trains_and_draws_with_the_networks_own_rates() -> None:
    posterior = credo.fit(credo.Model(Deep(False), likelihoods.Categorical()), (X, Y), credo.MCDropout(epochs=2))
    assert float(posterior.draw(5, seed=0)(X).std(0).min()) > 0.0
