"""Any torch module as a pure function: the same numbers as the module, for one member or many, and nothing touched."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import prune

import credo
from credo import Stream, Variables
from credo.nets import MLP, Network, Plan

MEMBERS = 3


def as_module(network: Network, module: nn.Module, variables: Variables, member: int) -> nn.Module:
    """A plain torch module with one member's weights and buffers."""
    plain = copy.deepcopy(module).requires_grad_(False)
    for name, tensor in {**variables.params, **variables.buffers}.items():
        owner, _, leaf = name.rpartition(".")
        store = plain.get_submodule(owner)
        (store._parameters if leaf in store._parameters else store._buffers)[leaf].copy_(tensor[member])
    return plain


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("examples", [None, 1], ids=["a batch", "a single example"])
def test_one_member_is_the_module_bit_for_bit(kind, dtype, examples):
    module, x = kind.module(dtype), kind.inputs(dtype, examples)
    network = Network(module)
    assert network.dtype == dtype
    plain = copy.deepcopy(module).requires_grad_(False).eval()  # some kernels differ where weights are no constants
    with torch.no_grad():
        outputs = network.evaluate(network.given(), x)
        assert torch.equal(outputs[0], plain(x))
    assert len(outputs) == 1


def test_members_are_what_the_module_would_be_with_their_weights(kind):
    module, x = kind.module(), kind.inputs()
    network = Network(module)
    variables = network.initial(MEMBERS, Stream(0))
    outputs = network.evaluate(variables, x, Plan.ONE_BY_ONE)
    for member in range(MEMBERS):
        plain = as_module(network, module, variables, member).eval()
        torch.testing.assert_close(outputs[member], plain(x), rtol=1e-12, atol=1e-12)


