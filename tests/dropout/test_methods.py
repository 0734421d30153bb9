"""MC dropout and concrete dropout as methods: rates by layer, what is dropped, and what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods, priors
from credo.methods.dropout.placing import PerWeight
from credo.nets import MLP
from credo.nets.dropout import Drops
from credo.posteriors import Dropout

X = credo.Stream(0).normal(20, 3)
Y = X[:, :1].sin()
FAST = {"epochs": 3, "learning_rate": 1e-2, "batch_size": 8}


def fitted(net: nn.Module, method: credo.Method, x: Tensor = X, **more: object) -> Dropout:
    model = credo.Model(net, likelihoods.Gaussian(0.5), priors.Normal(1.0))
    posterior = credo.fit(model, (x, Y), method, plan=credo.Plan.ONE_BY_ONE, **more)
    assert isinstance(posterior, Dropout)
    return posterior


def rates(posterior: Dropout, x: Tensor = X) -> dict[str, float]:
    return {site.name: site.rate for site in posterior.model.network.trace(posterior.variables, x).sites}


def test_a_rate_of_zero_is_the_deterministic_network() -> None:
    """Trained as MAP to the bit, and every draw the same function; concrete dropout is that at its limit."""
    net = MLP(3, 1, (8, 6))
    for drops in Drops:
        posterior = fitted(net, credo.MCDropout(rate=0.0, drops=drops, **FAST))
        plain = credo.fit(credo.Model(net, likelihoods.Gaussian(0.5), priors.Normal(1.0)), (X, Y), credo.MAP(**FAST))
        for name, w in plain.members().params.items():
            torch.testing.assert_close(posterior.variables.params[name], w)
        assert any("no epistemic uncertainty" in note for note in posterior.notes)
        drawn = posterior.draw(4)(X)
        torch.testing.assert_close(drawn, posterior.at_mean().predict(X).draws.expand_as(drawn))
    concrete = fitted(net, credo.ConcreteDropout(**FAST))
    none = {name: torch.zeros_like(rate) for name, rate in concrete.rates.items()}
    sure = Dropout(concrete.model, concrete.variables, none)
    torch.testing.assert_close(sure.draw(3)(X), sure.at_mean().predict(X).draws.expand(3, -1, -1))


def test_rates_by_the_name_of_a_layer() -> None:
    own = MLP(3, 1, (8, 6), dropout=0.2)  # layers 3 and 6 drop, for layers 4 and 7
    assert rates(fitted(own, credo.MCDropout(**FAST))) == {"layers.3": 0.2, "layers.6": 0.2}
    partly = fitted(own, credo.MCDropout(rate={"layers.3": 0.0}, **FAST))
    assert not any("no epistemic uncertainty" in note for note in partly.notes)  # layers.6 still drops
    assert rates(fitted(own, credo.MCDropout(rate={"layers.3": 0.4}, **FAST))) == {"layers.3": 0.4, "layers.6": 0.2}
    assert rates(fitted(own, credo.MCDropout(rate={"layers.7": 0.5}, **FAST))) == {"layers.3": 0.2, "layers.6": 0.5}
    plain = MLP(3, 1, (8, 6))
    assert rates(fitted(plain, credo.MCDropout(rate=0.1, **FAST))) == {"layers.3": 0.1, "layers.5": 0.1}
    chosen = credo.MCDropout(rate={"layers.1": 0.05, "layers.*": 0.3}, **FAST)
    assert rates(fitted(plain, chosen)) == {"layers.1": 0.05, "layers.3": 0.3, "layers.5": 0.3}


def test_dropout_by_a_function_has_a_name_too() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 8), nn.Linear(8, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(nn.functional.dropout(self.first(x).relu(), 0.2, self.training))

    assert rates(fitted(Functional(), credo.MCDropout(**FAST))) == {"forward": 0.2}
    assert rates(fitted(Functional(), credo.MCDropout(rate={"second": 0.4}, **FAST))) == {"forward": 0.4}
    assert list(fitted(Functional(), credo.ConcreteDropout(**FAST)).rates) == ["forward"]
    with pytest.raises(TypeError, match="rate must be a number or a mapping"):
        credo.MCDropout(rate="0.1")


def test_a_pattern_that_means_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"pattern 'head\.\*'.*layers\.3"):
        fitted(MLP(3, 1, (8,)), credo.MCDropout(rate={"layers.3": 0.1, "head.*": 0.2}, **FAST))


def test_a_pattern_whose_layers_are_all_taken_is_refused() -> None:
    plain, own = MLP(3, 1, (8, 6)), MLP(3, 1, (8, 6), dropout=0.2)
    with pytest.raises(ValueError, match=r"'layers\.5'.*taken by.*'\*'.*first pattern that matches counts"):
        fitted(plain, credo.MCDropout(rate={"*": 0.1, "layers.5": 0.4}, **FAST))
    with pytest.raises(ValueError, match=r"'layers\.\*'.*taken by.*'layers\.3', 'layers\.7'"):
        fitted(own, credo.MCDropout(rate={"layers.3": 0.1, "layers.7": 0.3, "layers.*": 0.4}, **FAST))
    assert rates(fitted(own, credo.MCDropout(rate={"layers.7": 0.4, "*": 0.1}, **FAST)))["layers.6"] == 0.4


IMAGES = credo.Stream(1).normal(20, 2, 8, 8)


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 1)
    )


@pytest.mark.parametrize(
    ("drops", "shapes"),
    [
        ("units", [(1, 4, 6, 6), (1, 12)]),
        ("channels", [(1, 4, 1, 1), (1, 12)]),
        ("weights", [(4, 2, 3, 3), (3, 4, 3, 3), (1, 12)]),
    ],
)
def test_units_channels_and_weights(drops: str, shapes: list[tuple[int, ...]]) -> None:
    posterior = fitted(convolutional(), credo.MCDropout(rate=0.3, drops=drops, **FAST), IMAGES)
    sites = posterior.model.network.sites
    assert [site.mask_shape(None) for site in sites] == shapes
    assert [site.consumer.weight for site in sites if site.consumer] == [f"{i}.weight" for i in (0, 2, 6)][
        -len(sites) :
    ]
    assert float(posterior.draw(30)(IMAGES).var(0).max()) > 0
    if drops != "weights":
        learned = fitted(convolutional(), credo.ConcreteDropout(drops=drops, sharing="unit", **FAST), IMAGES)
        assert [tuple(rate.shape[1:]) for rate in learned.rates.values()] == shapes


@pytest.mark.parametrize("spatial", [1, 3])
def test_rows_and_volumes(spatial: int) -> None:
    layer = {1: nn.Conv1d, 3: nn.Conv3d}[spatial]
    net = nn.Sequential(layer(1, 3, 2), nn.ReLU(), layer(3, 2, 2), nn.Flatten(), nn.Linear(2 * 2**spatial, 1))
    x = credo.Stream(2).normal(20, 1, *[4] * spatial)
    for method in (credo.MCDropout(rate=0.2, **FAST), credo.ConcreteDropout(**FAST)):
        assert fitted(net, method, x).model.network.sites[0].mask_shape(None) == (1, 3, *[1] * spatial)


def test_dropped_weights_are_the_weights_times_a_mask() -> None:
    """Every draw's outputs are those of the network with some weights at 0 and the others over 1 - rate."""
    net = nn.Linear(3, 1, bias=False)
    posterior = fitted(net, credo.MCDropout(rate=0.4, drops="weights", **FAST))
    weight = posterior.variables.params["weight"][0, 0]
    drawn = posterior.draw(50)(torch.eye(3))[..., 0]  # (50, 3): the drawn weights themselves
    ratio = drawn / weight
    assert set(ratio.flatten().mul(0.6).round(decimals=4).abs().tolist()) == {0.0, 1.0}


