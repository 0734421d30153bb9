"""A bare module is standardized inside: the same as by hand, in the user's units, and only where nothing was given."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import credo
from credo import likelihoods, nets
from credo.core.trees import flatten
from credo.kernels import switch
from credo.likelihoods import LearnedGaussian, Standardized
from credo.methods.base import Method
from credo.model import Batch, Target
from credo.nets.plan import Plan
from credo.nets.scaling import InputScaling, LeafScaling
from credo.posteriors import Posterior
from credo.uncertainty import features

N = 24
RNG = credo.Stream(0, ("scale",))
X = RNG.child("x").normal(N, 3, dtype=torch.float64) * torch.tensor([1.0, 40.0, 1e-3]) + torch.tensor([0.0, 2e3, 5.0])
Y = 7e4 + 1e4 * torch.sin(X[:, :1]) + 100.0 * RNG.child("y").normal(N, 1, dtype=torch.float64)
ZX, ZY = ((t - t.mean(0)) / t.std(0, correction=0) for t in (X, Y))
MAP = credo.MAP(epochs=6, learning_rate=0.05)
METHODS: dict[str, Method] = {
    "MAP": MAP,
    "minibatches": replace(MAP, batch_size=5),
    "ensemble": credo.DeepEnsemble(members=2, epochs=4),
    "Bayes by Backprop": credo.BayesByBackprop(epochs=4),
    "MC dropout": credo.MCDropout(rate=0.2, epochs=4),
    "HMC": credo.HMC(chains=2, warmup=6, draws=6),
    "SGLD": credo.SGLD(draws=5, warmup=5),
}


def net(inputs: int = 3, outputs: int = 1) -> nn.Module:
    with credo.Stream(1).borrowed_global():
        return nn.Sequential(nn.Linear(inputs, 4), nn.Tanh(), nn.Linear(4, outputs)).double()


def fitted(model: Any, data: Any, method: Method = MAP, **more: Any) -> Posterior:
    return credo.fit(model, data, method, progress=False, **more)


def mean(posterior: Posterior, x: Any = X) -> Tensor:
    return posterior.predict(x, draws=20).mean


def same(one: Posterior, other: Posterior) -> bool:
    a, b = one.tensors(), other.tensors()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def by_hand(method: Method, x: Tensor, y: Tensor) -> Posterior:
    return fitted(credo.Model(net(), LearnedGaussian()), (x, y), method)


def close(ours: Posterior, hand: Posterior) -> bool:
    """Whether predictions of the first, in units, are those of the second, of standardized numbers."""
    inside, outside = hand.predict(ZX, draws=20), ours.predict(X, draws=20)
    scale, loc = Y.std(0, correction=0), Y.mean(0)
    pairs = [
        (inside.mean * scale + loc, outside.mean),
        (inside.stddev * scale, outside.stddev),
        (inside.epistemic * scale**2, outside.epistemic),
        (inside.log_prob(ZY) - scale.log(), outside.log_prob(Y)),
        (inside.interval(0.9)[1] * scale + loc, outside.interval(0.9)[1]),
    ]
    return all(torch.allclose(a.double(), b.double(), rtol=1e-5, atol=1e-6) for a, b in pairs)  # quantiles: 1e-6


@pytest.mark.filterwarnings("ignore::credo.CredoWarning")  # a few draws say that there are few
@pytest.mark.parametrize("name", METHODS)
def test_it_is_the_fit_to_data_standardized_by_hand(name: str) -> None:
    assert close(fitted(net(), (X, Y), METHODS[name]), by_hand(METHODS[name], ZX, ZY))


@pytest.mark.filterwarnings("ignore::credo.CredoWarning")
@pytest.mark.parametrize("twin", ["inputs as they came", "another center", "the spread of a sample"])
def test_a_fit_to_other_numbers_is_another(twin: str) -> None:
    x = {"inputs as they came": X, "another center": ZX + 0.01, "the spread of a sample": (X - X.mean(0)) / X.std(0)}
    assert not close(fitted(net(), (X, Y)), by_hand(MAP, x[twin], ZY))


def test_both_plans_are_the_same() -> None:
    one, other = (fitted(net(), (X, Y), METHODS["ensemble"], plan=plan) for plan in Plan)
    assert torch.allclose(mean(one), mean(other), rtol=1e-9)


def test_units_change_nothing_but_the_units() -> None:
    """Also of the evidence, which is a density of y: it is N log(1000) lower for numbers a thousand times as large."""
    kilo, gram = (fitted(net(), (X, y), MAP) for y in (Y, 1000.0 * Y))
    assert torch.allclose(1000.0 * mean(kilo), mean(gram), rtol=1e-9)
    draws = credo.ImportanceSampling(draws=20)
    with pytest.warns(credo.CredoWarning, match="k-hat"):
        evidence = [fitted(net(), (X, y), draws).log_evidence.value for y in (Y, 1000.0 * Y)]
    assert evidence[0] - evidence[1] == pytest.approx(N * math.log(1000.0), rel=1e-9)


def test_the_hand_written_gradient_is_that_of_the_model() -> None:
    fast = fitted(net(), (X, Y), credo.HMC(chains=2, warmup=4, draws=4))
    with switch.disabled():
        plain = fitted(net(), (X, Y), credo.HMC(chains=2, warmup=4, draws=4))
    assert torch.allclose(mean(fast), mean(plain), rtol=1e-6)
    unscaled = replace(fast, model=fast.model.with_network(fast.model.network.with_scaling(None)))
    assert not torch.allclose(mean(fast), mean(unscaled), rtol=1e-3)


def test_the_density_of_a_standardized_model_takes_the_users_numbers() -> None:
    posterior = fitted(net(), (X, Y))
    variables = posterior.members()
    hand = credo.Model(net(), LearnedGaussian())
    ours = Target(posterior.model, N).log_joint(variables, Batch(X, Y))
    theirs = Target(hand, N).log_joint(variables, Batch(ZX, ZY)) - N * Y.std(correction=0).log()
    assert torch.allclose(ours, theirs, rtol=1e-10)


WEIGHTS = torch.tensor([0.0, 1.0, 2.0]).repeat(N // 3)


def test_a_weight_of_two_is_a_repeated_row() -> None:
    rows = torch.repeat_interleave(torch.arange(N), WEIGHTS.long())
    weighted, repeated = fitted(net(), (X, Y), weights=WEIGHTS), fitted(net(), (X[rows], Y[rows]))
    assert torch.allclose(mean(weighted), mean(repeated), rtol=1e-9)
    assert not torch.allclose(mean(weighted), mean(fitted(net(), (X, Y))), rtol=1e-6)


@pytest.mark.parametrize("batch", [N, 7, 1])
def test_a_loader_is_read_once_for_the_same_numbers(batch: int) -> None:
    loader = DataLoader(TensorDataset(X, Y), batch_size=batch, shuffle=True)
    state = torch.get_rng_state()
    posterior = fitted(net(), loader)
    assert torch.equal(state, torch.get_rng_state())
    whole = fitted(net(), (X, Y)).model
    assert sum("read once" in note for note in posterior.notes) == 1
    (found,), (wanted) = posterior.model.network.scaling.leaves, whole.network.scaling.leaves[0]
    assert found.loc == pytest.approx(wanted.loc, rel=1e-12)
    assert found.scale == pytest.approx(wanted.scale, rel=1e-12)
    assert posterior.model.likelihood.scale == pytest.approx(whole.likelihood.scale, rel=1e-12)
    assert same(posterior, fitted(net(), loader))


def test_the_first_batches_alone_would_be_other_numbers() -> None:
    first = fitted(net(), (X[:7], Y[:7])).model.likelihood.loc
    assert first != pytest.approx(fitted(net(), (X, Y)).model.likelihood.loc, rel=1e-6)


def test_each_member_has_data_and_all_have_one_scale() -> None:
    x, y = torch.stack([X, 2 * X]), torch.stack([Y, 3 * Y])
    posterior = fitted(net(), credo.PerMember(x, y), METHODS["ensemble"])
    assert posterior.model.likelihood.loc == pytest.approx([float(y.mean())], rel=1e-12)
    assert posterior.model.network.scaling.leaves[0].scale == pytest.approx(
        x.flatten(0, 1).std(0, correction=0).tolist()
    )


class Several(nn.Module):
    """A network of several inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.row, self.words = nn.Conv2d(2, 3, 2), nn.Linear(3, 3), nn.Embedding(5, 3)
        self.series, self.head = nn.Linear(4, 3), nn.Linear(3, 1)

    def forward(self, image: Tensor, row: Tensor, words: Tensor, mask: Tensor, series: Tensor) -> Tensor:
        seen = self.image(image).mean((2, 3)) + self.row(row) + self.series(series).mean(1)
        return self.head(seen + (self.words(words) * mask.unsqueeze(-1)).mean(1))


