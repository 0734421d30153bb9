"""Folders that somebody has made to do harm, or that a disk has spoiled: a sentence, at no cost."""

from __future__ import annotations

import copy
import json
import math
import os
import random
import resource
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

import credo

DATA = Path(__file__).with_name("data")
KINDS = sorted(path.name for path in DATA.iterdir())
X = torch.linspace(-1, 1, 8, dtype=torch.float64).reshape(4, 2)
STATE = "state.safetensors"
Tensors = dict[str, Tensor]


@pytest.fixture
def folders(tmp_path: Path) -> Callable[[str], Path]:
    """Copies of the older folders, as this version saves them."""

    def make(kind: str) -> Path:
        return credo.load(DATA / kind).save(tmp_path / kind)

    return make


def read(folder: Path) -> tuple[Tensors, dict[str, str]]:
    with safe_open(folder / STATE, "pt") as file:
        return {name: file.get_tensor(name).clone() for name in file.keys()}, file.metadata()  # noqa: SIM118


def retensor(folder: Path, change: Callable[[Tensors], object]) -> None:
    tensors, text = read(folder)
    change(tensors)
    save_file(tensors, folder / STATE, metadata=text)


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def every(change: Callable[[Tensor], Tensor], prefix: str = "") -> Callable[[Tensors], object]:
    """Change all tensors whose name begins like this."""
    return lambda t: t.update({name: change(v).contiguous() for name, v in t.items() if name.startswith(prefix)})


def spoiled(prefix: str, value: float) -> Callable[[Tensors], object]:
    """One number replaced in the first tensor whose name begins like this."""

    def change(tensors: Tensors) -> None:
        next(t for name, t in tensors.items() if name.startswith(prefix)).flatten()[0] = value

    return change


WEIGHT, BIAS = "variables/params/layers.1.weight", "variables/params/layers.1.bias"
REFUSED: dict[str, tuple[str, str, Callable[[Tensors], object]]] = {
    "NaN weight": ("draws", "holds NaN or infinite numbers", spoiled(WEIGHT, math.nan)),
    "infinite weight": ("draws", "holds NaN or infinite numbers", spoiled(WEIGHT, math.inf)),
    "no member": ("draws", "one leading axis of members", every(lambda t: t[:0])),
    "no draw of a chain": ("chains", "one leading axis of members", every(lambda t: t[:0])),
    "members differ": ("draws", "one leading axis of members", every(lambda t: t[:1], WEIGHT)),
    "another number of members": ("draws", "log_weights has shape", every(lambda t: t[:1], "variables")),
    "NaN log weights": ("draws", "log_weights holds NaN", spoiled("log_weights", math.nan)),
    "no log weights": ("draws", "log_weights has shape", every(lambda t: t[:0], "log_weights")),
    "whole log weights": ("draws", "log_weights has shape", every(lambda t: t.long(), "log_weights")),
    "weights of three": ("draws", "add up to", every(lambda t: t + 1.1, "log_weights")),
    "lost noise": ("draws", "does not fit the likelihood", lambda t: t.pop("variables/params/likelihood.log_scale")),
    "noise of two targets": (
        "draws",
        "does not fit the likelihood",
        every(lambda t: t.repeat(1, 2), "variables/params/likelihood"),
    ),
    "infinite importance": ("weighted", "log_weights holds NaN or infinite", spoiled("log_weights", math.inf)),
    "no importance at all": ("weighted", "no weight at all", every(lambda t: t - math.inf, "log_weights")),
    "NaN tail": ("weighted", "k, the shape of the tail", spoiled("k", math.nan)),
    "two tails": ("weighted", "k, the shape of the tail", every(lambda t: t.repeat(2), "k")),
    "negative scale": ("gaussian", "is negative in places", spoiled("scale/layers", -0.1)),
    "NaN scale": ("gaussian", "holds NaN", spoiled("scale/layers", math.nan)),
    "scale of two members": (
        "gaussian",
        "as no expectation is",
        every(lambda t: torch.cat([t, t]), "scale/layers.1"),
    ),
    "negative noise": ("units", "is negative in places", spoiled("relative_scale", -0.1)),
    "noise of other units": ("units", "that of other weights", every(lambda t: t.repeat(1, 1, 3), "relative_scale")),
    "rate above one": ("dropout", "must be at least 0 and below 1", spoiled("rates", 1.5)),
    "negative rate": ("dropout", "must be at least 0 and below 1", spoiled("rates", -0.1)),
    "rates of two members": ("dropout", "is not one of 1 members", every(lambda t: torch.cat([t, t]), "rates")),
    "a chain too many": ("chains", "chain does not give", spoiled("chain", 3)),
    "chain numbers of floats": ("chains", "chain must hold", every(lambda t: t.double(), "chain")),
    "short statistics": ("chains", "the statistic", every(lambda t: t[:1], "statistics")),
}


