"""What the posterior believes about new targets, and why it is unsure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from credo.core.arrays import tensor
from credo.core.checks import whole_number
from credo.core.rng import Stream
from credo.core.trees import Params
from credo.likelihoods import Likelihood
from credo.likelihoods.base import Elements

PIECE_ENTRIES = {"cpu": 2**18, "cuda": 2**26}
"""Entries of the draws that something is computed of at a time: on a CPU they should fit the cache."""
ELSEWHERE = 2**22
"""The same on devices that are not named."""


@dataclass(frozen=True, eq=False, repr=False)
class Predictive(ABC):
    """p(y | x, data) = sum_s w_s p(y | f_s(x)) for each of B inputs: a mixture over S drawn functions.

    Where outputs are normal, there is a normal in the place of each function.

    Attributes:
        likelihood: what turns the outputs of a function into a distribution of y.
        draws: outputs of the drawn functions, (S, B, E), or (S, B, *event) as the network returns them where they have
            positions, and the shapes below likewise; the draw axis is never folded into another.
        params: the likelihood's learned parameters for each draw, (S, D).
        log_weights: logarithms of the weights of the draws, (S,); they sum to one.
    """

    likelihood: Likelihood
    draws: Tensor
    params: Params
    log_weights: Tensor

    def __len__(self) -> int:
        return int(self.draws.shape[1])

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.draws.shape[1:]))
        draws = "1 draw" if len(self.draws) == 1 else f"{len(self.draws)} draws"
        return f"{type(self).__name__}({self.likelihood}, {draws} of {size} outputs)"

    @cached_property
    def weights(self) -> Tensor:  # (S,)
        return self.log_weights.softmax(0)

    def average(self, values: Tensor) -> Tensor:
        """Weighted average over the draw axis: (S, ...) to (...)."""
        return torch.tensordot(self.weights.to(values.dtype), values, dims=1)

    def by_rows(self, of: Callable[[Self, slice], Tensor], axis: int = 0) -> Tensor:
        """What a function of the draws gives for every example, computed for some examples at a time.

        So that many inputs take the memory of their draws and no multiple of it, and what is computed stays in cache.

        Args:
            of: of the prediction for some examples, and which these are.
            axis: of the examples in what it gives.
        """
        entries = PIECE_ENTRIES.get(self.draws.device.type, ELSEWHERE)
        rows = max(1, entries // max(1, self.draws[:, :1].numel()))
        if rows >= len(self):
            return of(self, slice(0, len(self)))
        slices = (slice(start, min(start + rows, len(self))) for start in range(0, len(self), rows))
        return torch.cat([of(self._rows(each), each) for each in slices], dim=axis)

    def _rows(self, rows: slice) -> Self:
        params = self.likelihood.params_at(self.params, rows, len(self))
        return replace(self, draws=self.draws[:, rows], params=params)

    @cached_property
    def mean(self) -> Tensor:
        """E[y], (B, D)."""
        return self.by_rows(lambda part, _: part.average(part.likelihood.mean(part.draws, part.params)))

    @cached_property
    def epistemic(self) -> Tensor:
        """Var_s(E[y | f_s]), (B, D): the disagreement of the draws, which more data would remove."""
        return self.by_rows(lambda part, _: part._variance_of_means())

    def _variance_of_means(self) -> Tensor:
        means = self.likelihood.mean(self.draws, self.params)
        # around one of the draws, so that a large offset of all of them does not eat the digits of the differences
        apart = means - means[0]
        return self.average((apart - self.average(apart)).square())

    @cached_property
    def aleatoric(self) -> Tensor:
        """E_s[Var(y | f_s)], (B, D): the noise that stays however much data there is."""
        return self.by_rows(lambda part, _: part.average(part.likelihood.variance(part.draws, part.params)))

    @property
    def variance(self) -> Tensor:
        """Var(y) = epistemic + aleatoric, (B, D), by the law of total variance."""
        return self.epistemic + self.aleatoric

    @property
    def stddev(self) -> Tensor:
        """Standard deviation of y, (B, D)."""
        return self.variance.sqrt()

    def log_prob(self, y: Tensor) -> Tensor:
        """log sum_s w_s p(y_b | f_s(x_b)) of each example, (B,): the log of the mixture, never a mean of logs.

        Several targets of an example, or those at its positions, count with their joint probability under each draw.
        """
        return self._mixed(self.by_draw(y))

    def joint_log_prob(self, y: Tensor, groups: Tensor | None = None) -> Tensor:
        """log sum_s w_s prod_b p(y_b | f_s(x_b)) of all examples together, (): they share the draw, as in the world.

        The sum of `log_prob` over examples treats them as unrelated. It cannot tell an ensemble, whose members each
        believe one thing about all of them, from a blur that believes a little of everything about each.

        Args:
            y: what was observed, as in `log_prob`.
            groups: numbers 0, 1, ... of groups of examples, (B,), each of which counts on its own; None for one group.

        Returns:
            In float64, (), or one for each group, (G,).

        Examples:
            >>> import torch
            >>> from credo.likelihoods import Bernoulli
            >>> from credo.predictive import predictive
            >>> sure, unsure = torch.tensor([[[9.0], [9.0]], [[-9.0], [-9.0]]]), torch.zeros(1, 2, 1)
            >>> for draws in (sure, unsure):  # an ensemble and a blur: one half for each input alone
            ...     prediction = predictive(Bernoulli(), draws, {}, torch.zeros(len(draws)))
            ...     print(round(float(prediction.joint_log_prob(torch.tensor([1, 1])).exp()), 3))
            0.5
            0.25

        Reference: I. Osband et al., "The neural testbed: evaluating joint predictions", 2022,
            https://arxiv.org/abs/2110.04629
        """
        by_draw = self.by_draw(y).double()
        numbers = self._groups(groups)
        count = int(numbers.max()) + 1
        total = by_draw.new_zeros(len(by_draw), count).index_add_(1, numbers, by_draw)
        joint = self._mixed(total)
        return joint[0] if groups is None else joint

    def by_draw(self, y: Tensor) -> Tensor:
        """log p(y_b | f_s(x_b)), (S, B)."""
        targets = self._targets(y)
        log_prob = self.by_rows(
            lambda part, rows: part.likelihood.log_prob(part.draws, targets[rows], part.params), axis=1
        )
        if log_prob.shape != self.draws.shape[:2]:
            raise ValueError(
                f"{type(self.likelihood).__name__}.log_prob gives shape {tuple(log_prob.shape)} for {len(self.draws)} "
                f"draws of {len(self)} examples: it must be one number for each, summed over the targets of an example"
            )
        return log_prob

    def _groups(self, groups: Tensor | None) -> Tensor:
        """The number of each example's group, checked, (B,)."""
        if groups is None:
            return torch.zeros(len(self), dtype=torch.long, device=self.draws.device)
        numbers = tensor(groups, "groups").to(self.draws.device)
        if numbers.shape != (len(self),) or numbers.is_floating_point() or numbers.dtype is torch.bool:
            raise ValueError(
                f"groups must be the whole number of a group for each of {len(self)} examples, got {numbers.dtype} of "
                f"shape {tuple(numbers.shape)}"
            )
        if sorted(set(numbers.tolist())) != list(range(int(numbers.max()) + 1)):
            raise ValueError("groups must be numbered 0, 1, ... without gaps: torch.unique(..., return_inverse=True)")
        return numbers.long()

    def log_prob_each(self, y: Tensor) -> Tensor:
        """log sum_s w_s p(y_be | f_s(x_b)) of each element: (B,) for one class, (B, D), or of each position.

        NaN where nothing was observed. The sum over elements is not `log_prob`, since under each draw they belong
        together.
        """
        targets = self._targets(y)
        each = self.by_rows(
            lambda part, rows: part._mixed(part.likelihood.log_prob_each(part.draws, targets[rows], part.params))
        )
        observed = self.likelihood.observed(targets)
        return each if observed is None else torch.where(observed, each, torch.nan)

    def elements(self, y: Tensor) -> tuple[Predictive, Tensor, Tensor]:
        """What was observed, element by element: a prediction for N rows, their targets, and the example of each, (N,).

        Where outputs have positions, each position that was observed is a row; otherwise each example is one.
        """
        if self.likelihood.event_axes == 1:
            return self, y, torch.arange(len(self), device=self.draws.device)
        found = self.likelihood.elements(self.draws, self._targets(y), self.params)
        if found.y is None or found.example is None:
            raise ValueError(f"{type(self.likelihood).__name__}.elements does not give the targets and their examples")
        return self._mixture(found), found.y, found.example

    def rows(self) -> Predictive:
        """Every element as a row of its own: each position of each example, or each example."""
        if self.likelihood.event_axes == 1:
            return self
        found = self.likelihood.elements(self.draws, None, self.params)
        return self._mixture(found)

    def _targets(self, y: Tensor) -> Tensor:
        outputs = self.likelihood.outputs_of(tuple(self.draws.shape[2:]))
        targets = self.likelihood.check_targets(tensor(y, "y"), outputs).to(self.draws.device)
        if len(targets) != len(self):
            raise ValueError(f"y has {len(targets)} rows and the prediction {len(self)}")
        return targets

    def _mixed(self, log_prob: Tensor) -> Tensor:
        """The mixture's log density out of that of each component, (S, ...) to (...)."""
        return torch.logsumexp(log_prob + self.log_weights.to(log_prob).view(-1, *(1,) * (log_prob.ndim - 1)), dim=0)

    def sample(self, count: int, seed: int = 0) -> Tensor:
        """`count` targets for each input, (count, B, D), or (count, B) class numbers.

        Each sample picks one draw for all inputs, so a sample is a coherent function plus noise.
        """
        stream = Stream(seed, ("predictive sample",))
        return self.sample_of(self._chosen(count, stream), stream.child("noise"))

    def sample_of(self, chosen: Tensor, rng: Stream) -> Tensor:
        """One target for each input by each of these components, (count, B, ...)."""
        params = {name: value[chosen] for name, value in self.params.items()}
        return self.likelihood.sample(self.draws[chosen], params, rng.generator(self.draws.device))

    def _chosen(self, count: int, stream: Stream) -> Tensor:
        """Numbers of components, picked by their weights, (count,)."""
        generator = stream.child("draw").generator(self.draws.device)
        return torch.multinomial(self.weights, whole_number("count", count), replacement=True, generator=generator)

    @property
    @abstractmethod
    def entropy(self) -> Tensor:
        """Entropy of the mixture in nats: all the doubt there is."""

    @cached_property
    def expected_entropy(self) -> Tensor:
        """Average entropy of the draws in nats: the doubt that every draw shares."""
        return self.by_rows(lambda part, _: part.average(part.likelihood.entropy(part.draws, part.params)))

    @property
    def mutual_information(self) -> Tensor:
        """entropy - expected_entropy, in nats: what the target would tell about the weights (BALD)."""
        if self.entropy.shape != self.expected_entropy.shape:
            raise ValueError(
                f"{type(self.likelihood).__name__}.entropy gives shape {tuple(self.expected_entropy.shape)}, and the "
                f"mixture has an entropy of shape {tuple(self.entropy.shape)}: it must be that of each target"
            )
        return (self.entropy - self.expected_entropy).clamp_min(0.0)

    @abstractmethod
    def _mixture(self, found: Elements) -> Predictive:
        """The prediction for elements, as rows of their own, by the same draws."""
