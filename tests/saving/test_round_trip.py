"""What is saved comes back to the bit."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods, nets, priors
from credo.core.config import Registry
from credo.core.trees import Variables
from credo.posteriors import Draws, NetworkFunctions
from credo.posteriors.draws import dealt

N = 18
X = credo.Stream(9, ("saving",)).normal(N, 3)
Y = X[:, :1].sin()
FAST = {"epochs": 2, "batch_size": 7}


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 1))


def frozen() -> nn.Module:
    net = nets.MLP(3, 1, (5, 4))
    net.layers[1].weight.requires_grad_(False)
    return net


NETS = {
    "mlp": lambda: nets.MLP(3, 1, (5,), activation="tanh"),
    "mlp with dropout": lambda: nets.MLP(3, 1, (5,), dropout=0.2),
    "double mlp": lambda: nets.MLP(3, 1, (5,)).double(),
    "frozen mlp": frozen,
    "batch norm": normed,
}
METHODS = {
    "point": credo.MAP(**FAST),
    "ensemble": credo.DeepEnsemble(members=3, **FAST),
    "dropout": credo.MCDropout(rate=0.3, **FAST),
    "dropout ensemble": credo.Ensemble(credo.MCDropout(rate=0.3, **FAST), members=2),
    "gaussian": credo.BayesByBackprop(**FAST),
    "gaussian ensemble": credo.Ensemble(credo.BayesByBackprop(**FAST), members=2),
}


def assert_same(ours: credo.Posterior, theirs: credo.Posterior, x: Tensor = X) -> None:
    assert type(ours) is type(theirs)
    assert list(ours.tensors()) == list(theirs.tensors()), "names, in order"
    for name, tensor in ours.tensors().items():
        assert theirs.tensors()[name].dtype == tensor.dtype
        assert torch.equal(theirs.tensors()[name], tensor)
    for count, seed in ((None, 0), (7, 3)):
        one, other = ours.predict(x, count, seed), theirs.predict(x, count, seed)
        assert torch.equal(one.draws, other.draws)
        assert torch.equal(one.stddev, other.stddev)
        assert torch.equal(one.sample(3), other.sample(3))
    assert theirs.record == ours.record
    assert theirs.notes == ours.notes
    assert theirs.model.likelihood == ours.model.likelihood
    assert theirs.model.prior == ours.model.prior
    assert theirs.model.network.dropout == ours.model.network.dropout


@pytest.mark.parametrize("net", NETS.values(), ids=NETS.keys())
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_every_posterior_of_every_net_predicts_the_same_bits(method: credo.Method, net, tmp_path: Path) -> None:
    model = credo.Model(net(), likelihoods.LearnedGaussian(0.5), priors.StudentT(scale=0.7))
    posterior = credo.fit(model, (X, Y), method, validation=(X, Y))
    assert posterior.save(tmp_path / "run") == tmp_path / "run"
    built = isinstance(model.network.module, nets.MLP)
    assert_same(posterior, credo.load(tmp_path / "run") if built else credo.load(tmp_path / "run", net()))


@pytest.mark.parametrize(
    "likelihood",
    [
        likelihoods.Gaussian(0.3),
        likelihoods.HeteroscedasticGaussian(floor=0.02),
        likelihoods.Categorical(),
        likelihoods.Bernoulli(),
        likelihoods.Poisson(),
        likelihoods.HeteroscedasticStudentT(initial_df=5.0),
        likelihoods.LogNormal(loc=1.0, scale=2.0),
        likelihoods.NegativeBinomial(offset=1.0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_likelihood(likelihood: likelihoods.Likelihood, tmp_path: Path) -> None:
    model = credo.Model(nets.MLP(3, 2, (5,)), likelihood, priors.ScaleMixture())
    y = torch.arange(N) % 2
    if getattr(likelihood, "outputs_per_target", 1) == 2:
        y = y + 1  # a log-normal number is above zero
    elif not isinstance(likelihood, likelihoods.Categorical):
        y = torch.stack([y, 1 - y], 1)
    posterior = credo.fit(model, (X, y), credo.DeepEnsemble(members=2, **FAST))
    posterior.save(tmp_path)
    assert_same(posterior, credo.load(tmp_path))


@pytest.mark.parametrize("given", ["module", "function", "model"])
def test_a_net_of_ones_own_is_given_back_by_module_function_or_model(given: str, tmp_path: Path) -> None:
    likelihood = likelihoods.LearnedGaussian()
    posterior = credo.fit(credo.Model(normed, likelihood), (X, Y), METHODS["dropout"])
    posterior.save(tmp_path)
    if given == "model":
        loaded = credo.load(tmp_path, model=credo.Model(normed(), likelihood))
    else:
        loaded = credo.load(tmp_path, normed() if given == "module" else normed)
    assert_same(posterior, loaded)
    assert float(loaded.predict(X).epistemic.max()) > 0, "the dropout that was put in is still there"


def test_the_module_that_is_given_is_left_alone(tmp_path: Path) -> None:
    posterior = credo.fit(credo.Model(normed(), likelihoods.Gaussian()), (X, Y), METHODS["dropout"])
    posterior.save(tmp_path)
    net = normed().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    credo.load(tmp_path, net).predict(X)
    assert net.training
    assert not net[0]._forward_pre_hooks
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


class Plain(likelihoods.NumericLikelihood):
    """A likelihood of the user's own, without numbers."""

    width: float = 1.0

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        return y.reshape(len(y), outputs)

    def log_prob_each(self, outputs: Tensor, y: Tensor, params: credo.Params) -> Tensor:
        return -(y - outputs).abs() / self.width - torch.tensor(2 * self.width).log()

    def log_prob(self, outputs: Tensor, y: Tensor, params: credo.Params) -> Tensor:
        return self.log_prob_each(outputs, y, params).sum(-1)

    def cdf(self, outputs: Tensor, y: Tensor, params: credo.Params) -> Tensor:
        z = (y - outputs) / self.width
        return torch.where(z < 0, 0.5 * z.exp(), 1.0 - 0.5 * (-z).exp())

    def spread(self, outputs: Tensor, params: credo.Params) -> tuple[Tensor, Tensor]:
        return outputs - 28 * self.width, outputs + 28 * self.width

    def mean(self, outputs: Tensor, params: credo.Params) -> Tensor:
        return outputs

    def variance(self, outputs: Tensor, params: credo.Params) -> Tensor:
        return torch.full_like(outputs, 2 * self.width**2)

    def sample(self, outputs: Tensor, params: credo.Params, generator: torch.Generator) -> Tensor:
        return outputs

    def entropy(self, outputs: Tensor, params: credo.Params) -> Tensor:
        return torch.zeros_like(outputs)


