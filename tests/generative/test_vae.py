"""The variational autoencoder against exact answers of linear models, quadrature and torch's distributions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Independent, MultivariateNormal, Normal, kl_divergence

import credo
from credo import generative, likelihoods
from credo.generative import VAE, AutoEncodingBayes
from credo.generative.bound import Latents, elbo, importance_weighted, kl_to_standard_normal, log_weights
from credo.methods import Tick
from credo.model import Batch, Model, Target
from credo.nets import Autoencoder, Plan

LATENT = 2


def linear_data(count: int = 200, seed: int = 0) -> Tensor:
    """Rows of 5 numbers that vary along two directions, and a little noise."""
    stream = credo.Stream(seed)
    directions = torch.tensor([[2.0, 1.0, 0.0, -1.0, 0.5], [0.0, 1.0, 1.5, 0.5, -1.0]])
    rows = stream.child("z").normal(count, 2) @ directions + 0.5 * stream.child("x").normal(count, 5)
    return (rows + torch.tensor([1.0, 0.0, -2.0, 0.5, 0.0])).double()


def exact_log_prob(x: Tensor, weight: Tensor, bias: Tensor, scale: float) -> Tensor:
    """log N(x; bias, W W^T + scale^2 I), the evidence of a linear decoder."""
    covariance = weight @ weight.T + scale**2 * torch.eye(len(bias), dtype=x.dtype)
    return MultivariateNormal(bias, covariance).log_prob(x)


def best_log_prob(x: Tensor) -> float:
    """The largest mean log density that probabilistic PCA with two directions can have, in closed form."""
    values = torch.linalg.eigvalsh(torch.cov(x.T, correction=0)).flip(0)
    noise = values[LATENT:].mean()
    log_det = values[:LATENT].log().sum() + (len(values) - LATENT) * noise.log()
    return float(-0.5 * (len(values) * math.log(2 * math.pi) + log_det + len(values)))


def linear_method(**numbers: Any) -> AutoEncodingBayes:
    return AutoEncodingBayes(batch_size=None, learning_rate=0.02, schedule=credo.Cosine(), **numbers)


@pytest.fixture(scope="module")
def linear() -> generative.FittedVAE:
    vae = VAE(latent=LATENT, hidden=(), likelihood=likelihoods.SharedGaussian())
    return generative.fit(vae, linear_data(), linear_method(epochs=1500, samples=8))


def test_a_linear_model_reaches_the_exact_evidence_of_probabilistic_pca(linear: generative.FittedVAE) -> None:
    """At the optimum q is the exact posterior, so the bound is tight."""
    x = linear_data()
    best = best_log_prob(x)
    bound = float(linear.bounds(x, samples=200).elbo.mean())
    assert abs(bound - best) < 0.02


@pytest.mark.parametrize("twin", [{"beta": 2.0}, {"samples": 8, "beta": 0.0}], ids=["KL twice", "no KL"])
def test_a_bound_with_another_kl_does_not_reach_it(twin: dict[str, Any]) -> None:
    vae = VAE(latent=LATENT, hidden=(), likelihood=likelihoods.SharedGaussian())
    fitted = generative.fit(vae, linear_data(), linear_method(epochs=300, **twin))
    assert float(fitted.bounds(linear_data(), samples=200).elbo.mean()) < best_log_prob(linear_data()) - 0.1


def test_log_prob_is_the_evidence_of_the_linear_decoder(linear: generative.FittedVAE) -> None:
    x, params = linear_data(20, seed=5), linear.posterior.members().params
    layer = "decoder.layers.1"
    exact = exact_log_prob(
        x, params[f"{layer}.weight"][0], params[f"{layer}.bias"][0], float(params["likelihood.log_scale"].exp())
    )
    estimate = linear.log_prob(x, samples=4000)
    torch.testing.assert_close(estimate, exact, atol=0.02, rtol=0)
    assert (linear.bounds(x, samples=4000).elbo < exact + 0.1).all()  # five standard errors


def wrong_encoder() -> tuple[generative.FittedVAE, Tensor]:
    """A linear decoder with an encoder that knows nothing: q(z | x) = N(0, softplus(0)^2)."""
    module = Autoencoder((5,), LATENT, hidden=()).double()
    for p in module.encoder.parameters():
        nn.init.zeros_(p)
    target = Target(Model(module, likelihoods.Gaussian(scale=1.0)), size=1)
    posterior = AutoEncodingBayes().posterior(
        target, AutoEncodingBayes().init(target, target.model.network.given(), credo.Stream(0))
    )
    x = linear_data(50)
    layer = module.decoder.layers[1]
    return generative.FittedVAE(posterior), exact_log_prob(x, layer.weight.detach(), layer.bias.detach(), 1.0)


def rises_and_stays_below(means: list[float], exact: float) -> bool:
    """What the means of a bound with 1, 5, 50 and 500 draws must do, and come near in the end."""
    rising = all(a + 0.1 < b for a, b in itertools.pairwise(means))
    return rising and means[-1] < exact and exact - means[-1] < 0.5 * (exact - means[0])


def test_the_importance_weighted_bound_rises_with_the_draws_and_stays_below_the_evidence() -> None:
    """Of 20 repetitions on 50 rows the standard error of a mean is some 0.05 nats, and the steps are above 0.5."""
    fitted, each = wrong_encoder()
    x, exact, draws = linear_data(50), float(each.mean()), (1, 5, 50, 500)
    assert rises_and_stays_below([mean_over_seeds(lambda s, k=k: fitted.log_prob(x, k, s)) for k in draws], exact)
    elbos = [mean_over_seeds(lambda s, k=k: fitted.bounds(x, k, s).elbo) for k in draws]
    assert not rises_and_stays_below(elbos, exact), "the mean of logs, in place of the log of the mean"
    sums = [mean_over_seeds(lambda s, k=k: fitted.log_prob(x, k, s) + math.log(k)) for k in draws]
    assert not rises_and_stays_below(sums, exact), "the sum of the weights, in place of their mean"
    assert abs(elbos[0] - mean_over_seeds(lambda s: fitted.log_prob(x, 1, s))) < 0.5, "one draw: two estimates of one"


def mean_over_seeds(estimate: Callable[[int], Tensor], seeds: int = 20) -> float:
    return float(torch.stack([estimate(seed) for seed in range(seeds)]).mean())


def test_kl_against_torch() -> None:
    mean, scale = credo.Stream(0).normal(7, 3).double(), credo.Stream(1).normal(7, 3).double().exp()
    expected = kl_divergence(Normal(mean, scale), Normal(torch.zeros_like(mean), torch.ones_like(scale)))
    torch.testing.assert_close(kl_to_standard_normal(mean, scale), expected)
    assert not torch.allclose(kl_to_standard_normal(mean, scale.square()), expected), "a variance for a scale"


def test_log_weights_against_torch() -> None:
    stream = credo.Stream(3)
    mean, scale = stream.child(0).normal(1, 4, 2).double(), stream.child(1).normal(1, 4, 2).double().exp()
    noise = stream.child(2).normal(1, 4, 6, 2).double()
    log_likelihood = stream.child(3).normal(6, 1, 4).double()
    z = mean.unsqueeze(2) + scale.unsqueeze(2) * noise
    q = Independent(Normal(mean.unsqueeze(2), scale.unsqueeze(2)), 1).log_prob(z)
    p = Independent(Normal(torch.zeros_like(z), 1.0), 1).log_prob(z)
    expected = log_likelihood + (p - q).movedim(-1, 0)
    found = log_weights(log_likelihood, Latents(log_likelihood, mean, scale, noise))
    torch.testing.assert_close(found, expected)
    assert importance_weighted(found).mean() > elbo(found, torch.zeros(1, 4)).mean(), "Jensen"


def images(count: int = 60) -> Tensor:
    """Gray images of 4 x 4: bars at four places."""
    which = torch.arange(count) % 4
    picture = torch.full((count, 4, 4), 0.1)
    picture[torch.arange(count), which] = 0.9
    return picture


def few(**numbers: Any) -> AutoEncodingBayes:
    return AutoEncodingBayes(**{"epochs": 3, "batch_size": 20, "learning_rate": 1e-2, **numbers})


@pytest.mark.parametrize("bound", ["elbo", "iwae"])
def test_the_gradient_is_that_of_the_bound_by_hand(bound: str) -> None:
    """One step of plain gradient ascent against torch's distributions, with the same noise."""
    x = (images(10) > 0.5).double()
    module = Autoencoder((4, 4), 3, hidden=(5,)).double()
    method = AutoEncodingBayes(samples=4, bound=bound, optimizer=credo.SGD(), learning_rate=1.0)
    target = Target(Model(module, likelihoods.Bernoulli()), size=10)
    state = method.init(target, target.model.network.given(), credo.Stream(0))
    tick = Tick(0, 1, credo.Stream(7))
    noise = tick.rng.child("latent").normal(1, 10, 4, 3, dtype=torch.float64)[0]
    mean, scale = module.encode(x)
    z = mean.unsqueeze(1) + scale.unsqueeze(1) * noise
    logits = module.decode(z.flatten(0, 1)).reshape(10, 4, 16)
    log_likelihood = Bernoulli(logits=logits).log_prob(x.flatten(1).unsqueeze(1)).sum(-1)
    if bound == "elbo":
        by_hand = log_likelihood.mean(1) - kl_divergence(Normal(mean, scale), Normal(0.0, 1.0)).sum(-1)
    else:
        ratio = Normal(0.0, 1.0).log_prob(z) - Normal(mean.unsqueeze(1), scale.unsqueeze(1)).log_prob(z)
        by_hand = torch.logsumexp(log_likelihood + ratio.sum(-1), 1) - math.log(4)
    gradients = torch.autograd.grad(by_hand.mean(), list(module.parameters()))
    before = {name: w.clone() for name, w in state.variables.params.items()}
    state, _ = method.step(target, state, Batch(x, x.flatten(1)), tick)
    for (name, _), gradient in zip(module.named_parameters(), gradients, strict=True):
        torch.testing.assert_close(state.variables.params[name][0] - before[name][0], gradient)


