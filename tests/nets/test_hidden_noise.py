"""Noise that a module draws by itself: from the run's seed in training, refused where it cannot have one."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import credo
from credo import Stream, likelihoods
from credo.core.trees import Variables
from credo.nets import Network, Plan
from credo.nets.dropout import draw_masks

ROWS = (5, 3)


class Noise(nn.Module):
    def __init__(self, noise: Callable[[Tensor], Tensor], *, always: bool = False) -> None:
        super().__init__()
        self.layer, self.noise, self.always = nn.Linear(3, 2), noise, always

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.layer(x)
        return self.noise(hidden) if self.training or self.always else hidden


class Attending(nn.Module):
    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block, self.readout = block, nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.block(x, x, x)[0] if isinstance(self.block, nn.MultiheadAttention) else self.block(x)
        return self.readout(hidden.mean(1))


class DotProduct(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(F.scaled_dot_product_attention(x, x, x, dropout_p=0.2 * self.training).mean(1))


class Packed(nn.Module):
    """A recurrent network on sequences of different lengths, with dropout between its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.readout = nn.GRU(3, 4, num_layers=2, dropout=0.5, batch_first=True), nn.Linear(4, 2)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return self.readout(self.cell(packed)[1][-1])


def encoder(dropout: float = 0.1) -> nn.Module:
    block = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    block.self_attn.dropout = dropout
    return Attending(block)


HIDDEN = {
    "attention": (Attending(nn.MultiheadAttention(4, 2, dropout=0.1, batch_first=True)), (5, 7, 4), "block"),
    "encoder": (encoder(), (5, 7, 4), "block.self_attn"),
    "dot product": (DotProduct(), (5, 7, 4), ""),
    "randn_like": (Noise(lambda h: h + torch.randn_like(h)), ROWS, ""),
    "rand": (Noise(lambda h: h * torch.rand(h.shape[0], 1)), ROWS, ""),
    "bernoulli": (Noise(lambda h: h * torch.bernoulli(torch.full_like(h, 0.5))), ROWS, ""),
    "RReLU": (nn.Sequential(nn.Linear(3, 2), nn.RReLU()), ROWS, "1"),
    "gumbel": (Noise(lambda h: F.gumbel_softmax(h)), ROWS, ""),
}


@pytest.mark.parametrize(("module", "shape", "where"), HIDDEN.values(), ids=HIDDEN.keys())
def test_training_equals_torch_with_the_same_generator(module: nn.Module, shape: tuple[int, ...], where: str) -> None:
    """Outputs and gradients to the last bit; nothing is left behind in the global generator."""
    network, x, rng = Network(module), Stream(1).normal(*shape), Stream(2)
    variables, state = network.given(), torch.get_rng_state()
    assert network.trace(variables, x).hidden == (where,)
    leaves = {name: w.clone().requires_grad_() for name, w in variables.params.items()}
    outputs = network.train(Variables(leaves), x, [], rng=rng)
    assert torch.equal(torch.get_rng_state(), state)
    module = copy.deepcopy(module).train()
    with rng.child("member", 0).borrowed_global():
        expected = module(x)
    torch.testing.assert_close(outputs[0], expected, rtol=0, atol=0)
    found = torch.autograd.grad(outputs.square().sum(), list(leaves.values()))
    by_torch = torch.autograd.grad(expected.square().sum(), list(module.parameters()))
    for ours, theirs in zip(found, by_torch, strict=True):
        torch.testing.assert_close(ours[0], theirs, rtol=0, atol=0)
    assert not torch.equal(outputs, network.train(variables, x, [], rng=Stream(3)))
    with torch.no_grad():
        assert torch.equal(network.evaluate(variables, x)[0], module.eval()(x))


def test_every_member_has_noise_of_its_own_however_many_there_are() -> None:
    network, x = Network(encoder(0.5)), Stream(1).normal(5, 7, 4)
    three = network.train(network.given().repeat(3), x, [], Plan.TOGETHER, rng=Stream(2))
    two = network.train(network.given().repeat(2), x, [], Plan.ONE_BY_ONE, rng=Stream(2))
    assert torch.equal(three[:2], two)
    assert not torch.equal(three[0], three[1])