@dataclass(frozen=True)
class Laplacian(Plain):
    """A likelihood of the user's own."""

    width: float = 1.0


def test_a_likelihood_of_ones_own_comes_back_with_its_numbers(tmp_path: Path) -> None:
    model = credo.Model(nets.MLP(3, 1, (5,)), Laplacian(2.0))
    posterior = credo.fit(model, (X, Y), METHODS["ensemble"], checkpoint=tmp_path)
    posterior.save(tmp_path)
    assert_same(posterior, credo.load(tmp_path))
    assert credo.load(tmp_path).model.likelihood == Laplacian(2.0)
    assert torch.equal(credo.load(tmp_path, model=model).predict(X).draws, posterior.predict(X).draws)


def test_a_class_that_nobody_has_defined_is_asked_for(tmp_path: Path) -> None:
    """What the file names is looked up among known classes, and never imported."""
    credo.fit(credo.Model(nets.MLP(3, 1, (5,)), Laplacian(2.0)), (X, Y), METHODS["point"]).save(tmp_path)
    text = (tmp_path / "config.json").read_text()
    for kind, hint in (
        ("antigravity.Noise", "import the module that defines it"),
        ("__main__.Noise", "run what defines"),
    ):
        (tmp_path / "config.json").write_text(text.replace(f"{Laplacian.__module__}.Laplacian", kind))
        with pytest.raises(credo.StorageError, match=rf"unknown kind, '{kind}': {hint}.* or pass the model"):
            credo.load(tmp_path)
    assert "antigravity" not in sys.modules


