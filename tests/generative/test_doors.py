"""What people give an autoencoder: modules, data and mistakes of every kind."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import credo
from credo import generative, likelihoods
from credo.generative import VAE, AutoEncodingBayes


def images(count: int = 40) -> Tensor:
    """Gray images of 4 x 4: bars at four places."""
    which = torch.arange(count) % 4
    picture = torch.full((count, 4, 4), 0.1)
    picture[torch.arange(count), which] = 0.9
    return picture


def few(**numbers: Any) -> AutoEncodingBayes:
    return AutoEncodingBayes(**{"epochs": 3, "batch_size": 20, "learning_rate": 1e-2, **numbers})


def flat_encoder() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 4))


def test_the_caller_s_modules_and_the_global_generator_stay_as_they_were() -> None:
    encoder, decoder = flat_encoder().train(), nn.Linear(2, 16).eval()
    kept = {name: p.clone() for name, p in encoder.state_dict().items()}
    before = torch.get_rng_state()
    generative.fit(VAE(latent=2, encoder=encoder, decoder=decoder), images().double(), few())
    assert torch.equal(torch.get_rng_state(), before)
    assert encoder.training
    assert not decoder.training
    assert all(torch.equal(p, kept[name]) for name, p in encoder.state_dict().items())


def test_what_is_not_given_is_drawn_from_the_seed() -> None:
    encoder, found = flat_encoder(), []
    for start, seed in ((1, 0), (2, 0), (2, 1)):
        torch.manual_seed(start)
        vae = VAE(latent=2, hidden=(5,), encoder=encoder)
        found.append(generative.fit(vae, images(), few(), seed=seed).reconstruct(images()))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


class Tied(nn.Module):
    """A decoder that uses a weight of the encoder."""

    def __init__(self, shared: nn.Linear) -> None:
        super().__init__()
        self.shared, self.bias = shared, nn.Parameter(torch.zeros(16))

    def forward(self, z: Tensor) -> Tensor:
        return z @ self.shared.weight[:2] + self.bias


def test_a_weight_that_encoder_and_decoder_share() -> None:
    """Decoding by itself, and as a part of the whole, must see the same trained weight."""
    encoder = flat_encoder()
    shared = encoder[1]
    assert isinstance(shared, nn.Linear)
    vae = VAE(latent=2, encoder=encoder, decoder=Tied(shared))
    fitted = generative.fit(vae, images(), few(epochs=20, learning_rate=0.1))
    whole = fitted.posterior.predict(images()).mean.reshape(-1, 4, 4)
    torch.testing.assert_close(fitted.reconstruct(images()), whole)
    assert sum(p.numel() for p in fitted.posterior.members().params.values()) == 16 * 4 + 4 + 16


def test_dropout_in_a_decoder_with_several_draws_of_z() -> None:
    decoder = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 16))
    fitted = generative.fit(VAE(latent=2, hidden=(5,), decoder=decoder), images(), few(samples=3))
    assert torch.equal(fitted.reconstruct(images()), fitted.reconstruct(images()))


def test_frozen_weights_stay() -> None:
    encoder = flat_encoder().requires_grad_(False)
    fitted = generative.fit(VAE(latent=2, hidden=(5,), encoder=encoder), images(), few())
    weight = encoder.get_parameter("1.weight")
    assert torch.equal(fitted.posterior.members().buffers["encoder.1.weight"][0], weight)


def test_an_encoder_that_works_in_place() -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = flat_encoder()

        def forward(self, x: Tensor) -> Tensor:
            x -= 0.5
            return self.layers(x)

    x = images()
    fitted = generative.fit(VAE(latent=2, hidden=(5,), encoder=InPlace()), x, few())
    assert torch.equal(fitted.encode(x).mean, fitted.encode(x).mean)
    assert torch.equal(x, images())


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_units_do_not_matter(factor: float) -> None:
    """The same data in other units: the same model, and log densities that differ by the log of the factor."""
    x = credo.Stream(0).normal(40, 5) + 2.0
    plain, other = (generative.fit(VAE(latent=2, hidden=(8,)), x * f, few(epochs=10)) for f in (1.0, factor))
    assert any("standardized" in note for note in other.notes)
    # float32 all the way: a hundredth of a nat in 5 numbers
    difference = plain.bounds(x).elbo - other.bounds(x * factor).elbo
    torch.testing.assert_close(difference, torch.full_like(difference, 5 * math.log(factor)), atol=0.01, rtol=0)
    torch.testing.assert_close(other.reconstruct(x * factor) / factor, plain.reconstruct(x), atol=1e-3, rtol=1e-3)
    assert other.sample(3, noise=True).abs().max() < 100 * factor


class Pictures(Dataset[Any]):
    """Images with labels, one by one."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return images()[i], i % 4


