"""Bayes by Backprop on MNIST: the quick size, the settings, and rows that are kept."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
import torch

import credo
from credo import priors
from credo.experiments import registry
from credo.experiments.base import Progress, Size, Verdict
from credo.experiments.bbb_mnist.measure import COMPARED, error_of, numbers
from credo.experiments.bbb_mnist.problem import LONG, MIXTURE, NOTEBOOK, PLAIN, notebook, paper, quick, rows, sparse
from credo.experiments.classifiers import (
    EDGES,
    ClassifierResult,
    ClassifierRow,
    Images,
    NormalizedSoftplus,
    digits,
    train,
)
from credo.experiments.rows import FOLDER, results, results_of_size, stored
from credo.experiments.runs import Run, perform
from credo.methods.vi import ConstantInit, NormalInit, UniformInit
from credo.posteriors import Draws

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "bbb-mnist"
SHORT = ClassifierRow("short", 5, credo.BayesByBackprop(epochs=2), pruned=(0.5,), members=2)


def few() -> Images:
    x = credo.Stream(0, ("few",)).normal(40, 6)
    y = (x[:, 0] > 0).long()
    return Images(x, y, x[:10], y[:10])


def none(row: object) -> NoReturn:
    raise AssertionError("no row should be trained")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("bbb-mnist")
    return perform(registry.load("bbb-mnist"), Size.QUICK, folder, 0, Progress()), folder


def test_quick_run_passes_its_claims(done: tuple[Run, Path]) -> None:
    verdicts = {j.claim.id: j.verdict for j in done[0].judged if j.verdict is not Verdict.NOT_MEASURED}
    wanted = {"digits-sgd", "digits-dropout", "digits-sparse", "digits-sparse/0.5"}
    assert verdicts == dict.fromkeys(wanted, Verdict.AGREES)


def test_figures_and_tables(done: tuple[Run, Path]) -> None:
    run, folder = done
    assert [row[0] for row in run.tables[0].rows] == [row.name for row in quick()]
    assert {figure.path for figure in run.figures} == {"weights.png", "pruning.png"}
    assert all((folder / figure.path).read_bytes().startswith(b"\x89PNG") for figure in run.figures)


def test_a_second_run_trains_nothing(done: tuple[Run, Path]) -> None:
    again = results(quick(), ClassifierResult, done[1], 0, none)
    ours = {j.claim.id: j.measured for j in done[0].judged if j.measured is not None}
    assert {name: value for name, value in numbers(again).items() if name in ours} == ours


def test_rows_are_kept_for_their_very_settings(tmp_path: Path) -> None:
    results([SHORT], ClassifierResult, tmp_path, 0, lambda row: train(row, few(), 0, Progress(), "cpu"))
    assert stored(SHORT, ClassifierResult, tmp_path, 0) is not None
    method = credo.BayesByBackprop(epochs=3)
    others = {"method": method, "prior": priors.ScaleMixture(), "hidden": 6, "pruned": (), "members": 1, "dropout": 0.1}
    for name, value in others.items():
        assert stored(replace(SHORT, **{name: value}), ClassifierResult, tmp_path, 0) is None, name
    assert stored(SHORT, ClassifierResult, tmp_path, 1) is None


def test_a_row_s_numbers() -> None:
    data = few()
    result = train(SHORT, data, 3, Progress(), "cpu")
    count = 6 * 5 + 5 + 5 * 5 + 5 + 5 * 10 + 10
    assert (result.weights, sum(result.counts), len(result.counts)) == (count, count, len(EDGES) - 1)
    assert (result.steps, result.device, result.finished) == (2, "cpu", True)
    assert [len(each) for each in (result.at_mean, result.drawn, result.pruned["0.5"])] == [2, 2, 2]
    method = credo.Ensemble(SHORT.method, 2)
    posterior = credo.fit(SHORT.model(6), (data.x, data.y), method, seed=3, progress=False)
    each = posterior.members()
    for member in range(2):
        one = Draws(posterior.model, each.take([member]), torch.zeros(1)).predict(data.x_test)
        assert result.at_mean[member] == pytest.approx(100 * float((one.label != data.y_test).double().mean()))


def test_a_run_that_diverges_is_a_result(tmp_path: Path) -> None:
    wild = replace(
        SHORT, method=credo.MaximumLikelihood(epochs=50, learning_rate=1e30, optimizer=credo.SGD()), pruned=()
    )
    result = results([wild], ClassifierResult, tmp_path, 0, lambda row: train(row, few(), 0, Progress(), "cpu"))[
        "short"
    ]
    assert not result.finished
    assert stored(wild, ClassifierResult, tmp_path, 0) == result


def test_the_notebook_s_settings() -> None:
    assert [row.hidden for row in notebook()[:4]] == [200, 400, 800, 1200]
    assert NOTEBOOK.learning_rate == pytest.approx(1e-3 * 128)
    assert (NOTEBOOK.epochs, NOTEBOOK.batch_size, NOTEBOOK.samples) == (10, 128, 1)
    assert (NOTEBOOK.optimizer, NOTEBOOK.initial_mean, NOTEBOOK.initial_rho) == (
        credo.SGD(),
        NormalInit(0.1),
        ConstantInit(-3.0),
    )
    assert all(row.prior == priors.Normal(1.0) for row in notebook())
    net = notebook()[1].model(784).network.module
    assert sum(p.numel() for p in net.parameters()) == 478_410


def test_the_keras_networks_start_and_end_as_in_keras() -> None:
    plain, dropout = notebook()[-2:]
    assert (plain.method.epochs, dropout.dropout, plain.keras, dropout.keras) == (50, 0.5, True, True)  # type: ignore[attr-defined]
    z = torch.tensor([[2.0, -1.0, 0.5], [-300.0, 0.0, 0.0]])
    found = NormalizedSoftplus(torch.nn.Identity())(z).exp().double()
    by_hand = torch.log1p(z[0].double().exp()) / torch.log1p(z[0].double().exp()).sum()
    torch.testing.assert_close(found[0], by_hand, rtol=1e-6, atol=0)  # float32
    torch.testing.assert_close(found[1], torch.tensor([1e-7, 0.5, 0.5]).double(), rtol=1e-5, atol=0)  # kept from zero
    logits = torch.nn.functional.softmax(z[0], -1)  # the twin: softplus left out
    assert float((found[0] - logits).abs().max()) > 0.05
    net = plain.model(784).network.initial(1, credo.Stream(0)).params
    first = next(w for name, w in net.items() if w.shape[-2:] == (400, 784))
    assert float(first.abs().max()) == pytest.approx((6 / 1184) ** 0.5, rel=1e-3)  # the largest of 313,600 draws
    assert all(bool((w == 0).all()) for name, w in net.items() if name.endswith("bias"))


def test_a_step_is_that_of_the_summed_loss() -> None:
    """lr 0.001 on the batch's summed loss + KL / batches is lr 0.128 on ours, per example."""
    data = credo.Stream(1).normal(128, 4), credo.Stream(2).permutation(128) % 10
    net = credo.nets.MLP(4, 10, (3,))
    model = credo.Model(net, credo.likelihoods.Categorical(), priors.Normal(1.0))
    tiny = replace(NOTEBOOK, epochs=1, initial_mean=None, initial_rho=ConstantInit(-30.0))
    given = {name: p.detach() for name, p in net.named_parameters()}
    after = credo.fit(model, data, tiny, start=net, progress=False).members().params
    loss = torch.nn.functional.cross_entropy(net(data[0]), data[1], reduction="sum")
    kl = 0.5 * sum(p.square().sum() for p in net.parameters())  # the part that depends on the means; one batch
    for (name, w), gradient in zip(given.items(), torch.autograd.grad(loss + kl, list(net.parameters())), strict=True):
        torch.testing.assert_close(after[name][0], w - 1e-3 * gradient, rtol=1e-4, atol=1e-5)  # float32, scale 1e-13


