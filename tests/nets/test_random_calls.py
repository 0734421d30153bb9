"""Noise as data: stochastic depth and dropout between recurrent layers, under both plans; one draw is one function."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import Stream, likelihoods
from credo.nets import Network, Plan
from credo.nets.dropout import draw_masks


@pytest.fixture(autouse=True)
def _weights() -> None:
    torch.manual_seed(0)


class StochasticDepth(nn.Module):
    """Drops whole examples of a residual branch, in the ways in which one meets it."""

    def __init__(self, way: str, rate: float = 0.4) -> None:
        super().__init__()
        self.way, self.keep = way, 1.0 - rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        if self.way == "empty":
            return x * torch.empty(len(x), 1).bernoulli_(self.keep).div_(self.keep)
        if self.way == "new_empty":
            return x * x.new_empty(len(x), 1).bernoulli_(p=self.keep) / self.keep
        if self.way == "batch":
            return x * torch.empty(1, 1).bernoulli_(self.keep) / self.keep
        if self.way == "unscaled":
            return x * torch.empty(len(x), 1).bernoulli_(self.keep)
        mask = torch.empty(len(x), 1, dtype=torch.bool if self.way == "yes or no" else None)
        mask.bernoulli_(self.keep)  # and what it returns is not used
        return torch.where(mask.bool(), x / self.keep, 0.0)


class Residual(nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.first, self.branch = nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.depth, self.last = StochasticDepth(way), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        return self.last(h + self.depth(self.branch(h)))

    def by_hand(self, x: Tensor, kept: Tensor) -> Tensor:
        """With this mask of zeros and ones, (B, 1) or (1, 1)."""
        h, scale = self.first(x), 1.0 if self.depth.way == "unscaled" else 1.0 / self.depth.keep
        return self.last(h + self.branch(h) * kept * scale)


WAYS = ("empty", "new_empty", "batch", "unscaled", "in place", "yes or no")


@pytest.mark.parametrize("way", WAYS)
def test_stochastic_depth_is_a_mask_under_both_plans(way: str) -> None:
    module = Residual(way).double()
    network, x = Network(module), Stream(1).normal(7, 3, dtype=torch.float64)
    variables = network.given()
    (site,) = network.trace(variables, x).sites
    assert (site.name, site.batch_axis, round(site.rate, 9)) == ("depth", None if way == "batch" else 0, 0.4)
    masks = draw_masks([site], Stream(5), 3, 7, torch.float64, "cpu")
    assert not torch.equal(masks[0], masks[0].flip(0))
    expected = torch.stack([module.by_hand(x, (mask != 0).double()) for mask in masks[0]])
    for plan in Plan:
        outputs = network.train(variables.repeat(3), x, masks, plan)
        torch.testing.assert_close(outputs, expected)
        with pytest.raises(AssertionError):  # another member's mask
            torch.testing.assert_close(outputs, expected.flip(0))
    with torch.no_grad():
        torch.testing.assert_close(network.evaluate(variables, x)[0], module.eval()(x), rtol=0, atol=0)


@pytest.mark.parametrize("way", WAYS)
def test_a_drawn_function_has_one_mask_for_all_inputs(way: str) -> None:
    model = credo.Model(Residual(way), likelihoods.Categorical())
    x, y = Stream(1).normal(20, 3), torch.arange(20) % 2
    posterior = credo.fit(model, (x, y), credo.MCDropout(epochs=2))
    functions = posterior.draw(30, seed=1)
    outputs = functions(x)
    torch.testing.assert_close(functions(x[:1]), outputs[:, :1])
    plain = posterior.at_mean().draw(1)(x)
    whole = (outputs - plain).abs().amax((1, 2)) < 1e-6  # rounding: draws that kept the branch, if it is not rescaled
    found = len(torch.unique(outputs[:, 0, 0].mul(1e4).round()))
    assert found == 2  # with the branch, and without
    assert bool(whole.any()) == (way == "unscaled")


def test_a_rate_of_another_keeps_the_average() -> None:
    """The module divides by its own probability, so that masks of another rate are rescaled."""
    module = Residual("empty")
    network = Network(module).with_dropout(credo.nets.dropout.DropoutChange(0.8, inserted=False))
    x, variables = Stream(1).normal(4, 3), Network(module).given()
    sites = network.trace(variables, x).sites
    masks = draw_masks(sites, Stream(2), 4000, None, torch.float32, "cpu")
    mean, expected = network.draw(variables, x, masks).mean(0), network.evaluate(variables, x)[0]
    spread = network.draw(variables, x, masks).std(0) / 4000**0.5
    assert float(((mean - expected) / spread).abs().max()) < 5.0  # eight numbers beyond five standard errors: p < 1e-5


class Always(nn.Module):
    """Masks of its own, in evaluation too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x * torch.empty(len(x), 1).bernoulli_(0.5) / 0.5)


