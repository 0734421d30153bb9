"""What curvature is meant: that of the network's outputs, which layers then carry back to their weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params
from credo.likelihoods import Joint, Likelihood
from credo.likelihoods.joint import share_of
from credo.likelihoods.positions import AtPositions

MATRIX_ENTRIES = 2**24
"""Entries of the curvatures of single examples that are in memory at a time."""
COLUMNS = 256
"""Columns of an example's curvature from which on positions are drawn together with random signs."""


@dataclass(frozen=True, eq=False)
class Outputs:
    """Outputs of one member for a batch, with what they are compared with.

    Attributes:
        likelihood: of the targets.
        values: outputs (B, *event), with a graph down to the layers.
        y: targets; of several heads by their names.
        params: the likelihood's learned parameters, (1, D) each.
        weight: by how much each example counts on the scale of all data, (B,).
        rng: randomness of this batch.
    """

    likelihood: Likelihood
    values: Tensor
    y: Any
    params: Params
    weight: Tensor
    rng: Stream

    def parts(self) -> Iterator[tuple[slice, Outputs]]:
        """A few examples at a time, for which there is room for a matrix each."""
        size = max(1, MATRIX_ENTRIES // self.values.shape[1] ** 2)
        for start in range(0, len(self.values), size):
            rows = slice(start, start + size)
            yield rows, replace(self, values=self.values[rows], y=self.y[rows], weight=self.weight[rows])

    def scaled(self, column: Tensor) -> Tensor:
        """A column (B, *event) of the root of the curvature, with the root of each example's weight."""
        return column * self.weight.sqrt().to(column).view(-1, *[1] * (column.ndim - 1))

    def by_head(self, likelihood: Joint) -> Iterator[tuple[slice, Outputs]]:
        """Those of each head, and where they lie among those of all; an example without a target weighs nothing."""
        parts = likelihood.split(self.values.detach())
        for head in likelihood.heads:
            y, values = self.y[head.name], parts[head.name]
            kept, share = head.has_target(y), share_of(self.y, head.name)
            weight = self.weight if share is None else self.weight * share
            yield (
                likelihood.places[head.name],
                Outputs(
                    head.likelihood,
                    torch.where(kept.view(-1, *[1] * (values.ndim - 1)), values, 0.0),
                    y,
                    likelihood.params_of(head.name, self.params),
                    torch.where(kept, weight, 0.0),
                    self.rng.child(head.name),
                ),
            )

    @property
    def log_prob(self) -> Tensor:
        """Of each example, (B,)."""
        return self.likelihood.log_prob(self.values.unsqueeze(0), self.y, self.params)[0]


class Curvature(ABC):
    """The curvature of the negative log likelihood, H = sum_b J_b^T L_b J_b, by that of the outputs, L_b."""

    by_outputs: ClassVar[bool] = True
    """Whether it is one of the outputs alone, without second derivatives of the network."""

    @abstractmethod
    def columns(self, outputs: Outputs) -> Iterator[Tensor]:
        """Columns v (B, *event) of roots of L_b, L_b = sum v_b v_b^T, with the weights of the examples in them."""

    def matrices(self, outputs: Outputs) -> Iterator[tuple[slice, Tensor]] | None:
        """L_b (b, E, E) of some examples at a time, with their weights in it; None where there are columns alone."""
        return None

    def total(self, outputs: Outputs) -> Tensor | None:
        """sum_b L_b, (E, E), with the weights of the examples; None where there are columns alone."""
        return None


@dataclass(frozen=True)
class GaussNewton(Curvature):
    """The generalized Gauss-Newton matrix: L_b = E_y[-d^2 log p(y | f_b) / df^2], never negative.

    For targets at many positions of an example the positions are drawn together with random signs, which leaves the
    expectation as it is.

    Reference: N. N. Schraudolph, "Fast curvature matrix-vector products for second-order gradient descent", 2002.
    """

    def columns(self, outputs: Outputs) -> Iterator[Tensor]:
        values, likelihood = outputs.values.detach(), outputs.likelihood
        if isinstance(likelihood, Joint):
            yield from self._of_heads(likelihood, outputs)
            return
        if isinstance(likelihood, AtPositions):
            yield from self._at_positions(likelihood, values, outputs)
            return
        root = likelihood.fisher_root(values.unsqueeze(0), outputs.params)[0]
        for r in range(root.shape[-1]):
            yield outputs.scaled(root[..., r])

    def _of_heads(self, likelihood: Joint, outputs: Outputs) -> Iterator[Tensor]:
        """Those of each head for itself: heads are independent given the outputs, so that L_b has a block for each."""
        for place, of_head in outputs.by_head(likelihood):
            for column in self.columns(of_head):
                whole = torch.zeros_like(outputs.values, requires_grad=False)
                whole[:, place] = column.flatten(1)
                yield whole

    def _at_positions(self, likelihood: AtPositions, values: Tensor, outputs: Outputs) -> Iterator[Tensor]:
        roots = likelihood.observed_roots(values.unsqueeze(0), outputs.y, outputs.params)[0]  # (B, N, E, R)
        examples, positions, _, columns = roots.shape
        signs = torch.eye(positions, dtype=roots.dtype, device=roots.device).unsqueeze(0)
        if positions * columns > COLUMNS:
            drawn = torch.randint(0, 2, (examples, positions), generator=outputs.rng.generator())
            signs = (2.0 * drawn - 1.0).to(roots).unsqueeze(1)
        for row in range(signs.shape[1]):
            for r in range(columns):
                each = roots[..., r] * signs[:, row].unsqueeze(-1)
                yield outputs.scaled(likelihood.at_rows(each.unsqueeze(0), values.unsqueeze(0))[0])

    def matrices(self, outputs: Outputs) -> Iterator[tuple[slice, Tensor]] | None:
        return self._matrices(outputs) if _is_row(outputs) else None

    @staticmethod
    def _matrices(outputs: Outputs) -> Iterator[tuple[slice, Tensor]]:
        for rows, part in outputs.parts():
            fisher = part.likelihood.fisher(part.values.detach().unsqueeze(0), part.params)[0]
            yield rows, fisher * part.weight.to(fisher).view(-1, 1, 1)

    def total(self, outputs: Outputs) -> Tensor | None:
        if not _is_row(outputs):
            return None
        values = outputs.values.detach().unsqueeze(0)
        return outputs.likelihood.total_fisher(values, outputs.params, outputs.weight.to(values))[0]


def _is_row(outputs: Outputs) -> bool:
    """Whether an example has one row of outputs, all of whose targets are observed."""
    return outputs.values.ndim == 2 and not isinstance(outputs.likelihood, Joint)


@dataclass(frozen=True)
class EmpiricalFisher(Curvature):
    """Outer products of the gradients of the observed targets: one pass back for each batch, and a rougher curvature.

    L_b = g_b g_b^T,   g_b = d log p(y_b | f_b) / df

    It is near the Gauss-Newton matrix where the model is right and the data many; a good fit makes it small.

    Reference: F. Kunstner, L. Balles, P. Hennig, "Limitations of the empirical Fisher approximation", 2019,
        https://arxiv.org/abs/1905.12558
    """

    def columns(self, outputs: Outputs) -> Iterator[Tensor]:
        likelihood = outputs.likelihood
        if isinstance(likelihood, Joint) and share_of(outputs.y, likelihood.names[0]) is not None:
            raise ValueError("curvature='fisher' does not know weights of heads: use 'ggn', or one weight per example")
        with torch.enable_grad():
            leaf = outputs.values.detach().requires_grad_()
            log_prob = outputs.likelihood.log_prob(leaf.unsqueeze(0), outputs.y, outputs.params).sum()
        yield outputs.scaled(torch.autograd.grad(log_prob, leaf)[0])


@dataclass(frozen=True)
class Hessian(Curvature):
    """All second derivatives of the log likelihood by the weights, those of the network included; for small networks.

    It may have negative eigenvalues where the weights are not at a mode.
    """

    by_outputs: ClassVar[bool] = False

    def columns(self, outputs: Outputs) -> Iterator[Tensor]:
        raise ValueError(
            "a Hessian is no product of derivatives of the outputs: it needs structure='dense' or 'diagonal'"
        )


def hessian(outputs: Outputs, params: Params) -> Iterator[tuple[str, int, Params]]:
    """Rows of the Hessian of the negative log likelihood: parameter and entry of each, and the row by parameter."""
    total = -(outputs.log_prob * outputs.weight.to(outputs.values)).sum()
    gradients = torch.autograd.grad(total, list(params.values()), create_graph=True, materialize_grads=True)
    for name, gradient in zip(params, gradients, strict=True):
        for entry, each in enumerate(gradient.flatten()):
            if not each.requires_grad:
                yield name, entry, {n: torch.zeros_like(p) for n, p in params.items()}
                continue
            rows = torch.autograd.grad(each, list(params.values()), retain_graph=True, materialize_grads=True)
            yield name, entry, dict(zip(params, rows, strict=True))


CURVATURES: dict[str, Curvature] = {"ggn": GaussNewton(), "fisher": EmpiricalFisher(), "hessian": Hessian()}
"""The names that `curvature=` takes in the place of a value."""
