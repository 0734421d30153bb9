"""SWAG against the recorded iterates, batch norm against a loop in plain torch, and what becomes of odd runs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import SWAG, likelihoods, nets
from credo.core.trees import flatten
from credo.methods.base import Tick
from credo.posteriors import LowRankGaussian

X = torch.linspace(-1, 1, 40, dtype=torch.float64)[:, None]
Y = X.sin() + 0.3 * credo.Stream(0).normal(40, 1).double()


def model() -> credo.Model:
    return credo.Model(nn.Linear(1, 2, bias=True).double(), likelihoods.HeteroscedasticGaussian())


def iterates(method: SWAG, steps: int, members: int = 2) -> tuple[list[credo.Params], LowRankGaussian]:
    """All weights of a run that is stepped by hand, and its posterior."""
    target, weights = credo.Target(model(), size=40), []
    state = method.init(target, target.model.network.initial(members, credo.Stream(1)), credo.Stream(2))
    for step in range(steps):
        some = credo.Stream(3, (step,)).permutation(40)[:8]
        state, _ = method.step(target, state, credo.Batch(X[some], Y[some]), Tick(step, steps, credo.Stream(4)))
        weights.append({name: w.clone() for name, w in state.variables.params.items()})
    return weights, method.posterior(target, state)


@pytest.mark.parametrize(("epochs", "every", "burn_in"), [(30, None, 0.0), (10, None, 0.5), (1, 4, 0.25)])
def test_moments_are_those_of_the_iterates_that_count(epochs: int, every: int | None, burn_in: float) -> None:
    method = SWAG(epochs=epochs, every=every, burn_in=burn_in, learning_rate=0.1, rank=4)
    weights, posterior = iterates(method, 30)
    each = every or 30 // epochs
    counted = [w for step, w in enumerate(weights, start=1) if step % each == 0 and step > 30 * burn_in]
    for name in weights[0]:
        path = torch.stack([w[name] for w in counted])  # (T, M, ...)
        torch.testing.assert_close(posterior.mean.params[name], path.mean(0))
        torch.testing.assert_close(posterior.scale[name], path.std(0, correction=0) / 2**0.5)
        means = torch.stack([path[: t + 1].mean(0) for t in range(len(path))])
        kept = min(4, len(path))
        last = (path - means)[-kept:]
        square = torch.einsum("kma,kmb->mab", last.flatten(2), last.flatten(2)) / (2 * (kept - 1))
        columns = posterior.columns[name].flatten(2)
        torch.testing.assert_close(torch.einsum("mka,mkb->mab", columns, columns), square)
        twin = path - path.mean(0)  # distances from the last mean in place of that of their time
        twin_square = torch.einsum("kma,kmb->mab", twin[-kept:].flatten(2), twin[-kept:].flatten(2)) / (2 * (kept - 1))
        assert not torch.allclose(twin_square, square)


def test_draws_have_the_mean_and_the_covariance_of_the_normal() -> None:
    """40,000 draws: entries of the covariance within five standard errors of the formula."""
    _, posterior = iterates(SWAG(epochs=30, learning_rate=0.1, rank=4), 30, members=1)
    drawn = posterior.draw(40_000).variables.params
    flat = torch.cat([w.flatten(1) for w in drawn.values()], dim=1)
    mean = torch.cat([posterior.mean.params[n].flatten(1) for n in drawn], dim=1)[0]
    scale = torch.cat([posterior.scale[n].flatten(1) for n in drawn], dim=1)[0]
    columns = torch.cat([posterior.columns[n].flatten(2) for n in drawn], dim=2)[0]
    covariance = scale.square().diag() + columns.T @ columns
    spread = covariance.diag()
    error = ((spread[:, None] * spread + covariance.square()) / 40_000).sqrt()
    assert ((flat.mean(0) - mean).abs() < 5 * (spread / 40_000).sqrt()).all()
    assert ((flat.T.cov() - covariance).abs() < 5 * error).all()
    assert ((flat.T.cov() - 2 * covariance).abs() > 5 * error).any(), "twice the covariance would be noticed"


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(1, 6), nn.BatchNorm1d(6, momentum=0.3), nn.ReLU(), nn.Linear(6, 1)).double()


def fitted(net: nn.Module, **numbers: Any) -> LowRankGaussian:
    method = SWAG(**{"epochs": 6, "batch_size": 15, "draws": 3, "rank": 3, **numbers})
    posterior = credo.fit(credo.Model(net, likelihoods.Gaussian(0.3)), (X, Y), method)
    assert isinstance(posterior, LowRankGaussian)
    return posterior


def batch_statistics(net: nn.Module, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Of all rows at once, by torch, for these weights: their mean is that over batches, whatever the cut."""
    plain = copy.deepcopy(net)
    plain.load_state_dict(weights, strict=False)
    hidden = plain[0](X).detach()
    return {"1.running_mean": hidden.mean(0), "1.running_var": hidden.var(0)}