SOURCES: dict[str, Callable[[], Any]] = {
    "array": lambda: images().numpy(),
    "array of float64": lambda: images().numpy().astype(np.float64),
    "list of arrays": lambda: list(images().numpy()),
    "list of tensors": lambda: list(images()),
    "nested lists": lambda: images().tolist(),
    "TensorDataset": lambda: TensorDataset(images(), torch.zeros(40)),
    "Dataset": Pictures,
    "DataLoader": lambda: DataLoader(Pictures(), batch_size=16),
    "half": lambda: (images() * 16).round().half() / 16,
    "not contiguous": lambda: images().transpose(0, 1).contiguous().transpose(0, 1),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_data_in_many_forms(source: Callable[[], Any]) -> None:
    fitted = generative.fit(VAE(latent=2, hidden=(5,)), source(), few(epochs=1))
    assert fitted.shape == (4, 4)
    assert fitted.reconstruct(source()).dtype is torch.float32
    # 2 of 16 levels of gray apart at most, for the form that has fewer bits
    torch.testing.assert_close(fitted.encode(source()).mean, fitted.encode(images()).mean, atol=0.1, rtol=0)


def test_a_torch_tensor_of_float64_is_computed_in_float64() -> None:
    fitted = generative.fit(VAE(latent=2, hidden=(5,)), images().double(), few(epochs=1))
    assert fitted.log_prob(images(2).double(), 10).dtype is torch.float64


def test_one_example_and_constants() -> None:
    one = generative.fit(VAE(latent=2, hidden=(5,)), images(1), few())
    assert one.log_prob(images(1), 10).isfinite().all()
    with pytest.raises(ValueError, match="one example"):
        one.active(images(1))
    same = generative.fit(VAE(latent=2, hidden=(5,)), torch.full((20, 4), 7.0), few())
    assert same.log_prob(torch.full((3, 4), 7.0), 10).isfinite().all()


def test_dimensions_that_carry_nothing_are_named() -> None:
    fitted = generative.fit(VAE(latent=2, hidden=(8,)), images(), few(epochs=60, beta=200.0))
    assert not fitted.active(images()).any()
    assert (fitted.kl_per_dimension(images()) < 0.01).all()
    assert any("the posterior has collapsed" in note and "warm_up=0.5" in note for note in fitted.notes)
    used = generative.fit(VAE(latent=1, hidden=(16,)), images(), few(epochs=150, beta=0.01))
    assert used.active(images()).all()
    assert not any("collapsed" in note or "carry no information" in note for note in used.notes)


def test_the_held_out_bound_joins_the_history() -> None:
    fitted = generative.fit(VAE(latent=2, hidden=(8,)), images(), few(beta=3.0), validation=images(8))
    bounds = torch.stack([fitted.bounds(images(8), seed=seed).elbo.mean() for seed in range(50)])
    # with the whole KL, whatever beta is: one draw for each of 8 images, within five standard deviations of such means
    assert abs(fitted.history[-1]["validation_bound"] - float(bounds.mean())) < 5 * float(bounds.std())
    tight = generative.fit(VAE(latent=2, hidden=(8,)), images(), few(bound="iwae", samples=50), validation=images(8))
    assert abs(tight.history[-1]["validation_bound"] - float(tight.log_prob(images(8), 50).mean())) < 0.5


def test_pictures_of_the_latent_space() -> None:
    fitted = generative.fit(VAE(latent=2, hidden=(8,)), images(), few())
    x = images()
    between, ends = fitted.interpolate(x[0], x[1], steps=5), fitted.reconstruct(x[:2])
    torch.testing.assert_close(between[[0, -1]], ends)
    torch.testing.assert_close(between[2], fitted.decode(fitted.encode(x[:2]).mean.mean(0, keepdim=True))[0])
    corner = torch.special.ndtri(torch.tensor([[0.02, 0.98]]))
    torch.testing.assert_close(fitted.manifold(3)[0, 0], fitted.decode(corner)[0])
    with pytest.raises(ValueError, match="3 latent dimensions"):
        generative.fit(VAE(latent=3, hidden=(8,)), x, few()).manifold()


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "bytes": (lambda: generative.fit(VAE(), torch.full((3, 4), 200, dtype=torch.uint8)), "divide bytes by 255"),
    "counts": (lambda: generative.fit(VAE(), torch.tensor([[-3, 700]])), "likelihoods.Poisson"),
    "complex": (lambda: generative.fit(VAE(), torch.zeros(3, 4, dtype=torch.complex64)), "complex"),
    "nan": (lambda: generative.fit(VAE(), torch.full((3, 4), math.nan)), "NaN"),
    "no latent": (lambda: VAE(latent=0), "latent"),
    "gray": (
        lambda: generative.fit(VAE(likelihood=likelihoods.Bernoulli()), torch.full((3, 4), 0.5)),
        "x does not suit .*Bernoulli.* other than 0 and 1.*ContinuousBernoulli",
    ),
    "outside": (
        lambda: generative.fit(VAE(likelihood=likelihoods.ContinuousBernoulli()), torch.full((3, 4), 255.0)),
        "x does not suit .*values from 255 to 255.*divide bytes",
    ),
    "one class": (
        lambda: generative.fit(VAE(likelihood=likelihoods.Categorical()), torch.zeros(3, 4)),
        "x does not suit",
    ),
    "encoder": (lambda: generative.fit(VAE(latent=3, encoder=nn.Linear(4, 5)), torch.zeros(3, 4)), "encoder gives 5"),
    "decoder": (lambda: generative.fit(VAE(latent=3, decoder=nn.Linear(3, 5)), torch.zeros(3, 4)), "decoder gives 5"),
    "sizes": (
        lambda: generative.fit(VAE(latent=3, encoder=nn.Linear(9, 6)), torch.zeros(3, 4)),
        "encoder cannot be called on x",
    ),
    "z": (
        lambda: generative.fit(VAE(latent=3, decoder=nn.Linear(9, 4)), torch.zeros(3, 4)),
        r"decoder cannot be called on z \(B, 3\)",
    ),
    "tuple": (
        lambda: generative.fit(VAE(encoder=nn.LSTM(4, 20)), torch.zeros(3, 2, 4)),
        "gives a tuple",
    ),
    "no module": (lambda: VAE(encoder="conv"), "encoder must be a module"),
    "other method": (lambda: generative.fit(VAE(), torch.zeros(3, 4), credo.MAP(epochs=1)), "AutoEncodingBayes"),
    "different sizes": (
        lambda: generative.fit(VAE(), [np.zeros((4, 4)), np.zeros((4, 4)), np.zeros((5, 4))]),
        r"different sizes: most are \(4, 4\), and number 2 is \(5, 4\)",
    ),
    "nothing": (lambda: generative.fit(VAE(), torch.zeros(0, 4)), "one row per example"),
    "weighed iwae": (lambda: AutoEncodingBayes(bound="iwae", beta=2.0), "no KL to weigh"),
    "one row": (lambda: generative.fit(VAE(), torch.zeros(4)), "one row per example"),
    "no vae": (lambda: generative.fit(nn.Linear(1, 1), torch.zeros(3, 4)), "VAE"),
    "other validation": (
        lambda: generative.fit(VAE(hidden=(4,)), torch.zeros(3, 4), validation=torch.zeros(3, 5)),
        r"validation has examples of shape \(5,\)",
    ),
}