@pytest.mark.parametrize(("kind", "sentence", "change"), REFUSED.values(), ids=REFUSED.keys())
def test_tensors_that_are_none_of_a_posteriors_are_refused(
    kind: str, sentence: str, change: Callable[[Tensors], object], folders: Callable[[str], Path]
) -> None:
    folder = folders(kind)
    listed = json.loads((folder / "config.json").read_text())["tensors"]
    retensor(folder, change)
    present = set(read(folder)[0])
    edit(folder, lambda c: c.update(tensors=[name for name in listed if name in present]))
    with pytest.raises(credo.StorageError, match=sentence):
        credo.load(folder)


@pytest.mark.filterwarnings("ignore::credo.CredoWarning")
def test_a_run_that_diverged_is_read_as_what_it_is(tmp_path: Path) -> None:
    """The weights are no numbers any more, and the record says so."""
    wild = credo.MAP(epochs=20, learning_rate=1e8, optimizer=credo.SGD())
    posterior = credo.fit(credo.nets.MLP(2, 1, (3,)), (X, X[:, :1]), wild)
    assert not all(bool(t.isfinite().all()) for t in posterior.tensors().values())
    loaded = credo.load(posterior.save(tmp_path))
    assert loaded.record.status is credo.core.status.Status.DIVERGED
    edit(tmp_path, lambda c: c["record"].update(status="finished"))
    with pytest.raises(credo.StorageError, match="holds NaN or infinite"):
        credo.load(tmp_path)


@pytest.fixture
def small_memory() -> Iterator[None]:
    """An address space with 2 GiB of room beyond what is taken."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + 2**31, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def test_a_list_of_other_tensors_is_refused(folders: Callable[[str], Path]) -> None:
    """A scale that is not listed would make its weights points, without a word."""
    folder = folders(next(kind for kind in KINDS if "gaussian" in kind.lower()))
    edit(folder, lambda c: c.update(tensors=[name for name in c["tensors"] if name != c["tensors"][-1]]))
    with pytest.raises(credo.StorageError, match="is in one of the two alone"):
        credo.load(folder)


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="needs the size of this process")
@pytest.mark.parametrize(
    "config",
    [
        {"hidden": [50_000, 50_000]},
        {"inputs": 10**9},
        {"outputs": 10**18, "hidden": [10**18]},
        {"inputs": 10**30},
        {"hidden": [1] * 100_000},
    ],
    ids=["wide", "inputs", "beyond tensors", "beyond numbers", "deep"],
)
@pytest.mark.usefixtures("small_memory")
def test_a_network_that_does_not_fit_the_tensors_is_never_built(
    config: dict[str, Any], folders: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights would take up to 10 GB and minutes; the shapes alone cost nothing."""
    folder = folders("draws")
    edit(folder, lambda c: c["model"]["net"]["config"].update(config))
    with pytest.raises(credo.StorageError):
        credo.load(folder)


def test_loading_leaves_the_global_generator_alone(folders: Callable[[str], Path]) -> None:
    folder, before = folders("draws"), torch.get_rng_state()
    credo.load(folder)
    assert torch.equal(torch.get_rng_state(), before)


def test_numbers_too_long_to_read_are_a_sentence(folders: Callable[[str], Path]) -> None:
    folder = folders("draws")
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"schema": 2', '"schema": ' + "1" * 5000))
    with pytest.raises(credo.StorageError, match="not readable JSON"):
        credo.load(folder)


COUNT = int(os.environ.get("CREDO_SPOILED", "80"))
"""Folders of each kind; more by hand."""
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    3,
    1e300,
    math.nan,
    math.inf,
    10**30,
    "",
    "text",
    [],
    [1],
    {},
    {"kind": "Draws"},
]


def mutated_json(value: Any, rng: random.Random) -> Any:
    """A copy with one place somewhere inside replaced, removed, doubled or renamed."""
    data = copy.deepcopy(value)
    holder = data
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = rng.choice(keys)
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.15:
            break
        holder = inner
    action = rng.randrange(4)
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(holder, dict):
        holder[f"{key}x"] = holder.pop(key)
    elif action == 2 and isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        holder[key] = rng.choice(VALUES)
    return data


