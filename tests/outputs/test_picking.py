"""Which tensor of what a network returns is its output: by the rule, as stated, and in both modes."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import credo
from credo.nets.network import Network
from credo.nets.outputs import OutputRule
from credo.nets.plan import Plan
from output_nets import Auxiliary, DeepLab, GoogLeNet, TokenClassifier, TokenOutput

RNG = credo.Stream(5, ("picking",))
X, Y = RNG.child("x").normal(10, 4), torch.arange(10) % 3
ONE, TWO = torch.ones(2, 3), torch.zeros(2, 3)
MAP = credo.MAP(epochs=3, learning_rate=1e-2)


class Returns(nn.Module):
    """A linear layer whose result comes in the form that a function makes of it."""

    def __init__(self, form: Any) -> None:
        super().__init__()
        self.form, self.linear = form, nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Any:
        return self.form(self.linear(x), self.training)


@pytest.mark.parametrize(
    "returned",
    [
        ONE,
        {"anything": ONE},
        (ONE,),
        [ONE, None],
        {"out": ONE, "aux": TWO},
        {"logits": ONE, "loss": TWO.sum()},
        Auxiliary(ONE, TWO),
        TokenOutput(logits=ONE, hidden_states=(TWO, TWO)),
        TokenOutput(logits=ONE),
        {"nested": {"only": ONE}, "text": "words"},
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_rule_finds_the_output(returned: Any) -> None:
    assert OutputRule()(returned) is ONE


@pytest.mark.parametrize(
    ("path", "returned"),
    [
        ("aux", {"out": TWO, "aux": ONE}),
        ("aux_logits", Auxiliary(TWO, ONE)),
        (1, Auxiliary(TWO, ONE)),
        (-1, (TWO, ONE)),
        (0, (ONE, TWO)),
        ("hidden_states/1", TokenOutput(logits=TWO, hidden_states=(TWO, ONE))),
        ("heads/0", {"heads": [ONE, TWO]}),
        (lambda returned: returned[0]["a"], ({"a": ONE},)),
        ("logits", ONE),
    ],
)
def test_a_person_may_say_it(path: Any, returned: Any) -> None:
    assert OutputRule(path)(returned) is ONE


@pytest.mark.parametrize(
    ("path", "returned", "sentence"),
    [
        (None, (ONE, TWO), r"a tuple with 0 \(2, 3\), 1 \(2, 3\): say which is its output, as in .*outputs=0\)"),
        (None, {"a": ONE, "b": TWO}, r"outputs='a'\)"),
        (None, {"out": ONE, "logits": TWO}, "say which is its output"),
        (None, "words", "returns a str without a tensor"),
        (None, None, "returns a NoneType without a tensor"),
        ("c", {"a": ONE, "b": TWO}, r"outputs='c' is no tensor of what the network returns: it has a \(2, 3\), b"),
        (2, (ONE, TWO), "outputs='2' is no tensor"),
        (lambda returned: returned, (ONE, TWO), "the function outputs= gives a tuple"),
    ],
)
def test_what_cannot_be_picked_is_said(path: Any, returned: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        OutputRule(path)(returned)


def test_other_kinds_of_rules_are_refused() -> None:
    for wrong in (1.5, True, ["logits"]):
        with pytest.raises(TypeError, match="outputs must be"):
            credo.Model(nn.Linear(2, 1), outputs=wrong)  # type: ignore[arg-type]


def plain(module: nn.Module) -> Returns:
    """A network of the same weights that returns the tensor."""
    twin = Returns(lambda h, training: h)
    twin.linear = module.linear if isinstance(module, Returns) else module.last
    return twin


@pytest.mark.parametrize("plan", list(Plan))
@pytest.mark.parametrize(
    ("net", "outputs"),
    [
        (Returns(lambda h, training: {"logits": h, "loss": h.sum()}), None),
        (Returns(lambda h, training: (h, 2 * h)), 0),
        (Returns(lambda h, training: [{"a": 2 * h}, (h,)]), "1/0"),
        (Returns(lambda h, training: (h, 2 * h) if training else h), 0),
        (Returns(lambda h, training: 2 * h), lambda h: h / 2),
    ],
    ids=["logits", "place", "path", "in training only", "function"],
)
def test_a_fit_is_that_of_a_network_that_returns_the_tensor(net: nn.Module, outputs: Any, plan: Plan) -> None:
    for method in (credo.Ensemble(MAP, members=2), credo.NUTS(warmup=2, draws=2, chains=2, max_depth=2)):
        found, known = (
            credo.fit(model, (X, Y), method, plan=plan, validation=(X, Y))
            for model in (credo.Model(net, outputs=outputs), credo.Model(plain(net)))
        )
        assert found.history[-1]["validation_log_likelihood"] == known.history[-1]["validation_log_likelihood"]
        assert torch.equal(found.predict(X).mean, known.predict(X).mean)


def test_another_output_is_another_fit() -> None:
    """The twin of the test above."""
    net = Returns(lambda h, training: (h, 2 * h))
    first, second = (credo.fit(credo.Model(net, outputs=place), (X, Y), MAP) for place in (0, 1))
    assert not torch.equal(first.predict(X).mean, second.predict(X).mean)


def test_structures_of_training_and_evaluation_may_differ_and_are_noted() -> None:
    posterior = credo.fit(GoogLeNet(), (X, Y), credo.DeepEnsemble(members=2, epochs=2))
    (note,) = [note for note in posterior.notes if note.startswith("the network returns")]
    assert "logits, aux_logits, of which logits is its output in training" in note
    assert posterior.predict(X).mean.shape == (10, 3)


def test_nothing_is_noted_where_nothing_was_chosen() -> None:
    for net, outputs in ((nn.Linear(4, 3), None), (Returns(lambda h, training: (h, h)), 1)):
        posterior = credo.fit(credo.Model(net, outputs=outputs), (X, Y), MAP)
        assert not any("returns" in note for note in posterior.notes)


def test_outputs_that_differ_between_training_and_evaluation_are_refused() -> None:
    net = Returns(lambda h, training: h if training else h[:, :2])
    with pytest.raises(ValueError, match=r"\(B, 3\) in training and \(B, 2\) in evaluation"):
        credo.fit(net, (X, Y), MAP)


def test_a_dense_stack_with_a_function_is_not_bypassed() -> None:
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6))
    posterior = credo.fit(credo.Model(net, outputs=lambda h: h[:, :3]), (X, Y), credo.HMC(warmup=2, draws=2))
    assert posterior.predict(X).mean.shape == (10, 3)


def test_dropout_is_drawn_and_the_rule_travels_with_the_network() -> None:
    posterior = credo.fit(
        DeepLab(), (RNG.normal(6, 2, 4, 4), torch.zeros(6, 4, 4).long()), credo.MCDropout(rate=0.2, epochs=2)
    )
    prediction = posterior.predict(RNG.normal(3, 2, 4, 4), draws=4)
    assert prediction.draws.shape == (4, 3, 3, 4, 4)
    assert bool((prediction.mutual_information > 0).any())


@pytest.mark.parametrize("outputs", [None, "out", "aux"])
def test_a_saved_posterior_knows_its_output(outputs: str | None, tmp_path: Any) -> None:
    net, x = DeepLab(), RNG.normal(6, 2, 4, 4)
    posterior = credo.fit(credo.Model(net, outputs=outputs), (x, (x[:, 0] > 0).long()), MAP)
    posterior.save(tmp_path / "run")
    for loaded in (
        credo.load(tmp_path / "run", DeepLab()),
        credo.load(tmp_path / "run", model=credo.Model(DeepLab(), outputs=outputs)),
    ):
        assert torch.equal(loaded.predict(x).mean, posterior.predict(x).mean)


def test_a_function_is_not_saved_and_asks_for_the_model(tmp_path: Any) -> None:
    x = RNG.normal(6, 2, 4, 4)
    model = credo.Model(DeepLab(), outputs=lambda returned: returned["aux"])
    posterior = credo.fit(model, (x, (x[:, 0] > 0).long()), MAP)
    posterior.save(tmp_path / "run")
    with pytest.raises(credo.StorageError, match="picked by a function, which a file cannot hold: pass the model"):
        credo.load(tmp_path / "run", DeepLab())
    again = credo.Model(DeepLab(), outputs=lambda returned: returned["aux"])
    assert torch.equal(credo.load(tmp_path / "run", model=again).predict(x).mean, posterior.predict(x).mean)


def test_other_rules_in_a_folder_are_refused(tmp_path: Any) -> None:
    posterior = credo.fit(GoogLeNet(), (X, Y), MAP)
    posterior.save(tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    text = config.read_text()
    for wrong in ('{"kind": "OutputRule", "path": [1]}', '{"kind": "Path"}', "7"):
        config.write_text(text.replace('{\n      "kind": "OutputRule",\n      "path": null\n    }', wrong))
        assert config.read_text() != text
        with pytest.raises(credo.StorageError):
            credo.load(tmp_path / "run", GoogLeNet())


def test_a_network_of_its_own_gets_the_rule() -> None:
    pair = namedtuple("pair", ["first", "second"])
    network = Network(Returns(lambda h, training: pair(h, h[:, :2])))
    model = credo.Model(network, outputs="second")
    assert model.output_shape(network.given(), X) == (2,)
    with pytest.raises(ValueError, match="say which is its output"):
        network.trace(network.given(), X)


def test_hugging_face_like_outputs_without_anything_else() -> None:
    ids = torch.arange(20).view(4, 5) % 11
    posterior = credo.fit(TokenClassifier(hidden=False), ({"input_ids": ids}, ids % 3), MAP)
    assert posterior.predict({"input_ids": ids}).label.shape == (4, 5)
