"""Importance weights: moments and evidence of linear regression, and a proposal that misses."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import kstest
from torch import Tensor, nn

import credo
from credo import likelihoods, priors
from credo.core.config import encode
from credo.core.pareto import pareto_k, smoothed
from credo.methods import Hamiltonian, RandomWalk, Tick
from credo.methods.weighted.annealed import AnnealedImportanceSampling, AnnealedState
from credo.posteriors import DiagonalGaussian, Weighted

LIMIT = 4.0
"""Of each |z|: a right method fails one of the 10 with probability 6e-4."""


def proposal(line: Any, width: float, shift: float = 0.0) -> DiagonalGaussian:
    """Independent normals around the exact mean, wider or narrower than the exact marginals."""
    mean = (line.exact.posterior.mean + shift * line.scale).view(1, 1, 3)
    scale = {"weight": (width * line.scale).view(1, 1, 3)}
    return DiagonalGaussian(line.model, credo.Variables({"weight": mean}), scale)


def weighted_z(posterior: Weighted, values: Tensor, truth: Tensor) -> Tensor:
    """(weighted average - exact) / standard error of K numbers per draw, (S, K)."""
    w = posterior.log_weights.softmax(0).unsqueeze(1)
    average = (w * values).sum(0)
    return (average - truth) / (w * (values - average)).square().sum(0).sqrt()


def scores(posterior: Weighted, line: Any) -> Tensor:
    """Of three means, six second moments and the evidence."""
    w, truth = posterior.variables.params["weight"].flatten(1), line.exact.posterior
    i, j = torch.triu_indices(3, 3)
    apart = w - truth.mean
    moments = weighted_z(
        posterior, torch.cat([w, apart[:, i] * apart[:, j]], 1), torch.cat([truth.mean, truth.covariance[i, j]])
    )
    found = posterior.log_evidence
    return torch.cat([moments, torch.tensor([(found.value - line.exact.log_evidence) / found.standard_error])])


METHOD = {"draws": 20_000, "draws_per_step": 2_000}


@pytest.mark.parametrize("smoothing", [True, False])
def test_moments_and_evidence_of_linear_regression(line: Any, smoothing: bool) -> None:
    method = credo.ImportanceSampling(proposal(line, 2.0, shift=0.5), **METHOD, smoothing=smoothing)
    posterior = credo.fit(line.model, line.data, method, seed=1)
    assert len(posterior.draw()) == 20_000
    assert posterior.reliable
    assert bool((scores(posterior, line).abs() < LIMIT).all())
    assert 500 < posterior.effective_draws < 15_000
    told = " ".join(posterior.notes)
    assert f"20000 draws are worth {posterior.effective_draws:.1f}" in told
    assert "log evidence" in told


def test_forgetting_the_density_of_the_proposal_would_be_noticed(line: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: weights that are the posterior's density alone."""
    monkeypatch.setattr(DiagonalGaussian, "log_prob", lambda self, params: torch.zeros(len(params["weight"])))
    method = credo.ImportanceSampling(proposal(line, 2.0, shift=0.5), **METHOD)
    found = scores(credo.fit(line.model, line.data, method, seed=1), line)
    assert float(found.abs().max()) > 2 * LIMIT


def test_a_mixture_deals_its_members_equally_many(line: Any) -> None:
    one, other = proposal(line, 1.5, shift=-1.0), proposal(line, 1.5, shift=1.0)
    mean = credo.Variables.stack([one.mean, other.mean])
    both = replace(one, mean=mean, scale={"weight": torch.cat([one.scale["weight"], other.scale["weight"]])})
    method = credo.ImportanceSampling(both, draws=20_001, draws_per_step=999)
    assert method.members % 2 == 0
    posterior = credo.fit(line.model, line.data, method, seed=2)
    assert bool((scores(posterior, line).abs() < LIMIT).all())


def test_the_prior_serves_where_the_data_say_little(line: Any) -> None:
    x, y = line.x[:2], line.y[:2]
    little = credo.exact.LinearRegression(x, y, 0.5, credo.exact.GaussianWeights.isotropic(3, scale=2.0))
    posterior = credo.fit(line.model, (x, y), credo.ImportanceSampling(**METHOD), seed=1)
    found = posterior.log_evidence
    assert abs(found.value - little.log_evidence) < LIMIT * found.standard_error
    assert found.standard_error < 0.1