def test_the_kl_comes_in_with_the_warm_up() -> None:
    late = generative.fit(VAE(latent=2, hidden=(8,)), images(), few(epochs=10, beta=5.0, warm_up=0.9))
    early = generative.fit(VAE(latent=2, hidden=(8,)), images(), few(epochs=10, beta=5.0))
    assert late.history[1]["kl"] > early.history[1]["kl"]
    row = early.history[-1]
    assert row["bound"] == pytest.approx(row["reconstruction"] - 5.0 * row["kl"], rel=1e-4)


@pytest.mark.parametrize(
    ("x", "name"),
    [
        ((images() > 0.5).float(), "Bernoulli()"),
        (images(), "ContinuousBernoulli()"),
        (images() * 7 - 3, "SharedGaussian(initial_scale=1.0)"),
    ],
)
def test_the_likelihood_is_chosen_by_the_values(x: Tensor, name: str) -> None:
    fitted = generative.fit(VAE(latent=2, hidden=(8,)), x, few(epochs=1))
    assert any(name in note for note in fitted.notes)
    assert fitted.bounds(x).elbo.shape == (60,)
    assert fitted.sample(3, noise=True).shape == (3, 4, 4)


def test_gray_images_are_binarized_anew_in_every_step() -> None:
    fitted = generative.fit(VAE(latent=2, hidden=(8,), likelihood=likelihoods.BinarizedBernoulli()), images(), few())
    x = images(8)
    first, again, other = (fitted.log_prob(x, 10, seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    binary = (x > 0.5).float()
    assert torch.equal(fitted.encode(binary).mean, fitted.encode(binary).mean)


def test_it_can_be_saved_and_loaded_and_gives_the_same_bits(tmp_path: Path) -> None:
    fitted = generative.fit(VAE(latent=2, hidden=(8, 6)), images(), few())
    loaded = generative.FittedVAE.load(fitted.save(tmp_path / "vae"))
    assert torch.equal(loaded.log_prob(images(), 20), fitted.log_prob(images(), 20))
    assert torch.equal(loaded.sample(4), fitted.sample(4))
    assert loaded.shape == (4, 4)


def test_modules_of_one_s_own(tmp_path: Path) -> None:
    encoder = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten())
    encoder.append(nn.Linear(12, 4))
    decoder = nn.Sequential(nn.Linear(2, 16), nn.Unflatten(1, (4, 4)))
    kept = {name: p.clone() for name, p in encoder.state_dict().items()}
    fitted = generative.fit(VAE(latent=2, encoder=encoder, decoder=decoder), images(), few())
    assert all(torch.equal(p, kept[name]) for name, p in encoder.state_dict().items())
    loaded = generative.FittedVAE.load(
        fitted.save(tmp_path / "vae"), Autoencoder((4, 4), 2, encoder=encoder, decoder=decoder)
    )
    assert torch.equal(loaded.reconstruct(images()), fitted.reconstruct(images()))


def test_a_run_that_was_stopped_resumes_to_the_same_bits(tmp_path: Path) -> None:
    vae = VAE(latent=2, hidden=(8,))
    whole = generative.fit(vae, images(), few())
    for _ in range(4):
        with pytest.warns(credo.CredoWarning, match="stopped after"):
            generative.fit(vae, images(), few(), checkpoint=tmp_path, resume=True, seconds=1e-9)
    resumed = generative.fit(vae, images(), few(), checkpoint=tmp_path, resume=True)
    assert torch.equal(whole.reconstruct(images()), resumed.reconstruct(images()))


def test_large_data_are_taken_in_parts_and_give_the_same_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = generative.fit(VAE(latent=2, hidden=(8,)), images(), few())
    whole, exact = fitted.reconstruct(images()), fitted.log_prob(images(8), 20_000)
    monkeypatch.setattr("credo.generative.fitted.ENTRIES", 16 * 7)
    torch.testing.assert_close(fitted.reconstruct(images()), whole)
    # 700 draws from a q that is not the posterior: a fifth of a nat is some ten standard errors
    torch.testing.assert_close(fitted.log_prob(images(8), 700), exact, atol=0.2, rtol=0)


def test_members_train_as_they_would_alone() -> None:
    """An ensemble of autoencoders under both plans."""
    module = Autoencoder((4, 4), 2, hidden=(5,))
    model = Model(module, likelihoods.ContinuousBernoulli())
    x = images()
    results = [
        credo.fit(model, (x, x.flatten(1)), credo.Ensemble(few(), members=2), plan=plan).tensors() for plan in Plan
    ]
    for name, t in results[0].items():
        torch.testing.assert_close(t, results[1][name], rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match="holds 2 autoencoders"):
        generative.FittedVAE(credo.fit(model, (x, x.flatten(1)), credo.Ensemble(few(), members=2)))
