"""The layer that takes what was dropped: a dropped input is a column of weights set to zero."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Fed:
    """A linear or convolutional layer whose inputs are dropped.

    Attributes:
        weight: name of its weight.
        inputs: features, or channels of a convolution.
        outputs: of either.
        groups: of a convolution; 1 for a linear layer.
        spatial: axes of a kernel; 0 for a linear layer.
        transposed: a transposed convolution, whose weight has its inputs first.
    """

    weight: str
    inputs: int
    outputs: int
    groups: int = 1
    spatial: int = 0
    transposed: bool = False

    @property
    def layer(self) -> str:
        """Name of the layer."""
        return self.weight.rpartition(".")[0]

    def by_weight(self, keep: Tensor) -> Tensor:
        """What a mask's entries have, as the weights that they drop have it.

        Args:
            keep: (M, *mask of one example), or (M, 1, ..., 1) for the same everywhere.

        Returns:
            (M, ...), to be broadcast over the weight (M, *shape). Weights that several entries drop (positions that
            share a kernel) get the average.
        """
        members, kernel = len(keep), (1,) * self.spatial
        if keep[0].numel() == 1:
            return keep.reshape(members, 1, 1, *kernel)
        each = self._by_channel(keep) if self.spatial else self._by_feature(keep)  # (M, inputs)
        if self.transposed:
            return each.reshape(members, self.inputs, 1, *kernel)
        if self.groups == 1:
            return each.reshape(members, 1, self.inputs, *kernel)
        grouped = each.reshape(members, self.groups, -1).repeat_interleave(self.outputs // self.groups, dim=1)
        return grouped.reshape(*grouped.shape, *kernel)

    def _by_channel(self, keep: Tensor) -> Tensor:
        return keep.reshape(len(keep), self.inputs, -1).mean(2)

    def _by_feature(self, keep: Tensor) -> Tensor:
        """(M, inputs) from a mask over features, over the channels that were flattened to them, or over time too."""
        if keep.shape[-1] == self.inputs:
            return keep.reshape(len(keep), -1, self.inputs).mean(1)
        if keep[0].numel() == self.inputs:
            return keep.reshape(len(keep), self.inputs)
        channels = keep.shape[2]
        if self.inputs % channels:
            return keep.flatten(1).mean(1, keepdim=True).expand(len(keep), self.inputs)
        return keep.reshape(len(keep), channels, -1).mean(2).repeat_interleave(self.inputs // channels, dim=1)
