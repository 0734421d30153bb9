"""A map of many dimensions on which neighbors stay neighbors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from torch import Tensor

FEWEST = 10
"""Points from which on there is something to see."""
PERPLEXITY = 30.0
"""Neighbors that a point has, roughly."""


def neighbor_map(points: Tensor, seed: int = 0) -> NDArray[Any] | None:
    """t-SNE of points (N, L) in two dimensions, (N, 2); None for fewer than ten of them.

    Distances between groups, and the axes, mean nothing: who lies beside whom does.

    Args:
        points: such as the means of q(z | x).
        seed: the same one gives the same map.

    Reference: L. van der Maaten, G. Hinton, "Visualizing data using t-SNE", 2008.
    """
    if len(points) < FEWEST:
        return None
    values = points.detach().cpu().double().numpy()
    perplexity = min(PERPLEXITY, (len(values) - 1) / 3)
    made = TSNE(
        perplexity=perplexity,
        init="random",
        random_state=seed % 2**32,
        method="exact" if len(values) < 50 else "barnes_hut",
    )
    return np.asarray(made.fit_transform(values))
