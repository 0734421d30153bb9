"""A last layer with a thousand classes, in a process of its own: what it takes is what is promised."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

import credo

PROMISE = 2**20
"""KiB."""
CODE = """
import torch, credo
from torch import nn
torch.manual_seed(0)
features = torch.randn(1000, 512).relu()
net, y = nn.Linear(512, 1000), torch.randint(0, 1000, (1000,))
posterior = credo.fit(net, (features, y), credo.Laplace({options}), progress=False)
prediction = posterior.predict(features, draws={draws})
assert prediction.probs.shape == (1000, 1000)
# of this process alone: what `resource` says begins with that of the process that started it
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.parametrize(("prediction", "draws"), [("linearized", 10), ("probit", None)])
def test_a_thousand_classes_in_a_gibibyte(prediction: str, draws: int | None) -> None:
    code = CODE.format(options=f"prediction={prediction!r}", draws=draws)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) < PROMISE


def test_a_dense_thousand_is_refused_beforehand() -> None:
    """513,000 weights squared: a sentence with their bytes, and a structure that fits."""
    features, y = torch.zeros(4, 512), torch.arange(4)
    says = r"dense curvature would take [\d.]+ TiB.*: structure='kronecker' takes [\d.]+ MiB"
    with pytest.raises(ValueError, match=says):
        credo.fit(nn.Linear(512, 1000), (features, y), credo.Laplace(structure="dense"))
