"""The weighted sum of squares: values for any shape, and members that stay apart."""

import torch
from torch import Tensor

from credo.core import trees
from credo.core.rng import Stream
from credo.core.trees import weighted_squares

COEFFICIENTS = (0.3, -2.0, 1.5, -0.5)
SHAPES = ((3, 4, 2), (3, 5), (3,), (3, 2, 1, 2, 2))


def tensors(*, front: tuple[int, ...] = ()) -> list[Tensor]:
    return [Stream(0, (k,)).normal(*front, *shape, dtype=torch.float64) for k, shape in enumerate(SHAPES)]


def plain(*values: Tensor) -> Tensor:
    """The same number by autograd's own operations."""
    return sum(c * v.square().reshape(len(v), -1).sum(1) for c, v in zip(COEFFICIENTS, values, strict=True))


def ours(*values: Tensor) -> Tensor:
    return weighted_squares(values, COEFFICIENTS)


def test_value_by_hand():
    values = [torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([5.0, 6.0])]
    assert weighted_squares(values, [1.0, 0.5]).tolist() == [5.0 + 12.5, 25.0 + 18.0]


def test_value_for_any_shape():
    torch.testing.assert_close(ours(*tensors()), plain(*tensors()), rtol=1e-12, atol=1e-12)


def test_vectorized_with_and_without_gradient():
    batch = tensors(front=(6,))
    one_by_one = torch.stack([ours(*(t[i] for t in batch)) for i in range(6)])
    torch.testing.assert_close(torch.func.vmap(ours)(*batch), one_by_one, rtol=1e-12, atol=1e-12)
    gradient = torch.func.vmap(torch.func.grad(lambda t: weighted_squares([t], [1.5]).sum()))(batch[0])
    torch.testing.assert_close(gradient, 3.0 * batch[0], rtol=1e-12, atol=1e-12)


def test_members_do_not_touch_each_other():
    values = [t.requires_grad_() for t in tensors()]
    found = torch.autograd.grad(ours(*values)[1], values)
    for gradient in found:
        assert not gradient[[0, 2]].any()
        assert gradient[1].any()


def test_large_tensors_are_summed_by_the_same_formula(monkeypatch):
    """Value, gradient, second derivatives and those of `torch.func`."""
    monkeypatch.setattr(trees, "LARGE", 1)
    test_value_by_hand()
    test_value_for_any_shape()
    test_vectorized_with_and_without_gradient()
    test_members_do_not_touch_each_other()
    values = [t.requires_grad_() for t in tensors()]
    for order in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert order(ours, values)