def mutated_tensors(tensors: Tensors, rng: random.Random) -> Tensors:
    """A copy with one tensor cut, repeated, reshaped, of another type, spoiled, renamed or removed."""
    changed = {name: t.clone() for name, t in tensors.items()}
    name = rng.choice(sorted(changed))
    t = changed.pop(name)
    spots = t.double().flatten().clone()
    if spots.numel():
        spots[rng.randrange(len(spots))] = rng.choice([math.nan, math.inf, -math.inf, -1e30, 1e30, -0.5, 2.0])
    choices = [
        lambda: {name: t[:-1] if t.ndim else t.repeat(2)},
        lambda: {name: torch.cat([t, t]) if t.ndim else t.repeat(0)},
        lambda: {name: t.unsqueeze(0)},
        lambda: {name: t.flatten()},
        lambda: {name: t.transpose(0, -1) if t.ndim > 1 else t.sum()},
        lambda: {name: t.to(rng.choice([torch.float32, torch.int64, torch.bool, torch.float16, torch.complex64]))},
        lambda: {name: spots.view(t.shape).to(t.dtype)},
        lambda: {f"{name}x": t},
        lambda: {name: t, rng.choice(["variables/buffers/layers.1.weight", "mean/params/new", "new", ""]): t},
        lambda: {},
    ]
    return {**changed, **{key: v.contiguous().clone() for key, v in rng.choice(choices)().items()}}


def outcome(folder: Path) -> str:
    """`refused` with a sentence, or `read`: and then the posterior predicts numbers."""
    try:
        posterior = credo.load(folder)
    except credo.StorageError as error:
        return "refused" if len(str(error)) > 30 else f"refused without a sentence: {error}"
    assert posterior.predict(X, draws=3).draws.shape == (3, 4, 1)
    assert isinstance(posterior.notes, tuple)
    assert len(repr(posterior)) < 400
    return "read"


@pytest.mark.parametrize("kind", KINDS)
def test_a_spoiled_folder_is_refused_or_read_and_nothing_else_happens(
    kind: str, folders: Callable[[str], Path], tmp_path: Path
) -> None:
    """Many folders of each kind, each with one place changed: any other error, or a hang, fails the test."""
    folder, rng, seen = folders(kind), random.Random(f"{kind} {COUNT}"), []
    config, (tensors, text) = json.loads((folder / "config.json").read_text()), read(folder)
    trial = tmp_path / "trial"
    for attempt in range(COUNT):
        shutil.copytree(folder, trial, dirs_exist_ok=True)
        if attempt % 2:
            (trial / "config.json").write_text(json.dumps(mutated_json(config, rng)))
        else:
            changed = mutated_tensors(tensors, rng)
            save_file(changed, trial / STATE, metadata=text)
            listed = sorted(changed, key=lambda name: config["tensors"].index(name) if name in tensors else -1)
            edit(trial, lambda c, listed=listed: c.update(tensors=listed))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            seen.append(outcome(trial))
    assert set(seen) == {"refused", "read"}
    assert seen.count("refused") > COUNT // 3


def test_a_folder_that_is_ready_must_not_be_a_link(folders: Callable[[str], Path], tmp_path: Path) -> None:
    """What lies in `.ready` is moved to its place: behind a link, that would be files of others."""
    folder, foreign = folders("draws"), tmp_path / "foreign"
    posterior = credo.load(folder)
    foreign.mkdir()
    (foreign / "diary.txt").write_text("dear diary")
    for name in (".ready", ".writing"):
        (folder / name).symlink_to(foreign)
        with pytest.raises(credo.StorageError, match=rf"{name} is a link to .*foreign, .*remove the link"):
            posterior.save(folder)
        (folder / name).unlink()
    assert [path.name for path in foreign.iterdir()] == ["diary.txt"]
    (folder / ".ready").symlink_to(folders("weighted"))
    with pytest.raises(credo.StorageError, match="is a link"):
        credo.load(folder)
    (folder / ".ready").unlink()
    credo.load(posterior.save(folder))


def test_draws_are_not_written_through_a_link(tmp_path: Path) -> None:
    """The file of a run's draws grows in place."""
    foreign = tmp_path / "foreign.txt"
    foreign.touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "draws.bin").symlink_to(foreign)
    chains = credo.HMC(chains=1, draws=2, warmup=1)
    with pytest.raises(credo.StorageError, match="is a link"):
        credo.fit(credo.nets.MLP(2, 1, (2,)), (X.float(), X[:, :1].float()), chains, checkpoint=tmp_path / "run")
    assert foreign.read_bytes() == b""