def several() -> dict[str, Tensor]:
    rng = RNG.child("several")
    return {
        "image": 50.0 + 9.0 * rng.child(1).normal(N, 2, 5, 4),
        "row": X.float(),
        "words": torch.arange(N * 3).reshape(N, 3) % 5,
        "mask": (torch.arange(N * 3).reshape(N, 3) % 2).float(),
        "series": 3.0 + rng.child(2).normal(N, 6, 4),
    }


def test_columns_channels_and_the_rest() -> None:
    x = several()
    posterior = fitted(Several(), (x, Y.float()))
    found = {leaf.path: leaf for leaf in posterior.model.network.scaling.leaves}
    assert found.keys() == {"image", "row", "series"}
    assert found["image"].loc == pytest.approx(x["image"].double().mean((0, 2, 3)).tolist())
    assert found["row"].scale == pytest.approx(x["row"].double().std(0, correction=0).tolist())
    assert found["series"].loc == pytest.approx([float(x["series"].double().mean())])
    assert not any("mask" in note for note in posterior.notes)
    scaled = posterior.model.network.scaled(posterior.inputs(x))
    assert torch.allclose(scaled["image"].mean((0, 2, 3)), torch.zeros(2), atol=1e-5)  # float32
    assert scaled["words"].dtype is torch.int64
    assert torch.equal(scaled["mask"], x["mask"])
    with pytest.raises(ValueError, match="in the form that it had in training"):
        posterior.predict(tuple(x.values()))
    with pytest.raises(ValueError, match="standardizes 3 features"):
        posterior.predict({**x, "row": x["row"][:, :1]})


