"""Dropout as data: where a network drops, what the masks are like, and what becomes of them.

Statistical assertions have an error rate of 1e-6 each, and the seeds are fixed.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor, nn

from credo import Stream, Variables
from credo.nets import MLP, Network, Plan
from credo.nets.dropout import DropoutChange, Site, draw_masks
from credo.nets.random_calls import Masked

ERROR_RATE = 1e-6


class Functional(nn.Module):
    """Dropout by torch's functions, in every manner of speaking."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.dropout(self.first(x).relu(), 0.25, self.training)
        hidden = F.dropout(hidden, p=0.3)  # always on
        hidden = F.dropout(hidden, 0.9, training=False)  # never on
        hidden = F.dropout(hidden, p=0.0)
        hidden = F.alpha_dropout(hidden, 0.9)  # off by torch's default
        return self.second(F.dropout(hidden))  # one half by torch's default


class Twice(nn.Module):
    """One dropout layer, used in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(3, 8), nn.Linear(8, 6), nn.Linear(6, 2)
        self.drop = nn.Dropout(0.4)

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.drop(self.second(self.drop(self.first(x)))))


class TimeFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.drop = nn.Linear(3, 2), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, 3)
        return self.drop(self.layer(x).transpose(0, 1)).transpose(0, 1).mean(1)


class Folded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.drop = nn.Linear(3, 2), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, 3)
        return self.drop(self.layer(x.flatten(0, 1))).reshape(len(x), -1, 2).mean(1)


def convolutional(drop: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3), drop, nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))


ROWS, IMAGES, SEQUENCES = (5, 3), (5, 2, 6, 6), (5, 7, 3)
PLACES = {
    "MLP": (MLP(3, 2, (8, 6), dropout=0.2), ROWS, [((8,), 0.2), ((6,), 0.2)]),
    "functional": (Functional(), ROWS, [((8,), 0.25), ((8,), 0.3), ((8,), 0.5)]),
    "one layer in two places": (Twice(), ROWS, [((8,), 0.4), ((6,), 0.4)]),
    "units": (convolutional(nn.Dropout(0.3)), IMAGES, [((4, 4, 4), 0.3)]),
    "channels": (convolutional(nn.Dropout2d(0.3)), IMAGES, [((4, 1, 1), 0.3)]),
    "channels of a row": (
        nn.Sequential(nn.Conv1d(7, 4, 1), nn.Dropout1d(0.1), nn.Flatten(), nn.Linear(12, 2)),
        SEQUENCES,
        [((4, 1), 0.1)],
    ),
    "channels of a volume": (
        nn.Sequential(nn.Conv3d(1, 4, 1), nn.Dropout3d(0.1), nn.Flatten(), nn.Linear(32, 2)),
        (5, 1, 2, 2, 2),
        [((4, 1, 1, 1), 0.1)],
    ),
    "off": (nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.0), nn.Linear(4, 2)), ROWS, []),
    "none": (MLP(3, 2), ROWS, []),
}
every_place = pytest.mark.parametrize(("module", "shape", "places"), PLACES.values(), ids=PLACES.keys())
with_places = pytest.mark.parametrize(
    ("module", "shape", "places"), [v for v in PLACES.values() if v[2]], ids=[n for n, v in PLACES.items() if v[2]]
)


def prepared(module: nn.Module, shape: tuple[int, ...], members: int = 1) -> tuple[Network, Variables, Tensor]:
    network = Network(module.double())
    return network, network.initial(members, Stream(0)), Stream(1).normal(*shape, dtype=torch.float64)


def masks_for(network: Network, variables: Variables, x: Tensor, count: int, examples: int | None, seed: int = 2):
    sites = network.trace(variables, x).sites
    return draw_masks(sites, Stream(seed), count, examples, network.dtype, "cpu")


@every_place
def test_places_and_the_shapes_of_their_masks(module, shape, places):
    network, variables, x = prepared(module, shape)
    sites = network.trace(variables, x).sites
    assert [(site.mask_shape(None), site.rate) for site in sites] == [((1, *units), rate) for units, rate in places]
    assert [site.mask_shape(9) for site in sites] == [(9, *units) for units, _ in places]


def test_the_batch_is_found_wherever_it_is():
    x = Stream(0).normal(5, 7, 3)
    for module, expected in ((TimeFirst(), (7, 9, 2)), (Folded(), (63, 2))):
        network = Network(module)
        site = network.trace(network.given(), x).sites[0]
        assert site.mask_shape(9) == expected
        masks = draw_masks([site], Stream(0), 4, 5, network.dtype, "cpu")
        assert network.train(network.initial(4, Stream(0)), x, masks).shape == (4, 5, 2)
        shared = draw_masks([site], Stream(0), 4, None, network.dtype, "cpu")
        assert network.draw(network.given(), x, shared).shape == (4, 5, 2)


@with_places
@pytest.mark.parametrize("plan", list(Plan))
def test_evaluation_drops_nothing(module, shape, places, plan):
    network, variables, x = prepared(module, shape, members=2)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    one, two = (network.evaluate(variables, x, plan) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(torch.get_rng_state(), state)
    ones = [torch.ones(2, *site.mask_shape(None), dtype=torch.float64) for site in network.trace(variables, x).sites]
    torch.testing.assert_close(one, network.draw(variables, x, ones, plan), rtol=1e-12, atol=1e-12)


@with_places
@pytest.mark.parametrize("plan", list(Plan))
def test_a_drawn_function_has_one_mask_for_all_inputs(module, shape, places, plan):
    network, variables, x = prepared(module, shape)
    same = x[:1].expand(shape)
    outputs = network.draw(variables, same, masks_for(network, variables, x, 40, None), plan)
    torch.testing.assert_close(outputs, outputs[:, :1].expand_as(outputs), rtol=1e-12, atol=1e-12)
    assert float(outputs[:, 0].std(0).min()) > 0.0
    single = network.draw(variables, x[:1], masks_for(network, variables, x, 40, None), plan)
    torch.testing.assert_close(single, outputs[:, :1], rtol=1e-12, atol=1e-12)


@with_places
@pytest.mark.parametrize("plan", list(Plan))
def test_training_has_one_mask_for_each_example(module, shape, places, plan):
    """The twin, a mask that the whole batch shares, gives equal rows."""
    network, variables, x = prepared(module, shape, members=3)
    same = x[:1].expand(40, *shape[1:])
    own = network.train(variables, same, masks_for(network, variables, x, 3, 40), plan)
    assert float(own.std(1).min()) > 0.0
    twin = network.train(variables, same, masks_for(network, variables, x, 3, None), plan)
    assert float(twin.std(1).max()) < 1e-12


@with_places
@pytest.mark.parametrize("members", [1, 4])
def test_together_is_one_by_one(module, shape, places, members):
    network, variables, x = prepared(module, shape, members)
    drawn = [network.draw(variables, x, masks_for(network, variables, x, 4, None), plan) for plan in Plan]
    torch.testing.assert_close(*drawn, rtol=1e-10, atol=1e-10)
    four = variables if members == 4 else variables.repeat(4)
    trained = [network.train(four, x, masks_for(network, variables, x, 4, len(x)), plan) for plan in Plan]
    torch.testing.assert_close(*trained, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(network.draw(four, x, masks_for(network, variables, x, 4, None)), drawn[0])


def test_masks_go_where_torch_would_drop():
    """By hand: relu, mask, linear, relu, mask, linear; for members with weights of their own."""
    network, variables, x = prepared(MLP(3, 2, (8, 6), dropout=0.2), ROWS, members=3)
    first, second = masks_for(network, variables, x, 3, 5)
    found = network.train(variables, x, [first, second], Plan.TOGETHER)
    p = variables.params
    for m in range(3):
        hidden = F.linear(x, p["layers.1.weight"][m], p["layers.1.bias"][m]).relu() * first[m]
        hidden = F.linear(hidden, p["layers.4.weight"][m], p["layers.4.bias"][m]).relu() * second[m]
        expected = F.linear(hidden, p["layers.7.weight"][m], p["layers.7.bias"][m])
        torch.testing.assert_close(found[m], expected, rtol=1e-12, atol=1e-12)


def test_gradients_flow_through_kept_units_alone():
    network, variables, x = prepared(MLP(3, 2, (8,), dropout=0.5), ROWS)
    masks = masks_for(network, variables, x, 1, None)
    leaves = {name: p.requires_grad_() for name, p in variables.params.items()}
    outputs = network.draw(Variables(leaves), x, masks)
    (gradient,) = torch.autograd.grad(outputs.sum(), leaves["layers.1.weight"])
    dropped = masks[0][0, 0] == 0
    assert 0 < int(dropped.sum()) < 8
    assert not bool(gradient[0, dropped].any())
    assert bool(gradient[0, ~dropped].any())


def is_fair(mask: Tensor, rate: float) -> bool:
    """Whether as many entries are dropped as a coin of this rate would drop."""
    return float(stats.binomtest(int((mask == 0).sum()), mask.numel(), rate).pvalue) > ERROR_RATE


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.5, 0.9])
def test_statistics_of_masks(rate):
    (mask,) = draw_masks([Site((2, 50), 0, 1, rate, False)], Stream(0), 200, 10, torch.float64, "cpu")
    assert mask.shape == (200, 10, 50)
    assert sorted(mask.unique().tolist()) == pytest.approx([0.0, 1 / (1 - rate)], abs=1e-12)
    assert is_fair(mask, rate)
    assert not is_fair(mask, rate + 0.03)
    z = (float(mask.mean()) - 1.0) / (rate / (1 - rate) / mask.numel()) ** 0.5
    assert abs(z) < stats.norm.isf(ERROR_RATE / 2)


def test_masks_of_members_places_and_examples_are_unrelated():
    sites = [Site((2, 400), 0, 1, 0.5, False)] * 2
    masks = torch.cat(draw_masks(sites, Stream(0), 6, 5, torch.float64, "cpu"), 1).reshape(60, 400)
    largest = torch.corrcoef(masks).triu(1).abs().max()
    limit = stats.norm.isf(ERROR_RATE / (60 * 59)) / 400**0.5
    assert float(largest) < limit
    twin = torch.cat([masks[:-1], masks[:1]])  # one mask for two count
    assert float(torch.corrcoef(twin).triu(1).abs().max()) > limit


def test_masks_repeat_and_leave_the_global_generator_alone():
    sites = [Site((2, 9), 0, 1, 0.5, False)]
    torch.manual_seed(0)
    state = torch.get_rng_state()
    one, same, other = (draw_masks(sites, Stream(s), 3, 4, torch.float32, "cpu")[0] for s in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), state)
    assert one.dtype == torch.float32


def test_dropout_keeps_the_expectation():
    """The mean over masks of what a linear layer makes of masked units is what it makes of the units."""
    network, variables, x = prepared(nn.Sequential(nn.Dropout(0.3), nn.Linear(3, 2)), ROWS)
    count = 20_000
    drawn = network.draw(variables, x, masks_for(network, variables, x, count, None))
    z = (drawn.mean(0) - network.evaluate(variables, x)[0]) / (drawn.std(0) / count**0.5)
    limit = stats.norm.isf(ERROR_RATE / (2 * z.numel()))
    assert float(z.abs().max()) < limit
    unscaled = [(m > 0).double() for m in masks_for(network, variables, x, count, None)]
    twin = network.draw(variables, x, unscaled)
    assert float(((twin.mean(0) - network.evaluate(variables, x)[0]) / (twin.std(0) / count**0.5)).abs().max()) > limit


def test_a_rate_of_one_drops_everything():
    for drop in (nn.Dropout(1.0), nn.AlphaDropout(1.0)):
        network, variables, x = prepared(nn.Sequential(nn.Linear(3, 4), drop, nn.Linear(4, 2)), ROWS)
        outputs = network.draw(variables, x, masks_for(network, variables, x, 1, None))
        torch.testing.assert_close(outputs[0], variables.params["2.bias"].expand(5, 2))


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_alpha_dropout_is_torchs(rate):
    """torch's own output tells which units it dropped; with that mask ours is the same."""
    x = Stream(0).normal(2000, dtype=torch.float64)
    torch.manual_seed(0)
    theirs = F.alpha_dropout(x, rate, training=True)
    dropped = theirs == theirs[(theirs - theirs.mode().values).abs().argmin()]
    assert 0.5 * rate < float(dropped.double().mean()) < 2 * rate
    with Masked([(~dropped).double()]):
        ours = F.alpha_dropout(x, rate, training=True)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)  # torch rounds its constant to float32


