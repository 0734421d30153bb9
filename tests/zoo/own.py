"""Small modules in the shapes of those that people bring, written here, so that they need no package."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from credo import Graph, Stream
from zoo.entry import Entry

N = 6
ROWS, SERIES = Stream(1).normal(N, 4), Stream(2).normal(N, 5, 4)
PIXELS = Stream(3).normal(N, 3, 8, 8)
LABELS = torch.arange(N) % 3
WORDS = {
    "input_ids": Stream(4).permutation(30).reshape(N, 5) % 20,
    "attention_mask": (torch.arange(5) < torch.tensor([5, 3, 4, 5, 2, 5]).unsqueeze(1)).long(),
}
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 3]])


class DropPath(nn.Module):
    """Stochastic depth, by example."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return x
        keep = 1.0 - self.rate
        return x * x.new_empty((len(x),) + (1,) * (x.ndim - 1)).bernoulli_(keep).div_(keep)


class Efficient(nn.Module):
    """Inverted residuals with squeeze and excitation, batch norm and stochastic depth."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6), nn.SiLU(inplace=True))
        self.expand = nn.Sequential(nn.Conv2d(6, 12, 1), nn.BatchNorm2d(12), nn.SiLU(inplace=True))
        self.depthwise = nn.Conv2d(12, 12, 3, 1, 1, groups=12)
        self.excite, self.project, self.path = nn.Conv2d(12, 12, 1), nn.Conv2d(12, 6, 1), DropPath(0.3)
        self.head = nn.Sequential(nn.Dropout(0.2, inplace=True), nn.Linear(6, 3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        h = self.depthwise(self.expand(x))
        h = h * self.excite(F.adaptive_avg_pool2d(h, 1)).sigmoid()
        return self.head((x + self.path(self.project(h))).mean((2, 3)))


class Block(nn.Module):
    """Attention and a small network, with all kinds of dropout."""

    def __init__(self, path: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))
        self.path = DropPath(path)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        allowed = None if mask is None else mask[:, None, None, :].bool()
        rate = 0.1 if self.training else 0.0
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=rate)
        x = x + self.path(self.out(h.transpose(1, 2).flatten(2)))
        return x + self.path(self.mlp(self.norm2(x)))


class VisionTransformer(nn.Module):
    """Patches, a class token, and blocks that are dropped by example."""

    def __init__(self, *, checkpoints: bool = False) -> None:
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.zeros(1, 1, 8))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 5, 8))
        self.blocks = nn.ModuleList(Block(rate) for rate in (0.0, 0.3))
        self.norm, self.head, self.checkpoints = nn.LayerNorm(8), nn.Linear(8, 3), checkpoints

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints and self.training else block(x)
        return self.head(self.norm(x)[:, 0])


class TextEncoder(nn.Module):
    """Words and a mask by name; several outputs under the names that such networks use."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 8, padding_idx=0), nn.Embedding(16, 8)
        self.register_buffer("position_ids", torch.arange(16), persistent=False)
        self.drop, self.block = nn.Dropout(0.1), Block(0.0)
        self.pooler, self.classifier = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        h = self.words(input_ids) + self.places(self.position_ids[: input_ids.shape[1]])
        h = self.block(self.drop(h), attention_mask)
        return {"logits": self.classifier(self.drop(self.pooler(h[:, 0]).tanh())), "last_hidden_state": h}


class Readout(nn.Module):
    """The last step of what a recurrent or attention layer gives."""

    def __init__(self, layer: nn.Module, size: int) -> None:
        super().__init__()
        self.layer, self.last = layer, nn.Linear(size, 3)

    def forward(self, x: Tensor) -> Tensor:
        found = self.layer(x)
        return self.last((found[0] if isinstance(found, tuple) else found)[:, -1])


class Translation(nn.Module):
    """torch's transformer with its defaults, a source and a target."""

    def __init__(self) -> None:
        super().__init__()
        self.core, self.last = nn.Transformer(4, 2, 1, 1, 8, batch_first=True), nn.Linear(4, 3)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.last(self.core(source, target)).mean(1)


class PackedSequences(nn.Module):
    """A recurrent network over sequences of different lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.last = nn.GRU(4, 6, num_layers=2, dropout=0.2, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return self.last(self.cell(packed)[1][-1])


class Segmenter(nn.Module):
    """Classes of pixels, with an auxiliary output in training."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 6, 3, 2, 1), nn.ConvTranspose2d(6, 6, 2, 2)
        self.norm, self.drop = nn.GroupNorm(2, 6), nn.Dropout2d(0.2)
        self.out, self.aux = nn.Conv2d(9, 3, 1), nn.Conv2d(6, 3, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor] | Tensor:
        h = self.drop(F.relu(self.norm(self.down(x))))
        out = self.out(torch.cat([self.up(h), x], 1))
        return {"out": out, "aux": F.interpolate(self.aux(h), scale_factor=2.0)} if self.training else out


