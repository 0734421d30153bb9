"""Likelihoods at positions against a loop over elements in float64, and against flattening by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import pytest
import torch
from torch import Tensor, distributions

import credo
from credo.core.config import decode, encode
from credo.core.trees import Params
from credo.likelihoods import (
    Bernoulli,
    Categorical,
    ClassesAtPositions,
    Gaussian,
    HeteroscedasticGaussian,
    LearnedGaussian,
    Likelihood,
    NumbersAtPositions,
    Poisson,
    SharedGaussian,
    Standardized,
    at_positions,
)
from credo.posteriors.writing import known_kinds
from credo.predictive import predictive

LogProb = Callable[[Tensor, Tensor, Params], Tensor]
RNG = credo.Stream(7, ("positions",))
B, E = 3, 4
FRONTS = [(), (2,), (2, 3)]
CLASSES, NUMBERS = Categorical(), LearnedGaussian()


@dataclass(frozen=True)
class Case:
    """A likelihood of one position, and where the positions and the outputs of one lie."""

    base: Likelihood
    positions: tuple[int, ...]
    class_axis: int

    @property
    def made(self) -> ClassesAtPositions | NumbersAtPositions:
        return at_positions(self.base, len(self.positions), self.class_axis)

    @property
    def targets(self) -> int:
        return E // 2 if isinstance(self.base, HeteroscedasticGaussian) else E

    def layout(self, columns: int) -> tuple[int, ...]:
        """(B, *event)."""
        shape = [B, *self.positions]
        shape.insert(self.class_axis if self.class_axis > 0 else len(shape) + 1 + self.class_axis, columns)
        return tuple(shape)

    def outputs(self, front: tuple[int, ...]) -> Tensor:
        return RNG.child("outputs", len(front)).normal(*front, *self.layout(E), dtype=torch.float64)

    def params(self, front: tuple[int, ...]) -> Params:
        own = self.made.parameters(E)
        return {n: 0.3 * RNG.child(n, len(front)).normal(*front, *p.shape, dtype=torch.float64) for n, p in own.items()}

    def y(self) -> Tensor:
        """Targets with some positions, and all those of one example, not observed."""
        hidden = RNG.child("hidden").normal(B, *self.positions) > 0.5
        hidden[1] = True
        if isinstance(self.base, Categorical):
            classes = RNG.child("y").normal(B, *self.positions).mul(3).long() % E
            return torch.where(hidden, -100, classes)
        values = RNG.child("y").normal(*self.layout(self.targets), dtype=torch.float64)
        if isinstance(self.base, Bernoulli):
            values = (values > 0).double()
        if isinstance(self.base, Poisson):
            values = values.abs().mul(4).round()
        return torch.where(hidden.unsqueeze(self.made.class_axis), torch.nan, values)


CASES = {
    "classes of pixels": Case(CLASSES, (3, 2), 1),
    "classes of tokens": Case(CLASSES, (5,), -1),
    "classes in the middle": Case(CLASSES, (3, 2), 2),
    "answers at pixels": Case(Bernoulli(), (3, 2), 1),
    "channels": Case(NUMBERS, (3, 2), 1),
    "a series": Case(NUMBERS, (5,), -1),
    "voxels": Case(Gaussian(scale=0.7), (2, 3, 2), 1),
    "one scale": Case(SharedGaussian(), (3, 2), 1),
    "two outputs for each": Case(HeteroscedasticGaussian(), (3, 2), 1),
    "counts": Case(Poisson(), (5,), -1),
    "standardized": Case(Standardized(NUMBERS, (1.0, 2.0, 3.0, 4.0), (2.0, 3.0, 0.5, 1.0)), (3, 2), 1),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def one_element(case: Case, f: Tensor, y: Tensor, params: Params) -> Tensor:
    """log p of one position by torch's distributions, for outputs (E,)."""
    match case.base:
        case Categorical():
            return distributions.Categorical(logits=f).log_prob(y)
        case Bernoulli():
            return distributions.Bernoulli(logits=f).log_prob(y).sum()
        case Poisson():
            return distributions.Poisson(f.exp()).log_prob(y).sum()
        case Gaussian(scale=scale):
            return distributions.Normal(f, scale).log_prob(y).sum()
        case HeteroscedasticGaussian(floor=floor):
            mean, raw = f.chunk(2)
            return distributions.Normal(mean, torch.nn.functional.softplus(raw) + floor).log_prob(y).sum()
        case Standardized(loc=loc, scale=scale):
            size = torch.tensor(scale, dtype=torch.float64)
            mean = torch.tensor(loc, dtype=torch.float64) + size * f
            return distributions.Normal(mean, size * params["log_scale"].exp()).log_prob(y).sum()
        case _:
            return distributions.Normal(f, params["log_scale"].exp()).log_prob(y).sum()


