"""The verdict on chains: known answers for independent, correlated, separate, stuck and permuted chains."""

from __future__ import annotations

import builtins
import importlib
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import credo
from credo.core.optional import optional
from credo.core.rng import Stream
from credo.core.trees import Variables
from credo.diagnostics import Convergence, convergence
from credo.likelihoods import Categorical, Gaussian, LearnedGaussian, Likelihood
from credo.model import Model
from credo.nets import MLP
from credo.posteriors import Chains, Draws

X = torch.tensor([[0.5], [1.0], [2.0]], dtype=torch.float64)
INDEPENDENT = Stream(0, ("convergence",))


def slope(values: Tensor, statistics: Mapping[str, Tensor] | None = None) -> Chains:
    """Chains of functions f(x) = w x with given slopes w, (T, C)."""
    net = nn.Linear(1, 1, bias=False).double()
    variables = Variables({"weight": values.double().reshape(-1, 1, 1)})
    model = Model(net, Gaussian(scale=1.0))
    return Chains(model, variables, Chains.numbered(variables, values.shape[1]), statistics or {})


def normal(*shape: int, name: str = "draws") -> Tensor:
    return INDEPENDENT.child(name).normal(*shape).double()


def autoregressive(length: int, chains: int, correlation: float) -> Tensor:
    """x_t = rho x_(t-1) + sqrt(1 - rho^2) e_t, started where it is stationary: standard normal at every time."""
    noise = normal(length, chains, name="ar")
    values = [noise[0]]
    for fresh in noise[1:]:
        values.append(correlation * values[-1] + (1 - correlation**2) ** 0.5 * fresh)
    return torch.stack(values)


def test_independent_draws_have_converged() -> None:
    found = convergence(slope(normal(500, 4)), X)
    assert found.converged
    assert found.more_draws == 0
    assert found.verdict.startswith("converged: R-hat is at most 1.0")
    assert found.r_hat.shape == found.mcse.shape == (3, 1)
    # the mean of 2000 independent draws of w x, at x = 2: standard error 2 / sqrt(2000)
    assert float(found.mcse[2]) == pytest.approx(2 / 2000**0.5, rel=0.15)  # the spread is itself estimated


def test_effective_draws_of_an_autoregression_are_those_of_theory() -> None:
    """N (1 - rho) / (1 + rho). With 4 x 4000 draws the estimate has a relative error of some 5 %."""
    found = convergence(slope(autoregressive(4000, 4, 0.8)), X[:1])
    assert float(found.ess_bulk) == pytest.approx(16000 * 0.2 / 1.8, rel=0.2)  # three and more standard errors
    independent = convergence(slope(normal(4000, 4)), X[:1])
    assert float(independent.ess_bulk) == pytest.approx(16000, rel=0.2)  # and not the number above


def test_too_few_effective_draws_say_how_many_more() -> None:
    found = convergence(slope(autoregressive(400, 4, 0.9)), X)
    assert not found.converged
    assert f"about {found.more_draws} more draws per chain are needed" in found.verdict
    more = convergence(slope(autoregressive(400 + 3 * found.more_draws, 4, 0.9)), X)
    assert more.more_draws == 0


def test_chains_at_two_places_have_not_converged_and_no_number_of_draws_is_promised() -> None:
    apart = normal(500, 4) + torch.tensor([0.0, 0.0, 3.0, 3.0])
    found = convergence(slope(apart), X)
    assert not found.converged
    assert found.worst_r_hat > 1.5
    assert found.verdict.startswith("not yet")
    assert "disagree" in found.verdict
    assert "more draws" not in found.verdict


def test_chains_with_the_same_mean_and_other_spreads_have_not_converged() -> None:
    """What R-hat without ranks and folding would not see."""
    found = convergence(slope(normal(500, 4) * torch.tensor([1.0, 1.0, 1.0, 4.0])), X)
    assert found.worst_r_hat > 1.1
    assert not found.converged


def test_one_chain_is_never_enough() -> None:
    found = convergence(slope(normal(2000, 1)), X)
    assert not found.converged
    assert found.more_draws == 0
    assert "run several chains" in found.verdict


def test_one_chain_is_told_in_words_and_no_foreign_log_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []  # ArviZ's logger belongs to no tree, so that caplog would not hear it
    monkeypatch.setattr(logging.Logger, "handle", lambda self, record: heard.append(record.getMessage()))
    told = slope(normal(20, 1), {"log_likelihood": normal(20, 1, name="told")})
    found = convergence(told, X)
    for words in (found.verdict, str(found), *told.notes):
        assert "R-hat needs several chains and there are at least" in words
        assert "nan" not in words
    assert bool(found.r_hat.isnan().all())
    assert heard == []
    logging.Logger("apart").warning("the twin that speaks")
    assert heard == ["the twin that speaks"]


def test_a_chain_that_does_not_move_is_named() -> None:
    values = normal(300, 3)
    values[:, 1] = 0.3
    found = convergence(slope(values), X)
    assert found.still == (1,)
    assert not found.converged
    assert "chain 2 did not move" in found.verdict