def test_masks_in_evaluation_are_replaced_by_their_average() -> None:
    module, x = Always(), Stream(1).normal(6, 3)
    network = Network(module)
    torch.testing.assert_close(network.evaluate(network.given(), x)[0], module.layer(x))


class DropBlock(nn.Module):
    """Drops squares of an image, whose corners are drawn with a small probability."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        corners = torch.empty(len(x), x.shape[1], 6, 6).bernoulli_(0.1)
        return x * (1.0 - nn.functional.max_pool2d(corners, 3, 1, 1))


def test_masks_in_which_ones_are_the_exception_keep_their_rate() -> None:
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), DropBlock(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(144, 2))
    model, x = credo.Model(net, likelihoods.Categorical()), Stream(1).normal(6, 1, 6, 6)
    data = (x, torch.arange(6) % 2)
    posterior = credo.fit(model, data, credo.MCDropout(rate=0.2, epochs=1))
    found = posterior.model.network.trace(posterior.members(1), x).sites
    assert [(site.name, round(site.rate, 6)) for site in found] == [("1", 0.9), ("2", 0.2)]
    with pytest.raises(ValueError, match=r"a mask of its own at 1, in which ones are the exception \(drop block\)"):
        credo.fit(model, data, credo.ConcreteDropout(epochs=1))


class Recurrent(nn.Module):
    def __init__(self, kind: Callable[..., nn.RNNBase], dropout: float, **options: object) -> None:
        super().__init__()
        self.cell = kind(3, 4, num_layers=3, dropout=dropout, **options)
        self.readout = nn.Linear(2 * (1 + bool(options.get("bidirectional"))) * 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        outputs, last = self.cell(x if self.cell.batch_first else x.transpose(0, 1))
        states = last[0] if isinstance(last, tuple) else last
        outputs = outputs if self.cell.batch_first else outputs.transpose(0, 1)
        hidden = [outputs[:, -1], states[-1], *([states[-2]] if self.cell.bidirectional else [])]
        return self.readout(torch.cat(hidden, 1)[:, : self.readout.in_features])


KINDS = {
    "lstm": (nn.LSTM, {"batch_first": True}),
    "lstm, steps first": (nn.LSTM, {}),
    "bidirectional gru": (nn.GRU, {"batch_first": True, "bidirectional": True}),
    "rnn": (nn.RNN, {"batch_first": True, "nonlinearity": "tanh"}),
    "rnn with relu": (nn.RNN, {"nonlinearity": "relu", "bidirectional": True}),
    "projected lstm": (nn.LSTM, {"batch_first": True, "proj_size": 4, "hidden_size": 5}),
}


def _recurrent(kind: type[nn.RNNBase], options: dict[str, object], dropout: float) -> Recurrent:
    given = dict(options)
    if given.pop("hidden_size", None):
        return Recurrent(lambda i, h, **more: nn.LSTM(i, 5, **more), dropout, **given)
    return Recurrent(kind, dropout, **given)


@pytest.mark.parametrize(("kind", "options"), KINDS.values(), ids=KINDS.keys())
def test_recurrent_layers_drop_between_each_other(kind: type[nn.RNNBase], options: dict[str, object]) -> None:
    """With masks of ones it is torch's own network without dropout; its own masks stand between the right layers."""
    module = _recurrent(kind, options, 0.5).double()
    network, x = Network(module), Stream(1).normal(6, 5, 3, dtype=torch.float64)
    variables = network.given()
    sites = network.trace(variables, x).sites
    assert [site.name for site in sites] == ["cell", "cell:2"]
    ones = [torch.ones_like(mask) for mask in draw_masks(sites, Stream(2), 1, 6, torch.float64, "cpu")]
    plain = copy.deepcopy(module)
    plain.cell.dropout = 0.0
    torch.testing.assert_close(network.train(variables, x, ones)[0], plain(x))
    nothing = [ones[0], torch.zeros_like(ones[1])]
    without_input = copy.deepcopy(plain)
    with torch.no_grad():  # what comes out of the second layer does not reach the third
        for suffix in ("", "_reverse") if module.cell.bidirectional else ("",):
            getattr(without_input.cell, f"weight_ih_l2{suffix}").zero_()
    torch.testing.assert_close(network.train(variables, x, nothing)[0], without_input(x))
    with pytest.raises(AssertionError):  # the first gap in the place of the second
        torch.testing.assert_close(network.train(variables, x, nothing[::-1])[0], without_input(x))
    with torch.no_grad():
        torch.testing.assert_close(network.evaluate(variables, x)[0], module.eval()(x))


