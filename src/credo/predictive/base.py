"""What the posterior believes about new targets, and why it is unsure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from credo.core.arrays import tensor
from credo.core.checks import check_between, whole_number
from credo.core.integrals import crossing, entropy_by_integral, entropy_by_sum, smallest_where
from credo.core.rng import Stream
from credo.core.trees import Params
from credo.likelihoods import ClassLikelihood, Likelihood, NumericLikelihood

NEARLY_ONE = 0.05
"""By how much a sum of probabilities may differ from one, in half precision too."""


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

    @cached_property
    def mean(self) -> Tensor:
        """E[y], (B, D)."""
        return self.average(self.likelihood.mean(self.draws, self.params))

    @cached_property
    def epistemic(self) -> Tensor:
        """Var_s(E[y | f_s]), (B, D): the disagreement of the draws, which more data would remove."""
        means = self.likelihood.mean(self.draws, self.params)
        # around one of the draws, so that a large offset of all of them does not eat the digits of the differences
        apart = means - means[0]
        return self.average((apart - self.average(apart)).square())

    @cached_property
    def aleatoric(self) -> Tensor:
        """E_s[Var(y | f_s)], (B, D): the noise that stays however much data there is."""
        return self.average(self.likelihood.variance(self.draws, self.params))

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
        return self._mixed(self._by_draw(y))

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
        by_draw = self._by_draw(y).double()
        numbers = self._groups(groups)
        count = int(numbers.max()) + 1
        total = by_draw.new_zeros(len(by_draw), count).index_add_(1, numbers, by_draw)
        joint = self._mixed(total)
        return joint[0] if groups is None else joint

    def _by_draw(self, y: Tensor) -> Tensor:
        """log p(y_b | f_s(x_b)), (S, B)."""
        log_prob = self.likelihood.log_prob(self.draws, self._targets(y), self.params)
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
        each = self._mixed(self.likelihood.log_prob_each(self.draws, targets, self.params))
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
        rows = mixture(found.likelihood, found.outputs, found.params, self.log_weights)
        return rows, found.y, found.example

    def rows(self) -> Predictive:
        """Every element as a row of its own: each position of each example, or each example."""
        if self.likelihood.event_axes == 1:
            return self
        found = self.likelihood.elements(self.draws, None, self.params)
        return mixture(found.likelihood, found.outputs, found.params, self.log_weights)

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
        chosen = self._chosen(count, stream)
        params = {name: value[chosen] for name, value in self.params.items()}
        return self.likelihood.sample(self.draws[chosen], params, stream.child("noise").generator(self.draws.device))

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
        return self.average(self.likelihood.entropy(self.draws, self.params))

    @property
    def mutual_information(self) -> Tensor:
        """entropy - expected_entropy, in nats: what the target would tell about the weights (BALD)."""
        if self.entropy.shape != self.expected_entropy.shape:
            raise ValueError(
                f"{type(self.likelihood).__name__}.entropy gives shape {tuple(self.expected_entropy.shape)}, and the "
                f"mixture has an entropy of shape {tuple(self.entropy.shape)}: it must be that of each target"
            )
        return (self.entropy - self.expected_entropy).clamp_min(0.0)


@dataclass(frozen=True, eq=False, repr=False)
class NumericPredictive(Predictive, ABC):
    """A mixture over numbers: its quantiles and intervals are its own, not those of a Gaussian fitted to it."""

    likelihood: NumericLikelihood

    def cdf(self, y: Tensor) -> Tensor:
        """P(target <= y), (B, D), where y is (B, D), (B,) for a single target, or one number for all."""
        return self.average(self.likelihood.cdf(self.draws, self._columns(y), self.params))

    def survival(self, y: Tensor) -> Tensor:
        """P(target > y), (B, D), exact where it is small and 1 - cdf(y) would be nothing but rounding."""
        return self.average(self.likelihood.survival(self.draws, self._columns(y), self.params))

    def _columns(self, y: Tensor) -> Tensor:
        y = torch.as_tensor(y, dtype=self.draws.dtype, device=self.draws.device)
        return y.unsqueeze(self.likelihood.class_axis) if y.ndim == self.likelihood.event_axes else y

    def quantile(self, level: float) -> Tensor:
        """The smallest y with P(target <= y) >= level, (B, D)."""
        check_between("level", level)
        return self._quantile(level, 1.0 - level)

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """Lower and upper ends, (B, D) each, with equal mass on either side and `level` between them."""
        check_between("level", level)
        tail = 0.5 * (1.0 - level)
        return self._quantile(tail, 1.0 - tail), self._quantile(1.0 - tail, tail)

    def _quantile(self, below: float, above: float) -> Tensor:
        """By the tail that is the smaller one, whose probability keeps its digits."""
        lower, upper = self.likelihood.spread(self.draws, self.params)
        ends = lower.amin(0), upper.amax(0)

        if self.likelihood.discrete:

            def enough(y: Tensor) -> Tensor:
                return self.cdf(y) >= below if below <= 0.5 else self.survival(y) <= above

            return smallest_where(enough, *ends, discrete=True)

        def excess(y: Tensor) -> Tensor:
            """In standard deviations: a straight line where the mixture is a normal."""
            if below <= 0.5:
                return _probit(self.cdf(y)) - _probit(y.new_tensor(below))
            return _probit(y.new_tensor(above)) - _probit(self.survival(y))

        return crossing(excess, *ends)

    @cached_property
    def entropy(self) -> Tensor:
        """Entropy of each target's mixture in nats, (B, D), by numerical integration."""
        total = entropy_by_sum if self.likelihood.discrete else entropy_by_integral

        def log_density(y: Tensor) -> Tensor:
            return self._mixed(self.likelihood.log_prob_each(self.draws, y, self.params))

        return total(log_density, *self.likelihood.spread(self.draws, self.params))


