"""Values to JSON and back, by a table of known classes and no other."""

import dataclasses
import json
import os

import pytest
import torch

from credo import likelihoods, methods, priors
from credo.core import optimizers
from credo.core.config import decode, encode

ROOMS = (likelihoods, priors, optimizers, methods)
KINDS = {name: value for room in ROOMS for name, value in vars(room).items() if dataclasses.is_dataclass(value)}

VALUES = [
    likelihoods.Gaussian(scale=0.25),
    likelihoods.LearnedGaussian(initial_scale=2.0),
    likelihoods.HeteroscedasticGaussian(floor=1e-4),
    likelihoods.Categorical(),
    likelihoods.Poisson(),
    likelihoods.HeteroscedasticStudentT(initial_df=5.0),
    likelihoods.LogNormal(loc=1.0, scale=2.0),
    likelihoods.NegativeBinomial(offset=1.0),
    priors.Normal(scale=0.5, fan_in=True),
    priors.ScaleMixture(weight=0.25, scale_1=1.5, scale_2=1e-3),
    priors.StudentT(df=3.0),
    methods.MAP(
        epochs=7, optimizer=optimizers.SGD(momentum=0.9), schedule=optimizers.StepDecay(at=(0.25, 0.5), by=0.3)
    ),
    methods.DeepEnsemble(members=3, batch_size=None, schedule=optimizers.Cosine(0.01)),
    methods.MCDropout(rate=0.1),
    (1, (2.5, None), "text", True),
    {"a": 1, "b": {"c": (1, 2)}},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_there_and_back_through_text(value):
    back = decode(json.loads(json.dumps(encode(value))), KINDS)
    assert back == value
    assert type(back) is type(value)


def test_two_values_are_told_apart():
    assert encode(priors.Normal(scale=0.5)) != encode(priors.Laplace(scale=0.5))
    assert encode(priors.Normal(scale=0.5)) != encode(priors.Normal(scale=0.25))


def test_numbers_survive_to_the_last_bit():
    for scale in (0.1, 1e-300, 1 / 3, 2.0**-1074):
        assert decode(json.loads(json.dumps(encode(priors.Normal(scale=scale)))), KINDS).scale == scale


@pytest.mark.parametrize("kind", ["system", "os.system", "Normal.__init__", "object", "", None, 3])
def test_unknown_kinds_are_refused(kind):
    with pytest.raises(KeyError):
        decode({"kind": kind, "scale": 1.0}, KINDS)


def test_unknown_kinds_are_refused_inside_others():
    data = encode(methods.MAP())
    data["optimizer"] = {"kind": "Popen", "args": "true"}
    with pytest.raises(KeyError, match="Popen"):
        decode(data, KINDS)


def test_unknown_fields_and_bad_numbers_are_refused():
    with pytest.raises(TypeError):
        decode({"kind": "Normal", "scale": 1.0, "command": "true"}, KINDS)
    with pytest.raises(ValueError, match="scale"):
        decode({"kind": "Normal", "scale": -1.0}, KINDS)


@pytest.mark.parametrize("value", [torch.ones(1), os.system, {1, 2}, priors.Normal, b"bytes"], ids=repr)
def test_what_cannot_be_written_is_refused(value):
    with pytest.raises(TypeError, match="cannot be written to JSON"):
        encode(value)
