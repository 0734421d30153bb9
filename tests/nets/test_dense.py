"""Dense stacks by batched products: the same numbers as the module itself, for every layer they know and no other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import credo
from credo.nets.dense import dense_stack
from credo.nets.dropout import DropoutChange, draw_masks
from credo.nets.network import Network


class Doubling(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


STACKS = {
    "sequential": nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4, bias=False), nn.GELU(), nn.Linear(4, 2)),
    "nested": nn.Sequential(
        nn.Sequential(nn.Linear(3, 5), nn.ELU(0.5)), nn.Sequential(nn.LeakyReLU(0.2), nn.Linear(5, 2))
    ),
    "credo's own": credo.nets.MLP(3, 2, (6,), "silu"),
    "one layer": nn.Linear(3, 2),
    "with dropout": nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 5), nn.ReLU(), nn.Dropout(0.2), nn.Linear(5, 2)),
    "with an idle dropout": nn.Sequential(
        nn.Linear(3, 5), nn.Dropout(0.0), nn.ReLU(), nn.Dropout(0.4), nn.Linear(5, 2)
    ),
}
tied = nn.Linear(3, 3)
OTHERS = {
    "a layer twice": nn.Sequential(tied, nn.ReLU(), tied),
    "a subclass of a layer": nn.Sequential(Doubling(3, 2)),
    "a norm": nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)),
    "a softmax": nn.Sequential(nn.Linear(3, 3), nn.Softmax(1)),
    "a parametrized weight": nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))),
    "no layer": nn.Sequential(nn.ReLU()),
}
every_stack = pytest.mark.parametrize("module", STACKS.values(), ids=STACKS.keys())


@every_stack
@pytest.mark.parametrize("x_per_member", [False, True])
def test_members_together_are_the_members_one_by_one(module: nn.Module, x_per_member: bool) -> None:
    network = Network(module.double())
    assert network._dense is not None
    variables = network.initial(4, credo.Stream(0))
    x = credo.Stream(1).normal(*((4, 7, 3) if x_per_member else (7, 3)), dtype=torch.float64)
    sites = network.trace(variables, x[0] if x_per_member else x).sites
    masks = draw_masks(sites, credo.Stream(2), 4, 7, torch.float64, "cpu")
    together = network.train(variables, x, masks, credo.Plan.TOGETHER, x_per_member=x_per_member)
    apart = network.train(variables, x, masks, credo.Plan.ONE_BY_ONE, x_per_member=x_per_member)
    torch.testing.assert_close(together, apart)


@every_stack
def test_draws_that_share_weights(module: nn.Module) -> None:
    network = Network(module.double(), DropoutChange(0.3, inserted="dropout" not in str(module).lower()))
    variables = network.initial(1, credo.Stream(0))
    x = credo.Stream(1).normal(7, 3, dtype=torch.float64)
    masks = draw_masks(network.trace(variables, x).sites, credo.Stream(2), 5, None, torch.float64, "cpu")
    if masks:
        together, apart = (network.draw(variables, x, masks, plan) for plan in credo.Plan)
        torch.testing.assert_close(together, apart)
        assert float(together.std(0).min()) > 0


@pytest.mark.parametrize("module", OTHERS.values(), ids=OTHERS.keys())
def test_anything_else_is_left_to_vmap(module: nn.Module) -> None:
    assert dense_stack(module) is None


def test_a_hooked_layer_is_left_to_vmap() -> None:
    module = nn.Sequential(nn.Linear(3, 2))
    module[0].register_forward_hook(lambda layer, args, output: output + 1)
    assert dense_stack(module) is None


def test_a_layer_whose_instance_was_changed_is_left_to_vmap() -> None:
    for change in (
        lambda layer: layer.register_full_backward_hook(lambda *_: None),
        lambda layer: layer.register_full_backward_pre_hook(lambda *_: None),
        lambda layer: setattr(layer, "forward", torch.abs),
    ):
        for place in (0, 1):
            module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
            assert dense_stack(module) is not None
            change(module[place])
            assert dense_stack(module) is None


def test_sequences_of_rows_are_left_to_vmap() -> None:
    network = Network(nn.Sequential(nn.Linear(3, 2), nn.Flatten(), nn.Linear(8, 1)).double())
    variables = network.initial(2, credo.Stream(0))
    x = credo.Stream(1).normal(5, 4, 3, dtype=torch.float64)
    together, apart = (network.evaluate(variables, x, plan) for plan in credo.Plan)
    torch.testing.assert_close(together, apart)


def test_images_are_flattened_where_the_stack_says_so() -> None:
    network = Network(credo.nets.MLP(12, 1).double())
    variables = network.initial(2, credo.Stream(0))
    x = credo.Stream(1).normal(5, 3, 2, 2, dtype=torch.float64)
    together, apart = (network.evaluate(variables, x, plan) for plan in credo.Plan)
    torch.testing.assert_close(together, apart)