@pytest.mark.parametrize(("mistake", "answer"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_answered_in_a_sentence(mistake: Callable[[], Any], answer: str) -> None:
    with pytest.raises((ValueError, TypeError), match=answer):
        mistake()


def test_counts_and_other_likelihoods() -> None:
    counts = (images() * 10).round().long()
    fitted = generative.fit(VAE(latent=2, hidden=(5,), likelihood=likelihoods.Poisson()), counts, few())
    assert fitted.log_prob(counts[:3], 10).shape == (3,)
    noisy = generative.fit(
        VAE(latent=2, hidden=(5,), likelihood=likelihoods.HeteroscedasticGaussian()), images(), few()
    )
    assert noisy.sample(2, noise=True).shape == (2, 4, 4)


def test_mistakes_afterwards() -> None:
    fitted = generative.fit(VAE(latent=2, hidden=(8,)), images(), few())
    with pytest.raises(ValueError, match=r"examples of shape \(5, 5\)"):
        fitted.encode(torch.zeros(2, 5, 5))
    with pytest.raises(ValueError, match="2 numbers per row"):
        fitted.decode(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="NaN"):
        fitted.decode(torch.full((2, 2), math.nan))
    with pytest.raises(TypeError, match="none of a variational autoencoder"):
        generative.FittedVAE(credo.fit(nn.Linear(1, 1), (torch.zeros(3, 1), torch.zeros(3, 1)), credo.MAP(epochs=1)))
    x = images().flatten(1)
    plain = credo.fit(credo.nets.Autoencoder((16,), 2, hidden=(4,)), (x, x), credo.MAP(epochs=1))
    with pytest.raises(ValueError, match="does not train q"):
        generative.FittedVAE(plain)


def test_standardized_models_and_modules_of_one_s_own_can_be_loaded(tmp_path: Path) -> None:
    x = images() * 50 + 1000
    fitted = generative.fit(VAE(latent=2, hidden=(8,)), x, few())
    loaded = generative.FittedVAE.load(fitted.save(tmp_path / "vae"))
    assert torch.equal(loaded.log_prob(x[:4], 20), fitted.log_prob(x[:4], 20))
