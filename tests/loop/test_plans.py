"""Members together or one by one: the same posterior, and a record of which it was."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods, nets
from credo.core.trees import flatten
from credo.nets.plan import Plan

IMAGES = credo.Stream(8, ("plans",)).normal(12, 1, 6, 6, dtype=torch.float64)
FLAT = IMAGES.flatten(1)[:, :4]
CLASSES = torch.arange(12) % 3


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(6, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.gru(x.squeeze(1))[0][:, -1])


class Forked(nn.Module):
    """A forward pass that looks at its values, which torch cannot vectorize."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.one.weight.sum()
        return self.one(x) if bool(weight > 0) else self.two(x)


NETS: dict[str, tuple[nn.Module, Tensor]] = {
    "mlp": (nets.MLP(4, 3, (8, 8), dropout=0.1), FLAT),
    "convolution": (nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3)), IMAGES),
    "batch norm": (nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)), FLAT),
}


def fit(net: nn.Module, x: Tensor, plan: Plan | None, members: int = 3) -> credo.Posterior:
    model = credo.Model(net.double(), likelihoods.Categorical())
    method = credo.DeepEnsemble(members=members, epochs=3, batch_size=5, learning_rate=1e-2)
    return credo.fit(model, (x, CLASSES), method, plan=plan)


@pytest.mark.parametrize(("net", "x"), NETS.values(), ids=NETS.keys())
def test_both_plans_give_the_same_posterior_to_rounding(net: nn.Module, x: Tensor) -> None:
    together, apart = (fit(net, x, plan) for plan in (Plan.TOGETHER, Plan.ONE_BY_ONE))
    assert together.record.plan == "together (as asked)"
    assert apart.record.plan == "one by one (as asked)"
    for name, tensor in together.tensors().items():
        # Adam divides by the root of a second moment, which magnifies the rounding of small gradients
        torch.testing.assert_close(tensor, apart.tensors()[name], rtol=1e-7, atol=1e-9)
    ours, theirs = together.predict(x).probs, apart.predict(x).probs
    torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9)  # likewise


@pytest.mark.parametrize(("net", "x"), NETS.values(), ids=NETS.keys())
def test_members_differ_under_either_plan(net: nn.Module, x: Tensor) -> None:
    for plan in Plan:
        drawn = fit(net, x, plan).predict(x).draws
        assert not torch.allclose(drawn[0], drawn[1])
        assert not torch.allclose(drawn[1], drawn[2])


def test_a_small_dense_net_goes_together() -> None:
    assert fit(*NETS["mlp"], None).record.plan == "together (a small network without convolutions)"


def test_one_member_goes_alone() -> None:
    assert fit(*NETS["mlp"], None, members=1).record.plan == "one by one (one member)"


def test_convolutions_are_measured() -> None:
    plan = fit(*NETS["convolution"], None).record.plan
    assert plan.startswith(("together (measured: ", "one by one (measured: "))
    assert "together " in plan
    assert " ms" in plan


def test_measuring_leaves_no_trace_in_the_result() -> None:
    net, x = NETS["convolution"]
    measured = fit(net, x, None)
    plan = Plan(measured.record.plan.split(" (")[0])
    asked = fit(net, x, plan)
    assert all(torch.equal(measured.tensors()[name], tensor) for name, tensor in asked.tensors().items())


def test_a_recurrent_net_goes_one_by_one_by_itself() -> None:
    posterior = fit(Recurrent(), IMAGES, None)
    assert posterior.record.plan == "one by one (a recurrent or attention layer that torch cannot vectorize)"


def test_a_net_that_torch_cannot_vectorize_goes_one_by_one_by_itself() -> None:
    posterior = fit(Forked(), FLAT, None)
    assert posterior.record.plan == "one by one (torch cannot vectorize this network)"
    assert posterior.members().members == 3


def test_together_is_not_forced_on_a_net_that_torch_cannot_vectorize() -> None:
    posterior = fit(Recurrent(), IMAGES, Plan.TOGETHER)
    assert posterior.record.plan == "one by one (together was asked for, and torch cannot vectorize this network)"


