"""The judge: a deep ensemble and mean-field VI before Hamiltonian Monte Carlo."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import credo
from credo.core.threads import one_thread
from credo.experiments import registry
from credo.experiments.base import Progress, Size, Verdict, verdict
from credo.experiments.judge.measure import (
    NAMES,
    Comparison,
    compare,
    comparison_table,
    distances,
    gradient_evaluations,
    measures,
)
from credo.experiments.judge.problem import CANDIDATES, CONTESTS, MOONS, SINE, chosen, the_judge
from credo.experiments.runs import Run, perform

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("judge")
    return perform(registry.load("judge"), Size.QUICK, folder, 0, Progress()), folder


def test_quick_run_passes_its_claims(done: tuple[Run, Path]) -> None:
    verdicts = {j.claim.id: j.verdict for j in done[0].judged}
    assert {verdicts.pop("judge-sine"), verdicts.pop("judge-moons")} == {Verdict.NOT_MEASURED}
    assert set(verdicts.values()) == {Verdict.AGREES}


def test_a_twin_in_which_both_are_exchanged_is_refuted(done: tuple[Run, Path]) -> None:
    ratios = [j for j in done[0].judged if j.claim.id.endswith(("variation", "wasserstein"))]
    assert len(ratios) == 3
    for entry in ratios:
        assert entry.measured is not None
        assert verdict(1.0 / entry.measured, entry.claim.low, entry.claim.high) is Verdict.DIFFERS


def test_tables_and_figures_are_there(done: tuple[Run, Path]) -> None:
    run, folder = done
    sine, moons, by_set = run.tables
    for table in (sine, moons):
        assert [row[0] for row in table.rows] == ["the judge: HMC", "MAP", "deep ensemble", "Bayes by Backprop"]
        assert "The judge: " in table.note  # its own verdict is told
    assert {row[0] for row in by_set.rows} == {SINE, MOONS}
    for figure in run.figures:
        assert (folder / figure.path).read_bytes().startswith(PNG)


def test_one_network_is_much_too_sure_outside_the_data(done: tuple[Run, Path]) -> None:
    _, point, ensemble, _ = done[0].tables[0].rows
    column = done[0].tables[0].columns.index("sd out")
    assert point[column] < 0.3 < ensemble[column]  # type: ignore[operator]


def tiny(folder: Path | None = None) -> Comparison:
    names = ("map",)
    with one_thread():
        return compare(CONTESTS[MOONS](0), the_judge(4), chosen(names), Size.QUICK, 0, Progress(), folder)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return tiny()


def test_the_judge_is_not_asked_twice(tmp_path: Path) -> None:
    first, again = tiny(tmp_path / "judge"), tiny(tmp_path / "judge")
    assert torch.equal(first.judge.prediction.draws, again.judge.prediction.draws)
    assert first.judge.seconds == pytest.approx(again.judge.seconds, abs=0.2)  # reading the draws is all that it took


def test_a_judge_that_is_no_judge_says_so(comparison: Comparison) -> None:
    assert not comparison.convergence.converged
    assert "not yet" in comparison_table(comparison).note
    assert comparison.judge.gradients is not None
    assert comparison.judge.gradients > 4 * 54


@pytest.mark.parametrize("name", CONTESTS)
def test_problems(name: str) -> None:
    contest, other = CONTESTS[name](0), CONTESTS[name](1)
    assert not torch.equal(contest.y, other.y) or not torch.equal(contest.x, other.x)
    assert contest.inside.shape == (len(contest.inputs),)
    assert 10 <= int(contest.inside.sum()) < len(contest.inputs)
    near = torch.cdist(contest.inputs, contest.x).amin(1)
    assert float(near[contest.inside].max()) < float(near[~contest.inside].max())
    assert len(contest.new[0]) == len(contest.new[1]) == 1000


def test_methods_are_all_for_the_same_posterior() -> None:
    """No method brings its own likelihood or prior: the contest's model is given to each."""
    assert len({entry.name for entry in CANDIDATES}) == len(CANDIDATES)
    for entry in CANDIDATES:
        for name in CONTESTS:
            method = entry.make(name, Size.FULL)
            assert method.batch_size is None or isinstance(method, credo.SWAG)  # whose path its batches make
            assert method.steps(1) >= entry.make(name, Size.QUICK).steps(1)


def test_names() -> None:
    assert [entry.name for entry in chosen(("vi", "map"))] == ["map", "vi"]
    with pytest.raises(ValueError, match="did you mean ensemble"):
        chosen(("ensembles",))
    with pytest.raises(ValueError, match="there are map, ensemble"):
        chosen(("zzz",))


def test_costs() -> None:
    x = torch.linspace(-1, 1, 8)[:, None]
    ensemble, walk = credo.DeepEnsemble(3, epochs=7, batch_size=None), credo.Metropolis(draws=2, warmup=2)
    net = credo.nets.MLP(1, 1, (3,))
    posterior = credo.fit(net, (x, x), ensemble)
    assert gradient_evaluations(ensemble, posterior) == 21
    assert gradient_evaluations(walk, posterior) is None


def test_measures_by_zone(comparison: Comparison) -> None:
    assert len(NAMES) == 3
    with pytest.raises(ValueError, match=r"zip\(\)"):
        distances(comparison, "total_variation")  # it has one result and not three
    (result,) = comparison.results
    inside, outside = (measures(comparison, result, zone)["total_variation"] for zone in (True, False))
    share = float(comparison.contest.inside.double().mean())
    whole = float(result.agreement.total_variation.mean())
    assert inside * share + outside * (1 - share) == pytest.approx(whole)
