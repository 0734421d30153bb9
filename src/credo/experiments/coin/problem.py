"""Two coins, and the grid of the notebook."""

from __future__ import annotations

import torch

from credo.exact import Coin, Grid

THREE = Coin(heads=3, tails=0)
TWENTY = Coin(heads=11, tails=9)
TOSSES = (0, 5, 20, 100)
"""How often the coin has been tossed when the belief is drawn."""


def after(tosses: int) -> Coin:
    """A coin that has shown heads in 55 % of its tosses, as in the lecture's 11 of 20, rounded to whole tosses."""
    heads = round(0.55 * tosses)
    return Coin(heads, tosses - heads)


def notebook_grid(coin: Coin) -> Grid:
    """A coin on the 19 points 0.05, 0.10 .. 0.95, all equally probable before."""
    theta = 0.05 * torch.arange(1, 20, dtype=torch.float64)
    return Grid((theta,), torch.zeros(19, dtype=torch.float64), coin.log_likelihood(theta))
