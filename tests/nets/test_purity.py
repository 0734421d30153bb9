"""Odd modules: a forward pass changes neither its input, nor a posterior, and loses no buffer in training."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import credo
from credo import Stream, likelihoods
from credo.nets import Network, Plan
from credo.nets.dropout import draw_masks

SHAPE = (12, 3)


class Scaled(nn.Module):
    """Works in place on its input, or on a view of it, always or in training only."""

    def __init__(self, how: Callable[[Tensor, bool], Tensor]) -> None:
        super().__init__()
        self.how = how
        self.first, self.drop, self.last = nn.Linear(3, 6), nn.Dropout(0.3), nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.drop(self.first(self.how(x, self.training)).tanh()))


def in_place(x: Tensor, training: bool) -> Tensor:
    x /= 4.0
    return x


def by_a_view(x: Tensor, training: bool) -> Tensor:
    return x.view(-1).div_(4.0).view_as(x)


def by_data(x: Tensor, training: bool) -> Tensor:
    x.data.mul_(0.25)
    return x


def in_training(x: Tensor, training: bool) -> Tensor:
    return x.div_(4.0) if training else x / 4.0


IN_PLACE = {
    "in place": lambda: Scaled(in_place),
    "by a view": lambda: Scaled(by_a_view),
    "by data": lambda: Scaled(by_data),
    "in training only": lambda: Scaled(in_training),
    "relu": lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 6), nn.Dropout(0.3), nn.Linear(6, 1)),
    "all of it": lambda: nn.Sequential(
        nn.Hardtanh(inplace=True), nn.Dropout(0.1, inplace=True), nn.Linear(3, 6), nn.ELU(inplace=True),
        nn.Dropout(0.3, inplace=True), nn.Linear(6, 1),
    ),
}  # fmt: skip


def pure(module: nn.Module) -> nn.Module:
    """The same module, given a copy of its input."""

    class Pure(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Tensor) -> Tensor:
            return self.module(x.clone())

    return Pure()


METHODS = {
    "MAP": credo.MAP(epochs=4, batch_size=None),
    "ensemble": credo.DeepEnsemble(members=3, epochs=3, batch_size=None),
    "MC dropout": credo.MCDropout(epochs=3, batch_size=None),
    "MC dropout, with a rate": credo.MCDropout(rate=0.2, epochs=3, batch_size=None),
    "Bayes by Backprop": credo.BayesByBackprop(epochs=3, batch_size=None, initial_scale=0.1),
}


@pytest.mark.parametrize("make", IN_PLACE.values(), ids=IN_PLACE.keys())
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
@pytest.mark.parametrize("plan", list(Plan))
def test_a_net_that_works_in_place_is_the_net_that_does_not(make, method, plan):
    """The caller's numbers stay, and every step, member and draw sees the same input."""
    x, y = 3.0 * Stream(0).normal(*SHAPE), Stream(1).normal(SHAPE[0], 1)
    if make is IN_PLACE["by data"]:
        plan = Plan.ONE_BY_ONE  # vmap refuses to look at x.data
    found = []
    for wrap in (lambda net: net, pure):
        here, targets = x.clone(), y.clone()
        with Stream(2).borrowed_global():
            net = wrap(make())
        model = credo.Model(net, likelihoods.Gaussian(1.0))
        posterior = credo.fit(model, (here, targets), method, seed=0, plan=plan, progress=False)
        drawn = posterior.predict(here, 5, seed=1).draws
        assert torch.equal(here, x)
        assert torch.equal(drawn, posterior.predict(here, 5, seed=1).draws)
        found.append(drawn)
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)  # float32, by another kernel


def test_a_write_that_the_first_look_did_not_show_is_refused():
    class Doubtful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x.div_(255.0) if float(x.max()) > 1.0 else x)

    network = Network(Doubtful())
    variables = network.given()
    network.evaluate(variables, torch.ones(2, 3))
    with pytest.raises(ValueError, match="works in place on its input for these values"):
        network.evaluate(variables, 255 * torch.ones(2, 3))