def test_members_together_are_the_members_one_by_one(vectorized):
    network, x = Network(vectorized.module()), vectorized.inputs()
    variables = network.initial(MEMBERS, Stream(0))
    one, other = (network.evaluate(variables, x, plan) for plan in Plan)
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    own = torch.stack([x, x.flip(0), x])
    together, apart = (network.evaluate(variables, own, plan, x_per_member=True) for plan in Plan)
    torch.testing.assert_close(together, apart, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(together[0], one[0], rtol=1e-10, atol=1e-10)
    assert not torch.allclose(together[1], one[1])


def test_training_gives_the_gradients_of_the_module(kind):
    module, x = kind.module(), kind.inputs()
    network = Network(module)
    leaves = {name: p.requires_grad_() for name, p in network.given().params.items()}
    outputs = network.train(Variables(leaves, network.given().buffers), x, [])
    found = torch.autograd.grad(outputs.square().sum(), list(leaves.values()))
    plain = copy.deepcopy(module).train()
    plain(x).square().sum().backward()
    for name, gradient in zip(leaves, found, strict=True):
        torch.testing.assert_close(gradient[0], plain.get_parameter(name).grad, rtol=1e-9, atol=1e-9)


def test_gradients_of_members_together(vectorized):
    network, x = Network(vectorized.module()), vectorized.inputs()
    results = []
    for plan in Plan:
        variables = network.initial(MEMBERS, Stream(0))
        leaves = {name: p.requires_grad_() for name, p in variables.params.items()}
        outputs = network.train(Variables(leaves, variables.buffers), x, [], plan)
        results.append(torch.autograd.grad(outputs.square().sum(), list(leaves.values())))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_the_callers_module_and_the_global_generator_are_untouched(kind):
    module, x = kind.module(), kind.inputs()
    parts = list(module.modules())
    for i, part in enumerate(parts):
        part.training = i % 2 == 0
    before = copy.deepcopy(module.state_dict())
    flags = [part.training for part in parts]
    torch.manual_seed(4)
    state = torch.get_rng_state()
    network = Network(module)
    variables = network.initial(2, Stream(0))
    network.evaluate(variables, x, Plan.ONE_BY_ONE)
    network.train(variables, x, [], Plan.ONE_BY_ONE)
    assert torch.equal(torch.get_rng_state(), state)
    assert [part.training for part in module.modules()] == flags
    assert all(torch.equal(t, before[name]) for name, t in module.state_dict().items())
    assert all(p.grad is None for p in module.parameters())


def test_changing_the_module_afterwards_changes_nothing():
    module, x = MLP(3, 2), Stream(0).normal(4, 3)
    network = Network(module)
    before = network.evaluate(network.given(), x)
    with torch.no_grad():
        module.layers[1].weight.zero_()
    assert torch.equal(network.evaluate(network.given(), x), before)


def test_given_weights_are_copies():
    network = Network(MLP(3, 2))
    network.given().params["layers.1.weight"].zero_()
    assert bool(network.given().params["layers.1.weight"].any())


@pytest.mark.parametrize("plan", list(Plan))
def test_first_weights(kind, plan):
    """Members differ, seeds count, the module's own values are not used, and frozen ones are."""
    module = kind.module()
    network = Network(module)
    first, again, other = (network.initial(2, Stream(seed)) for seed in (0, 0, 1))
    assert all(torch.equal(first.params[name], again.params[name]) for name in first.params)
    drawn = [n for n, p in first.params.items() if not torch.equal(p, other.params[n])]
    constant = [n for n, p in network.given().params.items() if bool((p == p.flatten()[0]).all())]
    assert set(drawn) | set(constant) | set(network.undrawn) >= set(network.layout)
    for name in drawn:
        assert not torch.equal(first.params[name][0], first.params[name][1])
        assert not torch.equal(first.params[name][0], network.given().params[name][0])
    for name in network.frozen:
        assert torch.equal(first.buffers[name][1], module.get_parameter(name).data)


def test_first_weights_have_the_law_of_the_layer():
    """torch's Linear draws from U(-1/sqrt(n), 1/sqrt(n)); one seed for all members would show."""
    network = Network(nn.Linear(100, 50))
    weight = network.initial(20, Stream(0)).params["weight"]
    assert float(weight.abs().max()) <= 0.1
    assert float(weight.std()) == pytest.approx(0.1 / 3**0.5, rel=0.02)  # 1e5 numbers: five standard errors are 1 %
    correlation = torch.corrcoef(weight.flatten(1))
    assert float(correlation.triu(1).abs().max()) < 0.1  # seven standard errors of 5000 numbers


def test_a_function_makes_each_member():
    def make() -> nn.Module:
        layer = nn.Linear(3, 2)
        nn.init.constant_(layer.bias, 7.0)
        nn.init.normal_(layer.weight, std=100.0)
        return nn.Sequential(layer, nn.BatchNorm1d(2))

    network = Network(make)
    variables = network.initial(3, Stream(0))
    assert bool((variables.params["0.bias"] == 7.0).all())
    assert float(variables.params["0.weight"].std()) > 10.0
    assert len(variables.params["0.weight"].unique()) == 18
    assert variables.buffers["1.running_mean"].shape == (3, 2)
    assert torch.equal(network.initial(3, Stream(0)).params["0.weight"], variables.params["0.weight"])
    # a copy of the module, by contrast, is drawn anew by torch's own rule
    assert float(Network(make()).initial(3, Stream(0)).params["0.weight"].abs().max()) < 1.0


def test_a_class_is_a_function_that_makes_a_module():
    class Net(nn.Linear):
        def __init__(self) -> None:
            super().__init__(3, 2)

    assert Network(Net).evaluate(Network(Net).initial(2, Stream(0)), torch.zeros(4, 3)).shape == (2, 4, 2)


def test_parameters_that_no_initializer_reaches_are_named():
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)
            self.gain = nn.Parameter(torch.ones(2))
            self.places = nn.Parameter(torch.arange(6.0).reshape(2, 3))

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x @ (self.places.T @ self.places)) * self.gain

    assert Network(Own()).undrawn == ("places",)
    assert Network(Own).undrawn == ()
    assert Network(MLP(3, 2)).undrawn == ()
    assert Network(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))).undrawn != ()


def test_tied_weights_are_one_parameter(kind):
    module = kind.module()
    layout = Network(module).layout
    assert set(layout) == {name for name, p in module.named_parameters() if p.requires_grad}
    for name, info in layout.items():
        assert info.shape == tuple(module.get_parameter(name).shape)


def test_a_tied_weight_reaches_both_layers():
    """A copy without values (on torch's meta device) loses the tie, and then computes with whatever is in memory."""
    shared = nn.Linear(2, 2, bias=False)
    twice = nn.Sequential(shared, nn.Linear(2, 2, bias=False))
    twice[1].weight = shared.weight
    network = Network(twice)
    weight = 2 * torch.eye(2).expand(2, 2, 2)
    for plan in Plan:
        outputs = network.evaluate(Variables({"0.weight": weight}), torch.ones(1, 2), plan)
        assert outputs.flatten().tolist() == [4.0] * 4