def test_k_hat_passes_a_good_proposal_and_flags_a_bad_one(line: Any) -> None:
    assert credo.fit(line.model, line.data, credo.ImportanceSampling(proposal(line, 1.5)), seed=3).reliable
    with pytest.warns(
        credo.CredoWarning, match=r"the weights miss the posterior: k-hat is \d\.\d\d, above 0\.7.*Annealed"
    ):
        narrow = credo.fit(line.model, line.data, credo.ImportanceSampling(proposal(line, 0.3)), seed=3)
    assert not narrow.reliable
    assert "neither predictions nor evidence can be relied on" in narrow.notes[-1]
    assert narrow.effective_draws < 500
    assert narrow.predict(line.x).mean.isfinite().all(), "it still answers"


def test_too_few_draws_to_tell_are_not_trusted(line: Any) -> None:
    with pytest.warns(credo.CredoWarning, match="cannot be estimated from so few draws"):
        credo.fit(line.model, line.data, credo.ImportanceSampling(proposal(line, 1.5), draws=10))


def test_saved_and_loaded_it_says_the_same(line: Any, tmp_path: Path) -> None:
    posterior = credo.fit(line.model, line.data, credo.ImportanceSampling(proposal(line, 1.5), draws=200))
    loaded = credo.load(posterior.save(tmp_path / "run"), net=nn.Linear(3, 1, bias=False).double())
    assert isinstance(loaded, Weighted)
    assert loaded.log_evidence == posterior.log_evidence
    assert loaded.notes == posterior.notes
    assert torch.equal(loaded.draw(50, seed=4)(line.x), posterior.draw(50, seed=4)(line.x))


def test_the_proposal_is_part_of_the_methods_identity(line: Any, tmp_path: Path) -> None:
    one, other = (credo.ImportanceSampling(proposal(line, width), draws=100, draws_per_step=50) for width in (1.5, 1.6))
    assert one == copy.deepcopy(one)
    assert one != other
    assert encode(one)["fingerprint"] == one.fingerprint != other.fingerprint
    assert "proposal" not in encode(one)
    with pytest.warns(credo.CredoWarning, match="stopped after"):
        credo.fit(line.model, line.data, one, checkpoint=tmp_path, seconds=1e-9)
    with pytest.raises(credo.StorageError, match="its method was"):
        credo.fit(line.model, line.data, other, checkpoint=tmp_path, resume=True)


def test_proposals_that_cannot_serve_are_refused(line: Any) -> None:
    point = credo.fit(line.model, line.data, credo.MAP(epochs=1))
    with pytest.raises(TypeError, match="of kind Draws, which has no density"):
        credo.ImportanceSampling(point)
    sure = replace(proposal(line, 1.0), scale={"weight": torch.zeros(1, 1, 3)})
    with pytest.raises(ValueError, match="holds 'weight' at a point"):
        credo.ImportanceSampling(sure)
    other = credo.Model(nn.Linear(3, 1).double(), likelihoods.Gaussian(0.5))
    with pytest.raises(ValueError, match="not those of the model"):
        credo.fit(other, line.data, credo.ImportanceSampling(proposal(line, 1.0)))


def test_smoothing_keeps_the_order_and_leaves_hopeless_tails_alone() -> None:
    raw = 1.5 * credo.Stream(1, ("order",)).normal(500, dtype=torch.float64)
    found = smoothed(raw).log_weights
    assert torch.equal(raw.argsort(), found.argsort())
    assert float(found.max()) <= float(raw.max())
    hopeless = 30.0 * raw
    assert pareto_k(hopeless) > 1.0
    assert torch.equal(smoothed(hopeless).log_weights, hopeless)


def test_learned_noise_is_drawn_from_its_own_prior() -> None:
    drawn = likelihoods.LearnedGaussian(2.0).draw_parameters(2, 5000, credo.Stream(0).generator())["log_scale"]
    assert drawn.shape == (5000, 2)
    assert kstest(((drawn - math.log(2.0)) / 3.0).flatten().numpy(), "norm").pvalue > 1e-4  # of right ones 1e-4 fail


class Mute(likelihoods.LearnedGaussian):
    """A likelihood whose author forgot how to draw its parameters."""

    def draw_parameters(self, outputs: int, members: int, generator: torch.Generator) -> dict[str, Tensor]:
        return {}


def test_a_likelihood_that_cannot_draw_its_parameters_is_told_so(line: Any) -> None:
    model = credo.Model(nn.Linear(3, 1), Mute())
    with pytest.raises(ValueError, match="Mute cannot draw its own 'log_scale' from the prior"):
        credo.fit(model, line.data, credo.ImportanceSampling())


AIS = {"draws": 400, "temperatures": 40, "power": 3.0}
TRANSITIONS = {"hamiltonian": Hamiltonian(leapfrogs=3), "random walk": RandomWalk(moves=10)}