def test_masks_of_units_are_one_for_each_example_and_of_weights_one_for_each_step() -> None:
    same = X[:1].expand(20, 3)
    for drops, distinct in (("units", True), ("weights", False)):
        model = fitted(MLP(3, 1, (8, 8)), credo.MCDropout(rate=0.5, drops=drops, **FAST)).model
        target = credo.Target(model, 20)
        each = target.training_log_likelihood(
            model.network.given(), credo.Batch(same, Y[:1].expand(20, 1)), credo.Stream(0)
        )
        assert bool(each.std() > 1e-4) is distinct


def test_a_length_scale_is_a_prior() -> None:
    net = MLP(3, 1, (8,))
    given = fitted(net, credo.MCDropout(rate=0.2, length_scale=2.0, **FAST))
    assert given.model.prior == priors.Normal(0.5)
    by_prior = credo.fit(
        credo.Model(net, likelihoods.Gaussian(0.5), priors.Normal(0.5)),
        (X, Y),
        credo.MCDropout(rate=0.2, **FAST),
        plan=credo.Plan.ONE_BY_ONE,
    )
    for name, w in by_prior.members().params.items():
        assert torch.equal(w, given.variables.params[name])


def test_places_whose_units_no_layer_takes_are_told() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.drop = nn.Linear(3, 3), nn.Linear(3, 1), nn.Dropout(0.2)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(x + self.drop(self.first(x).relu()))

    posterior = fitted(Residual(), credo.MCDropout(**FAST))
    assert any("prior is taken as it is" in note and "drop" in note for note in posterior.notes)
    assert any("entropy alone" in note for note in fitted(Residual(), credo.ConcreteDropout(**FAST)).notes)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: credo.MCDropout(rate=1.0), "rate must lie between 0 and 1"),
        (lambda: credo.MCDropout(rate={}), "rate={} names no layer"),
        (lambda: credo.MCDropout(rate={"*": -0.1}), "rate must lie between 0 and 1"),
        (lambda: credo.MCDropout(rate=0.1, drops="neurons"), "units, channels, weights"),
        (lambda: credo.MCDropout(rate=0.1, length_scale=0.0), "length_scale must be a positive"),
        (lambda: credo.ConcreteDropout(initial_rate=0.0), "initial_rate must lie between"),
        (lambda: credo.ConcreteDropout(temperature=0.0), "temperature must be a positive"),
        (lambda: credo.ConcreteDropout(sharing=PerWeight()), "rates of layers or units"),
        (lambda: credo.ConcreteDropout(drops="weights"), "rates of layers or units"),
        (lambda: fitted(nn.Linear(3, 1), credo.MCDropout(rate=0.1)), "fewer than two"),
        (lambda: fitted(MLP(3, 1), credo.MCDropout()), "no dropout layer"),
        (
            lambda: fitted(nn.Sequential(nn.AlphaDropout(0.1), nn.Linear(3, 1)), credo.ConcreteDropout()),
            "alpha dropout",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        wrong()


def test_concrete_dropout_starts_from_another_posterior_and_lends_itself_to_one() -> None:
    net = MLP(3, 1, (8,))
    first = credo.fit(credo.Model(net, likelihoods.Gaussian(0.5)), (X, Y), credo.MAP(**FAST))
    second = fitted(net, credo.ConcreteDropout(**FAST), start=first)
    third = credo.fit(credo.Model(net, likelihoods.Gaussian(0.5)), (X, Y), credo.MAP(**FAST), start=second)
    assert third.record.finished


def test_a_warm_posterior_drops_more() -> None:
    x = credo.Stream(4).normal(64, 3)
    model = credo.Model(MLP(3, 1, (16,)), likelihoods.Gaussian(0.5), priors.Normal(1.0))
    method = credo.ConcreteDropout(epochs=100, learning_rate=1e-2)
    cold, warm = (credo.fit(model, (x, x[:, :1]), method, temperature=t).rates["layers.3"] for t in (1.0, 20.0))
    assert float(warm) > 2 * float(cold)


def test_rates_fall_where_data_grow() -> None:
    """A linear function with little noise: 8 examples leave more doubt than 512."""
    found = []
    for count in (8, 512):
        x = credo.Stream(4).normal(count, 3)
        y = x[:, :1] + 0.1 * credo.Stream(5).normal(count, 1)
        model = credo.Model(MLP(3, 1, (16,)), likelihoods.Gaussian(0.5), priors.Normal(1.0))
        method = credo.ConcreteDropout(epochs=400 if count == 8 else 50, learning_rate=1e-2, batch_size=64)
        found.append(float(credo.fit(model, (x, y), method).rates["layers.3"]))
    assert found[0] > 2 * found[1]
