"""The diagonal normal posterior: draws, pruning, and the sentences with which it speaks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

import credo
from credo import likelihoods, priors
from credo.core.record import Record
from credo.core.trees import Params, Variables
from credo.decide import prune_noise
from credo.posteriors import DiagonalGaussian, Draws


def posterior_of(members: int = 1, scale: float = 0.1, uncertain: tuple[str, ...] | None = None) -> DiagonalGaussian:
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    model = credo.Model(net, likelihoods.Gaussian(0.3), priors.Normal(1.0))
    mean = credo.Stream(0).normal_like(
        {name: p.detach().expand(members, *p.shape) for name, p in net.named_parameters()}
    )
    names = mean if uncertain is None else uncertain
    scales = {name: scale * (1 + credo.Stream(1).normal_like(mean)[name].abs()) for name in names}
    return DiagonalGaussian(model, Variables(mean), scales)


def with_history(posterior: DiagonalGaussian, **row: float) -> DiagonalGaussian:
    return replace(posterior, record=Record(size=100, notes=("chosen",), history=({"epoch": 1.0, **row},)))


def test_draws_have_the_mean_and_scale_of_q() -> None:
    """37 weights, 20,000 draws, 5 standard errors each: a false alarm with probability 1e-4."""
    posterior = posterior_of()
    drawn = posterior.draw(20_000, seed=3).variables.params
    for name, w in posterior.mean.params.items():
        s = posterior.scale[name][0]
        assert float(((drawn[name].mean(0) - w[0]) / s).abs().max()) < 5 / math.sqrt(20_000)
        assert float((drawn[name].std(0) / s - 1).abs().max()) < 5 / math.sqrt(40_000)


def test_members_are_dealt_in_turn_and_points_do_not_move() -> None:
    posterior = posterior_of(members=2, scale=1e-9, uncertain=("0.weight",))
    drawn = posterior.draw(5).variables.params
    for name, w in posterior.mean.params.items():
        expected = w[torch.tensor([0, 1, 0, 1, 0])]
        torch.testing.assert_close(drawn[name], expected, rtol=0, atol=1e-7)
        assert torch.equal(drawn[name], expected) == (name != "0.weight")


def test_the_network_at_the_means_is_a_plain_one() -> None:
    posterior = posterior_of()
    x = credo.Stream(2).normal(6, 4, dtype=torch.float64)
    plain = posterior.at_mean()
    assert isinstance(plain, Draws)
    assert float(plain.predict(x).epistemic.max()) == 0.0
    torch.testing.assert_close(plain.predict(x).mean, posterior.model.network.evaluate(posterior.mean, x)[0])


def ratios(posterior: DiagonalGaussian) -> torch.Tensor:
    return torch.cat([r.flatten(1) for r in posterior.signal_to_noise().values()], dim=1)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.75, 1.0])
def test_pruning_removes_exactly_the_weights_of_lowest_ratio(fraction: float) -> None:
    posterior = posterior_of(members=2)
    pruned = posterior.prune(fraction)
    before = ratios(posterior)
    count = round(fraction * before.shape[1])
    for member in range(2):
        gone = torch.cat([w[member].flatten() == 0 for w in pruned.mean.params.values()])
        assert int(gone.sum()) == count
        if 0 < count < before.shape[1]:
            assert float(before[member][gone].max()) <= float(before[member][~gone].min())
    still = torch.cat([s.flatten(1) for s in pruned.scale.values()], dim=1)
    assert torch.equal(still == 0, torch.cat([w.flatten(1) == 0 for w in pruned.mean.params.values()], dim=1))
    assert float(posterior.mean.params["0.weight"].abs().min()) > 0  # the original is as it was


def test_pruning_again_goes_on_where_it_stopped() -> None:
    once = posterior_of().prune(0.6)
    twice = posterior_of().prune(0.4).prune(0.6)
    for name, w in once.mean.params.items():
        assert torch.equal(w, twice.mean.params[name])


def test_pruning_can_spare_biases_and_refuses_nonsense() -> None:
    pruned = posterior_of().prune(1.0, names="*weight")
    assert float(pruned.mean.params["0.weight"].abs().max()) == 0.0
    assert float(pruned.mean.params["0.bias"].abs().min()) > 0.0
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="fraction"):
            posterior_of().prune(wrong)
    with pytest.raises(ValueError, match="matches none"):
        posterior_of().prune(0.5, names="head.*")


def test_removed_weights_count_as_points_in_kl_and_density() -> None:
    pruned = posterior_of().prune(0.5)
    kept = {name: (s > 0) for name, s in pruned.scale.items()}
    expected = torch.zeros((), dtype=torch.float64)
    for name, s in pruned.scale.items():
        normal = torch.distributions.Normal(pruned.mean.params[name][kept[name]], s[kept[name]])
        unit = torch.distributions.Normal(torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64))
        expected = expected + torch.distributions.kl_divergence(normal, unit).sum()
        expected = expected - unit.log_prob(pruned.mean.params[name][~kept[name]]).sum()
    torch.testing.assert_close(pruned.kl(), expected.unsqueeze(0))
    drawn = pruned.draw(3).variables.params
    assert bool(torch.isfinite(pruned.log_prob(drawn)).all())


def test_signal_to_noise_is_the_mean_over_the_scale_and_zero_for_what_is_gone() -> None:
    posterior = posterior_of().prune(0.2)
    for name, ratio in posterior.signal_to_noise().items():
        w, s = posterior.mean.params[name], posterior.scale[name]
        torch.testing.assert_close(ratio, torch.where(s > 0, w.abs() / s, 0.0))


def test_a_pruned_posterior_with_points_is_saved_and_loaded(tmp_path) -> None:
    posterior = posterior_of(uncertain=("2.weight", "2.bias")).prune(0.5)
    posterior.save(tmp_path / "run")
    loaded = credo.load(tmp_path / "run", net=posterior.model.network.module)
    x = credo.Stream(2).normal(6, 4, dtype=torch.float64)
    assert set(loaded.scale) == {"2.weight", "2.bias"}
    assert torch.equal(loaded.predict(x, seed=5).draws, posterior.predict(x, seed=5).draws)


def test_a_healthy_posterior_has_nothing_to_add() -> None:
    assert with_history(posterior_of(), kl=0.5, log_likelihood=-1.0).notes == ("chosen",)
    assert posterior_of(scale=1e-12).notes == ()  # a normal that no variational run has made is not judged


def test_a_collapse_to_a_point_is_told() -> None:
    notes = with_history(posterior_of(scale=1e-6), kl=0.5, log_likelihood=-1.0).notes
    assert len(notes) == 2
    assert notes[1].startswith("collapsed to a point")
    assert "larger scales" in notes[1]


def removed_by_noise(posterior: DiagonalGaussian) -> DiagonalGaussian:
    return prune_noise(posterior, threshold=-6.0)


@pytest.mark.parametrize("removed", [removed_by_noise, lambda p: p.prune(0.6), lambda p: p.prune(1.0)])
def test_weights_that_were_removed_are_no_collapse(removed: Callable[[DiagonalGaussian], DiagonalGaussian]) -> None:
    pruned = removed(with_history(posterior_of(members=2), kl=0.5, log_likelihood=-1.0))
    gone = torch.cat([s.flatten() == 0 for s in pruned.scale.values()])
    assert float(gone.double().mean()) > 0.5  # the median scale is zero
    assert pruned.notes == ("chosen",)


@pytest.mark.parametrize("removed", [0.0, 0.2, 0.7])
@pytest.mark.parametrize("scale", [0.0, 1e-6])
def test_a_collapse_is_told_of_the_weights_that_are_left(scale: float, removed: float) -> None:
    """A scale that has become zero under a weight that has not is a collapse, pruned or not."""
    collapsed = with_history(posterior_of(), kl=0.5, log_likelihood=-1.0).prune(removed)
    scales = {name: torch.where(s > 0, scale, 0.0).to(s) for name, s in collapsed.scale.items()}
    told = replace(collapsed, scale=scales).notes[1]
    assert told.startswith(f"collapsed to a point: half of the weights have a scale of at most {scale:.1e}")


def test_a_posterior_that_is_its_prior_is_told() -> None:
    model = posterior_of().model
    params = {name: torch.zeros_like(w) for name, w in posterior_of().mean.params.items()}
    prior: Params = {name: torch.ones_like(w) for name, w in params.items()}
    notes = with_history(DiagonalGaussian(model, Variables(params), prior), kl=1e-4, log_likelihood=-1.0).notes
    assert "the posterior is the prior: 0.01 nats" in notes[1]


def test_a_kl_that_never_matters_is_told() -> None:
    notes = with_history(posterior_of(), kl=0.05, log_likelihood=-500.0).notes
    assert "the KL is 0.01 % of the loss" in notes[1]


def test_runs_that_fail_are_told_so_end_to_end() -> None:
    """A run that is too short to leave its tiny first scales, and one that never leaves the prior."""
    x = credo.Stream(3).normal(20, 4)
    model = credo.Model(nn.Linear(4, 1), likelihoods.Gaussian(0.5), priors.Normal(1.0))
    tiny = credo.fit(model, (x, x[:, 0]), credo.BayesByBackprop(epochs=1, initial_scale=1e-7))
    assert any(note.startswith("collapsed") for note in tiny.notes)
    vague = credo.Model(nn.Linear(4, 1), likelihoods.Gaussian(50.0), priors.Normal(0.1))
    method = credo.BayesByBackprop(epochs=200, learning_rate=0.05, initial_scale=0.1)
    with pytest.warns(credo.CredoWarning, match="takes 50 of it for noise"):
        assert any("the posterior is the prior" in note for note in credo.fit(vague, (x, x[:, 0]), method).notes)


def test_draws_do_not_depend_on_the_number_of_threads_or_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """A net of which a block holds few draws, so that several threads fill one after the other."""
    monkeypatch.setattr("credo.posteriors.gaussian.BLOCK", 100)
    posterior, found = posterior_of(members=2), []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda n=threads: n)
        found.append(posterior.draw(11, seed=1).variables.params)
    with torch.inference_mode():
        found.append(posterior.draw(11, seed=1).variables.params)
    for name, w in found[0].items():
        assert torch.equal(w, found[1][name])
        assert torch.equal(w, found[2][name])
        assert len(w.flatten(1).unique(dim=0)) == 11  # no block repeats another's noise