class HandNorm(nn.Module):
    """A batch norm by hand, which shares its flag with a functional dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 8), nn.Linear(8, 1)
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        if self.training:
            mean = hidden.mean(0)
            self.mean = 0.9 * self.mean + 0.1 * mean.detach()
            self.count = self.count + 1
        else:
            mean = self.mean
        return self.last(F.dropout((hidden - mean).relu(), 0.3, training=self.training))


class Counting(nn.Module):
    """Writes to a buffer in every pass, in evaluation too, and lets it decide."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return self.last(self.drop(self.first(x).tanh())) + self.count


class Growing(nn.Module):
    """A running mean over all passes, in evaluation too, by assignment."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1)
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x) * (1 + self.mean)
        self.mean = 0.9 * self.mean + 0.1 * hidden.detach().mean(0)
        return self.last(self.drop(hidden - self.mean))


class Remembering(nn.Module):
    """A hidden state as a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1)
        self.hidden: Tensor | None = None
        self.history: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).tanh()
        if self.hidden is not None:
            hidden = hidden + self.hidden
        self.hidden = hidden.detach().mean(0)
        self.history.append(len(x))
        return self.last(self.drop(hidden))


class Lazy(nn.Module):
    """A buffer that is None until the first pass, a list of tensors, and activations noted for somebody to look at."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1)
        self.register_buffer("scale", None)
        self.sums = [torch.zeros(8)]

    def forward(self, x: Tensor) -> Tensor:
        if self.scale is None:
            self.scale = torch.full((8,), 0.5)
        self.noted = self.first(x)
        self.sums[0] += 1.0
        return self.last(self.drop(self.noted * self.scale))


class Shared(nn.Module):
    """One dropout and one layer in several places, with a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(3, 3), nn.Dropout(0.3), nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = x + self.drop(self.first(self.drop(x)).relu_())
        return self.last(x)


class Rates(nn.Module):
    """Rates that depend on the flag, dropout that is always on, and some in evaluation alone."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.dropout(self.first(x), 0.4 if self.training else 0.0)
        hidden = F.dropout(hidden.tanh(), 0.2)
        if not self.training:
            hidden = F.dropout(hidden, 0.9)
        return self.last(F.dropout(hidden, 0.1, self.training))


class Caching(nn.Module):
    """Centers all inputs by the mean of the first that it meets."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.mean = nn.Linear(3, 1), None

    def forward(self, x: Tensor) -> Tensor:
        self.mean = x.mean(0) if self.mean is None else self.mean
        return self.layer(x - self.mean)


def with_hooks() -> nn.Module:
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))
    net[0].register_buffer("seen", torch.zeros(()))
    net[0].register_forward_hook(lambda layer, args, output: layer.seen.add_(1.0) and None)
    net[1].register_forward_pre_hook(lambda layer, args: (args[0].mul_(0.5),))
    return net


def normed(norm: Callable[[nn.Linear], nn.Module]) -> nn.Module:
    return nn.Sequential(norm(nn.Linear(3, 8)), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 1))


ODD = {
    "a hand-written batch norm": HandNorm,
    "counting": Counting,
    "growing": Growing,
    "remembering": Remembering,
    "lazy": Lazy,
    "shared": Shared,
    "rates": Rates,
    "hooks": with_hooks,
    "spectral norm": lambda: normed(parametrizations.spectral_norm),
    "spectral norm, the old one": lambda: normed(nn.utils.spectral_norm),
    "weight norm": lambda: normed(parametrizations.weight_norm),
    "batch norm": lambda: nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1)),
}