def by_loops(case: Case, outputs: Tensor, y: Tensor, params: Params, front: tuple[int, ...]) -> Tensor:
    """The log probability of each example, position by position."""
    total = torch.zeros((*front, B), dtype=torch.float64)
    moved = outputs.movedim(case.made.class_axis, -1)
    targets = y if y.ndim == len(case.positions) + 1 else y.movedim(case.made.class_axis, -1)
    for m in product(*map(range, front)):
        mine = {name: value[m] for name, value in params.items()}
        for b, *p in product(range(B), *map(range, case.positions)):
            target = targets[(b, *p)]
            if bool((target == -100).any() | target.isnan().any()):
                continue
            total[(*m, b)] += one_element(case, moved[(*m, b, *p)], target, mine)
    return total


def check_log_prob(case: Case, log_prob: LogProb, front: tuple[int, ...]) -> None:
    outputs, params = case.outputs(front), case.params(front)
    found = log_prob(outputs, case.made.check_targets(case.y(), E), params)
    torch.testing.assert_close(found, by_loops(case, outputs, case.y(), params, front), rtol=1e-9, atol=1e-9)


@every_case
@pytest.mark.parametrize("front", FRONTS, ids=str)
def test_log_prob_is_that_of_a_loop_over_elements(case: Case, front: tuple[int, ...]) -> None:
    check_log_prob(case, case.made.log_prob, front)


