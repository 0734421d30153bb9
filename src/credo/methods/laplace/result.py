"""From sums of curvature to a normal posterior: prior and noise chosen, precisions factored, the evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from credo.core.record import Record
from credo.core.trees import Params, Variables, map_tensors
from credo.methods.laplace.evidence import Chosen, Fit, largest_evidence, log_evidence, unchanged
from credo.methods.laplace.noise import correlated_heads, is_all_noise, learned_scales, moved_noise
from credo.methods.laplace.structures import Layouts, Structure
from credo.methods.laplace.whitened import Whitened
from credo.model import Model, Target
from credo.posteriors import LaplaceGaussian
from credo.posteriors.blocks import WeightBlock, packed
from credo.priors import Normal

if TYPE_CHECKING:
    from credo.methods.laplace.method import LaplaceState

NEGATIVE = 1e-6
"""Part of the largest eigenvalue by which the smallest may be negative by rounding."""


@dataclass(frozen=True)
class NormalAtMode:
    """The last step of Laplace's method.

    Args:
        target: the density.
        structure: of the curvature.
        layouts: of its blocks.
        variables: the mode of each member.
        by_evidence: whether the prior's precision, and learned noise, are those of the largest evidence.
        by_layer: whether each block has a precision of its own.
        prediction: how the posterior predicts.
    """

    target: Target
    structure: Structure
    layouts: Layouts
    variables: Variables
    by_evidence: bool
    by_layer: bool
    prediction: str

    def posterior(self, state: LaplaceState, finite: Tensor) -> LaplaceGaussian:
        """The posterior; members that are not finite get the prior's spread."""
        averages = self._averages(state.sums, state.count, finite)
        prior = self._prior_precision(finite)
        root = {name: p.rsqrt() for name, p in prior.items()}
        whitened = [self.structure.whitened(averages, layout, root) for layout in self.layouts]
        fit = self._fit(state, whitened, prior)
        chosen = self._chosen(fit)
        blocks = [w.block((1.0 / (chosen.precision[:, k] * chosen.noise)).unsqueeze(1)) for k, w in enumerate(whitened)]
        return self._assembled(state, fit, chosen, blocks, self._multiplied(prior, chosen))

    def _averages(self, sums: Params, count: Tensor, finite: Tensor) -> Params:
        """On the scale of all data."""
        found = {name: t / count.view(-1, *[1] * (t.ndim - 1)) for name, t in sums.items()}
        found = {name: torch.where(finite.view(-1, *[1] * (t.ndim - 1)), t, 0.0) for name, t in found.items()}
        for name, t in found.items():
            if not bool(t.isfinite().all()):
                raise ValueError(
                    f"the curvature of {name.partition(':')[0]} is not finite, because outputs or their derivatives "
                    "are too large: scale inputs and targets to order one, or use a network in float64"
                )
        return found

    def _prior_precision(self, finite: Tensor) -> Params:
        """P in float64: (M, 1, ...) for each parameter under a normal prior, or one for each weight (M, *shape)."""
        layout, model = self.target.layout, self.target.model
        names = [name for block in self.layouts for name in block.names]
        known = model.prior.precision(layout)
        if known is not None:
            ones = {n: torch.ones_like(self.variables.params[n][:, :1].double().flatten(1)[:, :1]) for n in names}
            return {n: known[n] * t.view(-1, *[1] * len(layout[n].shape)) for n, t in ones.items()}
        found = model.prior.curvature({n: self.variables.params[n].double() for n in names}, layout)
        for name, p in found.items():
            wrong = int(((p <= 0) & finite.view(-1, *[1] * (p.ndim - 1))).sum())
            if wrong:
                raise ValueError(
                    f"the prior {model.prior} has no positive curvature at {wrong} weight(s) of {name!r}, so that no "
                    "normal fits it there; use priors.Normal()"
                )
        return {name: torch.where(finite.view(-1, *[1] * (p.ndim - 1)), p, 1.0) for name, p in found.items()}

    def _fit(self, state: LaplaceState, whitened: Sequence[Whitened], prior: Params) -> Fit:
        params = {name: self.variables.params[name].double() for name in prior}
        squares = [sum_of([p * params[n].square() for n, p in prior.items() if n in w.layout.names]) for w in whitened]
        residuals, targets = state.noise.averages
        eigenvalues = [w.eigenvalues for w in whitened] if self.by_evidence else []
        return Fit(eigenvalues, squares, residuals.sum(1), targets.sum(1))

    def _chosen(self, fit: Fit) -> Chosen:
        eigenvalues = fit.eigenvalues
        if not self.by_evidence:
            return unchanged(fit.residuals, len(self.layouts))
        largest = torch.stack([v.amax() for v in eigenvalues]).max()
        if not float(largest) > 0.0:
            raise ValueError(
                "the curvature is zero: outputs do not depend on the weights, or the likelihood not on the outputs, so "
                "that there is no evidence to choose a precision by (precision='model' keeps the prior)"
            )
        for v in eigenvalues:
            if float(v.min()) < -NEGATIVE * float(largest):
                raise ValueError(
                    f"the curvature has negative eigenvalues (down to {float(v.min()):.3g}): the weights are not at a "
                    "maximum; train further, or use curvature='ggn'"
                )
        noise = is_all_noise(self.target.model.likelihood)
        clean = Fit([v.clamp_min(0.0) for v in eigenvalues], fit.squares, fit.residuals, fit.targets)
        return largest_evidence(clean, by_layer=self.by_layer, noise=noise)

    def _multiplied(self, prior: Params, chosen: Chosen) -> Params:
        found = {}
        for k, layout in enumerate(self.layouts):
            for name in layout.names:
                found[name] = prior[name] * chosen.precision[:, k].view(-1, *[1] * (prior[name].ndim - 1))
        return found

    def _assembled(
        self, state: LaplaceState, fit: Fit, chosen: Chosen, blocks: Sequence[WeightBlock], precision: Params
    ) -> LaplaceGaussian:
        model, dtype = self.target.model, self.target.model.network.dtype
        log_likelihood = state.log_likelihood / state.count
        dets = [block.precision.log_det() for block in blocks]
        evidence = log_evidence(log_likelihood, chosen, fit, self._prior_term(fit, chosen, precision), dets)
        if self.target.temperature != 1.0:
            evidence = torch.full_like(evidence, math.nan)
        moved = 0.5 * chosen.noise.log().unsqueeze(1)
        small = [replace(b, precision=map_tensors(lambda _, t: t.to(dtype), b.precision)) for b in blocks]
        effective = torch.stack([block.effective.double() for block in small]).sum(0)
        return LaplaceGaussian(
            self._with_prior(chosen),
            moved_noise(self.variables, dict.fromkeys(learned_scales(model.likelihood), moved)),
            {name: p.to(dtype) for name, p in precision.items()},
            packed(small),
            evidence,
            effective,
            str(self.prediction),
            float(self.target.temperature),
            record=Record(notes=self._notes(state, chosen, blocks, precision, effective)),
        )

    def _prior_term(self, fit: Fit, chosen: Chosen, precision: Params) -> Tensor:
        """log p(w) + P/2 log 2 pi - 1/2 log |P|."""
        if self.target.model.prior.precision(self.target.layout) is not None:
            return -0.5 * sum_of([(chosen.precision[:, k] * q).unsqueeze(1) for k, q in enumerate(fit.squares)])
        weights = {name: self.variables.params[name].double() for name in precision}
        log_prior = self.target.model.prior.log_prob(weights, self.target.layout)
        count = sum(w[0].numel() for w in weights.values())
        return log_prior + 0.5 * count * math.log(2.0 * math.pi) - 0.5 * sum_of([p.log() for p in precision.values()])

    def _with_prior(self, chosen: Chosen) -> Model:
        """The model with the prior that was chosen, where one number says it."""
        model, first = self.target.model, chosen.precision[0, 0]
        if type(model.prior) is not Normal or not self.by_evidence or bool((chosen.precision != first).any()):
            return model
        return model.with_prior(replace(model.prior, scale=model.prior.scale / math.sqrt(float(first))))

    def _notes(
        self, state: LaplaceState, chosen: Chosen, blocks: Sequence[WeightBlock], precision: Params, effective: Tensor
    ) -> tuple[str, ...]:
        notes = []
        total = sum(layout.size for layout in self.layouts)
        if self.by_evidence:
            each = ", ".join(dict.fromkeys(f"{float(p):.3g}" for p in chosen.precision[0][:5]))
            more = ", ..." if self.by_layer and len(self.layouts) > 5 else ""
            of = " of the first member" if len(chosen.precision) > 1 else ""
            notes.append(
                f"the precision of the prior{of} was multiplied by {each}{more}, where the evidence is largest; the "
                f"data determine {float(effective[0]):.1f} of {total} parameters"
            )
            notes += self._note_of_noise()
        distance = self._distance(state, chosen, blocks, precision)
        if bool((distance > effective.clamp_min(1.0)).any()):
            notes.append(
                f"the weights are not at the mode: a Newton step would raise the log posterior by about "
                f"{0.5 * float(distance.max()):.3g} nats, and {0.5 * float(effective.max()):.3g} is what a draw is "
                "below it. Was the network trained to the end, on these data and with this prior? The evidence is that "
                "of a mode; train further, or let Laplace(after=MAP(...)) do so"
            )
        return tuple(notes)

    def _note_of_noise(self) -> list[str]:
        """Of learned noise that does not scale the curvature as a whole: of heads beside others, or correlated."""
        likelihood = self.target.model.likelihood
        names = [name.rpartition(".")[0] for name in learned_scales(likelihood)] + [*correlated_heads(likelihood)]
        if not names or is_all_noise(likelihood):
            return []
        of = f" of {', '.join(map(repr, names))}" if names != [""] else ""
        return [f"the noise{of} is that of the residuals: the evidence chose the precision of the prior alone"]

    def _distance(
        self, state: LaplaceState, chosen: Chosen, blocks: Sequence[WeightBlock], precision: Params
    ) -> Tensor:
        """g^T (H + P)^-1 g of each member, (M,): the squared distance to the mode, in standard deviations."""
        count, total = state.count, torch.zeros_like(state.count)
        for block in blocks:
            tree = {}
            for name in block.layout.names:
                front = (-1, *[1] * (state.gradient[name].ndim - 1))
                likelihood = state.gradient[name] / (count * chosen.noise).view(front)
                prior = precision[name] * self.variables.params[name].double()
                tree[name] = (likelihood - prior) * precision[name].rsqrt()
            g = block.layout.join(tree)
            total = total + (g * block.precision.solve(g)).sum(1)
        return total


def sum_of(parts: Sequence[Tensor]) -> Tensor:
    """Sum over all but the first axis, (M,)."""
    return torch.stack([part.unsqueeze(-1).flatten(1).sum(1) for part in parts]).sum(0)