def test_one_of_several_classes_that_a_function_made_is_not_guessed(tmp_path: Path) -> None:
    def made(sign: float) -> likelihoods.Likelihood:
        @dataclass(frozen=True)
        class Local(Plain):
            width: float = sign

        return Local()

    credo.fit(credo.Model(nets.MLP(3, 1, (5,)), made(1.0)), (X, Y), METHODS["point"]).save(tmp_path)
    made(-1.0)
    with pytest.raises(credo.StorageError, match=r"a function has made several .*or pass the model"):
        credo.load(tmp_path)


def test_a_cell_that_is_run_twice_defines_a_class_anew() -> None:
    registry = Registry("likelihood")
    first, second = (type("Noise", (), {"__module__": "__main__"}) for _ in range(2))
    registry.add(first)
    registry.add(second)
    assert registry.find("__main__.Noise") is second


def test_two_classes_of_one_name_are_refused() -> None:
    registry = Registry("likelihood")
    registry.add(type("Noise", (), {"__module__": "credo.likelihoods.one"}))
    with pytest.raises(TypeError, match=r"there is a likelihood called 'Noise' in credo\.likelihoods\.one already"):
        registry.add(type("Noise", (), {"__module__": "credo.likelihoods.other"}))


def test_a_class_that_only_shares_its_name_with_credos_is_not_mistaken_for_it(tmp_path: Path) -> None:
    impostor = dataclass(frozen=True)(type("Gaussian", (Plain,), {"__annotations__": {}}))
    credo.fit(credo.Model(nets.MLP(3, 1, (5,)), impostor()), (X, Y), METHODS["point"]).save(tmp_path)
    assert type(credo.load(tmp_path).model.likelihood) is impostor


@dataclass(frozen=True)
class Wide(priors.ElementwisePrior):
    """A prior of the user's own, which holds another of credo's."""

    inner: priors.Prior = priors.Normal(2.0)
    fan_in: bool = False

    def log_density(self, w: Tensor) -> Tensor:
        return -w.abs()

    def draw(self, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype | None = None) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype)


@dataclass(frozen=True, eq=False)
class Shifted(credo.Posterior):
    """A posterior of the user's own: an ensemble with one number beside it."""

    variables: Variables
    shift: float
    spread: Mapping[str, Tensor]

    def draw(self, count: int | None = None, seed: int = 0) -> NetworkFunctions:
        networks = self.members(count)
        return NetworkFunctions(self.model, networks, Draws.uniform(networks))

    def at_mean(self) -> Draws:
        return Draws(self.model, self.variables, Draws.uniform(self.variables))

    def members(self, count: int | None = None) -> Variables:
        return dealt(self.variables, count)


def test_priors_and_posteriors_of_ones_own_come_back(tmp_path: Path) -> None:
    model = credo.Model(nets.MLP(3, 1, (5,)), likelihoods.Gaussian(0.5), Wide(priors.Laplace(3.0)))
    fitted = credo.fit(model, (X, Y), METHODS["ensemble"])
    posterior = Shifted(model, fitted.members(), 1.5, {"a": torch.ones(2)}, record=fitted.record)
    loaded = credo.load(posterior.save(tmp_path))
    assert_same(posterior, loaded)
    assert isinstance(loaded, Shifted)
    assert loaded.shift == 1.5
    assert loaded.prior == Wide(priors.Laplace(3.0))


class Held(Plain):
    """Not a dataclass, so its numbers cannot be written."""


def test_a_likelihood_that_cannot_be_written_does_not_keep_the_weights_from_being_saved(tmp_path: Path) -> None:
    model = credo.Model(nets.MLP(3, 1, (5,)), Held())
    posterior = credo.fit(model, (X, Y), METHODS["point"])
    posterior.save(tmp_path)
    with pytest.raises(credo.StorageError, match=r"Held' holds more than its numbers.*pass the model"):
        credo.load(tmp_path)
    assert torch.equal(credo.load(tmp_path, model=model).predict(X).mean, posterior.predict(X).mean)


def test_names_with_slashes_keep_their_order(tmp_path: Path) -> None:
    """Seeded draws follow the order of the tensors, which a file of tensors does not keep."""

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleDict({"z/last": nn.Linear(3, 4), "a/first": nn.Linear(4, 1)})

        def forward(self, x: Tensor) -> Tensor:
            return self.parts["a/first"](self.parts["z/last"](x).tanh())

    posterior = credo.fit(credo.Model(Odd(), likelihoods.LearnedGaussian()), (X, Y), METHODS["gaussian"])
    posterior.save(tmp_path)
    assert_same(posterior, credo.load(tmp_path, Odd()))


