"""Independent normal weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from credo.core.checks import whole_number
from credo.core.rng import Stream
from credo.core.trees import Params, Variables, ravel, take
from credo.model import likelihood_params
from credo.posteriors.base import Posterior
from credo.posteriors.draws import Draws, dealt
from credo.posteriors.functions import NetworkFunctions
from credo.priors.base import HALF_LOG_2PI_E, entropy

BLOCK = 2**19
"""Numbers that are drawn at a time on a CPU."""
NO_ENTROPY = math.exp(-HALF_LOG_2PI_E)
"""The scale of a normal whose entropy is 0."""
COLLAPSED = 1e-4
"""Median scale, relative to the size of the weights, below which all draws are one function."""
UNLEARNED = 1e-3
"""Nats of KL per weight below which a posterior is its prior: a shift of 0.04 prior scales, or a scale 3 % off."""
MAKERS = "BayesByBackprop, SparseVariationalDropout or VariationalDropout(correlated=False)"
"""Methods that end in a diagonal normal, for sentences."""
IDLE = 1e-3
"""Part of the loss below which the KL does not matter."""


@dataclass(frozen=True, eq=False)
class DiagonalGaussian(Posterior):
    """A normal distribution over the weights with a diagonal covariance, or an equal mixture of M of them.

    q(w) = prod_i N(w_i; mean_i, scale_i^2)

    Attributes:
        mean: expectations, (M, *shape) each, and the buffers.
        scale: standard deviations, (M, *shape) each; a parameter that is not among them, like an entry with scale 0,
            is a point at its mean.
    """

    mean: Variables
    scale: Params

    def draw(self, count: int | None = None, seed: int = 0) -> NetworkFunctions:
        """`count` functions (100 when not said), dealt to the members in turn."""
        count = self.default_draws if count is None else whole_number("count", count)
        variables = self._drawn(count, Stream(seed, ("draw", "weights")))
        return NetworkFunctions(self.model, variables, Draws.uniform(variables))

    def _drawn(self, count: int, stream: Stream) -> Variables:
        """w = mean + scale * noise, in blocks of draws that fit a cache and can be filled side by side."""
        members = self.mean.members
        numbers = torch.arange(count) % members

        def shared_out(tree: Params) -> Params:
            if members == 1:
                return {name: t.expand(count, *t.shape[1:]) for name, t in tree.items()}
            return take(tree, numbers)

        center, scale = shared_out(self.mean.params), shared_out(self.scale)
        drawn = {name: torch.empty_like(s, memory_format=torch.contiguous_format) for name, s in scale.items()}
        inference = torch.is_inference_mode_enabled()

        def fill(rows: slice) -> None:
            generator = stream.child(rows.start).generator(self.device)
            with torch.inference_mode(inference):  # a thread does not inherit it
                for name, t in drawn.items():
                    noise = t[rows].normal_(generator=generator)
                    torch.addcmul(center[name][rows], scale[name][rows], noise, out=noise)

        first, *others = self._blocks(count)
        fill(first)
        if others:
            with ThreadPoolExecutor(min(torch.get_num_threads(), len(others))) as pool:
                list(pool.map(fill, others))
        return Variables({name: drawn.get(name, w) for name, w in center.items()}, shared_out(self.mean.buffers))

    def _blocks(self, count: int) -> Iterator[slice]:
        """Rows of the draws that have a stream of their own; the cut depends on the net alone, not on the machine."""
        weights = sum(s[0].numel() for s in self.scale.values())
        size = max(1, BLOCK // max(1, weights)) if self.device.type == "cpu" else count
        return (slice(start, min(start + size, count)) for start in range(0, count, size))

    def at_mean(self) -> Draws:
        """The plain network at the means: no epistemic part, one forward pass."""
        return Draws(self.model, self.mean, Draws.uniform(self.mean), record=self.record)

    def members(self, count: int | None = None) -> Variables:
        return dealt(self.mean, count)

    def check(self) -> None:
        super().check()
        for name, scale in self.scale.items():
            mean = self.mean.params.get(name)
            if mean is None or scale.shape != mean.shape or scale.dtype != mean.dtype:
                raise ValueError(f"scale of {name!r} is {scale.dtype}, {tuple(scale.shape)}, as no expectation is")
            if bool((scale < 0).any()):
                raise ValueError(f"scale of {name!r} is negative in places")

    def log_prob(self, params: Params) -> Tensor:
        """log q(w) of S weights (S, *shape), (S,): the density over the uncertain weights, of the mixture over members.

        Points take no part: they have no density.
        """
        each = [self._log_factors(params, member) for member in range(self.mean.members)]
        return torch.logsumexp(torch.stack(each), 0) - math.log(len(each))

    def _log_factors(self, params: Params, member: int) -> Tensor:
        total = torch.zeros((), device=self.device)
        for name, scale in self.scale.items():
            sure = scale[member] == 0
            s = torch.where(sure, 1.0, scale[member])
            z = (params[name] - self.mean.params[name][member]) / s
            each = -0.5 * z.square() - s.log() - 0.5 * math.log(2.0 * math.pi)
            total = total + torch.where(sure, 0.0, each).unsqueeze(-1).flatten(1).sum(1)
        return total

    def kl(self, draws: int = 100, seed: int = 0) -> Tensor:
        """KL(q || prior) of each member in nats, (M,): exact where the prior allows it, otherwise over some draws.

        Points enter by -log p at their place.

        Raises:
            ValueError: if the prior is improper, as that of variational dropout.
        """
        check_proper(self, "kl()")
        layout, prior = self.model.network.layout, self.prior
        weights = {name: self.mean.params[name] for name in layout}
        scale = {name: s for name, s in self.scale.items() if name in layout}
        expected = prior.expected_log_prob(weights, scale, layout)
        if expected is None or len(weights) < len(self.mean.params):
            members = self.mean.members
            drawn = self._drawn(draws * members, Stream(seed, ("kl",))).params
            of_likelihood = self.model.likelihood.log_prior(likelihood_params(drawn))
            of_weights = prior.log_prob({n: drawn[n] for n in layout}, layout) if expected is None else 0.0
            sampled = (
                (of_weights + of_likelihood + torch.zeros(draws * members, device=self.device))
                .view(draws, members)
                .mean(0)
            )
            expected = sampled if expected is None else expected + sampled
        # an entry with scale 0 is a point: it gets the scale at which the entropy is 0
        return -entropy({name: torch.where(s > 0, s, NO_ENTROPY) for name, s in self.scale.items()}) - expected

    def signal_to_noise(self) -> Params:
        """|mean| / scale of every uncertain weight of the network, (M, *shape) each; 0 for weights that were removed.

        Reference: C. Blundell et al., "Weight uncertainty in neural networks", 2015, section 5.1,
            https://arxiv.org/abs/1505.05424
        """
        layout = self.model.network.layout
        size = {name: self.mean.params[name].abs() for name in self.scale if name in layout}
        return {name: torch.where(w == 0, 0.0, w / self.scale[name]) for name, w in size.items()}

    def prune(self, fraction: float, names: str | tuple[str, ...] = "*") -> DiagonalGaussian:
        """The posterior without the weights of lowest signal-to-noise ratio: they become points at zero.

        Args:
            fraction: of the uncertain weights to remove, from each member on its own, over all layers together.
            names: patterns of the parameters that may lose weights ("*weight" keeps the biases).
        """
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"fraction must lie between 0 and 1, got {fraction}")
        patterns = (names,) if isinstance(names, str) else names
        ratios = {n: r for n, r in self.signal_to_noise().items() if any(fnmatchcase(n, p) for p in patterns)}
        if not ratios:
            raise ValueError(f"names={names!r} matches none of the uncertain parameters: {', '.join(self.scale)}")
        keep = _mask(ratios, fraction)
        mean = {name: w * keep[name] if name in keep else w for name, w in self.mean.params.items()}
        scale = {name: s * keep[name] if name in keep else s for name, s in self.scale.items()}
        return replace(self, mean=Variables(mean, self.mean.buffers), scale=scale)

    @property
    def notes(self) -> tuple[str, ...]:
        """What credo chose for you and what it noticed, in sentences, with a verdict on the distribution itself."""
        return (*self.record.notes, *self._verdicts())

    def _verdicts(self) -> tuple[str, ...]:
        """Sentences for the ways in which a variational posterior fails without an error."""
        row = self.record.history[-1] if self.record.history else {}
        if "kl" not in row:
            return ()
        verdicts, count = self._collapse(), sum(s[0].numel() for s in self.scale.values())
        nats, part = row["kl"] * (self.record.size or 1), row["kl"] / (row["kl"] + abs(row["log_likelihood"]))
        if nats < max(1.0, UNLEARNED * count):
            verdicts.append(
                f"the posterior is the prior: {nats:.2g} nats were learned over {count} weights, {self._advice}"
            )
        elif part < IDLE:
            verdicts.append(
                f"the KL is {100 * part:.2g} % of the loss, so the prior does not matter: there is much data, or the "
                "noise of the likelihood is too small"
            )
        return tuple(verdicts)

    def _collapse(self) -> list[str]:
        """A sentence where the draws are one function, by the weights that are left: those at zero were removed."""
        weights, scale = ravel({name: self.mean.params[name] for name in self.scale}), ravel(self.scale)
        left = (weights != 0) | (scale != 0)
        if not bool(left.any()):
            return []
        size, middle = weights[left].square().mean().sqrt().item(), scale[left].median().item()
        verdict = (
            f"collapsed to a point: half of the weights have a scale of at most {middle:.1e} and their size is "
            f"{size:.1e}, so the draws are one function. Train longer, or begin with larger scales"
        )
        return [verdict] if middle < COLLAPSED * size else []

    @property
    def _advice(self) -> str:
        """What follows where nothing was learned; more of an improper prior does not help."""
        if not self.prior.proper:
            return (
                "so all of them are noise. Start from a trained net (start=...), or let the KL come later (annealing)"
            )
        return (
            "so predictions come from the prior. Train longer, start from a trained net (start=...), or anneal the KL"
        )


def check_proper(posterior: Posterior, caller: str) -> None:
    """Refuse to compare a posterior with a prior that has no total."""
    if not posterior.prior.proper:
        raise ValueError(
            f"{caller} needs a proper prior, and the weights were fitted under {type(posterior.prior).__name__}, which "
            "is improper: there is no posterior to compare with, and a KL is known up to a constant only. The one of "
            "training, per example, is posterior.history[-1]['kl']"
        )


def independent_normals(posterior: object, caller: str, makers: str = MAKERS) -> DiagonalGaussian:
    """The posterior itself if each of its weights has a normal of its own; otherwise a sentence."""
    if isinstance(posterior, DiagonalGaussian):
        return posterior
    raise TypeError(
        f"{caller} needs a posterior in which each weight has a normal of its own (DiagonalGaussian), the result of "
        f"{makers}; got {type(posterior).__name__}"
    )


def _mask(ratios: Params, fraction: float) -> Params:
    """1 for weights that stay and 0 for the `fraction` with the smallest ratio, for each member."""
    flat = ravel(ratios)
    removed = round(fraction * flat.shape[1])
    keep = torch.ones_like(flat)
    keep.scatter_(1, flat.topk(removed, dim=1, largest=False).indices, 0.0)
    parts = torch.split(keep, [r[0].numel() for r in ratios.values()], dim=1)
    return {name: part.view_as(ratio) for (name, ratio), part in zip(ratios.items(), parts, strict=True)}
