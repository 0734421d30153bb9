"""Out-of-fold predictions come from networks that have not seen the row."""

from dataclasses import replace

import pytest
import torch

from credo import likelihoods, load, metrics
from credo.calibration import CdfMap, Temperature
from credo.core.rng import Stream
from credo.posteriors import Calibrated
from credo.predictive import predictive
from credo.tabular import training, validation
from credo.tabular.calibrating import calibrated, out_of_fold
from credo.tabular.predictions import predict_exactly
from credo.tabular.recipes import Settings, recipe_of, table_model
from credo.tabular.training import FitResult, learn


def table(rows: int = 61, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 3, generator=generator)
    return x, x[:, :1].sin() + 0.3 * torch.randn(rows, 1, generator=generator)


def learned(method: str, x, y, epochs: int = 4, **options) -> FitResult:
    recipe = recipe_of(method, Settings(epochs))
    model = table_model(x.shape[1], 2, likelihoods.HeteroscedasticGaussian(0.01), recipe, (8, 8), "relu")
    return learn(model, x, y, recipe, **options)


def test_a_target_has_no_part_in_its_own_out_of_fold_prediction():
    """Change the targets of one part of the rows a little (so little that all stop at the same time): predictions of
    these rows by the networks that have not seen them stay to the bit, others do not."""
    x, y = table()
    before = learned("ensemble", x, y)
    found = out_of_fold(before, x, predict_exactly)
    other = y.clone()
    other[found.rows[0]] += 1e-3
    after = learned("ensemble", x, other)
    again = out_of_fold(after, x, predict_exactly)
    assert torch.equal(found.parts[0].draws, again.parts[0].draws)
    rows = found.rows[0]
    seen_twin = [r.posterior.predict(x[rows]).draws for r in (before, after)]
    assert not torch.equal(*seen_twin)


@pytest.mark.parametrize("method", ["ensemble", "map", "dropout"])
def test_every_row_that_was_held_out_comes_once(method):
    x, y = table(61)
    result = learned(method, x, y)
    found = out_of_fold(result, x, predict_exactly)
    assert len(found) == 60  # 61 rows in five equal parts leave one in none
    assert sorted(found.order.tolist()) == result.unseen.any(0).nonzero()[:, 0].tolist()
    assert set(found.members) == {2 if method == "ensemble" else 1}
    assert found.each(lambda part: part.mean).shape == (60, 1)
    assert torch.equal(torch.cat(found.of(y)), y[found.order])
    assert (result.folds is result.posterior) == (method == "ensemble")


def test_rows_that_all_have_not_seen_are_predicted_by_all(monkeypatch):
    monkeypatch.setattr(validation, "LARGEST_COPY", 10)
    x, y = table(100)
    result = learned("ensemble", x, y)
    found = out_of_fold(result, x, predict_exactly)
    assert (len(found), found.members) == (10, (10,))
    assert torch.equal(found.parts[0].mean, predict_exactly(result.posterior, x[found.order]).mean)


def test_nothing_is_out_of_fold_where_all_rows_were_seen(monkeypatch):
    x, y = table(12)
    assert out_of_fold(learned("ensemble", x, y), x, predict_exactly) is None
    x, y = table()
    lost = training._with_folds(FitResult(learned("map", x, y).posterior, 4, None), torch.ones(5, 61, dtype=torch.bool))
    assert lost.unseen is None  # one network, and five were asked for: nobody can say which is which


def test_several_networks_that_have_not_seen_a_row_are_a_mixture():
    x, y = table()
    result = learned("ensemble", x, y)
    found = out_of_fold(result, x, predict_exactly)
    rows, part = found.rows[0], found.parts[0]
    members = result.unseen[:, rows[0]].nonzero()[:, 0]
    assert len(members) == 2
    alone = [result.posterior.of_members(m[None]).predict(x[rows]).mean for m in members]
    assert torch.allclose(part.mean, torch.stack(alone).mean(0).double(), atol=1e-6)