def test_frozen_parameters_are_not_inferred():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    module[0].requires_grad_(False)
    network = Network(module)
    assert set(network.layout) == {"2.weight", "2.bias"}
    assert network.frozen == ("0.weight", "0.bias")
    variables = network.initial(3, Stream(0))
    assert torch.equal(variables.buffers["0.weight"], module[0].weight.detach().expand(3, 4, 3))
    assert len(variables.params["2.weight"].unique()) == 24


def scripted() -> nn.Module:
    return nn.Sequential(torch.jit.script(nn.Linear(3, 2)), nn.Linear(2, 1))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("net", "error", "sentence"),
    [
        (nn.Sequential(nn.LazyLinear(3)), ValueError, "lazy layers.*call it once on an input"),
        (scripted, ValueError, "torch.jit has compiled"),
        (nn.Sequential(nn.DataParallel(nn.Linear(3, 2))), ValueError, r"wrapped in DataParallel.*net\.module"),
        (nn.Linear(3, 2, dtype=torch.complex64), ValueError, "'weight' is complex.*by torch.complex"),
        (nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1).double()), ValueError, r"several precisions.*net\.float\(\)"),
        (nn.Sequential(nn.ReLU()), ValueError, "no parameter that requires a gradient"),
        (nn.Linear(3, 3).requires_grad_(False), ValueError, "no parameter that requires a gradient"),
        (lambda: 3, TypeError, "of type int: give a torch module"),
        ("net", TypeError, "of type str: give a torch module"),
        (None, TypeError, "of type NoneType: give a torch module"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_cannot_be_a_network_is_refused(net, error, sentence):
    with pytest.raises(error, match=sentence):
        Network(net)


def test_a_module_that_cannot_be_copied_is_refused():
    module = nn.Linear(3, 2)
    module.cache = module.weight * 2  # a result with a history
    with pytest.raises(ValueError, match=r"cannot be copied.*give Model a function"):
        Network(module)


@pytest.mark.parametrize("method", [credo.MaximumLikelihood(epochs=1), credo.VariationalDropout(epochs=1)])
def test_sparse_gradients_of_an_embedding_become_dense(method):
    """Optimizers and noise that move all weights have no use for a gradient of the rows that were looked up alone."""
    x, y = torch.arange(8)[:, None] % 5, torch.ones(8, 1)
    found = []
    for sparse in (True, False):
        net = nn.Sequential(nn.Embedding(5, 4, sparse=sparse), nn.Flatten(), nn.Linear(4, 1))
        found.append(credo.fit(credo.Model(net, credo.likelihoods.Gaussian(1.0)), (x, y), method).tensors())
        assert net[0].sparse is sparse
    assert all(torch.equal(tensor, found[1][name]) for name, tensor in found[0].items())


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
def test_weights_that_hooks_compute_follow_the_given_parameters():
    """torch cannot copy such a layer, whose weight is the result of an operation."""
    module = nn.Sequential(torch.nn.utils.weight_norm(nn.Linear(3, 4)), nn.Linear(4, 2))
    prune.l1_unstructured(module[1], "weight", amount=0.5)
    network, x = Network(module), Stream(1).normal(5, 3)
    assert set(network.layout) == {"0.bias", "0.weight_g", "0.weight_v", "1.bias", "1.weight_orig"}
    given = network.given()
    assert torch.equal(network.evaluate(given, x)[0], module(x))
    other = {name: t + 1.0 for name, t in given.params.items()}
    g, v = other["0.weight_g"][0], other["0.weight_v"][0]
    hidden = F.linear(x, g * v / v.norm(dim=1, keepdim=True), other["0.bias"][0])
    expected = F.linear(hidden, other["1.weight_orig"][0] * module[1].weight_mask, other["1.bias"][0])
    torch.testing.assert_close(network.evaluate(Variables(other, given.buffers), x)[0], expected)


class Tuple(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(3, 4, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(x)


class TimeFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).transpose(0, 1)


def test_outputs_of_another_shape_are_refused():
    x = torch.zeros(5, 7, 3)
    for module, sentence in (
        (Tuple(), "returns a tuple with .*say which is its output"),
        (TimeFirst(), "first axis must be the batch"),
    ):
        network = Network(module)
        with pytest.raises(ValueError, match=sentence):
            network.trace(network.given(), x)


def test_trace_knows_the_outputs_and_the_largest_activation():
    network = Network(nn.Sequential(nn.Linear(3, 50), nn.ReLU(), nn.Linear(50, 2)))
    traced = network.trace(network.given(), torch.zeros(9, 3))
    assert (traced.sites, traced.output, traced.activations) == ((), (2,), 50)
    assert network.trace(network.given(), torch.zeros(1, 3)) is traced
