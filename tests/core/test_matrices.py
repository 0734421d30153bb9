"""Structured matrices against what they would be if they were written out, in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from credo import Stream
from credo.core.matrices import Dense, Diagonal, Kronecker, LowRankPlusDiagonal, Matrix

M = 3


def normal(*shape: int, name: str) -> Tensor:
    return Stream(0, ("matrices", name)).normal(*shape, dtype=torch.float64)


def positive(size: int, name: str) -> Tensor:
    root = normal(M, size, size + 2, name=name)
    return root @ root.mT


def kron(left: Tensor, right: Tensor) -> Tensor:
    return torch.stack([torch.kron(a, b) for a, b in zip(left, right, strict=True)])


LEFT, RIGHT, FULL = positive(3, "left"), positive(4, "right"), positive(6, "full")
VALUES, COLUMNS = normal(M, 7, name="values").square() + 0.1, normal(M, 7, 2, name="columns")

Case = tuple[Matrix, Tensor]
CASES: dict[str, Callable[[], Case]] = {
    "diagonal": lambda: (Diagonal(VALUES), torch.diag_embed(VALUES)),
    "dense": lambda: (Dense.of(FULL), FULL),
    "Kronecker": lambda: (Kronecker.of(LEFT, RIGHT), kron(LEFT, RIGHT)),
    "shifted Kronecker": lambda: (
        Kronecker.of(LEFT, RIGHT).add_diagonal(0.3),
        kron(LEFT, RIGHT) + 0.3 * torch.eye(12, dtype=torch.float64),
    ),
    "low rank": lambda: (
        LowRankPlusDiagonal(VALUES, COLUMNS),
        torch.diag_embed(VALUES) + COLUMNS @ COLUMNS.mT,
    ),
    "more columns than rows": lambda: (
        LowRankPlusDiagonal(VALUES[:, :2], COLUMNS[:, :2].repeat(1, 1, 3)),
        torch.diag_embed(VALUES[:, :2]) + 3 * COLUMNS[:, :2] @ COLUMNS[:, :2].mT,
    ),
    "one entry": lambda: (Dense.of(FULL[:, :1, :1]), FULL[:, :1, :1]),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)  # condition numbers reach some hundreds


def vectors(size: int) -> list[Tensor]:
    """One row for each member, and six of them."""
    return [normal(M, size, name="one"), normal(M, 2, 3, size, name="many")]


def product(dense: Tensor, v: Tensor) -> Tensor:
    return torch.einsum("mij,m...j->m...i", dense, v)


def test_dense_and_diagonal(case: Case) -> None:
    matrix, truth = case
    assert matrix.size == truth.shape[1]
    close(matrix.to_dense(), truth)
    close(matrix.diagonal(), truth.diagonal(dim1=1, dim2=2))


def test_products(case: Case) -> None:
    matrix, truth = case
    for v in vectors(matrix.size):
        close(matrix @ v, product(truth, v))


def test_inverse(case: Case) -> None:
    matrix, truth = case
    for v in vectors(matrix.size):
        close(matrix.solve(v), product(torch.linalg.inv(truth), v))
    close(matrix.log_det(), torch.linalg.slogdet(truth).logabsdet)


@pytest.mark.parametrize("inverse", [False, True])
def test_roots(case: Case, inverse: bool) -> None:
    matrix, truth = case
    eye = torch.eye(matrix.size, dtype=torch.float64).expand(M, -1, -1)
    root = matrix.inverse_sqrt_matvec(eye) if inverse else matrix.sqrt_matvec(eye)  # rows are R e_i
    close(root.mT @ root, torch.linalg.inv(truth) if inverse else truth)


def test_additions_and_multiples(case: Case) -> None:
    matrix, truth = case
    eye = torch.eye(matrix.size, dtype=torch.float64)
    close(matrix.add_diagonal(0.7).to_dense(), truth + 0.7 * eye)
    each = torch.tensor([[0.1], [0.2], [0.3]], dtype=torch.float64)
    close(matrix.add_diagonal(each).to_dense(), truth + each.unsqueeze(2) * eye)
    close(matrix.scaled(2.5).to_dense(), 2.5 * truth)
    close(matrix.add_diagonal(0.7).scaled(2.5).log_det(), torch.linalg.slogdet(2.5 * (truth + 0.7 * eye)).logabsdet)


@pytest.mark.parametrize("name", ["diagonal", "dense", "low rank"])
def test_a_number_for_each_entry(name: str) -> None:
    matrix, truth = CASES[name]()
    every = normal(M, matrix.size, name="every").square()
    close(matrix.add_diagonal(every).to_dense(), truth + torch.diag_embed(every))


def test_a_product_takes_one_number_only() -> None:
    with pytest.raises(ValueError, match="same prior precision for all weights of a layer"):
        Kronecker.of(LEFT, RIGHT).add_diagonal(torch.ones(M, 12))


def test_singular_matrices_are_refused_in_a_sentence() -> None:
    thin = normal(M, 5, 2, name="thin")
    flat = thin @ thin.mT
    for matrix in (Dense.of(flat), Diagonal(torch.zeros(M, 4)), Kronecker.of(flat, RIGHT)):
        for asked in (matrix.log_det, lambda m=matrix: m.solve(torch.ones(M, m.size, dtype=torch.float64))):
            with pytest.raises(ValueError, match="add to its diagonal"):
                asked()
        assert bool(matrix.add_diagonal(0.1).log_det().isfinite().all())
    with pytest.raises(ValueError, match="not finite"):
        Dense.of(torch.full((1, 2, 2), float("nan")))


def test_bytes_are_known_beforehand() -> None:
    def held(matrix: Matrix) -> int:
        return sum(t.nbytes for t in vars(matrix).values()) // M

    assert Diagonal.nbytes(7, 8) == held(Diagonal(VALUES))
    assert Dense.nbytes(6, 8) == held(Dense.of(FULL))
    assert LowRankPlusDiagonal.nbytes(7, 2, 8) == held(LowRankPlusDiagonal(VALUES, COLUMNS))
    product = Kronecker.of(LEFT, RIGHT)
    assert Kronecker.nbytes(3, 4, 8) == held(product) - 8 + product.eigenvalues().nbytes // M


def test_a_product_with_its_factors_exchanged_is_rejected() -> None:
    """The broken twin: right (x) left has the same determinant and trace, and is another matrix."""
    twin, truth = Kronecker.of(RIGHT, LEFT), kron(LEFT, RIGHT)
    close(twin.log_det(), torch.linalg.slogdet(truth).logabsdet)
    with pytest.raises(AssertionError):
        close(twin.to_dense(), truth)
    shifted = replace(Kronecker.of(LEFT, RIGHT), shift=torch.full((M, 1), 0.1, dtype=torch.float64))
    with pytest.raises(AssertionError):
        close(shifted.to_dense(), truth)