@pytest.mark.parametrize("transition", TRANSITIONS.values(), ids=TRANSITIONS.keys())
@pytest.mark.parametrize("seed", [0, 1])
def test_annealed_evidence_of_linear_regression(transition: Any, seed: int, line: Any) -> None:
    method = AnnealedImportanceSampling(**AIS, transition=transition)
    posterior = credo.fit(line.model, line.data, method, seed=seed)
    found = posterior.log_evidence
    assert found.standard_error < 0.2
    # 3 standard errors: a right method fails with probability 0.3 % in each of the four
    assert abs(found.value - line.exact.log_evidence) < 3.0 * found.standard_error
    assert bool((scores(posterior, line).abs() < LIMIT).all())
    assert len(posterior.draw()) == 400, "the pilots are not among them"


def late(self: AnnealedImportanceSampling, target: Any, state: AnnealedState, batch: Any, tick: Tick) -> Any:
    """The broken twin: draws are weighed after their move instead of before it."""
    after, info = right_step(self, target, state, batch, tick)
    return replace(after, log_weights=state.log_weights + (after.power - state.power) * after.log_ratio), info


right_step = AnnealedImportanceSampling.step


@pytest.mark.parametrize("transition", TRANSITIONS.values(), ids=TRANSITIONS.keys())
def test_weighing_after_the_move_would_be_noticed(transition: Any, line: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AnnealedImportanceSampling, "step", late)
    posterior = credo.fit(line.model, line.data, AnnealedImportanceSampling(**AIS, transition=transition), seed=0)
    found = posterior.log_evidence
    assert abs(found.value - line.exact.log_evidence) > 6.0 * found.standard_error


def test_a_tempered_path_ends_at_the_tempered_posterior() -> None:
    """The normalizer of (p(y | w) p(w))^(1/T) of a single weight, against a fine sum."""
    x, y = torch.tensor([[1.0], [-0.5]]).double(), torch.tensor([1.2, 0.1]).double()
    model = credo.Model(nn.Linear(1, 1, bias=False).double(), likelihoods.Gaussian(0.5), priors.Normal(1.0))
    w = torch.linspace(-8, 8, 4001).double()
    exact = credo.exact.LinearRegression(x, y, 0.5, credo.exact.GaussianWeights.isotropic(1, scale=1.0))
    truth = float(torch.logsumexp(exact.log_joint(w.unsqueeze(1)) / 2.5, 0)) + math.log(16 / 4000)
    found = credo.fit(
        model, (x, y), AnnealedImportanceSampling(draws=400, temperatures=20), temperature=2.5
    ).log_evidence
    assert abs(found.value - truth) < 3.0 * found.standard_error
    assert found.standard_error < 0.1


def test_a_path_that_is_stopped_halfway_still_weighs_rightly(line: Any) -> None:
    x, y = line.x[:3], line.y[:3].unsqueeze(1)
    few = credo.exact.LinearRegression(x, line.y[:3], 0.5, credo.exact.GaussianWeights.isotropic(3, scale=2.0))
    method, target, batch = AnnealedImportanceSampling(**AIS), credo.Target(line.model, 3), credo.Batch(x, y)
    state = method.init(target, line.model.network.initial(method.members, credo.Stream(0)), credo.Stream(1))
    for step in range(30):
        state, _ = method.step(target, state, batch, Tick(step, 40, credo.Stream(2).child(step)))
    assert 0.3 < float(state.power[0]) < 0.5
    found = method.posterior(target, state).log_evidence
    assert abs(found.value - few.log_evidence) < LIMIT * found.standard_error


def test_draws_without_density_weigh_nothing() -> None:
    """Counts whose rates overflow under the prior."""
    x = torch.linspace(-1, 1, 6).unsqueeze(1)
    model = credo.Model(nn.Linear(1, 1), likelihoods.Poisson(), priors.Normal(100.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credo.CredoWarning)
        posterior = credo.fit(model, (x, torch.ones(6)), credo.ImportanceSampling(draws=2000))
    assert posterior.record.finished
    assert math.isfinite(posterior.log_evidence.value)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: credo.ImportanceSampling(draws=0), "draws must be"),
        (lambda: credo.ImportanceSampling(draws_per_step=0), "draws_per_step must be"),
        (lambda: AnnealedImportanceSampling(draws=1), "draws must be"),
        (lambda: AnnealedImportanceSampling(pilots=1), "pilots must be"),
        (lambda: AnnealedImportanceSampling(power=0.0), "power must be a positive number"),
        (lambda: Hamiltonian(leapfrogs=0), "leapfrogs must be"),
        (lambda: RandomWalk(moves=0), "moves must be"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()