def test_where_no_chain_moves_nothing_can_be_told() -> None:
    found = convergence(slope(torch.zeros(300, 2)), X)
    assert not found.converged
    assert found.verdict.startswith("convergence cannot be judged: no chain has moved")
    apart = torch.arange(2.0).expand(300, 2)
    assert convergence(slope(apart), X).verdict.startswith("convergence cannot be judged: no chain has moved")
    assert "the chain has not moved" in convergence(slope(torch.zeros(300, 1)), X).verdict


def test_functions_that_are_not_finite_are_named() -> None:
    values = normal(300, 4)
    values[250, 0] = values[10, 2] = torch.nan
    found = convergence(slope(values), X)
    assert not found.converged
    assert "the functions of chains 1 and 3 are not finite" in found.verdict


def test_too_few_draws_are_a_sentence() -> None:
    assert "each chain has 3 draws, and at least 4 are needed" in convergence(slope(normal(3, 2)), X).verdict
    assert "each chain has 1 draw, and" in convergence(slope(normal(1, 2)), X).verdict


def test_an_input_where_all_functions_agree_is_not_judged() -> None:
    found = convergence(slope(normal(500, 4)), torch.tensor([[0.0], [1.0]], dtype=torch.float64))
    assert bool(found.r_hat[0].isnan())
    assert found.converged


def test_divergences_and_slow_energy_are_told() -> None:
    diverging = torch.zeros(500, 4)
    diverging[3, 1] = 1.0
    rare = convergence(slope(normal(500, 4), {"diverging": diverging}), X)
    assert rare.converged
    assert rare.divergences == 1
    diverging[7:9] = 1.0
    found = convergence(slope(normal(500, 4), {"diverging": diverging}), X)
    assert not found.converged
    assert "9 trajectories diverged" in found.verdict
    energies = {"energy": autoregressive(500, 4, 0.99)}
    slow = convergence(slope(normal(500, 4), energies), X)
    assert max(slow.bfmi) < 0.3
    assert "energy of a chain mixes slowly" in slow.verdict
    quick = convergence(slope(normal(500, 4), {"energy": normal(500, 4, name="energy")}), X)
    assert min(quick.bfmi) == pytest.approx(2.0, abs=0.3)  # Var(E_t - E_(t-1)) / Var(E) of independent energies is 2
    assert quick.converged


def test_it_prints_in_a_few_lines() -> None:
    diverging = torch.zeros(500, 4)
    diverging[3, 1] = 1.0
    found = convergence(slope(normal(500, 4), {"diverging": diverging}), X.repeat(50, 1))
    verdict, chains, r_hat, draws, divergences = str(found).splitlines()
    assert verdict == found.verdict
    assert chains.split() == ["chains", "4,", "500", "draws", "each"]
    assert f"{found.worst_r_hat:.3f}" in r_hat
    assert f"{found.effective_draws:.0f}, enough from 400 on" in draws
    assert "1 of 2000 trajectories" in divergences
    assert repr(found).startswith("Convergence(chains=4, length=500, worst_r_hat=1.0")
    assert len(repr(found)) < 120
    assert len(str(convergence(slope(normal(3, 2)), X)).splitlines()) == 2  # there is no number to show


def permuted(chains: Chains) -> Chains:
    """The same functions, with the hidden units of chain 2 in another order."""
    order = torch.arange(5).roll(1)  # every unit moves
    second = chains.chain == 1
    params = {name: t.clone() for name, t in chains.variables.params.items()}
    params["0.weight"][second] = params["0.weight"][second][:, order]
    params["0.bias"][second] = params["0.bias"][second][:, order]
    params["2.weight"][second] = params["2.weight"][second][:, :, order]
    return Chains(chains.model, Variables(params), chains.chain, {})