def test_batch_norm_has_the_statistics_of_each_draw() -> None:
    net = normed()
    posterior = fitted(net, batch_size=None)
    drawn = posterior.draw().variables
    for row in range(drawn.members):
        expected = batch_statistics(net, {n: w[row] for n, w in drawn.params.items()})
        for name, value in expected.items():
            torch.testing.assert_close(drawn.buffers[name][row], value)
            assert not torch.allclose(posterior.mean.buffers[name][0], value), "that of the mean would be noticed"
    at_mean = posterior.at_mean().variables
    for name, value in batch_statistics(net, {n: w[0] for n, w in at_mean.params.items()}).items():
        torch.testing.assert_close(at_mean.buffers[name][0], value)


def test_a_short_last_batch_counts_by_its_examples() -> None:
    """40 rows in batches of 15: the average of means over batches is the mean of all rows."""
    net = normed()
    posterior = fitted(net)
    drawn = posterior.draw().variables
    expected = batch_statistics(net, {n: w[0] for n, w in drawn.params.items()})
    torch.testing.assert_close(drawn.buffers["1.running_mean"][0], expected["1.running_mean"])


class Twice(nn.Module):
    """One layer of batch norm, called twice in a pass, as an average over batches where `momentum` is None."""

    def __init__(self, momentum: float | None) -> None:
        super().__init__()
        self.into, self.norm, self.out = nn.Linear(1, 4), nn.BatchNorm1d(4, momentum=momentum), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.norm(self.norm(self.into(x)).relu()))


