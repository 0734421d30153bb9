"""Networks for images: published numbers of weights, what they compute, and that they are rebuilt."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import credo
from credo.nets import CNN, FilterResponseNorm, LeNet5, Network, Plan, ResNet18, ResNet20, WideResNet
from credo.nets.builders import BUILDERS
from credo.nets.residual import ShortcutBlock

SMALL = {
    "CNN": lambda: CNN(2, 3, 8, (3, 4), (5,), filter_dropout=0.1),
    "LeNet5": lambda: LeNet5(2, 3, 12, dropout=0.1),
    "ResNet20": lambda: ResNet20(2, 3, filters=2),
    "ResNet20, group": lambda: ResNet20(2, 3, "group", 2),
    "WideResNet, group": lambda: WideResNet(2, 3, 10, 1, "group"),
}
"""Small ones of each kind, for two channels and three classes."""


def weights(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize(
    ("make", "published"),
    [
        (lambda: CNN(3, 9), 117_805),  # the summary printed in the notebook of the lecture
        (lambda: LeNet5(), 61_706),
        (lambda: ResNet20(norm="batch"), 269_722),  # the paper's table 6: 0.27 million
        (lambda: ResNet20(norm="group"), 269_722),
        (lambda: ResNet20(), 269_722 + 688),  # a threshold for each of 688 channels that are normed
        (lambda: ResNet18(), 11_173_962),
        (lambda: ResNet18(3, 1000, large=True), 11_689_512),
        (lambda: WideResNet(), 36_479_194),  # the paper's table 4: 36.5 million
        (lambda: WideResNet(outputs=100), 36_536_884),
        (lambda: WideResNet(depth=16, width=4), 2_748_890),  # 2.7 million
    ],
)
def test_they_have_as_many_weights_as_published(make, published):
    with torch.device("meta"):
        assert weights(make()) == published


def test_filter_response_norm_by_its_formula():
    norm = FilterResponseNorm(3).double()
    rng = credo.Stream(0)
    with torch.no_grad():
        for i, p in enumerate(norm.parameters()):
            p.copy_(rng.child(i).normal(3))
    x = rng.child("x").normal(2, 3, 4, 5, dtype=torch.float64)
    y = norm(x)
    for b in range(2):
        for c in range(3):
            size = (x[b, c].square().sum() / 20 + 1e-6).sqrt()
            expected = (norm.gamma[c] * x[b, c] / size + norm.beta[c]).clamp_min(norm.tau[c].item())
            torch.testing.assert_close(y[b, c], expected)
    norm.reset_parameters()
    torch.testing.assert_close(norm(torch.zeros_like(x)), torch.zeros_like(x))
    assert norm(torch.full((1, 3, 1, 1), 1e9, dtype=torch.float64)).isfinite().all()


@pytest.mark.parametrize("norm", ["filter response", "group", "batch"])
def test_a_network_without_batch_norm_sees_each_example_alone(norm):
    net = ResNet20(1, 3, norm, filters=2).train()
    x = credo.Stream(0).normal(4, 1, 8, 8)
    with torch.no_grad():
        alone, together = net(x[:1]), net(x)[:1]
    assert torch.allclose(alone, together, atol=1e-5) == (norm != "batch")  # rounding of sums over another batch


def test_a_shortcut_without_weights_subsamples_and_fills_up_with_zeros():
    block = ShortcutBlock(2, 4, 2, "group", projects=False)
    with torch.no_grad():
        for p in block.second.parameters():
            p.zero_()
    x = credo.Stream(0).normal(1, 2, 4, 4).abs()
    expected = torch.zeros(1, 4, 2, 2)
    expected[:, 1:3] = x[:, :, ::2, ::2]
    torch.testing.assert_close(block(x), expected)


@pytest.mark.parametrize("name", SMALL)
def test_members_together_are_members_one_by_one(name):
    net = SMALL[name]()
    size = 8 if name == "CNN" else 12
    network, x = Network(net), credo.Stream(1).normal(5, 2, size, size)
    variables = network.initial(3, credo.Stream(0))
    outputs = [network.evaluate(variables, x, plan) for plan in Plan]
    assert outputs[0].shape == (3, 5, 3)
    torch.testing.assert_close(outputs[0], outputs[1], atol=1e-5, rtol=1e-4)  # convolutions sum in another order


@pytest.mark.parametrize("name", SMALL)
def test_they_are_rebuilt_from_their_config_and_saved(name, tmp_path):
    net = SMALL[name]()
    again = BUILDERS[type(net).__name__](**net.config)
    assert str(again) == str(net)
    size = 8 if name == "CNN" else 12
    x, y = credo.Stream(1).normal(6, 2, size, size), torch.tensor([0, 1, 2, 0, 1, 2])
    posterior = credo.fit(net, (x, y), credo.MAP(epochs=1, learning_rate=0.01))
    posterior.save(tmp_path / "run")
    found = credo.load(tmp_path / "run").predict(x).probs
    assert torch.equal(found, posterior.predict(x).probs)


@pytest.mark.parametrize(
    "net", [CNN(1, 4, (8, 12)), LeNet5(1, 4, (12, 16)), ResNet20(1, 4, filters=2), WideResNet(1, 4, 10, 1, "group")]
)
def test_gray_images_need_no_axis_for_channels(net):
    x = credo.Stream(0).normal(2, *net.config.get("size", (7, 9)))
    assert net(x).shape == (2, 4)
    assert torch.equal(net(x), net(x.unsqueeze(1)))


def test_fresh_weights_of_a_residual_network_keep_the_size_of_signals():
    with credo.Stream(0).borrowed_global():
        kernel = ResNet20(3, 10, filters=8).layers[4].first[0].weight
    assert kernel.detach().std().item() == pytest.approx(
        (2 / (8 * 9)) ** 0.5, rel=0.12
    )  # 576 numbers: four standard errors


@pytest.mark.parametrize("make", [lambda: CNN(3, 10, 32), lambda: LeNet5()])
def test_fresh_weights_without_a_norm_are_those_of_glorot(make):
    with credo.Stream(0).borrowed_global():
        net = make()
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear) and layer.weight.numel() > 2_000:
            area = layer.weight[0, 0].numel()
            most = (6 / (area * (layer.weight.shape[0] + layer.weight.shape[1]))) ** 0.5
            assert layer.weight.detach().abs().max().item() == pytest.approx(most, rel=0.01)  # of 2,000 uniform numbers
            assert not layer.bias.detach().any()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: CNN(3, 10, 2), "size 2 x 2 is halved 2 times"),
        (lambda: LeNet5(1, 10, 8), "at least 12 x 12, got 8 x 8"),
        (lambda: LeNet5(activation="step"), "activation must be one of"),
        (lambda: ResNet20(norm="layer"), "norm must be one of 'filter response', 'group', 'batch', got 'layer'"),
        (lambda: WideResNet(depth=20), "depth must be 6 n . 4"),
        (lambda: CNN(3, 10, dropout=1.5), "dropout"),
        (lambda: ResNet18(0), "channels"),
    ],
)
def test_what_cannot_be_built_is_refused_in_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
