"""Noise that credo cannot give a seed is refused with a sentence, and torch's global generator is left as it was."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from credo import Stream
from credo.nets import Network, Plan
from credo.nets.dropout import draw_masks

ROWS = (5, 3)


class Noise(nn.Module):
    def __init__(self, noise) -> None:
        super().__init__()
        self.layer, self.noise = nn.Linear(3, 2), noise

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.layer(x)
        return self.noise(hidden) if self.training else hidden


class Attending(nn.Module):
    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block, self.readout = block, nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.block(x, x, x)[0] if isinstance(self.block, nn.MultiheadAttention) else self.block(x)
        return self.readout(hidden.mean(1))


class DotProduct(nn.Module):
    def __init__(self, *, by_name: bool) -> None:
        super().__init__()
        self.layer, self.by_name = nn.Linear(4, 2), by_name

    def forward(self, x: Tensor) -> Tensor:
        if self.by_name:
            return self.layer(F.scaled_dot_product_attention(x, x, x, dropout_p=0.2).mean(1))
        return self.layer(F.scaled_dot_product_attention(x, x, x, None, 0.2).mean(1))


HIDDEN = {
    "attention": (Attending(nn.MultiheadAttention(4, 2, dropout=0.1, batch_first=True)), (5, 7, 4)),
    "encoder": (Attending(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True)), (5, 7, 4)),
    "dot product": (DotProduct(by_name=False), (5, 7, 4)),
    "dot product, by name": (DotProduct(by_name=True), (5, 7, 4)),
    "noise": (Noise(lambda h: h + torch.randn_like(h)), ROWS),
    "a raw kernel": (Noise(lambda h: torch.dropout(h, 0.5, True)), ROWS),
    "RReLU": (Noise(lambda h: nn.RReLU()(-h.abs())), ROWS),
    "feature alpha dropout": (nn.Sequential(nn.Linear(3, 2), nn.FeatureAlphaDropout(0.5)), ROWS),
}


@pytest.mark.parametrize(("module", "shape"), HIDDEN.values(), ids=HIDDEN.keys())
def test_noise_that_has_no_seed_is_refused(module, shape):
    network = Network(module)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    for ask in (network.trace, network.evaluate):
        with pytest.raises(ValueError, match=r"draws random numbers of its own.*put nn\.Dropout behind it"):
            ask(network.given(), torch.ones(shape))
    assert torch.equal(torch.get_rng_state(), state)


def test_dropout_of_pairs_of_examples_is_refused():
    class Pairs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.drop = nn.Linear(3, 2), nn.Dropout(0.5)

        def forward(self, x: Tensor) -> Tensor:
            return self.drop((x @ x.T).softmax(1)) @ self.layer(x)

    network = Network(Pairs())
    with pytest.raises(ValueError, match="pairs of examples"):
        network.trace(network.given(), torch.ones(ROWS))


def test_encoders_without_hidden_dropout_work():
    block = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True)
    block.self_attn.dropout = 0.0
    network = Network(Attending(block))
    variables, x = network.initial(1, Stream(0)), Stream(1).normal(5, 7, 4)
    assert [site.mask_shape(None) for site in network.trace(variables, x).sites] == [(1, 7, 4), (1, 7, 8), (1, 7, 4)]
    masks = draw_masks(network.trace(variables, x).sites, Stream(2), 3, None, network.dtype, "cpu")
    drawn = network.draw(variables, x, masks, Plan.ONE_BY_ONE)
    assert float(drawn.std(0).min()) > 0.0
