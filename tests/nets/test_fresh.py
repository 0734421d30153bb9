"""Fresh weights of another size than the module's own are named, and sampling noise is not."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import nets
from credo.nets.network import Network
from credo.nets.structure import other_sizes

STILL = credo.MAP(epochs=1, learning_rate=1e-30)


class Careful(nn.Module):
    """An author with a mind of their own: embeddings of size 0.02, as in BERT, and a branch that is zero."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.branch, self.last = nn.Embedding(40, 8), nn.Linear(8, 16), nn.Linear(16, 1)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.zeros_(self.branch.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.branch(self.embedding(x.long().squeeze(1))))


X = torch.arange(40.0).unsqueeze(1)
Y = torch.sin(X)


def fresh_notes(net: object, **given: object) -> list[str]:
    method = given.pop("method", STILL)
    posterior = credo.fit(credo.Model(net, credo.likelihoods.Gaussian(1.0)), (X, Y), method, **given)
    return [note for note in posterior.notes if "fresh weights differ in size" in note]


def test_a_modules_own_initialization_that_is_not_used_is_named_with_the_remedy() -> None:
    torch.manual_seed(1)
    (note,) = fresh_notes(Careful())
    assert re.search(r"embedding.weight \(0.0[12]\d*, drawn anew (0.9|1)", note)
    assert "branch.weight (0, drawn anew 0.2" in note
    assert "last" not in note
    assert "function that makes the network" in note
    assert "start=module" in note


def test_the_remedies_help() -> None:
    torch.manual_seed(0)
    net = Careful()
    assert not fresh_notes(Careful), "a factory"
    assert not fresh_notes(net, start=net)
    posterior = credo.fit(
        credo.Model(Careful, credo.likelihoods.Gaussian(1.0)), (X, Y), credo.DeepEnsemble(2, epochs=1)
    )
    # a standard deviation of 320 numbers has a relative standard error of 4 %, and Adam moved them by 0.001
    stddev = posterior.tensors()["variables/params/embedding.weight"].flatten(1).std(1)
    torch.testing.assert_close(stddev, torch.full((2,), 0.02), rtol=0.2, atol=0.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nets.MLP(1, 1, (50, 50)),
        lambda: nets.MLP(1, 1, (2,)),
        lambda: nn.Sequential(nn.Linear(1, 6), nn.LayerNorm(6), nn.PReLU(), nn.Linear(6, 1)),
        lambda: nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1), nn.Linear(1, 1, bias=False)),
        lambda: nn.Sequential(nn.Linear(1, 8), nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 3, 3), nn.Flatten()),
        lambda: nn.Sequential(nn.Linear(1, 8), nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), nn.Linear(8, 1)),
    ],
    ids=["wide", "narrow", "norm", "tiny", "convolution", "attention"],
)
def test_layers_with_torchs_own_initializers_are_never_named(make: object) -> None:
    """50 of each: an alarm needs 5 standard errors, with parameters of a single entry among them."""
    alarms = 0
    for seed in range(50):
        torch.manual_seed(seed)
        network = Network(make())
        alarms += bool(other_sizes(network.given().params, network.initial(1, credo.Stream(seed)).params))
    assert alarms == 0


def test_a_factor_of_two_is_seen_in_a_matrix_and_not_in_a_handful() -> None:
    generator = torch.Generator().manual_seed(0)
    large = {"w": torch.randn(1, 30, 30, generator=generator)}
    assert other_sizes({"w": 2.0 * large["w"]}, large)
    assert not other_sizes({"w": torch.tensor([[0.5, 0.6]])}, {"w": torch.tensor([[1.0, 1.2]])})


def test_a_small_parameter_that_was_set_to_a_constant_is_named_and_a_bias_of_zero_is_not() -> None:
    net = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 2))
    nn.init.zeros_(net[2].weight)
    nn.init.constant_(net[2].bias, 5.0)
    nn.init.zeros_(net[0].bias)
    network = Network(net)
    named = other_sizes(network.given().params, network.initial(1, credo.Stream(0)).params)
    assert set(named) == {"2.weight", "2.bias"}
