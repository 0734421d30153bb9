"""The columns of a table as the first layer of a network sees them: without outliers, and in pieces.

Nothing here is learned: the first linear layer behind it is what turns pieces into an embedding of each number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from credo.core.checks import check_positive, finite_numbers

LINEAR = 3.0
"""Scales from the center up to which a number enters nearly as it is; beyond, its logarithm does."""
QUARTILES = 1.349
"""Standard deviations between the quartiles of a normal distribution."""
FLAG = 2
"""A column with no more different numbers than this is a flag, and enters as it is."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pieces:
    """The piecewise-linear encoding of one column.

    Attributes:
        column: its number.
        knots: T + 1 of them, rising.
        offsets: means of the T pieces, which are subtracted.
        gain: what they are multiplied by.
    """

    column: int
    knots: tuple[float, ...]
    offsets: tuple[float, ...]
    gain: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "knots", finite_numbers("knots", self.knots))
        object.__setattr__(self, "offsets", finite_numbers("offsets", self.offsets))
        check_positive("gain", self.gain)
        if len(self.knots) != len(self.offsets) + 1 or min(np.diff(self.knots), default=0.0) <= 0.0:
            raise ValueError(f"column {self.column} needs rising knots, one more than offsets")


@dataclass(frozen=True)
class ColumnScales:
    """What `TableColumns` needs to know of F columns, as numbers that can be saved.

    Attributes:
        center: of each column.
        scale: of each; 0 leaves the column as it is.
        pieces: of those columns that have some.
    """

    center: tuple[float, ...]
    scale: tuple[float, ...]
    pieces: tuple[Pieces, ...] = ()

    @staticmethod
    def of(x: Floats, knots: int = 0, weights: Floats | None = None) -> ColumnScales:
        """Medians and quartile ranges of the columns of x (N, F), and knots at their quantiles.

        Args:
            x: training rows.
            knots: pieces of each column; 0 for none. A column with fewer different numbers has one for each step.
            weights: how much each row counts, (N,); None for one each.
        """
        center, scale, pieces = list[float](), list[float](), list[Pieces]()
        for number, values in enumerate(np.asarray(x, dtype=np.float64).T):
            column = _WeightedColumn(values, weights)
            is_flag = len(column.levels) <= FLAG
            center.append(0.0 if is_flag else column.median)
            scale.append(0.0 if is_flag else column.scale)
            if knots and not is_flag:
                pieces += column.pieces(number, knots)
        return ColumnScales(tuple(center), tuple(scale), tuple(pieces))

    @property
    def config(self) -> dict[str, Any]:
        """As JSON."""
        return {"center": list(self.center), "scale": list(self.scale), "pieces": [asdict(p) for p in self.pieces]}