def test_the_plan_of_a_resumed_run_is_that_of_its_beginning(tmp_path) -> None:
    net, x = NETS["mlp"]
    model = credo.Model(net, likelihoods.Categorical())
    method = credo.DeepEnsemble(members=2, epochs=2)
    with pytest.warns(credo.CredoWarning, match="stopped"):
        credo.fit(model, (x, CLASSES), method, plan=Plan.ONE_BY_ONE, checkpoint=tmp_path, seconds=1e-9)
    resumed = credo.fit(model, (x, CLASSES), method, checkpoint=tmp_path, resume=True)
    assert resumed.record.plan == "one by one (that of the resumed run)"
    whole = credo.fit(model, (x, CLASSES), method, plan=Plan.ONE_BY_ONE)
    assert all(torch.equal(whole.tensors()[name], tensor) for name, tensor in resumed.tensors().items())


METHODS = [
    credo.DeepEnsemble(members=5, epochs=1),
    credo.MCDropout(rate=0.3, epochs=1),
    credo.Ensemble(credo.MCDropout(rate=0.3, epochs=1), members=2),
    credo.BayesByBackprop(epochs=1),
]


def with_budgets(monkeypatch: pytest.MonkeyPatch, cache: int, memory: int) -> None:
    monkeypatch.setattr("credo.posteriors.functions.CACHE_ENTRIES", {"cpu": cache})
    monkeypatch.setattr("credo.posteriors.functions.MEMORY_ENTRIES", {"cpu": memory})


@pytest.mark.parametrize("method", METHODS, ids=["ensemble", "dropout", "dropout ensemble", "gaussian"])
@pytest.mark.parametrize("entries", [1, 500, 10_000])
@pytest.mark.parametrize("kind", ["mlp", "convolution"])
def test_predictions_in_small_parts_equal_those_at_once(
    method: credo.Method, entries: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, x = NETS[kind]
    plain = nets.MLP(4, 3, (8,)) if kind == "mlp" else net  # without dropout layers of its own
    posterior = credo.fit(credo.Model(plain.double(), likelihoods.Categorical()), (x, CLASSES), method)
    many = x.repeat(40, *[1] * (x.ndim - 1))
    with_budgets(monkeypatch, cache=2**40, memory=2**40)
    whole = posterior.predict(many, draws=20, seed=4).draws
    with_budgets(monkeypatch, cache=entries, memory=16 * entries)
    parts = posterior.predict(many, draws=20, seed=4).draws
    assert whole.shape == (20, 480, 3)
    torch.testing.assert_close(whole, parts, rtol=1e-10, atol=1e-12)


def test_parts_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pass sees more rows than the budget allows, whatever is asked of it."""
    posterior = fit(*NETS["mlp"], None)
    network, sizes = posterior.model.network, []
    evaluate = type(network).evaluate

    def watched(self, variables, x, *rest, **named):
        sizes.append(len(x) * variables.members)
        return evaluate(self, variables, x, *rest, **named)

    monkeypatch.setattr(type(network), "evaluate", watched)
    with_budgets(monkeypatch, cache=8 * 64, memory=8 * 100)
    posterior.predict(FLAT.repeat(500, 1))
    assert sum(sizes) == 3 * 6000
    assert max(sizes) <= 100


def test_draws_of_a_finite_set_come_in_proportion_to_their_weights() -> None:
    variables = fit(*NETS["mlp"], None).members()
    weights = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    posterior = credo.posteriors.Draws(credo.Model(NETS["mlp"][0], likelihoods.Categorical()), variables, weights.log())
    drawn = flatten(posterior.draw(10, seed=3).variables)["params/layers.1.bias"]
    bias = variables.params["layers.1.bias"]
    assert [int((drawn == b).all(-1).sum()) for b in bias] == [5, 3, 2]
    assert torch.equal(posterior.draw().log_weights, weights.log())
    three = [posterior.draw(3, seed=s).variables.params["layers.1.bias"] for s in range(20)]
    assert {int((drawn == bias[0]).all(-1).sum()) for drawn in three} == {1, 2}, "3 times 0.5, rounded down or up"
