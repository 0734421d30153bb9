"""The page for chosen images: what is on it, whose alarm rings, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import credo
from credo import nets, uncertainty
from credo.reports.doubt import doubt_report

X = torch.rand(60, 3, 8, 8, generator=torch.Generator().manual_seed(0))
Y = (X.mean((1, 2, 3)) > 0.5).long()


@pytest.fixture(scope="module")
def posteriors() -> dict[str, credo.Posterior]:
    net = nets.CNN(3, 2, 8, filters=(4,), dense=(8,))
    methods = {"one <b>network": credo.MAP(epochs=2), "ensemble": credo.DeepEnsemble(members=3, epochs=2)}
    return {name: credo.fit(net, (X[:30], Y[:30]), method, progress=False) for name, method in methods.items()}


def test_the_page_says_what_the_numbers_say(posteriors: dict[str, credo.Posterior], tmp_path: Path) -> None:
    images, path = torch.cat([X[50:52], 20.0 * X[52:53]]), tmp_path / "page.html"
    alarms = doubt_report(path, images, posteriors, X[30:], classes=["dark", "bright"], rate=0.1, names=list("abc"))
    text = path.read_text(encoding="utf-8")
    for name, posterior in posteriors.items():
        doubt = uncertainty.entropy(posterior.predict(images))
        assert alarms[name] == uncertainty.Alarm.of(uncertainty.entropy(posterior.predict(X[30:])), rate=0.1)
        for value in doubt:
            assert f"{float(value):.3g}" in text
    ringing = sum(int(alarms[n].rings(uncertainty.entropy(p.predict(images))).sum()) for n, p in posteriors.items())
    assert text.count("! rings") == ringing
    assert text.count("silent") == 2 * 3 - ringing
    assert text.count("<svg") == 3
    assert "bright" in text


def test_nothing_is_loaded_and_names_are_text(posteriors: dict[str, credo.Posterior], tmp_path: Path) -> None:
    doubt_report(tmp_path / "page.html", X[:1], posteriors, X[30:], names=["<script>alert(1)</script>"])
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert "<b>network" not in text
    links = re.findall(r'(?:src|href)="([^"#]+)"', text)
    assert all(link.startswith("data:") for link in links), links


def test_gray_images_without_channels(tmp_path: Path) -> None:
    posterior = credo.fit(nets.LeNet5(1, 2, 12), (torch.rand(20, 12, 12), Y[:20]), credo.MCDropout(rate=0.1, epochs=1))
    page, held_out = tmp_path / "new" / "page.html", torch.rand(9, 12, 12)
    doubt_report(page, list(torch.rand(2, 12, 12)), {"dropout": posterior}, held_out, draws=5, doubt="energy")
    assert "what raises the doubt" in page.read_text(encoding="utf-8")


def test_misuse_is_a_sentence(posteriors: dict[str, credo.Posterior], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with pytest.raises(ValueError, match="no posterior to ask"):
        doubt_report(page, X[:2], {}, X[30:])
    with pytest.raises(ValueError, match="images has shape"):
        doubt_report(page, X[0, 0], posteriors, X[30:])
    with pytest.raises(ValueError, match="names has 1 entries for 2 images"):
        doubt_report(page, X[:2], posteriors, X[30:], names=["a"])
    with pytest.raises(ValueError, match="classes has 3 names, and there are 2 classes"):
        doubt_report(page, X[:2], posteriors, X[30:], classes=["a", "b", "c"])
    numbers = credo.fit(nets.LeNet5(1, 1, 12), (torch.rand(8, 12, 12), torch.rand(8, 1)), credo.MAP(epochs=1))
    with pytest.raises(TypeError, match="one of K classes for each image"):
        doubt_report(page, torch.rand(2, 12, 12), {"numbers": numbers}, torch.rand(9, 12, 12))
    assert not page.exists()