def test_the_settings_at_full_length() -> None:
    assert (LONG.epochs, LONG.schedule, LONG.initial_rho) == (600, credo.StepDecay((0.5,)), UniformInit(-3.5, -3.0))
    assert (math.log(MIXTURE.scale_1), math.log(MIXTURE.scale_2), MIXTURE.weight) == (0.0, -8.0, 0.75)
    assert (PLAIN.epochs, PLAIN.learning_rate) == (600, LONG.learning_rate)
    assert {row.name.split("-")[0] for row in paper()} == {"mixture", "gaussian", "dropout", "sgd"}
    assert sparse().pruned == (0.5, 0.75, 0.95, 0.98)


def test_every_row_has_a_claim_and_every_claim_a_row() -> None:
    claims = {claim.id.split("/")[0] for claim in registry.load("bbb-mnist").card.claims}
    assert claims == {row.name for row in (*rows(), *quick())} | {"seconds-400"} | COMPARED.keys()


def test_the_results_that_were_brought_from_a_gpu_belong_to_these_rows() -> None:
    names = {path.stem for path in (RESULTS / FOLDER).glob("*.json")}
    assert {row.name for row in rows() if stored(row, ClassifierResult, RESULTS, 0) is not None} == names
    assert len(names) >= 13


def test_without_a_gpu_full_size_reads_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    shutil.copytree(RESULTS / FOLDER, tmp_path / FOLDER)
    run = perform(registry.load("bbb-mnist"), Size.FULL, tmp_path, 0, Progress())
    by_id = {j.claim.id: j for j in run.judged}
    result = json.loads((RESULTS / FOLDER / "notebook-400.json").read_text(encoding="utf-8"))["result"]
    assert by_id["notebook-400"].measured == pytest.approx(sum(result["at_mean"]) / 3)
    missing = [row.name for row in rows() if stored(row, ClassifierResult, RESULTS, 0) is None]
    assert all("no GPU" in by_id[name].reason for name in missing)
    assert {"weights.png", "errors.png", "pruning.png"} == {figure.path for figure in run.figures}
    found, missing = results_of_size(
        Size.FULL, [], [SHORT], ClassifierResult, tmp_path, 0, lambda row, device: none(row)
    )
    assert (found, list(missing)) == ({}, ["short"])


def test_a_worse_network_is_refuted(done: tuple[Run, Path]) -> None:
    """The broken twin: the same rows after one epoch."""
    row = replace(quick()[-1], method=replace(quick()[-1].method, epochs=1))  # type: ignore[type-var]
    error = error_of(train(row, digits(0), 0, Progress(), "cpu"))
    claim = next(j.claim for j in done[0].judged if j.claim.id == "digits-sparse")
    assert error > claim.high