def test_training_without_a_stream_is_refused_and_a_pass_that_fails_gives_the_generator_back() -> None:
    network, x = Network(Noise(_failing)), torch.ones(ROWS)
    network.trace(network.given(), x)
    with pytest.raises(ValueError, match=r"give train\(\.\.\., rng=\.\.\.\)"):
        network.train(network.given(), x, [])
    state = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="on purpose"):
        network.train(network.given(), 100.0 * x, [], rng=Stream(0))
    assert torch.equal(torch.get_rng_state(), state)


def _failing(h: Tensor) -> Tensor:
    noisy = h + torch.randn_like(h)
    if float(h.abs().max()) > 10.0:
        raise RuntimeError("on purpose")
    return noisy


def test_packed_sequences_drop_between_layers_as_torch_does() -> None:
    """torch's kernel and ours, one call for each layer, read the generator alike."""
    module, rng = Packed(), Stream(4)
    x, lengths = Stream(1).normal(5, 6, 3), torch.tensor([6, 2, 4, 3, 5])
    inputs = credo.core.inputs.TensorTree({"x": x, "lengths": lengths})
    network = Network(module)
    assert network.trace(network.given(), inputs).hidden == ("cell",)
    outputs = network.train(network.given(), inputs, [], rng=rng)
    with rng.child("member", 0).borrowed_global():
        expected = copy.deepcopy(module).train()(x, lengths)
    torch.testing.assert_close(outputs[0], expected)


@pytest.mark.parametrize(
    ("noise", "sentence"),
    {
        "Python": (lambda h: h * random.random(), r"from Python's random \(1\), which credo cannot give a seed"),
        "numpy": (lambda h: h * float(numpy.random.rand()), r"from numpy\.random \(1\)"),  # noqa: NPY002
        "numpy's own": (lambda h, g=numpy.random.default_rng(0): h * g.random(), "other outputs .* each time in train"),
        "torch's own": (
            lambda h, g=torch.Generator(): h * torch.rand((), generator=g),
            "other outputs .* each time in training, by random numbers of a generator of its own",
        ),
    }.values(),
    ids=["Python", "numpy", "numpy's own", "torch's own"],
)
def test_random_numbers_from_elsewhere_are_refused_by_name(noise: Callable[[Tensor], Tensor], sentence: str) -> None:
    network = Network(nn.Sequential(nn.Linear(3, 3), Noise(noise)))
    of_python, of_numpy = random.getstate(), numpy.random.get_state()[1].tobytes()  # noqa: NPY002
    with pytest.raises(ValueError, match=sentence):
        network.trace(network.given(), torch.ones(ROWS))
    assert random.getstate() == of_python
    assert numpy.random.get_state()[1].tobytes() == of_numpy  # noqa: NPY002


def test_noise_in_evaluation_is_refused() -> None:
    network = Network(nn.Sequential(nn.Linear(3, 3), Noise(torch.rand_like, always=True)))
    with pytest.raises(ValueError, match=r"in evaluation too \(1\).*only `if self\.training:`"):
        network.evaluate(network.given(), torch.ones(ROWS))