@pytest.mark.parametrize("change", [None, DropoutChange(0.4, inserted=False)], ids=["own rate", "another rate"])
def test_alpha_dropout_keeps_mean_and_variance(change):
    """Klambauer et al.: units of mean 0 and variance 1 stay so, also where the rate is not the module's own."""
    network = Network(nn.Sequential(nn.AlphaDropout(0.1), nn.Linear(500, 500)).double(), change)
    variables = Variables({"1.weight": torch.eye(500).double().unsqueeze(0), "1.bias": torch.zeros(1, 500).double()})
    x = Stream(0).normal(400, 500, dtype=torch.float64)
    outputs = network.train(variables, x, masks_for(network, variables, x, 1, 400))
    count = x.numel()
    assert abs(float(outputs.mean())) < 6 / count**0.5
    assert abs(float(outputs.var()) - 1.0) < 6 * 3 / count**0.5  # the fourth moment is below nine
    if change is not None:  # the twin: masks of one rate, the affine map of another
        with Masked([m[0] for m in masks_for(network, variables, x, 1, 400)], rate=0.1):
            twin = F.alpha_dropout(x, 0.1, training=True)
        assert abs(float(twin.mean())) > 0.1


def test_rates_can_be_overridden():
    network = Network(Functional()).with_dropout(DropoutChange(0.7, inserted=False))
    variables, x = network.initial(1, Stream(0)), torch.zeros(5, 3)
    assert [site.rate for site in network.trace(variables, x).sites] == [0.7] * 3
    assert is_fair(torch.cat([m.flatten() for m in masks_for(network, variables, x, 500, None)]), 0.7)
    idle = Network(Functional()).with_dropout(DropoutChange(0.0, inserted=False))
    drawn = idle.draw(variables, x, masks_for(idle, variables, x, 3, None))
    torch.testing.assert_close(drawn, idle.evaluate(variables, x).expand_as(drawn))


