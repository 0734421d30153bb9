"""The weighted sum of squares with a gradient of its own: values, derivatives of every kind, and wrong twins."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from credo.core.rng import Stream
from credo.core.squares import weighted_squares

COEFFICIENTS = (0.3, -2.0, 1.5, -0.5)
# torch's own forward mode compiles its rules by a function that torch itself has deprecated
FORWARD_MODE = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
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


@FORWARD_MODE
def test_first_and_second_derivatives():
    values = [t.requires_grad_() for t in tensors()]
    assert gradcheck(ours, values, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(ours, values, check_fwd_over_rev=True)


def test_a_wrong_gradient_is_noticed():
    """The twin forgets the factor two."""

    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            ctx.save_for_backward(t)
            return t.square().sum()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    value = torch.ones(3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError):
        gradcheck(Half.apply, [value])


@FORWARD_MODE
def test_functional_transforms():
    values = tensors()

    def total(function, first: Tensor) -> Tensor:
        return function(first, *values[1:]).sum()

    for transform in (torch.func.grad, torch.func.hessian, lambda f: torch.func.jacrev(torch.func.jacrev(f))):
        mine = transform(lambda t: total(ours, t))(values[0])
        torch.testing.assert_close(mine, transform(lambda t: total(plain, t))(values[0]), rtol=1e-12, atol=1e-12)
    _, tangent = torch.func.jvp(lambda t: ours(t, *values[1:]), (values[0],), (values[0],))
    expected = 2 * COEFFICIENTS[0] * values[0].square().sum((1, 2))
    torch.testing.assert_close(tangent, expected, rtol=1e-12, atol=1e-12)


def test_vectorised_with_and_without_gradient():
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