class GraphNetwork(nn.Module):
    """Messages along the edges of a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for layer in (self.first, self.second):
            messages = layer(F.dropout(x, 0.3, self.training))[edge_index[0]]
            x = torch.zeros(len(x), messages.shape[1]).index_add(0, edge_index[1], messages)
        return x


class Hidden(nn.Module):
    """Two layers with something in between."""

    def __init__(self, between: Callable[[Tensor, bool], Tensor]) -> None:
        super().__init__()
        self.first, self.second, self.last, self.between = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3), between

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.second(self.between(self.first(x), self.training).tanh()))


class LayerDrop(nn.Module):
    """Layers that are left out by chance."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.1)) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for layer in self.layers:
            if not (self.training and torch.rand([]) < 0.5):
                x = x + layer(x)
        return self.last(x)


class Frozen(nn.Module):
    """A backbone that stays as it is, a tied weight, weight norm, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.middle = (
            nn.Linear(4, 6).requires_grad_(False),
            parametrizations.weight_norm(nn.Linear(6, 6)),
        )
        self.there, self.back, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.back.weight = self.there.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.back(self.there(self.middle(self.backbone(x)).relu()).relu()))


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.2), nn.Linear(6, 3))


def encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2, enable_nested_tensor=False)


OWN = {
    "plain": Entry(plain, ROWS, LABELS),
    "one layer": Entry(lambda: nn.Linear(4, 3), ROWS, LABELS),
    "alpha dropout": Entry(
        lambda: nn.Sequential(nn.Linear(4, 6), nn.SELU(), nn.AlphaDropout(0.2), nn.Linear(6, 3)), ROWS, LABELS
    ),
    "batch norm": Entry(
        lambda: nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)), ROWS, LABELS
    ),
    "frozen": Entry(Frozen, ROWS, LABELS),
    "EfficientNet": Entry(Efficient, PIXELS, LABELS),
    "drop-path ViT": Entry(VisionTransformer, PIXELS, LABELS),
    "checkpointed ViT": Entry(lambda: VisionTransformer(checkpoints=True), PIXELS, LABELS),
    "text encoder": Entry(TextEncoder, WORDS, LABELS),
    "encoder layers": Entry(lambda: Readout(encoder(), 4), SERIES, LABELS),
    "transformer": Entry(Translation, (SERIES, SERIES.flip(1)), LABELS),
    "LSTM": Entry(lambda: Readout(nn.LSTM(4, 6, num_layers=2, dropout=0.2, batch_first=True), 6), SERIES, LABELS),
    "bidirectional GRU": Entry(
        lambda: Readout(nn.GRU(4, 3, num_layers=2, dropout=0.2, batch_first=True, bidirectional=True), 6),
        SERIES,
        LABELS,
    ),
    "packed sequences": Entry(PackedSequences, {"x": SERIES, "lengths": torch.tensor([5, 2, 4, 3, 5, 1])}, LABELS),
    "segmenter": Entry(Segmenter, PIXELS, Stream(5).permutation(N * 64).reshape(N, 8, 8) % 3),
    "graph": Entry(GraphNetwork, Graph({"x": ROWS, "edge_index": EDGES}), LABELS),
    "noise": Entry(lambda: Hidden(_noisy), ROWS, LABELS),
    "always dropping": Entry(lambda: Hidden(lambda h, _: F.dropout(h, 0.2)), ROWS, LABELS),
    "layer drop": Entry(LayerDrop, ROWS, LABELS),
    "noise in evaluation": Entry(lambda: Hidden(lambda h, _: h + torch.randn_like(h)), ROWS, LABELS),
    "Python's noise": Entry(lambda: Hidden(lambda h, _: h * random.random()), ROWS, LABELS),
    "detached": Entry(lambda: nn.Sequential(plain(), Detached()), ROWS, LABELS),
    "looks at values": Entry(lambda: Hidden(lambda h, _: h if float(h.detach().sum()) > 0 else 2.0 * h), ROWS, LABELS),
    "DataParallel": Entry(lambda: nn.DataParallel(plain()), ROWS, LABELS),
    "lazy": Entry(lambda: nn.Sequential(nn.LazyLinear(6), nn.Linear(6, 3)), ROWS, LABELS),
}


class Detached(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.detach()


def _noisy(h: Tensor, training: bool) -> Tensor:
    return h + 0.1 * torch.randn_like(h) if training else h