@pytest.mark.filterwarnings("ignore:.*torch.nn.utils.*deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # where torch vectorizes by a loop
@pytest.mark.parametrize("make", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_predictions_leave_the_posterior_and_do_not_depend_on_their_neighbors(make, method):
    x, y = Stream(0).normal(*SHAPE), Stream(1).normal(SHAPE[0], 1)
    with Stream(2).borrowed_global():
        model = credo.Model(make(), likelihoods.Gaussian(1.0))
    posterior = credo.fit(model, (x, y), method, seed=0, progress=False)
    functions = posterior.draw(5, seed=1)
    before = {name: t.clone() for name, t in functions.variables.buffers.items()}
    whole = functions(x)
    assert all(torch.equal(t, before[name]) for name, t in functions.variables.buffers.items())
    assert torch.equal(functions(x), whole)
    assert torch.equal(posterior.draw(5, seed=1)(x), whole)
    if make is not Growing:  # which looks at its neighbors itself
        rows = torch.cat([functions(row) for row in x.split(1)], 1)
        torch.testing.assert_close(rows, whole, rtol=1e-4, atol=1e-5)  # float32, by other kernels for one row


@pytest.mark.parametrize("plan", list(Plan))
@pytest.mark.parametrize("members", [1, 3])
def test_buffers_that_training_assigns_are_carried(plan, members):
    """As if torch had trained each member alone."""
    module = HandNorm().double()
    network = Network(module)
    variables = network.initial(members, Stream(0))
    alone = []
    for m in range(members):
        alone.append(HandNorm().double().train())
        alone[m].load_state_dict({n: t[m].clone() for n, t in {**variables.params, **variables.buffers}.items()})
    for step in range(3):
        x = Stream(1, (step,)).normal(*SHAPE, dtype=torch.float64)
        sites = network.trace(variables, x).sites
        masks = draw_masks(sites, Stream(2), members, len(x), network.dtype, "cpu")
        network.train(variables, x, masks, plan)
        for plain in alone:
            plain(x)
    for m, plain in enumerate(alone):
        torch.testing.assert_close(variables.buffers["mean"][m], plain.mean)
        assert int(variables.buffers["count"][m]) == int(plain.count) == 3
    leaves = {name: p.requires_grad_() for name, p in variables.params.items()}
    outputs = network.train(credo.Variables(leaves, variables.buffers), x, masks, plan)
    assert all(bool(g.isfinite().all()) for g in torch.autograd.grad(outputs.sum(), list(leaves.values())))


def test_a_buffer_that_backward_needs_is_assigned_without_harm():
    """Growing multiplies by its buffer, which autograd saves, and assigns it afterwards."""
    network = Network(Growing())
    variables, x = network.initial(2, Stream(0)), Stream(1).normal(*SHAPE)
    masks = draw_masks(network.trace(variables, x).sites, Stream(2), 2, len(x), network.dtype, "cpu")
    for plan in Plan:
        leaves = {name: p.detach().requires_grad_() for name, p in variables.params.items()}
        outputs = network.train(credo.Variables(leaves, variables.buffers), x, masks, plan)
        torch.autograd.grad(outputs.sum(), list(leaves.values()))
    assert bool(variables.buffers["mean"].any())


def test_two_buffers_that_change_places():
    class Swapping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1)
            self.register_buffer("one", torch.tensor(1.0))
            self.register_buffer("two", torch.tensor(2.0))

        def forward(self, x: Tensor) -> Tensor:
            self.one, self.two = self.two, self.one
            return self.layer(x)

    network = Network(Swapping())
    for plan in Plan:
        variables = network.initial(2, Stream(0))
        network.train(variables, torch.ones(4, 3), (), plan)
        assert (variables.buffers["one"].tolist(), variables.buffers["two"].tolist()) == ([2.0] * 2, [1.0] * 2)


def test_a_state_outside_of_parameters_and_buffers_is_named():
    x = torch.ones(4, 3)
    for make, expected in ((Remembering, ("hidden", "history")), (HandNorm, ()), (Shared, ()), (Counting, ())):
        network = Network(make())
        assert network.trace(network.given(), x).remembers == expected
    network = Network(Caching())  # the same examples would not show it
    assert network.trace(network.given(), Stream(4).normal(4, 3)).remembers == ("mean",)
    network = Network(Lazy())  # notes things, and computes the same for it
    assert network.trace(network.given(), x).remembers == ()
    network = Network(Remembering())
    (note,) = network.trace(network.given(), x).notes
    assert "remembers hidden, history from one forward pass to the next" in note
    assert note in credo.fit(Remembering(), (x, x[:, :1]), credo.MAP(epochs=1), progress=False).notes


class Behind(nn.Module):
    """Dropout that only training comes to, beside one that evaluation comes to."""

    def __init__(self, *more: nn.Module) -> None:
        super().__init__()
        self.first, self.more, self.last = nn.Linear(3, 8), nn.Sequential(*more), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        if self.training:
            hidden = F.dropout(hidden, 0.3)
        return self.last(self.more(hidden))


@pytest.mark.parametrize("more", [(), (nn.Dropout(0.2),)], ids=["alone", "beside another"])
def test_dropout_that_evaluation_never_comes_to_is_named(more):
    network = Network(Behind(*more))
    x = torch.ones(4, 3)
    seen = network.trace(network.given(), x)
    assert seen.unreached == ("forward",)
    masks = draw_masks(seen.sites, Stream(0), 5, None, network.dtype, "cpu")
    with pytest.raises(ValueError, match=r"drops at forward in training only.*if self\.training"):
        network.draw(network.given(), x, masks)
    with pytest.raises(ValueError, match=r"drops at forward in training only"):
        credo.fit(network.module, (x, x[:, :1]), credo.MCDropout(epochs=1), progress=False)
    assert credo.fit(Behind(*more), (x, x[:, :1]), credo.MAP(epochs=1), progress=False).predict(x).mean.shape == (4, 1)


def test_masks_find_their_places_where_training_and_evaluation_differ():
    """The first two calls of `Rates` take the first two masks, the third, of evaluation alone, none."""
    network = Network(Rates().double())
    variables, x = network.given(), Stream(0).normal(*SHAPE, dtype=torch.float64)
    sites = network.trace(variables, x).sites
    assert [site.rate for site in sites] == [0.4, 0.2, 0.1]
    one, two, three = masks = draw_masks(sites, Stream(1), 1, None, network.dtype, "cpu")
    p = {name: t[0] for name, t in variables.params.items()}
    hidden = (F.linear(x, p["first.weight"], p["first.bias"]) * one[0]).tanh() * two[0] * three[0]
    expected = F.linear(hidden, p["last.weight"], p["last.bias"])
    torch.testing.assert_close(network.draw(variables, x, masks)[0], expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(network.train(variables, x, masks)[0], expected, rtol=1e-12, atol=1e-12)


def test_a_rate_that_moves_is_refused():
    class Annealed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1)
            self.register_buffer("rate", torch.tensor(0.1))

        def forward(self, x: Tensor) -> Tensor:
            self.rate += 0.1
            return self.layer(F.dropout(x, float(self.rate), self.training))

    network = Network(Annealed())
    variables, x = network.given(), torch.ones(4, 3)
    masks = draw_masks(network.trace(variables, x).sites, Stream(0), 1, 4, network.dtype, "cpu")
    network.train(variables, x, masks)
    with pytest.raises(ValueError, match=r"drops with rate 0\.3 where it had rate 0\.2"):
        network.train(variables, x, masks)


def test_looks_at_many_shapes_do_not_pile_up():
    network = Network(MeanOverTime())
    variables = network.given()
    for length in range(1, 300):
        network.trace(variables, torch.zeros(2, length, 3))
    assert len(network._traces) <= 256


class MeanOverTime(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.mean(1))


def test_inputs_made_in_inference_mode_are_taken():
    network = Network(Scaled(in_place))
    with torch.inference_mode():
        x = torch.ones(4, 3)
        assert network.evaluate(network.given(), x).shape == (1, 4, 1)
    assert bool((x == 1.0).all())


class Capturing(nn.Module):
    """Puts a hook on its layer in its first pass, as modules do that collect the outputs of their parts."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.ready, self.outputs = nn.Linear(3, 2), False, []

    def forward(self, x: Tensor) -> Tensor:
        if not self.ready:
            self.layer.register_forward_hook(lambda module, args, output: self.outputs.append(output))
            self.ready = True
        self.outputs = []
        self.layer(x)
        return torch.stack(self.outputs).sum(0)


def test_hooks_that_a_pass_puts_on_do_not_pile_up() -> None:
    module, x = Capturing(), torch.ones(4, 3)
    network = Network(module)
    for _ in range(3):
        torch.testing.assert_close(network.evaluate(network.given(), x)[0], module.layer(x))