def test_the_features_of_a_graph_and_not_its_edges() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, features: Tensor, adjacency: Tensor) -> Tensor:
            return adjacency @ self.layer(features)

    adjacency, labels = torch.rand(N, N), torch.arange(N) % 2
    posterior = fitted(Mixed(), (credo.Graph((X.float(), adjacency)), labels))
    assert [leaf.path for leaf in posterior.model.network.scaling.leaves] == ["0"]


def test_a_flattened_picture_has_one_scale() -> None:
    pixels = RNG.child("pixels").normal(N, 20).clamp(0.0, 1.0)
    pixels[:, 3] = 0.0
    pixels[5, 3] = 0.5
    posterior = fitted(nn.Linear(20, 2), (pixels, torch.arange(N) % 2))
    assert len(posterior.model.network.scaling.leaves[0].loc) == 1
    assert float(posterior.model.network.scaled(pixels).abs().max()) < 5.0


GIVEN = {
    "a likelihood": {"model": lambda: credo.Model(net(), LearnedGaussian())},
    "a prior": {"model": lambda: credo.Model(net(), prior=credo.priors.Normal())},
    "a trained module": {"start": net()},
    "weights": {"start": flatten(dict(net().named_parameters()))},
}


@pytest.mark.parametrize("what", GIVEN)
def test_what_was_given_is_left_alone(what: str) -> None:
    model = GIVEN[what].get("model", net)()
    posterior = fitted(model, (ZX, ZY), credo.MAP(epochs=1), start=GIVEN[what].get("start"))
    assert posterior.model.network.scaling is None
    assert type(posterior.model.likelihood) is LearnedGaussian
    assert not any("standardized" in note for note in posterior.notes)


def test_a_frozen_part_knows_its_units() -> None:
    part = net()
    part[0].weight.requires_grad_(False)
    assert fitted(part, (ZX, ZY)).model.network.scaling is None


def test_nothing_given_in_a_model_is_nothing_given() -> None:
    assert same(fitted(credo.Model(net()), (X, Y)), fitted(net(), (X, Y)))