def two_chains_of_a_net() -> Chains:
    """Draws around one place in the space of weights, where every hidden unit does something else."""
    net = nn.Sequential(nn.Linear(1, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    params = {}
    for name, weight in net.named_parameters():
        center = torch.linspace(-3.0, 3.0, weight.numel(), dtype=torch.float64).view(weight.shape)
        params[name] = center + 0.1 * normal(1000, *weight.shape, name=f"around {name}")
    variables = Variables(params)
    return Chains(Model(net, Gaussian(scale=1.0)), variables, Chains.numbered(variables, 2), {})


def test_permuted_hidden_units_part_the_weights_and_not_the_functions() -> None:
    arviz, chains = optional("arviz", "mcmc"), permuted(two_chains_of_a_net())
    weights = chains.by_chain(chains.variables.params["0.weight"]).numpy()  # (C, T, 5, 1)
    assert min(float(arviz.rhat(weights[:, :, unit, 0])) for unit in range(5)) > 1.5
    found = convergence(chains, X)
    assert found.converged
    plain = convergence(two_chains_of_a_net(), X)
    torch.testing.assert_close(found.r_hat, plain.r_hat, atol=1e-4, rtol=0)  # rounding breaks ties between ranks


def learned(noise: Tensor, likelihood: Likelihood) -> Chains:
    net = nn.Linear(1, 1, bias=False).double()
    variables = Variables(
        {"weight": normal(*noise.shape).reshape(-1, 1, 1), "likelihood.log_scale": noise.reshape(-1, 1)}
    )
    return Chains(Model(net, likelihood), variables, Chains.numbered(variables, noise.shape[1]), {})


def test_learned_noise_is_judged_beside_the_mean() -> None:
    (name,) = LearnedGaussian().parameters(1)
    assert name == "log_scale"
    apart = normal(500, 4, name="noise") + torch.tensor([0.0, 0.0, 5.0, 5.0])
    found = convergence(learned(apart, LearnedGaussian()), X)
    assert found.r_hat.shape == (3, 2)
    assert float(found.r_hat[:, 0].max()) < 1.02
    assert float(found.r_hat[:, 1].min()) > 1.5
    assert not found.converged


def test_classes_are_judged_by_their_probabilities() -> None:
    net = nn.Linear(1, 3, bias=False).double()
    variables = Variables({"weight": normal(1200, 3, 1)})
    found = convergence(Chains(Model(net, Categorical()), variables, Chains.numbered(variables, 3), {}), X)
    assert found.r_hat.shape == (3, 3)
    assert found.converged


def test_many_draws_and_inputs_are_judged_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    chains = slope(normal(200, 2))
    whole = convergence(chains, X)
    # the function of the same name hides the module
    monkeypatch.setattr(importlib.import_module("credo.diagnostics.convergence"), "ENTRIES", 1)
    sizes = []
    draw = Chains.by_chain
    monkeypatch.setattr(Chains, "by_chain", lambda self, values: sizes.append(len(values[0])) or draw(self, values))
    assert torch.equal(convergence(chains, X).ess_tail, whole.ess_tail)
    assert sizes == [1, 1, 1]


def test_chains_that_nearly_agree_are_told_to_go_on() -> None:
    enough = torch.full((1, 1), 900.0)
    found = Convergence(torch.full((1, 1), 1.02), enough, enough, enough, 4, 500)
    assert not found.converged
    assert "twice as many draws will tell" in found.verdict


def test_many_chains_need_no_more_draws_than_four() -> None:
    empty = torch.empty(0)
    assert Convergence(empty, empty, empty, empty, 4, 100).wanted_draws == 400
    assert Convergence(empty, empty, empty, empty, 512, 100).wanted_draws == 400


def test_what_is_no_chain_is_refused() -> None:
    point = Draws(Model(MLP(1, 1)), Variables({"w": torch.zeros(1, 1)}), torch.zeros(1))
    with pytest.raises(TypeError, match="this is a Draws"):
        convergence(point, X)  # type: ignore[arg-type]


def test_no_run_ends_in_silence() -> None:
    (told,) = slope(normal(500, 4), {"log_likelihood": normal(500, 4, name="told")}).notes
    assert "by the log likelihood of the data: converged" in told
    apart = normal(500, 4, name="told") + torch.tensor([0.0, 0.0, 3.0, 3.0])
    assert "not yet" in slope(normal(500, 4), {"log_likelihood": apart}).notes[0]
    assert "at least 4 are needed" in slope(normal(1, 4), {"log_likelihood": normal(1, 4)}).notes[0]
    assert slope(normal(500, 4)).notes == ()  # there is nothing to tell it by


def test_a_sampler_tells_how_far_it_is() -> None:
    x = torch.linspace(-1, 1, 10, dtype=torch.float64)[:, None]
    model = Model(nn.Linear(1, 1).double(), Gaussian(scale=0.5))
    notes = credo.fit(model, (x, 2 * x), credo.HMC(draws=5, warmup=10)).notes
    assert any("chains, by the log likelihood of the data: " in note for note in notes)


def test_without_arviz_a_run_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def hidden(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == "arviz":
            raise ModuleNotFoundError("No module named 'arviz'", name="arviz")
        return real(name, *rest, **more)

    monkeypatch.setattr("importlib.import_module", hidden)
    (said,) = slope(normal(500, 4), {"log_likelihood": normal(500, 4)}).notes
    assert "not known" in said
    assert "credo[mcmc]" in said
    with pytest.raises(ImportError, match=r"pip install 'credo\[mcmc\]'"):
        convergence(slope(normal(500, 4)), X)


def test_arviz_gets_chains_first_then_draws() -> None:
    values = torch.arange(6.0).reshape(3, 2)  # three draws of two chains
    kept = {"diverging": torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]), "energy": values}
    found = slope(values, kept).to_arviz()
    np.testing.assert_array_equal(found.posterior["weight"].squeeze(), [[0, 2, 4], [1, 3, 5]])
    assert found.sample_stats["diverging"].dtype == bool
    np.testing.assert_array_equal(found.sample_stats["diverging"], [[False, False, False], [True, False, False]])
    np.testing.assert_array_equal(found.sample_stats["energy"], [[0, 2, 4], [1, 3, 5]])
