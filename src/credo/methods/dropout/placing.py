"""Where dropout goes in a network, and which weights or units have one rate, or one alpha, in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from credo.core.inputs import Inputs
from credo.model import Model
from credo.nets.dropout import DropoutChange, Drops, Site, weight_layers
from credo.nets.network import Network

DropoutRate = float | Mapping[str, float]
"""One rate for all places, or rates by pattern of the layer's name, as in file names; the first that matches counts."""


_INSERTED = {
    Drops.UNITS: "units in front of layers, with rate",
    Drops.CHANNELS: "units (channels for a convolution) in front of layers, with rate",
    Drops.WEIGHTS: "weights of layers, with rate",
}
"""What a note says of dropout that is put in."""


def sites_of(network: Network, x: Inputs) -> tuple[Site, ...]:
    """The places where a network drops, for inputs like x (B, ...); draws must come to all of them."""
    seen = network.trace(network.given().to(x.device), x)
    seen.check_reached()
    return seen.sites


def with_dropout(model: Model, x: Inputs, rate: DropoutRate, drops: Drops) -> tuple[Model, tuple[str, ...]]:
    """The model with dropout of these rates, and what a person should know of it.

    The network's own places are set to the rates that are meant; a network without any gets dropout put in. Weights are
    dropped beside whatever units the network drops.
    """
    network = model.network
    existing = sites_of(network, x)
    rates = tuple((str(pattern), float(r)) for pattern, r in rate.items()) if isinstance(rate, Mapping) else ()
    everywhere = None if isinstance(rate, Mapping) else float(rate)
    inserted = not existing or drops is Drops.WEIGHTS
    change = DropoutChange(everywhere, inserted=inserted, rates=rates, drops=drops)
    changed = network.with_dropout(change)
    sites = sites_of(changed, x)
    _check_patterns(rates, sites, network)
    if not sites:
        raise ValueError(
            "the network has fewer than two linear or convolutional layers, so there is no hidden layer to "
            "drop: add nn.Dropout where you want it"
        )
    kind = f"put in; {_INSERTED[drops]}" if inserted else "the network's own places"
    return model.with_network(changed), (f"dropout: {kind}: {_listed(sites)}",)


def _check_patterns(rates: tuple[tuple[str, float], ...], sites: tuple[Site, ...], network: Network) -> None:
    patterns = [pattern for pattern, _ in rates]
    for index, pattern in enumerate(patterns):
        meant = [site for site in sites if site.matches(pattern)]
        if not meant:
            names = [site.label for site in sites] or [name for name, _ in weight_layers(network.module)]
            raise ValueError(
                f"rate has the pattern {pattern!r}, which means none of the layers at which the network drops or could "
                f"drop: {', '.join(names)}"
            )
        if all(any(site.matches(earlier) for earlier in patterns[:index]) for site in meant):
            raise ValueError(
                f"rate has the pattern {pattern!r}, whose layers are all taken by the patterns before it "
                f"({', '.join(map(repr, patterns[:index]))}), so that its rate would never be used: the first pattern "
                "that matches counts, so put the special one first"
            )


def _listed(sites: tuple[Site, ...]) -> str:
    shown = [f"{site.rate:g} at {site.label}" for site in sites[:8]]
    return ", ".join(shown) + (f" and {len(sites) - 8} more" if len(sites) > 8 else "")


class Sharing(ABC):
    """How the weights of a layer share their alpha."""

    @abstractmethod
    def shape(self, weight: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the alphas for a weight of this shape (outputs, inputs, ...), to be broadcast to it."""


@dataclass(frozen=True)
class PerLayer(Sharing):
    """One alpha for a layer, as one dropout rate."""

    def shape(self, weight: tuple[int, ...]) -> tuple[int, ...]:
        return (1,) * len(weight)


@dataclass(frozen=True)
class PerUnit(Sharing):
    """One alpha for each input unit, or input channel of a convolution."""

    def shape(self, weight: tuple[int, ...]) -> tuple[int, ...]:
        return (1, weight[1], *(1,) * (len(weight) - 2))


@dataclass(frozen=True)
class PerWeight(Sharing):
    """One alpha for each weight."""

    def shape(self, weight: tuple[int, ...]) -> tuple[int, ...]:
        return weight


SHARING: dict[str, Sharing] = {"layer": PerLayer(), "unit": PerUnit(), "weight": PerWeight()}
"""The names that `sharing=` takes in the place of a value."""


def resolved(sharing: Sharing | str) -> Sharing:
    if isinstance(sharing, Sharing):
        return sharing
    if not isinstance(sharing, str) or sharing not in SHARING:
        raise ValueError(f"sharing must be one of {', '.join(SHARING)}, or a value such as PerUnit(); got {sharing!r}")
    return SHARING[sharing]