@pytest.mark.parametrize(
    ("module", "shape", "widths"),
    [
        (MLP(3, 2, (8, 6)), ROWS, [(8,), (6,)]),
        (
            nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 3, 3), nn.Flatten(), nn.Linear(12, 2)),
            IMAGES,
            [(4, 1, 1), (12,)],
        ),
        (nn.Linear(3, 2), ROWS, []),
    ],
    ids=["MLP", "conv", "one layer"],
)
def test_insertion_before_hidden_layers(module, shape, widths):
    plain, changed = Network(module), Network(module, DropoutChange(0.25, inserted=True))
    assert list(plain.layout) == list(changed.layout)
    variables, x = plain.initial(1, Stream(0)), Stream(1).normal(*shape)
    sites = changed.trace(variables, x).sites
    assert [(site.mask_shape(None)[1:], site.rate) for site in sites] == [(width, 0.25) for width in widths]
    assert torch.equal(changed.evaluate(variables, x), plain.evaluate(variables, x))
    assert not module._forward_pre_hooks
    assert plain.trace(variables, x).sites == ()


def test_inserted_dropout_equals_dropout_after_each_hidden_layer():
    own = Network(MLP(3, 2, (8, 6), "tanh", dropout=0.25).double())
    inserted = Network(MLP(3, 2, (8, 6), "tanh").double(), DropoutChange(0.25, inserted=True))
    values = list(own.initial(1, Stream(0)).params.values())
    x = Stream(1).normal(5, 3, dtype=torch.float64)
    outputs = []
    for network in (own, inserted):
        variables = Variables(dict(zip(network.layout, values, strict=True)))
        outputs.append(network.draw(variables, x, masks_for(network, variables, x, 7, None)))
    torch.testing.assert_close(*outputs, rtol=1e-12, atol=1e-12)