def test_wrong_likelihoods_are_noticed() -> None:
    case = CASES["classes of pixels"]

    def unmasked(outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return case.made.log_prob(outputs, y.clamp_min(0), params)

    def averaged(outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return case.made.log_prob_each(outputs, y, params).flatten(-2).mean(-1)

    def another_axis(outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        swapped = outputs.movedim(-3, -1).reshape(outputs.shape)
        return case.made.log_prob(swapped, y, params)

    for broken in (unmasked, averaged, another_axis):
        with pytest.raises(AssertionError):
            check_log_prob(case, broken, (2,))


def test_a_scale_that_is_not_shared_is_noticed() -> None:
    case = CASES["channels"]

    def by_position(outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return at_positions(NUMBERS, 2, -1).log_prob(
            outputs.movedim(1, -1), y.movedim(1, -1), {"log_scale": params["log_scale"].flip(-1)}
        )

    with pytest.raises(AssertionError):
        check_log_prob(case, by_position, ())


@every_case
@pytest.mark.parametrize("front", FRONTS, ids=str)
def test_all_else_is_that_of_rows_flattened_by_hand(case: Case, front: tuple[int, ...]) -> None:
    """Moments, samples, entropies and the single elements: those of the base, for one row per position."""
    made, outputs, params = case.made, case.outputs(front), case.params(front)
    rows = outputs.movedim(made.class_axis, -1).reshape(*front, -1, E)
    y = made.check_targets(case.y(), E)
    exclusive = isinstance(case.base, Categorical)

    def by_hand(value: Tensor) -> Tensor:
        if exclusive and value.ndim == len(front) + 1:
            return value.reshape(*front, B, *case.positions)
        return value.reshape(*front, B, *case.positions, value.shape[-1]).movedim(-1, made.class_axis)

    generators = [RNG.child("sample").generator() for _ in range(2)]
    pairs = [
        (made.mean(outputs, params), case.base.mean(rows, params)),
        (made.variance(outputs, params), case.base.variance(rows, params)),
        (made.entropy(outputs, params), case.base.entropy(rows, params)),
        (made.sample(outputs, params, generators[0]), case.base.sample(rows, params, generators[1])),
    ]
    if isinstance(made, NumbersAtPositions):
        at = torch.ones((), dtype=torch.float64)
        pairs += [(made.cdf(outputs, at, params), case.base.cdf(rows, at, params))]
        pairs += [(made.survival(outputs, at, params), case.base.survival(rows, at, params))]
        pairs += list(zip(made.spread(outputs, params), case.base.spread(rows, params), strict=True))
    for found, flat in pairs:
        assert torch.equal(found, by_hand(flat))
    each = made.log_prob_each(outputs, y, params)
    assert each.shape[len(front) :] == y.shape
    torch.testing.assert_close(each.flatten(len(front) + 1).sum(-1), made.log_prob(outputs, y, params))
    assert bool((each.select(len(front), 1) == 0).all())  # of the example of which nothing was observed


@every_case
def test_curvature_is_that_of_each_position(case: Case) -> None:
    made, outputs, params = case.made, case.outputs(()), case.params(())
    rows = outputs.movedim(made.class_axis, -1).reshape(-1, E)
    fisher = case.base.fisher(rows, params).reshape(B, *case.positions, E, E)
    assert torch.equal(made.fisher(outputs, params), fisher)
    hessian = made.hessian(outputs, made.check_targets(case.y(), E), params)
    assert hessian.shape == fisher.shape
    assert bool((hessian[1] == 0).all())


@every_case
def test_what_was_not_observed_reaches_no_gradient(case: Case) -> None:
    """Outputs there may even be NaN, as those of an attention over padding alone."""
    made, params = case.made, {n: p.requires_grad_() for n, p in case.params(()).items()}
    y = made.check_targets(case.y(), E)
    hidden = y == -100 if y.ndim == len(case.positions) + 1 else y.isnan().any(made.class_axis)
    spoiled = torch.where(hidden.unsqueeze(made.class_axis), torch.nan, case.outputs(()))
    outputs = {"clean": case.outputs(()).requires_grad_(), "spoiled": spoiled.requires_grad_()}
    gradients = {
        name: torch.autograd.grad(made.log_prob(value, y, params).sum(), [value, *params.values()])
        for name, value in outputs.items()
    }
    for clean, spoiled_one in zip(gradients["clean"], gradients["spoiled"], strict=True):
        assert torch.equal(clean, spoiled_one)
    assert bool((gradients["clean"][0].movedim(made.class_axis, -1)[hidden] == 0).all())


@every_case
def test_a_prediction_has_the_shapes_of_the_outputs(case: Case) -> None:
    draws, params = case.outputs((2,)), case.params((2,))
    prediction = predictive(case.made, draws, params, torch.zeros(2, dtype=torch.float64))
    y, shape = case.y(), case.layout(case.targets)
    each = (B, *case.positions) if isinstance(case.base, Categorical) else shape
    assert prediction.mean.shape == prediction.stddev.shape == shape
    assert prediction.entropy.shape == prediction.mutual_information.shape == each
    assert prediction.sample(3).shape == (3, *each)
    assert prediction.log_prob_each(y).shape == each
    torch.testing.assert_close(
        prediction.log_prob(y), by_loops(case, draws, y, params, (2,)).logsumexp(0) - torch.tensor(2.0).log()
    )


@every_case
def test_elements_are_a_prediction_of_rows(case: Case) -> None:
    draws, params = case.outputs((2,)), case.params((2,))
    prediction = predictive(case.made, draws, params, torch.zeros(2, dtype=torch.float64))
    rows, targets, example = prediction.elements(case.y())
    each = prediction.log_prob_each(case.y())
    summed = each if isinstance(case.base, Categorical) else each.movedim(case.made.class_axis, -1)
    flat = summed.reshape(B * torch.Size(case.positions).numel(), -1)
    kept = ~flat.isnan().any(-1)
    assert len(rows) == len(targets) == int(kept.sum())
    assert torch.equal(example, torch.arange(B).repeat_interleave(len(kept) // B)[kept])
    found = rows.log_prob_each(targets)
    torch.testing.assert_close(found.reshape(len(found), -1), flat[kept])


@every_case
def test_it_is_described_by_its_numbers(case: Case) -> None:
    assert decode(encode(case.made), known_kinds()) == case.made


def test_another_number_may_stand_for_what_was_not_observed() -> None:
    made = at_positions(CLASSES, axes=1, class_axis=-1, ignore_index=255)
    y = made.check_targets(torch.tensor([[0, 255, 2], [-100, 1, 1]]), 3)
    assert y.tolist() == [[0, -100, 2], [-100, 1, 1]]


def test_targets_come_with_the_axis_of_classes_or_without() -> None:
    made, y = at_positions(CLASSES, axes=2), torch.arange(12).view(2, 3, 2) % 4
    for given in (y, y.unsqueeze(1), y.unsqueeze(-1), y.double()):
        assert torch.equal(made.check_targets(given, 4), y)
    numbers = at_positions(NUMBERS, axes=2)
    assert numbers.check_targets(y.double(), 1).shape == (2, 1, 3, 2)


@pytest.mark.parametrize(
    ("made", "y", "sentence"),
    [
        (at_positions(CLASSES, 2), torch.zeros(2, 3), "y has shape .2, 3., .*one class number at each position"),
        (at_positions(CLASSES, 2), torch.full((1, 2, 2), 9), "class numbers from 9 to 9"),
        (at_positions(CLASSES, 2), torch.full((1, 2, 2), 0.5), "fractions"),
        (at_positions(CLASSES, 2), torch.full((1, 2, 2), torch.inf), "NaN or infinite"),
        (at_positions(NUMBERS, 1), torch.zeros(2, 3, 5), "y has 3 column"),
        (at_positions(NUMBERS, 1), torch.tensor([[[0.0], [torch.nan], [0.0], [0.0]]]), "observed as a whole"),
        (at_positions(NUMBERS, 1), torch.full((1, 4, 2), torch.inf), "NaN or infinite"),
        (at_positions(Bernoulli(), 1), torch.full((1, 4, 2), 3), "other than 0 and 1"),
    ],
)
def test_targets_that_do_not_fit_are_named(made: Likelihood, y: Tensor, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        made.check_targets(y, 4)


def test_other_positions_than_those_of_the_outputs_are_named() -> None:
    made = at_positions(CLASSES, 2)
    for wrong in (torch.zeros(2, 4, 5).long(), torch.zeros(2, 1, 1).long(), torch.zeros(2, 4, 3).long()):
        with pytest.raises(ValueError, match="they must be the same"):
            made.log_prob(torch.zeros(2, 3, 3, 4), wrong, {})


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(ValueError, match="class_axis must be one of 1 to 3"):
        at_positions(CLASSES, 2, 4)
    with pytest.raises(ValueError, match="axes must be 1 or more"):
        at_positions(CLASSES, 0)
    with pytest.raises(ValueError, match="has positions of its own"):
        at_positions(at_positions(CLASSES, 2), 1)
    with pytest.raises(ValueError, match="ignore_index is for classes"):
        at_positions(NUMBERS, 2, ignore_index=-1)

    with pytest.raises(TypeError, match="base must be a Likelihood"):
        at_positions("classes", 2)  # type: ignore[arg-type]


def test_scales_of_single_rows_stay_with_their_rows() -> None:
    """A standardized likelihood whose network predicts the noise has a scale for each position in its units."""
    base = Standardized(HeteroscedasticGaussian(), (1.0, 50.0), (2.0, 30.0))
    made, draws, weights = at_positions(base, 2), CASES["channels"].outputs((2,)), torch.zeros(2, dtype=torch.float64)
    rows = draws.movedim(2, -1).reshape(2, -1, E)
    found, known = predictive(made, draws, {}, weights), predictive(base, rows, {}, weights)
    y = RNG.child("units").normal(B, 2, 3, 2, dtype=torch.float64) * 20
    y[0, :, 1] = torch.nan
    kept = ~y.isnan().any(1).flatten()
    flat = y.movedim(1, -1).reshape(-1, 2)
    for one, other in ((found.stddev, known.stddev), (found.quantile(0.9), known.quantile(0.9))):
        torch.testing.assert_close(one.movedim(1, -1).reshape(-1, 2), other)
    each = known.log_prob_each(flat.nan_to_num())[kept]
    torch.testing.assert_close(found.log_prob_each(y).movedim(1, -1).reshape(-1, 2)[kept], each)
    elements, targets, _ = found.elements(y)
    assert torch.equal(targets, flat[kept])
    torch.testing.assert_close(elements.log_prob_each(targets), each)


def test_classes_out_of_range_point_to_the_mask() -> None:
    with pytest.raises(ValueError, match=r"class numbers from 0 to 255.*ignore_index= of likelihoods.at_positions"):
        at_positions(CLASSES, 1, -1).check_targets(torch.tensor([[0, 255]]), 4)