def test_outputs_with_a_range_keep_their_targets() -> None:
    posterior = fitted(nn.Sequential(net(), nn.Softplus()), (X, ZY.exp()))
    assert type(posterior.model.likelihood) is LearnedGaussian
    assert posterior.model.network.scaling is not None
    assert any("softplus" in note for note in posterior.notes)


def test_whole_numbers_and_classes_are_no_measurements() -> None:
    words = torch.arange(N * 3).reshape(N, 3) % 5
    module = nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(6, 2))
    posterior = fitted(module, (words, torch.arange(N) % 2))
    assert posterior.model.network.scaling is None
    assert not any("standardized" in note for note in posterior.notes)


def test_a_run_that_begins_with_a_posterior_keeps_its_scale() -> None:
    before = fitted(net(), (X, Y))
    still = credo.MAP(epochs=1, learning_rate=1e-12)
    again = fitted(net(), (X[:9], Y[:9]), still, start=before)
    assert again.model.likelihood == before.model.likelihood
    assert torch.allclose(mean(again), mean(before), rtol=1e-9)
    with pytest.warns(credo.CredoWarning, match=r"give start\.model"):
        other = fitted(credo.Model(net(), LearnedGaussian()), (ZX, ZY), still, start=before)
    assert not torch.allclose(mean(other), mean(before), rtol=1e-3)


def test_a_folder_gives_the_same_bits(tmp_path: Path) -> None:
    posterior = fitted(net(), (X, Y), METHODS["ensemble"])
    posterior.save(tmp_path)
    for loaded in (credo.load(tmp_path, net()), credo.load(tmp_path, model=credo.Model(net()))):
        assert loaded.model.network.scaling == posterior.model.network.scaling
        assert loaded.model.likelihood == posterior.model.likelihood
        assert torch.equal(mean(loaded), mean(posterior))


def test_a_module_of_credos_is_made_again(tmp_path: Path) -> None:
    posterior = fitted(nets.MLP(3, 1, (4,)), (X, Y))
    assert torch.equal(mean(credo.load(posterior.save(tmp_path))), mean(posterior))


class Unsteady(TensorDataset):
    """Examples with noise that no seed repeats."""

    count = 0.0

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        x, y = super().__getitem__(index)
        Unsteady.count += 1e-6
        return x + Unsteady.count, y


def test_a_resumed_run_keeps_its_numbers(tmp_path: Path) -> None:
    loader = DataLoader(Unsteady(X, Y), batch_size=8)
    with pytest.warns(credo.CredoWarning, match="stopped"):
        first = fitted(net(), loader, checkpoint=tmp_path, seconds=1e-9)
    resumed = fitted(net(), loader, checkpoint=tmp_path, resume=True)
    assert resumed.record.finished
    assert resumed.model.network.scaling == first.model.network.scaling
    assert fitted(net(), loader).model.network.scaling != first.model.network.scaling


def test_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    with pytest.warns(credo.CredoWarning, match="stopped"):
        fitted(net(), (X, Y), checkpoint=tmp_path, seconds=1e-9)
    assert same(fitted(net(), (X, Y), checkpoint=tmp_path, resume=True), fitted(net(), (X, Y)))


def test_validation_is_in_the_same_units() -> None:
    posterior = fitted(net(), (X, Y), validation=(X, Y))
    history = posterior.history[-1]["validation_log_likelihood"]
    assert history == pytest.approx(float(posterior.predict(X).log_prob(Y).mean()), rel=1e-9)


def test_a_clock_is_read_in_float64() -> None:
    clock = 1.7e18 + 1e6 * ZX[:, :1]
    module = net(1).float()
    of_time, in_time = fitted(module, (clock, ZX[:, :1])), fitted(module, (ZX[:, :1], clock))
    expected = fitted(module, (ZX[:, :1], ZX[:, :1]))
    assert of_time.predict(clock).mean.dtype is torch.float32
    assert torch.allclose(of_time.predict(clock).mean, expected.predict(ZX[:, :1]).mean, atol=1e-3)  # 256 ns of 1e6
    error = (in_time.predict(ZX[:, :1]).mean - 1.7e18) / 1e6 - expected.predict(ZX[:, :1]).mean
    assert float(error.abs().max()) < 1e-3  # likewise
    wrong = fitted(module, (clock.float(), ZX[:, :1]))  # where float32 has lost them before
    assert not torch.allclose(wrong.predict(clock.float()).mean, expected.predict(ZX[:, :1]).mean, atol=1e-3)