class _WeightedColumn:
    """Numbers of one column, which weigh something, and what is to be known of them."""

    def __init__(self, values: Floats, weights: Floats | None) -> None:
        self.values, self.weights, self.levels = values, weights, np.unique(values)

    def quantiles(self, levels: Any) -> Floats:
        """Numbers of the column itself, so that a weight of two is a row that comes twice."""
        return np.asarray(np.quantile(self.values, levels, weights=self.weights, method="inverted_cdf"))

    @property
    def median(self) -> float:
        return float(self.quantiles(0.5))

    @property
    def scale(self) -> float:
        """The quartile range in standard deviations of a normal; where that is zero, the standard deviation."""
        low, high = self.quantiles([0.25, 0.75])
        around = np.average((self.values - self.median) ** 2, weights=self.weights)
        return float((high - low) / QUARTILES) or float(np.sqrt(around)) or 1.0

    def pieces(self, number: int, count: int) -> Iterator[Pieces]:
        """At most so many, with a standard deviation of one together; none where a straight line is as much."""
        few = len(self.levels) <= count
        knots = self.levels if few else np.unique(self.quantiles(np.linspace(0.0, 1.0, count + 1)))
        if len(knots) < 3:
            return
        places = np.clip((self.values[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)
        mean = np.average(places, axis=0, weights=self.weights)
        spread = np.sqrt(np.average((places - mean) ** 2, axis=0, weights=self.weights).sum())
        yield Pieces(number, tuple(knots.tolist()), tuple(mean.tolist()), float(1.0 / spread))


class TableColumns(nn.Module):
    """Numbers of a table, brought to one scale without outliers, and beside them their place between some knots.

    z = c asinh((x - center) / (c scale)),   c = 3
    q_t = gain (clip((x - knot_t) / (knot_(t+1) - knot_t), 0, 1) - offset_t),   t = 1 .. T

    z is x near the center and grows like its logarithm far away, so that a row with absurd cells stays apart from all
    others and weighs no more than that. A linear layer on the q_t of a column is any function of it that is linear
    between the knots and constant beyond them. There is nothing to learn here, and nothing is random.

    Args:
        scales: of the columns: `ColumnScales`, or its `config`.
        inputs: F, to be compared with; None for as many as there are scales.

    Reference: Y. Gorishniy, I. Rubachev, A. Babenko, "On embeddings for numerical features in tabular deep learning",
        2022, https://arxiv.org/abs/2203.05556; smooth limits are those of D. Holzmuller, L. Grinsztajn, I. Steinwart,
        "Better by default", 2024, https://arxiv.org/abs/2407.04491, there with an end.

    Examples:
        >>> pieces = Pieces(column=0, knots=(0.0, 1.0, 3.0), offsets=(0.0, 0.0), gain=1.0)
        >>> TableColumns(ColumnScales((0.0,), (1.0,), (pieces,)))(torch.tensor([[2.0]])).round(decimals=2)
        tensor([[1.8800, 1.0000, 0.5000]])
    """

    def __init__(self, scales: ColumnScales | Mapping[str, Any], inputs: int | None = None) -> None:
        super().__init__()
        self.scales = scales if isinstance(scales, ColumnScales) else _decoded(scales)
        if inputs is not None and inputs != len(self.scales.center):
            raise ValueError(f"columns describes {len(self.scales.center)} columns, and there are {inputs} inputs")
        self.features = len(self.scales.center) + sum(len(p.offsets) for p in self.scales.pieces)

    def forward(self, x: Tensor) -> Tensor:  # (..., F) -> (..., features)
        numbers = _tensors(self.scales, x.device, x.dtype)
        z = LINEAR * torch.asinh((x - numbers.center) / (LINEAR * numbers.scale))
        z = torch.where(numbers.plain, x, z)
        if not len(numbers.column):
            return z
        places = ((x.index_select(-1, numbers.column) - numbers.start) / numbers.width).clamp(0.0, 1.0)
        return torch.cat([z, (places - numbers.offset) * numbers.gain], dim=-1)


@dataclass(frozen=True)
class _ColumnTensors:
    """The numbers of all columns, (F,), and of all pieces, (P,)."""

    center: Tensor
    scale: Tensor
    plain: Tensor
    column: Tensor
    start: Tensor
    width: Tensor
    offset: Tensor
    gain: Tensor


@lru_cache(maxsize=64)
def _tensors(scales: ColumnScales, device: torch.device, dtype: torch.dtype) -> _ColumnTensors:
    """Made once: a step that is recorded on a GPU must not make them, and the module stays as it was built."""

    def real(values: Any) -> Tensor:
        return torch.tensor(values, dtype=torch.float64).to(device, dtype)

    def each(values: Callable[[Pieces], Any]) -> Tensor:
        return real([value for p in scales.pieces for value in values(p)])

    with torch.inference_mode(False):
        return _ColumnTensors(
            real(scales.center),
            real([scale or 1.0 for scale in scales.scale]),
            torch.tensor([scale == 0.0 for scale in scales.scale], device=device),
            torch.tensor([p.column for p in scales.pieces for _ in p.offsets], dtype=torch.long, device=device),
            each(lambda p: p.knots[:-1]),
            each(lambda p: np.diff(p.knots).tolist()),
            each(lambda p: p.offsets),
            each(lambda p: [p.gain] * len(p.offsets)),
        )


def _decoded(config: Mapping[str, Any]) -> ColumnScales:
    pieces = tuple(
        Pieces(int(p["column"]), tuple(p["knots"]), tuple(p["offsets"]), float(p["gain"])) for p in config["pieces"]
    )
    return ColumnScales(finite_numbers("center", config["center"]), finite_numbers("scale", config["scale"]), pieces)
