"""A row of the zoo: a network, and what it is learned from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Entry:
    """A network and data."""

    make: Callable[[], nn.Module]
    x: Any
    y: Tensor