@pytest.mark.parametrize("momentum", [0.3, None, 0.0])
def test_statistics_of_a_layer_that_is_called_twice(momentum: float | None) -> None:
    """They are what torch's layer would converge to, call after call, with these weights."""
    net = Twice(momentum).double()
    posterior = fitted(net, batch_size=None)
    if momentum == 0.0:  # never moves, so there is nothing to refresh
        assert posterior.fixed is None
        return
    drawn = posterior.draw().variables
    plain = copy.deepcopy(net)
    plain.load_state_dict({n: w[0] for n, w in drawn.params.items()}, strict=False)
    for _ in range(200 if momentum else 1):
        plain(X)
    torch.testing.assert_close(drawn.buffers["norm.running_mean"][0], plain.norm.running_mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(drawn.buffers["norm.running_var"][0], plain.norm.running_var, rtol=1e-5, atol=1e-6)


def test_more_draws_than_have_statistics_are_refused() -> None:
    posterior = fitted(normed())
    assert posterior.predict(X.float()).draws.shape[0] == 3
    assert posterior.predict(X.float(), draws=2).draws.shape[0] == 2
    with pytest.raises(ValueError, match=r"there are 3 draws and 4 are asked for.*SWAG\(draws=...\)"):
        posterior.predict(X.float(), draws=4)
    assert fitted(nn.Linear(1, 1).double()).predict(X, draws=50).draws.shape[0] == 50


def test_equal_seeds_choose_equal_draws_and_draws_do_not_depend_on_their_number() -> None:
    posterior = fitted(nets.MLP(1, 1).double())
    few, many = posterior.draw(2, seed=5)(X), posterior.draw(7, seed=5)(X)
    assert torch.equal(few, many[:2])
    assert not torch.equal(posterior.draw(2, seed=6)(X), few)


def test_it_begins_at_the_module_s_weights_or_at_the_result_of_another_method() -> None:
    net = nets.MLP(1, 1).double()
    still = {"learning_rate": 1e-12, "optimizer": credo.SGD(), "epochs": 2}
    at_module = fitted(net, **still).mean.params
    for name, p in net.named_parameters():
        torch.testing.assert_close(at_module[name][0], p.detach())
    first = credo.MAP(epochs=3, batch_size=15)
    before = credo.fit(credo.Model(net, likelihoods.Gaussian(0.3)), (X, Y), first)
    after = fitted(net, **still, after=first).mean.params
    for name, w in before.variables.params.items():
        torch.testing.assert_close(after[name], w)
        assert not torch.allclose(at_module[name], w)


@pytest.mark.parametrize("after", [None, credo.MAP(epochs=2, batch_size=15)])
def test_a_run_that_was_stopped_anywhere_resumes_to_the_same_bits(tmp_path: Path, after: Any) -> None:
    net = normed()
    whole = fitted(net, after=after)
    for _ in range(7):
        with pytest.warns(credo.CredoWarning, match="stopped after"):
            credo.fit(
                credo.Model(net, likelihoods.Gaussian(0.3)),
                (X, Y),
                SWAG(epochs=6, batch_size=15, draws=3, rank=3, after=after),
                checkpoint=tmp_path,
                resume=True,
                seconds=1e-9,
            )
    resumed = credo.fit(
        credo.Model(net, likelihoods.Gaussian(0.3)),
        (X, Y),
        SWAG(epochs=6, batch_size=15, draws=3, rank=3, after=after),
        checkpoint=tmp_path,
        resume=True,
    )
    for name, t in flatten(whole.tensors()).items():
        assert torch.equal(t, flatten(resumed.tensors())[name]), name


def test_a_run_that_ended_before_its_last_pass_has_a_mean_and_no_draws() -> None:
    method = SWAG(epochs=6, batch_size=15)
    with pytest.warns(credo.CredoWarning, match="stopped after"):
        posterior = credo.fit(credo.Model(normed(), likelihoods.Gaussian(0.3)), (X, Y), method, seconds=1e-9)
    assert any("a spread needs two" in note for note in posterior.notes)
    assert posterior.at_mean().predict(X).mean.isfinite().all()
    with pytest.raises(ValueError, match="statistics of batch norm were not refreshed"):
        posterior.predict(X)


def test_members_of_an_ensemble_are_runs_of_their_own(tmp_path: Path) -> None:
    method = SWAG(epochs=4, batch_size=15, draws=3, rank=3, after=credo.MAP(epochs=2, batch_size=15))
    posterior = credo.fit(credo.Model(normed(), likelihoods.Gaussian(0.3)), (X, Y), credo.Ensemble(method, members=2))
    assert posterior.predict(X).draws.shape[0] == 6
    loaded = credo.load(posterior.save(tmp_path / "saved"), net=normed())
    assert torch.equal(loaded.predict(X).draws, posterior.predict(X).draws)
    alone = posterior.of_members(torch.tensor([1]))
    assert torch.equal(alone.predict(X).draws, posterior.predict(X).draws[1::2])


MISTAKES = {
    "too few iterates": (lambda: SWAG(epochs=1), "leaves less than two iterates"),
    "batches of two sizes": (lambda: SWAG(after=credo.MAP(batch_size=7)), "give both the same"),
    "after a sampler": (lambda: SWAG(after=credo.SGLD()), "after"),
    "one direction": (lambda: SWAG(rank=1), "rank"),
}


@pytest.mark.parametrize(("mistake", "answer"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_answered_in_a_sentence(mistake: Any, answer: str) -> None:
    with pytest.raises((ValueError, TypeError), match=answer):
        mistake()


def test_kl_is_refused() -> None:
    with pytest.raises(ValueError, match="log_evidence"):
        fitted(nets.MLP(1, 1).double()).kl()