def test_a_cut_short_run_keeps_its_story(tmp_path: Path) -> None:
    with pytest.warns(credo.CredoWarning, match="stopped"):
        posterior = credo.fit(nets.MLP(3, 1, (5,)), (X, Y), METHODS["point"], seconds=1e-9)
    posterior.save(tmp_path)
    loaded = credo.load(tmp_path)
    assert not loaded.record.finished
    chosen, units, cause = (note.split(":")[0].split(",")[0] for note in loaded.notes)
    assert (chosen, units) == ("likelihood", "standardized inside the model")
    assert cause == "stopped after 0.0 seconds at step 1 of 6"


def test_a_diverged_history_comes_back(tmp_path: Path) -> None:
    wild = credo.MAP(epochs=20, learning_rate=1e8, optimizer=credo.SGD())
    with pytest.warns(credo.CredoWarning, match="diverged"):
        posterior = credo.fit(nets.MLP(3, 1, (5,)), (X, Y), wild)
    posterior.save(tmp_path)
    loaded = credo.load(tmp_path)
    assert [list(row) for row in loaded.history] == [list(row) for row in posterior.history]
    assert loaded.history[-1]["log_likelihood"] != loaded.history[-1]["log_likelihood"]


def test_saving_over_an_existing_run_replaces_it_whole(tmp_path: Path) -> None:
    first = credo.fit(credo.Model(nets.MLP(3, 1, (5,)), likelihoods.Gaussian()), (X, Y), METHODS["gaussian"])
    second = credo.fit(credo.Model(nets.MLP(3, 1, (9,)), likelihoods.LearnedGaussian()), (X, Y), METHODS["ensemble"])
    first.save(tmp_path)
    (tmp_path / "notes.txt").write_text("the user's own")
    second.save(tmp_path)
    assert_same(second, credo.load(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.json",
        "environment.json",
        "history.jsonl",
        "notes.txt",
        "state.safetensors",
    ]


def test_the_folder_says_what_a_person_needs(tmp_path: Path) -> None:
    posterior = credo.fit(credo.Model(nets.MLP(3, 1, (5,)), likelihoods.Gaussian(0.3)), (X, Y), METHODS["ensemble"])
    posterior.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["schema"] == 2
    assert config["posterior"] == "Draws"
    assert config["model"]["likelihood"] == {"kind": "Gaussian", "scale": 0.3}
    assert config["record"]["method"]["members"] == 3
    assert config["record"]["seed"] == 0
    rows = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert rows == list(posterior.history)
    assert set(json.loads((tmp_path / "environment.json").read_text())) >= {"python", "torch", "platform"}


def test_what_is_loaded_does_not_hang_on_the_files(tmp_path: Path) -> None:
    posterior = credo.fit(credo.Model(nets.MLP(3, 1, (5,)), likelihoods.Gaussian()), (X, Y), METHODS["ensemble"])
    posterior.save(tmp_path)
    loaded = credo.load(tmp_path)
    path = tmp_path / "state.safetensors"
    path.write_bytes(bytes(path.stat().st_size))
    assert_same(posterior, loaded)


def test_a_loaded_posterior_can_be_saved_and_started_from(tmp_path: Path) -> None:
    posterior = credo.fit(credo.Model(nets.MLP(3, 1, (5,)), likelihoods.Gaussian()), (X, Y), METHODS["ensemble"])
    loaded = credo.load(posterior.save(tmp_path / "one"))
    assert_same(posterior, credo.load(loaded.save(tmp_path / "two")))
    method = METHODS["ensemble"]
    ours, theirs = (credo.fit(posterior.model, (X, Y), method, start=start).tensors() for start in (posterior, loaded))
    assert all(torch.equal(theirs[name], tensor) for name, tensor in ours.items())


def test_whoever_may_read_one_file_may_read_all(tmp_path: Path) -> None:
    posterior = credo.fit(credo.Model(nets.MLP(3, 1, (5,)), likelihoods.Gaussian()), (X, Y), METHODS["point"])
    posterior.save(tmp_path)
    assert len({path.stat().st_mode for path in tmp_path.iterdir()}) == 1
