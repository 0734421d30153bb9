"""Every method x every property. A new method joins by one line in `tests/methods_table.py`."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods, nets, priors
from credo.core.trees import flatten
from credo.methods.base import Method
from credo.posteriors import Chains, Weighted
from methods_table import methods

METHODS = methods(epochs=4, iterations=4)

PROBLEMS: dict[str, Callable[[], tuple[credo.Model, Tensor, Tensor]]] = {}


def problem(make: Callable[[], tuple[credo.Model, Tensor, Tensor]]) -> Callable[[], tuple[credo.Model, Tensor, Tensor]]:
    PROBLEMS[make.__name__.replace("_", " ")] = make
    return make


def inputs(*shape: int) -> Tensor:
    return credo.Stream(5, ("inputs",)).normal(*shape)


@problem
def one_feature() -> tuple[credo.Model, Tensor, Tensor]:
    x = inputs(20, 1)
    return credo.Model(nets.MLP(1, 1, (8,)), likelihoods.Gaussian(0.5)), x, x.sin()


@problem
def a_bare_network_and_data_in_their_own_units() -> tuple[credo.Model, Tensor, Tensor]:
    x = inputs(20, 2)
    return credo.Model(nets.MLP(2, 1, (8,))), 5.0 + x, 7.0 + 3.0 * x[:, 0]


@problem
def two_outputs_with_learned_noise() -> tuple[credo.Model, Tensor, Tensor]:
    x = inputs(20, 3)
    model = credo.Model(nets.MLP(3, 2, (8,)), likelihoods.LearnedGaussian(), priors.StudentT())
    return model, x, x[:, :2] * 2


@problem
def noise_that_depends_on_x() -> tuple[credo.Model, Tensor, Tensor]:
    x = inputs(20, 2)
    return credo.Model(nets.MLP(2, 2, (8,)), likelihoods.HeteroscedasticGaussian(), priors.Laplace()), x, x[:, 0]


@problem
def three_classes() -> tuple[credo.Model, Tensor, Tensor]:
    x = inputs(21, 2)
    return credo.Model(nets.MLP(2, 3, (8,)), likelihoods.Categorical(), priors.ScaleMixture()), x, torch.arange(21) % 3


@problem
def yes_or_no() -> tuple[credo.Model, Tensor, Tensor]:
    x = inputs(20, 2)
    return credo.Model(nets.MLP(2, 1, (8,)), likelihoods.Bernoulli()), x, (x[:, 0] > 0).float()


@problem
def counts() -> tuple[credo.Model, Tensor, Tensor]:
    x = inputs(20, 2)
    return credo.Model(nets.MLP(2, 1, (8,)), likelihoods.Poisson()), x, (x[:, 0].abs() * 3).round()


@problem
def convolutions_with_batch_norm() -> tuple[credo.Model, Tensor, Tensor]:
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(48, 4),
        nn.LayerNorm(4),
        nn.Linear(4, 3),
    )
    return credo.Model(net, likelihoods.Categorical()), inputs(18, 1, 6, 6), torch.arange(18) % 3


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(2, 4, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.drop(self.gru(x)[0][:, -1]))


@problem
def sequences() -> tuple[credo.Model, Tensor, Tensor]:
    x = inputs(16, 5, 2)
    return credo.Model(Recurrent(), likelihoods.Gaussian(1.0)), x, x.sum((1, 2))


pytestmark = pytest.mark.filterwarnings("ignore:the weights miss the posterior:credo.CredoWarning")
"""Importance weights of so few draws are worth little, and say so."""

every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
every_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())


REFUSALS = {
    "needs a network without it": "refuses batch norm, in words",
    "chooses the scale of a normal prior": "refuses other priors than a normal, in words",
    "there is no curvature rule": "refuses recurrent layers, in words",
}


def fit(
    model: credo.Model, x: Tensor, y: Tensor, method: Method, seed: int = 0, plan: credo.Plan = credo.Plan.ONE_BY_ONE
) -> credo.Posterior:
    # the plan is fixed: two runs must agree to the bit, and a measured plan may differ between them
    try:
        return credo.fit(model, (x, y), method, seed=seed, plan=plan)
    except ValueError as error:
        refused = next((why for words, why in REFUSALS.items() if words in str(error)), None)
        if refused is None:
            raise
        pytest.skip(refused)


@every_problem
@every_method
def test_a_fit_gives_a_predictive_whose_parts_add_up(method: Method, problem: Callable) -> None:
    model, x, y = problem()
    prediction = fit(model, x, y, method).predict(x, draws=7)
    assert prediction.draws.shape[:2] == (7, len(x))
    assert bool((prediction.epistemic >= 0).all())
    torch.testing.assert_close(prediction.variance, prediction.epistemic + prediction.aleatoric)
    assert prediction.log_prob(y).shape == (len(x),)
    assert bool(torch.isfinite(prediction.log_prob(y)).all())
    assert prediction.sample(4).shape[:2] == (4, len(x))
    assert bool((prediction.mutual_information >= 0).all())
    if isinstance(prediction, credo.NumericPredictive):
        lower, upper = prediction.interval(0.9)
        assert bool((lower <= upper).all())
    else:
        assert bool((prediction.probs >= 0).all())


@every_problem
@every_method
def test_one_seed_repeats_and_two_seeds_differ(method: Method, problem: Callable) -> None:
    model, x, y = problem()
    first, again, other = (fit(model, x, y, method, seed).tensors() for seed in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    weights = [name for name in first if "params" in name]
    assert any(not torch.equal(first[name], other[name]) for name in weights)


@every_problem
@every_method
def test_the_caller_is_untouched(method: Method, problem: Callable) -> None:
    given, x, y = problem()
    net = copy.deepcopy(given.network.module).eval()
    net[0].train() if isinstance(net, nn.Sequential) else None
    before = {name: value.clone() for name, value in net.state_dict().items()}
    flags = [module.training for module in net.modules()]
    hooks = [len(module._forward_pre_hooks) for module in net.modules()]
    generator = torch.get_rng_state()
    x_before, y_before = x.clone(), y.clone()

    posterior = fit(credo.Model(net, given.given_likelihood, given.given_prior), x, y, method)
    posterior.predict(x, draws=3).sample(2)

    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert flags == [module.training for module in net.modules()]
    assert hooks == [len(module._forward_pre_hooks) for module in net.modules()]
    assert all(p.grad is None for p in net.parameters())
    assert torch.equal(generator, torch.get_rng_state())
    assert torch.equal(x, x_before)
    assert torch.equal(y, y_before)


@every_problem
@every_method
def test_saved_and_loaded_it_predicts_the_same_bits(method: Method, problem: Callable, tmp_path) -> None:
    model, x, y = problem()
    posterior = fit(model, x, y, method)
    posterior.save(tmp_path / "run")
    loaded = credo.load(tmp_path / "run", net=model.network.module)
    assert type(loaded) is type(posterior)
    assert loaded.record == posterior.record
    ours, theirs = posterior.predict(x, draws=5, seed=2), loaded.predict(x, draws=5, seed=2)
    assert torch.equal(ours.draws, theirs.draws)
    assert torch.equal(ours.mean, theirs.mean)


@every_method
def test_both_plans_agree_to_rounding(method: Method) -> None:
    for make in (one_feature, three_classes, convolutions_with_batch_norm):
        model, x, y = make()
        together, apart = (fit(model, x, y, method, plan=plan).tensors() for plan in credo.Plan)
        for name, tensor in together.items():
            # float32 sums in another order, amplified by a few Adam steps
            torch.testing.assert_close(tensor, apart[name], rtol=1e-3, atol=1e-4)


@every_method
def test_a_double_precision_network_stays_double(method: Method) -> None:
    model, x, y = one_feature()
    double = credo.Model(model.network.module.double(), model.likelihood)
    posterior = fit(double, x, y, method)
    assert posterior.predict(x).mean.dtype == torch.float64
    assert all(t.dtype == torch.float64 for name, t in posterior.tensors().items() if "params" in name)


@every_method
def test_one_draw_is_one_function(method: Method) -> None:
    model, x, y = one_feature()
    functions = fit(model, x, y, method).draw(6, seed=1)
    whole, halves = functions(x), torch.cat([functions(x[:7]), functions(x[7:])], dim=1)
    torch.testing.assert_close(whole, halves, rtol=1e-5, atol=1e-6)  # matrix products of other sizes round differently


@every_method
def test_history_has_a_row_per_epoch_and_the_record_says_how(method: Method) -> None:
    model, x, y = one_feature()
    posterior = fit(model, x, y, method, seed=9)
    assert [row["epoch"] for row in posterior.history] == [1, 2, 3, 4]
    assert "log_likelihood" in posterior.history[0]
    assert posterior.record.seed == 9
    assert posterior.record.size == len(x)
    assert posterior.record.finished


@every_method
def test_state_is_made_of_tensors_with_a_member_axis(method: Method) -> None:
    model, x, y = one_feature()
    posterior = fit(model, x, y, method)
    drawn = isinstance(posterior, Chains | Weighted)  # one per draw there, and one per member elsewhere
    members = posterior.members().members if drawn else method.members
    for name, tensor in flatten(posterior.members()).items():
        assert tensor.shape[0] == members, name


@every_method
def test_a_method_is_a_frozen_value(method: Method) -> None:
    assert method == copy.deepcopy(method)
    field = dataclasses.fields(method)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(method, field, 1)