def test_gradients_of_unrolled_layers_are_those_of_the_kernel() -> None:
    module = _recurrent(nn.LSTM, {"batch_first": True}, 0.5).double()
    network, x = Network(module), Stream(1).normal(6, 5, 3, dtype=torch.float64)
    leaves = {name: w.clone().requires_grad_() for name, w in network.given().params.items()}
    variables = credo.core.trees.Variables(leaves)
    ones = [torch.ones(1, 6, 5, 4, dtype=torch.float64)] * 2
    found = torch.autograd.grad(network.train(variables, x, ones).square().sum(), list(leaves.values()))
    module.cell.dropout = 0.0
    expected = torch.autograd.grad(module(x).square().sum(), list(module.parameters()))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours[0], theirs)


def test_a_recurrent_network_learns_and_draws_with_its_dropout() -> None:
    x, y = Stream(1).normal(20, 5, 3), torch.arange(20) % 2
    model = credo.Model(Recurrent(nn.LSTM, 0.5, batch_first=True), likelihoods.Categorical())
    posterior = credo.fit(model, (x, y), credo.MCDropout(epochs=2))
    functions = posterior.draw(5, seed=1)
    outputs = functions(x)
    assert float(outputs.std(0).min()) > 0.0
    torch.testing.assert_close(functions(x[3:5]), outputs[:, 3:5])


class InPlace(nn.Module):
    """Drops in place, and goes on with what it dropped in."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.first, self.last = way, nn.Linear(3, 6), nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).tanh() + 1.0
        mask = torch.ones_like(h)
        if self.way == "result not used":
            nn.functional.dropout(h, 0.5, self.training, inplace=True)
        elif self.way == "residual":
            h = h + nn.functional.dropout(h, 0.5, self.training, True)
        elif self.way == "filled twice":
            mask.bernoulli_(1e-6)
            mask.bernoulli_(1.0)
        elif self.way == "part":
            mask[:, :3].bernoulli_(0.5)
        elif self.way == "view":
            mask.view(-1).bernoulli_(0.5)
        elif self.way == "data":
            mask.data.bernoulli_(0.5)
        elif self.way == "view of units":
            nn.functional.dropout(h.view(-1, 2, 3), 0.5, self.training, inplace=True)
        elif self.way == "other half":
            kept, dropped = h.chunk(2, dim=1)
            h = torch.cat([kept, nn.functional.dropout(dropped, 0.5, self.training, inplace=True)], dim=1)
        return self.last(h * mask)


def _in_place(way: str) -> tuple[Tensor, nn.Module]:
    """Draws at one input, and the network at the fitted weights."""
    x = torch.randn(8, 3)
    model = credo.Model(InPlace(way), likelihoods.Gaussian())
    posterior = credo.fit(model, (x, x[:, :1]), credo.MCDropout(epochs=1, batch_size=8))
    fitted = copy.deepcopy(model.network.module)
    fitted.load_state_dict({name: values[0] for name, values in posterior.at_mean().variables.params.items()})
    return posterior.predict(torch.ones(1, 3), draws=300).draws.squeeze(), fitted


@pytest.mark.parametrize("way", ["result not used", "residual", "filled twice", "other half"])
def test_what_is_dropped_in_place_is_dropped_wherever_it_is_used(way: str) -> None:
    draws, fitted = _in_place(way)
    with torch.no_grad():
        alone = torch.cat([fitted.train()(torch.ones(1, 3)) for _ in range(4000)]).flatten()
    # all 2^6 outputs at most, and as probable: the same network is tried on its own
    apart = (draws.unsqueeze(1) - alone).abs().amin(1)
    assert float(apart.max()) < 1e-5  # float32 sums in another order
    assert len(draws.unique()) > 1 or way == "filled twice"
    standard_error = alone.std() / len(draws) ** 0.5
    assert float((draws.mean() - alone.mean()).abs()) <= 5.0 * float(standard_error) + 1e-5  # one in a million; float32


@pytest.mark.parametrize("way", ["part", "view", "data", "view of units"])
def test_dropping_in_place_in_a_view_of_what_is_used_is_refused(way: str) -> None:
    with pytest.raises(ValueError, match="drops in place"):
        _in_place(way)