class LayerDrop(nn.Module):
    """Layers that are left out by chance."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.1)) for _ in range(3))
        self.readout, self.rate = nn.Linear(3, 1), rate

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            if not (self.training and torch.rand([]) < self.rate):
                x = x + layer(x)
        return self.readout(x)


def test_layers_that_are_left_out_by_chance_are_refused_by_name() -> None:
    x, y = Stream(0).normal(16, 3), Stream(1).normal(16, 1)
    with pytest.raises(ValueError, match=r"drops at layers\.\d\.1.* in one pass, and not in the next.*\(layer drop\)"):
        credo.fit(LayerDrop(0.5), (x, y), credo.MAP(epochs=1))
    # seldom: the first looks do not meet it
    with pytest.raises(ValueError, match=r"left out that was there .*one of layers\.0\.1, layers\.1\.1, layers\.2\.1"):
        credo.fit(LayerDrop(0.01), (x, y), credo.MAP(epochs=300))


def test_samplers_do_not_mind_what_training_leaves_out_by_chance() -> None:
    x, y = Stream(0).normal(8, 3), Stream(1).normal(8, 1)
    posterior = credo.fit(LayerDrop(0.5), (x, y), credo.HMC(draws=1, warmup=1, chains=1))
    assert any("what is random in the network's training is off" in note for note in posterior.notes)


def test_dropout_of_pairs_of_examples_is_refused() -> None:
    class Pairs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.drop = nn.Linear(3, 2), nn.Dropout(0.5)

        def forward(self, x: Tensor) -> Tensor:
            return self.drop((x @ x.T).softmax(1)) @ self.layer(x)

    network = Network(Pairs())
    with pytest.raises(ValueError, match="pairs of examples"):
        network.trace(network.given(), torch.ones(ROWS))


def test_draws_of_an_encoder_drop_at_its_places() -> None:
    network = Network(Attending(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True)))
    variables, x = network.initial(1, Stream(0)), Stream(1).normal(5, 7, 4)
    assert [site.mask_shape(None) for site in network.trace(variables, x).sites] == [(1, 7, 4), (1, 7, 8), (1, 7, 4)]
    masks = draw_masks(network.trace(variables, x).sites, Stream(2), 3, None, network.dtype, "cpu")
    drawn = network.draw(variables, x, masks, Plan.ONE_BY_ONE)
    assert float(drawn.std(0).min()) > 0.0


X, Y = Stream(5).normal(12, 5, 4), torch.arange(12) % 2
METHODS = {
    "ensemble": credo.DeepEnsemble(members=2, epochs=2, batch_size=5),
    "swag": credo.SWAG(epochs=2, batch_size=5, every=1, draws=2),
    "vi": credo.BayesByBackprop(epochs=2, batch_size=5),
    "local vi": credo.BayesByBackprop(epochs=2, batch_size=5, estimator="local"),
    "mc dropout": credo.MCDropout(epochs=2, batch_size=5),
    "concrete dropout": credo.ConcreteDropout(epochs=2, batch_size=5),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_methods_train_with_it_repeatably_one_by_one_and_predict_without(method: credo.methods.Method) -> None:
    net = Attending(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3, batch_first=True))
    model = credo.Model(net, likelihoods.Categorical())
    first, second = (credo.fit(model, (X, Y), method, seed=3) for _ in range(2))
    assert all(torch.equal(t, second.tensors()[name]) for name, t in first.tensors().items())
    other = credo.fit(model, (X, Y), method, seed=4)
    assert any(not torch.equal(t, other.tensors()[name]) for name, t in first.tensors().items())
    assert first.record.plan.startswith("one by one (random numbers inside block.self_attn")
    assert any("block.self_attn draws random numbers of its own" in note for note in first.notes)
    before = torch.get_rng_state()
    assert torch.equal(first.predict(X, draws=3).probs, first.predict(X, draws=3).probs)
    assert torch.equal(torch.get_rng_state(), before)


SAMPLERS = {
    "hmc": credo.HMC(draws=1, warmup=1, chains=2),
    "metropolis": credo.Metropolis(draws=1, warmup=1, chains=2),
    "annealed importance sampling": credo.AnnealedImportanceSampling(draws=4, temperatures=2),
    "sgld": credo.SGLD(epochs=2, draws=2, batch_size=5),
    "simulated annealing": credo.SimulatedAnnealing(sweeps=2),
}


@pytest.mark.parametrize("method", SAMPLERS.values(), ids=SAMPLERS.keys())
@pytest.mark.filterwarnings("ignore:the weights miss the posterior")
def test_samplers_switch_noise_of_training_off_and_say_so(method: credo.methods.Method) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.3), Noise(lambda h: h + torch.randn_like(h)))
    quiet = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.0), Noise(lambda h: h))
    rows, (noisy, plain) = (
        X[:, 0],
        (
            credo.fit(credo.Model(each, likelihoods.Categorical()), (X[:, 0], Y), method, seed=3)
            for each in (net, quiet)
        ),
    )
    assert any("dropout is off and the random numbers inside 2 are off" in note for note in noisy.notes)
    assert torch.equal(noisy.predict(rows, draws=2).probs, plain.predict(rows, draws=2).probs)
