"""Small networks whose outputs are no (B, E): images, tokens, trees."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Auxiliary = namedtuple("Auxiliary", ["logits", "aux_logits"])


class UNet(nn.Module):
    """(B, 2, H, W) to (B, outputs, H, W)."""

    def __init__(self, outputs: int, inputs: int = 2) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(inputs, 4, 3, padding=1), nn.ReLU())
        self.inner = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, padding=1), nn.Upsample(scale_factor=2))
        self.last = nn.Conv2d(8, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.down(x)
        return self.last(torch.cat([h, self.inner(h)], 1))


@dataclass
class TokenOutput:
    """As Hugging Face's: a dataclass with an optional loss."""

    loss: Tensor | None = None
    logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None


class TokenClassifier(nn.Module):
    """(B, T) word numbers and a mask of padding to (B, T, K), in a dataclass."""

    def __init__(self, words: int = 11, classes: int = 3, *, hidden: bool = True) -> None:
        super().__init__()
        self.embedding, self.hidden = nn.Embedding(words, 6), hidden
        self.mixing, self.last = nn.Linear(6, 6), nn.Linear(6, classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> TokenOutput:
        h = self.embedding(input_ids)
        if attention_mask is not None:
            weights = attention_mask.to(h.dtype).unsqueeze(-1)
            h = h + (h * weights).sum(1, keepdim=True) / weights.sum(1, keepdim=True)
        h = torch.tanh(self.mixing(h))
        return TokenOutput(logits=self.last(h), hidden_states=(h,) if self.hidden else None)


class DeepLab(nn.Module):
    """A dict of the output and an auxiliary one."""

    def __init__(self, outputs: int = 3) -> None:
        super().__init__()
        self.net, self.aux = UNet(outputs), nn.Conv2d(2, outputs, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return OrderedDict(out=self.net(x), aux=self.aux(x))


class GoogLeNet(nn.Module):
    """A named tuple in training, a tensor in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.aux = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Any:
        return Auxiliary(self.last(x), self.aux(x)) if self.training else self.last(x)


class Series(nn.Module):
    """(B, T, 2) to (B, T, outputs), by a convolution over time."""

    def __init__(self, outputs: int = 2) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv1d(2, 5, 3, padding=1), nn.Linear(5, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.conv(x.mT).mT))