@dataclass(frozen=True, eq=False, repr=False)
class ClassPredictive(Predictive, ABC):
    """A mixture over classes, or over D separate yes-or-no targets."""

    likelihood: ClassLikelihood

    @property
    def probs(self) -> Tensor:
        """Probabilities: (B, K) of the K classes, or (B, D) of yes."""
        return self.mean

    @property
    def label(self) -> Tensor:
        """The most probable class (B,), or yes / no as 1 / 0 (B, D)."""
        if not self.likelihood.exclusive:
            return (self.probs > 0.5).long()
        self._check_classes()
        return self.probs.argmax(self.likelihood.class_axis)

    @cached_property
    def entropy(self) -> Tensor:
        each = torch.special.entr(self.probs)
        if not self.likelihood.exclusive:
            return each + torch.special.entr(1.0 - self.probs)
        self._check_classes()
        return each.sum(self.likelihood.class_axis)

    def _check_classes(self) -> None:
        """A likelihood that has one class per example must not have probabilities of several."""
        total = self.probs.sum(self.likelihood.class_axis)
        if bool(((total - 1.0).abs() > NEARLY_ONE).any()):
            raise ValueError(
                f"the probabilities of {type(self.likelihood).__name__} add up to {float(total.max()):.4g} for an "
                "example, where it says that classes exclude each other: for a class at each of many positions let the "
                "network return (B, K, positions) and use likelihoods.at_positions(...); for separate yes-or-no "
                "answers set exclusive = False"
            )


@dataclass(frozen=True, eq=False, repr=False)
class NumericMixture(NumericPredictive):
    """A mixture of drawn functions, over numbers."""


@dataclass(frozen=True, eq=False, repr=False)
class ClassMixture(ClassPredictive):
    """A mixture of drawn functions, over classes or D separate yes-or-no targets."""


def _probit(probability: Tensor) -> Tensor:
    info = torch.finfo(probability.dtype)
    return torch.special.ndtri(probability.clamp(info.tiny, 1.0 - info.eps))


def mixture(likelihood: Likelihood, draws: Tensor, params: Params, log_weights: Tensor) -> Predictive:
    """That of one tensor of outputs (S, B, E), in the units of the target; log weights (S,) are normalized here."""
    likelihood, draws, params = likelihood.in_units(draws, params)
    log_weights = log_weights.to(draws)
    normalized = log_weights - torch.logsumexp(log_weights, 0)
    if isinstance(likelihood, NumericLikelihood):
        return NumericMixture(likelihood, draws, params, normalized)
    if isinstance(likelihood, ClassLikelihood):
        return ClassMixture(likelihood, draws, params, normalized)
    raise TypeError(
        f"{type(likelihood).__name__} is neither a NumericLikelihood nor a ClassLikelihood: derive it from one of "
        "them, so that predictions know whether targets are numbers or classes"
    )
