"""Terms of an objective that are differentiated one after the other give the bits of their sum."""

import pytest
import torch

import credo
from credo.core.trees import flatten
from credo.methods import ascent

RNG = credo.Stream(4, ("terms",))
X = RNG.normal(20, 2)
METHODS = {
    "map": credo.MAP(epochs=3, batch_size=8),
    "ensemble": credo.DeepEnsemble(members=2, epochs=3, batch_size=8),
    "dropout": credo.MCDropout(rate=0.2, epochs=3, batch_size=8),
    "swag": credo.SWAG(epochs=3, draws=2, rank=2, every=1),
}


@pytest.mark.parametrize("name", METHODS)
def test_large_networks_are_fitted_to_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fits, net = [], credo.nets.MLP(2, 1, (5,))
    for large in (2**22, 1):
        monkeypatch.setattr(ascent, "LARGE", large)
        fits.append(credo.fit(net, (X, X.sum(1)), METHODS[name]))
    for a, b in zip(*(flatten(fit.members().params).values() for fit in fits), strict=True):
        assert torch.equal(a, b)


def test_what_a_term_does_not_depend_on_has_the_gradient_of_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ascent, "LARGE", 1)
    model = credo.Model(torch.nn.Linear(2, 1), credo.likelihoods.Gaussian())
    target = credo.Target(model, 10)
    a, b, c = (torch.ones(1, 2, requires_grad=True) for _ in range(3))
    found = ascent.per_example_gradient([a.sum(1), (2 * a + 3 * b).sum(1)], [a, b, c], target)
    assert [g[0, 0].item() for g in found] == [pytest.approx(0.3), pytest.approx(0.3), 0.0]