def noisy(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Twelve columns, two of which matter, and errors by Student's t with three degrees of freedom."""
    generator = torch.Generator().manual_seed(seed)
    x, wide = torch.randn(rows, 12, generator=generator), torch.randn(rows, 3, generator=generator)
    errors = torch.randn(rows, 1, generator=generator) / wide.square().mean(1, keepdim=True).sqrt()
    return x, x[:, :1].sin() + 0.3 * (1 + 0.5 * x[:, 1:2].tanh()) * errors


def test_calibrated_intervals_hold_what_they_say_and_a_twin_on_training_rows_does_not():
    """Networks that are too large and learn too fast. One table of 150 rows gives a coverage that is off by 0.03
    (standard deviation over tables), the mean of six by 0.012: three of these are allowed, 3 wrong alarms in 1000."""
    recipe = recipe_of("ensemble", Settings(40, 1e-2))
    model = table_model(12, 2, likelihoods.HeteroscedasticGaussian(0.01), recipe, (50, 50), "relu")
    coverages = []
    for seed in range(6):
        (x, y), (x_new, y_new) = noisy(150, seed), noisy(4000, 100 + seed)
        result = learn(model, x, y, recipe, seed=seed)
        good = calibrated(result, x, y, predict_exactly).posterior
        twin_on_seen_rows = calibrated(replace(result, unseen=~result.unseen), x, y, predict_exactly).posterior
        coverages.append([metrics.coverage(p.predict(x_new), y_new) for p in (good, twin_on_seen_rows)])
    held, twin = torch.tensor(coverages).mean(0).tolist()
    assert abs(held - 0.95) < 0.036
    assert not abs(twin - 0.95) < 0.036


def test_what_two_networks_need_is_too_wide_for_ten():
    """Networks with errors of their own around the truth: intervals of ten hold 95 % when carried on from one and two.

    Of 20,000 rows the coverage has a standard error of 0.0015. The law is 1/m to first order only, so 0.01 is allowed.
    """
    rng, rows = Stream(3), 20_000
    y = 0.5 * rng.child("y").normal(rows, 1)
    outputs = torch.stack([0.4 * rng.child("f", m).normal(rows) for m in range(10)])
    scale = torch.full_like(outputs, -1.2)  # log scales: all of them too sure
    draws = torch.stack([outputs, scale], -1).double()

    def mixture(members: slice, some: slice = slice(None)):
        part = draws[members, some]
        return predictive(likelihoods.HeteroscedasticGaussian(1e-3), part, {}, torch.zeros(len(part)))

    old, new = slice(0, rows // 2), slice(rows // 2, None)
    one, two = (CdfMap.of(mixture(slice(m), old), y[old]) for m in (1, 2))
    coverage = {}
    for name, calibrator in {"one": one, "two": two, "carried on": two.extrapolated(one, 0.8)}.items():
        coverage[name] = metrics.coverage(calibrator.apply(mixture(slice(None), new)), y[new])
    assert abs(coverage["carried on"] - 0.95) < 0.01
    assert coverage["one"] > coverage["two"] > 0.96


def test_calibration_is_kept_in_a_folder_and_by_a_second_run(tmp_path):
    x, y = noisy(60, 0)
    found = [calibrated(learned("ensemble", x, y), x, y, predict_exactly).posterior for _ in range(2)]
    found[0].save(tmp_path / "run")
    found.append(load(tmp_path / "run"))
    for posterior in found[1:]:
        for one, other in zip(found[0].predict(x).interval(0.9), posterior.predict(x).interval(0.9), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("method", ["map", "dropout"])
def test_one_final_network_says_to_whom_the_calibration_belongs(method):
    x, y = table(200)
    posterior = calibrated(learned(method, x, y), x, y, predict_exactly).posterior
    assert isinstance(posterior, Calibrated)
    assert "not to the final network" in posterior.record.notes[-1]


def test_weights_of_rows_count_in_the_calibration():
    """Half of the targets are ten times as wide, and weigh nothing or all there is."""
    x, y = table(400)
    y = torch.where(torch.arange(400).unsqueeze(1) % 2 == 0, 10.0 * y, y)
    result = learned("ensemble", x, y)
    even = (torch.arange(400) % 2 == 0).double()
    widths = []
    for weights in (even, 1.0 - even):
        fitted = calibrated(result, x, y, predict_exactly, weights=weights + 1e-9)
        lower, upper = fitted.posterior.predict(x).interval(0.95)
        widths.append(float((upper - lower).mean()))
    assert widths[0] > 3.0 * widths[1]


def test_classes_get_a_temperature():
    """Networks that have learned random labels by heart are too sure, which unseen rows show."""
    x, _ = noisy(120, 0)
    y = (x[:, 0] + 2.0 * Stream(1).normal(120) > 0).long()
    recipe = recipe_of("ensemble", Settings(5))
    model = table_model(12, 2, likelihoods.Categorical(), recipe, (50, 50), "relu")
    result = learn(model, x, y, recipe)
    params = result.posterior.variables.params
    last = [name for name in params if name.endswith("weight")][-1]
    sharp = {name: 5.0 * w if name == last else w for name, w in params.items()}
    variables = replace(result.posterior.variables, params=sharp)
    sure = replace(result, posterior=replace(result.posterior, variables=variables))
    sure = replace(sure, folds=sure.posterior)
    posterior = calibrated(sure, x, y, predict_exactly).posterior
    calibrator = posterior.calibrators[0]
    assert isinstance(calibrator, Temperature)
    assert calibrator.temperature > 1.2