@pytest.mark.parametrize("unit", [1e30, 1e-30, 1e-40])
def test_numbers_of_any_size(unit: float) -> None:
    posterior, plain = fitted(net().float(), (X, Y / 7e4 * unit)), fitted(net().float(), (X, Y / 7e4))
    assert torch.allclose(mean(posterior).double() / unit, mean(plain).double(), rtol=1e-3)  # subnormal numbers


def test_constant_targets_are_learned_and_named() -> None:
    posterior = fitted(net(), (X, torch.full((N, 1), 5.0)))
    assert any("y is 5 in all examples" in note for note in posterior.notes)
    assert bool(mean(posterior).isfinite().all())
    assert not any("in all examples" in note for note in fitted(net(), (X, Y)).notes)


def test_a_value_far_away_is_named() -> None:
    y = ZY.repeat(2, 1)
    y[7] = 1e9
    with pytest.warns(credo.CredoWarning, match="value 1e\\+09 in row 7"):
        fitted(net(), (X.repeat(2, 1), y))
    x = X.repeat(2, 1)
    x[3, 1] = -1e12
    with pytest.warns(credo.CredoWarning, match=r"x\[:, 1\] has the value -1e\+12 in row 3"):
        fitted(net(), (x, ZY.repeat(2, 1)))


def test_a_rare_yes_is_no_value_far_away() -> None:
    x = X.repeat(2, 1)
    x[:, 1] = 0.0
    x[3, 1] = 1.0
    fitted(net(), (x, ZY.repeat(2, 1)))  # or there would be a warning, which is an error here


FAR_OFF: dict[str, tuple[Any, Any, str]] = {
    "targets in grams": (ZX, Y, r"y is of size 7\.14e"),
    "targets within the noise": (ZX, 1e-3 * ZY, "y varies by 0.001"),
    "inputs in years": (X, ZY, r"x is of size 2\.01e"),
}


@pytest.mark.parametrize("case", FAR_OFF)
def test_data_far_from_what_a_given_model_expects_are_named(case: str) -> None:
    x, y, said = FAR_OFF[case]
    with pytest.warns(credo.CredoWarning, match=said) as caught:
        posterior = fitted(credo.Model(net(), likelihoods.Gaussian(0.1)), (x, y))
    assert "credo.fit(net, data, method)" in str(caught[0].message)
    assert str(caught[0].message) in posterior.notes
    assert caught[0].filename == __file__


def test_a_likelihood_in_units_is_what_was_asked_for() -> None:
    likelihood = Standardized(LearnedGaussian(), (7e4,), (1e4,))
    assert fitted(credo.Model(net(), likelihood), (ZX, Y)).notes == ()


def test_scaling_says_what_is_wrong_with_its_numbers() -> None:
    with pytest.raises(ValueError, match="one for each feature"):
        LeafScaling("", (0.0, 1.0), (1.0,))
    with pytest.raises(ValueError, match="scale"):
        LeafScaling("", (0.0,), (0.0,))
    with pytest.raises(ValueError, match="in the form that it had in training"):
        InputScaling((LeafScaling("", (0.0,), (1.0,)),))(torch.zeros(3, 1, dtype=torch.int64), torch.float32)


def test_features_are_those_of_standardized_inputs() -> None:
    posterior = fitted(net(), (X, Y))
    hand = replace(posterior, model=posterior.model.with_network(posterior.model.network.with_scaling(None)))
    assert torch.allclose(features(posterior, X), features(hand, ZX), rtol=1e-9)
    assert not torch.allclose(features(posterior, X), features(hand, X), rtol=1e-3)


def test_many_targets_of_one_range_are_standardized_each() -> None:
    """Columns of inputs that share a range are taken for pixels and get one mean; targets must not."""
    x = torch.where(torch.arange(40)[:, None] % 2 == 0, 0.9, 0.1).expand(40, 16) * torch.ones(16)
    posterior = credo.fit(credo.nets.MLP(16, 16, (4,)), (x, x), credo.MAP(epochs=1))
    assert posterior.predict(x[:2]).mean.shape == (2, 16)
