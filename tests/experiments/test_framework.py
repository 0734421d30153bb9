"""Claims, verdicts and cards."""

import math
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import credo
from credo import experiments
from credo.core.status import Status
from credo.experiments import registry
from credo.experiments.base import Card, Claim, Outcome, Progress, Verdict, judge, uninterrupted, verdict

AGREES, DIFFERS, NOT_MEASURED = Verdict.AGREES, Verdict.DIFFERS, Verdict.NOT_MEASURED
INF, NAN = math.inf, math.nan

CASES = [
    (0.8, 0.7, 0.9, AGREES),
    (0.7, 0.7, 0.9, AGREES),
    (0.9, 0.7, 0.9, AGREES),
    (math.nextafter(0.7, 0.0), 0.7, 0.9, DIFFERS),
    (math.nextafter(0.9, 1.0), 0.7, 0.9, DIFFERS),
    (5.0, 1.0, INF, AGREES),
    (-5.0, -INF, 1.0, AGREES),
    (0.0, 0.0, 0.0, AGREES),
    (NAN, 0.0, INF, DIFFERS),
    (INF, 0.0, INF, DIFFERS),
    (-INF, -INF, 0.0, DIFFERS),
    (None, 0.0, 1.0, NOT_MEASURED),
]


def wrong_for(judge_one: Callable[[float | None, float, float], Verdict]) -> list[float | None]:
    return [measured for measured, low, high, right in CASES if judge_one(measured, low, high) is not right]


def test_verdict_of_number_and_range() -> None:
    assert wrong_for(verdict) == []


def test_a_verdict_that_lets_nan_pass_is_found_out() -> None:
    def twin(measured: float | None, low: float, high: float) -> Verdict:
        if measured is None:
            return NOT_MEASURED
        return DIFFERS if measured < low or measured > high else AGREES

    assert len(wrong_for(twin)) == 3  # NaN and both infinities


def test_a_verdict_with_open_ends_is_found_out() -> None:
    def twin(measured: float | None, low: float, high: float) -> Verdict:
        if measured is None:
            return NOT_MEASURED
        return AGREES if math.isfinite(measured) and low < measured < high else DIFFERS

    assert wrong_for(twin) == [0.7, 0.9, 0.0]


def claim(name: str, low: float = 0.0, high: float = 1.0) -> Claim:
    return Claim(name, f"statement of {name}", "source", "published", low, high)


def test_every_claim_gets_its_verdict() -> None:
    claims = (claim("a"), claim("b"), claim("c"))
    judged = judge(claims, Outcome({"c": 2.0, "a": 0.5}, unmeasured={"b": "no data at hand"}))
    assert [(j.claim.id, j.verdict, j.reason) for j in judged] == [
        ("a", AGREES, ""),
        ("b", NOT_MEASURED, "no data at hand"),
        ("c", DIFFERS, ""),
    ]


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (Outcome({}), "were not measured"),
        (Outcome({"a": 0.5, "b": 0.5}), "no claim"),
        (Outcome({"a": 0.5}, unmeasured={"a": "but"}), "choose one"),
    ],
)
def test_claims_and_numbers_must_match(outcome: Outcome, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        judge((claim("a"),), outcome)


def test_a_claim_that_nothing_could_refute_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing could refute it"):
        claim("a", -INF, INF)


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(ValueError, match="must not exceed"):
        claim("a", 2.0, 1.0)


HEAD = 'title = "T"\nsource = "S"\nshows = "W"\n'
ONE = '[[claim]]\nid = "a"\nstatement = "s"\nsource = "s"\npublished = 0.8\nlow = 0\n'


def test_card_is_read_from_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "two_words"
    folder.mkdir()
    (folder / "claims.toml").write_text(HEAD + ONE)
    card = Card.read(folder)
    assert (card.name, card.title, card.source, card.shows) == ("two-words", "T", "S", "W")
    assert card.claims == (Claim("a", "s", "s", 0.8, low=0.0),)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (ONE, "lacks 'title'"),
        (HEAD, "lacks 'claim'"),
        (HEAD + ONE + ONE, "same id"),
        (HEAD + ONE + "hight = 3\n", "hight"),
        (HEAD + ONE.replace("low = 0\n", ""), "nothing could refute"),
        (HEAD + ONE.replace("low = 0", 'low = "few"'), "few"),
        ("title =", "not a list of claims"),
    ],
)
def test_bad_claims_get_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "claims.toml").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        Card.read(tmp_path)


def test_every_experiment_carries_its_own_card() -> None:
    assert "sine" in registry.names()
    for card in registry.cards():
        assert registry.load(card.name).card == card


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean sine"):
        registry.load("Sines")
    with pytest.raises(ValueError, match=r"there are .*sine"):
        registry.load("quxquux")


def test_listing_imports_no_experiment() -> None:
    code = (
        "import sys; from credo.experiments import registry; registry.cards();"
        "print([m for m in sys.modules if m.startswith('matplotlib') or m.startswith('credo.experiments.sine')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_experiments_may_live_in_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "claims.toml").write_text(HEAD + ONE)
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(tmp_path)])
    assert "elsewhere" in registry.names()


def test_progress_tells_shares_of_a_fit() -> None:
    told: list[tuple[str, float | None]] = []
    progress = Progress(lambda text, share: told.append((text, share)))
    progress.say("looking")
    x = torch.linspace(-1, 1, 8).unsqueeze(1)
    method = credo.MaximumLikelihood(epochs=3)
    credo.fit(credo.nets.MLP(1, 1, (3,)), (x, x), method, progress=progress.of("fitting"))
    assert told[0] == ("looking", None)
    assert told[-1] == ("fitting", 1.0)


def test_a_fit_that_was_interrupted_ends_the_experiment() -> None:
    x = torch.linspace(-1, 1, 8).unsqueeze(1)
    method = credo.MaximumLikelihood(epochs=10**6)

    def interrupt(report: object) -> None:
        if not sent:
            sent.append(report)
            signal.raise_signal(signal.SIGINT)

    sent: list[object] = []
    with pytest.warns(credo.CredoWarning, match="interrupted"):
        posterior = credo.fit(credo.nets.MLP(1, 1, (3,)), (x, x), method, progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        uninterrupted(posterior)
    # the status decides, whatever the notes say
    record = replace(posterior.record, status=Status.FINISHED, interrupted=False, notes=("interrupted by nobody",))
    whole = replace(posterior, record=record)
    assert uninterrupted(whole) is whole
