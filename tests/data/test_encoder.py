"""Rows to tensors and back."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from credo.core.storage import StorageError
from credo.data import DataError, Task
from credo.data.encoder import ClassTarget, Encoder, NumericTarget
from credo.data.problem import pose
from credo.data.reading import InputTable, read_table
from credo.data.values import words

ROWS = 80


def houses() -> pd.DataFrame:
    """One column of every kind, with holes."""
    generator = np.random.default_rng(0)
    area = generator.normal(120.0, 30.0, size=ROWS)
    area[[4, 9]] = np.nan, np.inf
    town = generator.choice(["Oslo", "Bergen", "Tromsø"], size=ROWS, p=[0.6, 0.3, 0.1]).astype(object)
    town[3] = None
    town[5] = "Hamar"
    sold = pd.date_range("2019-01-01", periods=ROWS, freq="9D").strftime("%Y-%m-%d").to_numpy(dtype=object)
    price = generator.normal(4e6, 1e6, size=ROWS)
    return pd.DataFrame({"id": range(ROWS), "area": area, "town": town, "sold": sold, "flat": 1, "price": price})


def fitted(frame: pd.DataFrame | None = None, target: str = "price", **options) -> tuple[Encoder, pd.DataFrame]:
    problem = pose(InputTable(houses() if frame is None else frame, "houses.csv"), target)
    return Encoder.fit(problem, **options), problem.frame


def column(encoder: Encoder, frame: pd.DataFrame, name: str) -> torch.Tensor:
    return encoder.encode(frame).x[:, encoder.features.index(name)]


def test_shapes_and_names():
    encoder, frame = fitted()
    x = encoder.encode(frame).x
    assert x.shape == (ROWS, len(encoder.features))
    assert x.dtype == torch.float32
    assert bool(torch.isfinite(x).all())
    assert len(set(encoder.features)) == len(encoder.features)
    assert encoder.left_out == ("id", "flat")
    assert encoder.task is Task.REGRESSION


def test_numbers_are_standardized_with_the_median_for_holes():
    encoder, frame = fitted()
    known = houses()["area"].replace(np.inf, np.nan)
    expected = (known.fillna(known.median()) - known.mean()) / known.std(ddof=0)
    # float32 inputs carry seven digits
    assert np.allclose(column(encoder, frame, "area").numpy(), expected, atol=1e-6)
    absent = column(encoder, frame, "area is missing")
    assert absent.nonzero().flatten().tolist() == [4, 9]


def test_the_target_comes_back_in_its_units():
    encoder, frame = fitted()
    y = encoder.encode_target(frame)
    assert y.shape == (ROWS, 1)
    # float32 targets carry seven digits
    assert (float(y.mean()), float(y.std(correction=0))) == pytest.approx((0.0, 1.0), abs=1e-5)
    assert isinstance(encoder.target, NumericTarget)
    assert np.allclose(encoder.target.decode(y)[:, 0], frame["price"], rtol=1e-6)
    assert encoder.target.decode_scale(1.0) == pytest.approx(frame["price"].std(ddof=0), rel=1e-12)


def test_only_training_rows_teach():
    frame = houses()
    frame.loc[60:, "area"] += 1e6
    encoder, frame = fitted(frame, rows=range(60))
    train = column(encoder, frame.iloc[:60], "area")
    # float32 inputs carry seven digits
    assert (float(train.mean()), float(train.std(correction=0))) == pytest.approx((0.0, 1.0), abs=0.05)
    assert float(column(encoder, frame.iloc[60:], "area").min()) > 1e3


def test_categories_with_a_cap():
    encoder, frame = fitted(most_categories=2)
    names = [name for name in encoder.features if name.startswith("town")]
    assert names == ["town=Oslo", "town=Bergen", "town=other", "town is missing"]
    block = torch.stack([column(encoder, frame, name) for name in names], dim=1)
    assert torch.equal(block.sum(1), torch.ones(ROWS))
    assert bool(block[3, 3])
    assert bool(block[5, 2])
    assert any("rare or unseen" in note and "'Hamar'" in note for note in encoder.encode(frame).notes)


def test_ten_thousand_categories():
    generator = np.random.default_rng(0)
    words = np.array([f"w{i % 10_000}" for i in range(20_000)])
    frame = pd.DataFrame({"word": words, "x": generator.normal(size=20_000), "y": generator.normal(size=20_000)})
    frame.loc[:400, "word"] = "w1"
    encoder, frame = fitted(frame, target="y")
    assert encoder.encode(frame).x.shape == (20_000, 302)
    assert "word=w1" in encoder.features


def test_a_category_like_none_in_training_makes_a_row_strange():
    """Where rows of training had rare categories, a new one is treated like them; where none had, nothing is known."""
    rare, plain = houses(), houses()
    plain.loc[5, "town"] = "Oslo"
    new = houses().head(3).assign(town=["Oslo", "Atlantis", "Bergen"])
    for frame, strange in ((rare, [False, False, False]), (plain, [False, True, False])):
        encoder, _ = fitted(frame)
        again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
        for each in (encoder, again):
            encoded = each.encode(new)
            assert encoded.strange.tolist() == strange
            assert any("'Atlantis'" in note for note in encoded.notes)


def test_unseen_categories_and_new_holes_at_prediction():
    encoder, _ = fitted()
    rows = pd.DataFrame(
        {"area": ["100", "huge", "90", "80"], "town": ["Paris", None, "Oslo", "Oslo"], "sold": [None] * 4}
    )
    encoded = encoder.encode(rows)
    assert bool(torch.isfinite(encoded.x).all())
    other = encoded.x[:, encoder.features.index("town=other")]
    assert other.tolist() == [1.0, 0.0, 0.0, 0.0]
    told = " ".join(encoded.notes)
    assert "'Paris'" in told
    assert "1 cell(s) are no numbers" in told
    assert "'huge'" in told
    assert "column 'sold': 4 cell(s) are missing, as none was in training" in told


def test_one_note_for_each_column_in_plain_words():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(ROWS, 3)), columns=["a", "b", "y"])
    encoder, _ = fitted(frame, target="y")
    rows = pd.DataFrame({"a": [1.0, np.inf, np.nan, 2.0, 3.0], "b": ["1", "2", "huge", "4", "-inf"]})
    encoded = encoder.encode(rows)
    assert encoded.notes == (
        "column 'a': 1 cell(s) are missing, as none was in training; 1 cell(s) are infinite, as none was in training",
        "column 'b': 1 cell(s) are no numbers and count as missing (the first: 'huge'); "
        "1 cell(s) are infinite, as none was in training",
    )
    assert encoded.strange.tolist() == [False, True, True, False, True]
    assert float(encoded.x[4, 1]) < -1e6 < 1e6 < float(encoded.x[1, 0])


def test_a_single_row_that_cannot_be_read_at_all_is_refused():
    generator = np.random.default_rng(0)
    encoder, _ = fitted(pd.DataFrame(generator.normal(size=(ROWS, 3)), columns=["a", "b", "y"]), target="y")
    with pytest.raises(DataError, match="no cell of the table can be read"):
        encoder.encode(pd.DataFrame({"a": ["abc"], "b": ["abc"]}))
    assert encoder.encode(pd.DataFrame({"a": ["abc"], "b": ["1"]})).strange.tolist() == [True]


def test_infinity_counts_as_missing_where_the_table_had_it():
    encoder, frame = fitted()
    assert not encoder.encode(frame).strange[[4, 9]].any()
    assert float(column(encoder, frame, "area").abs().max()) < 10.0


def test_codes_that_become_floats_stay_the_same_words():
    """A hole among whole numbers makes pandas read 1 as 1.0; that must be no new category."""
    frame = pd.DataFrame(
        {"code": np.where(np.arange(ROWS) % 2, "1", "2"), "y": np.random.default_rng(0).normal(size=ROWS)}
    )
    frame["code"] = frame["code"].astype(object)
    encoder, _ = fitted(frame.assign(code=frame["code"].map({"1": True, "2": False})), target="y")
    assert encoder.features == ("code=False", "code=True", "code=other")
    encoder, _ = fitted(frame.assign(code=frame["code"] + "a"), target="y")
    assert encoder.features[:2] == ("code=1a", "code=2a")
    assert words(pd.Series([1.0, np.nan, 2.5])).tolist() == ["1", None, "2.5"]
    assert words(pd.Series([1, 2])).tolist() == ["1", "2"]


def test_dates_become_a_trend_and_cycles():
    encoder, frame = fitted()
    trend = column(encoder, frame, "sold")
    assert bool((trend.diff() > 0).all())
    week = torch.stack([column(encoder, frame, f"sold: {wave} of the week") for wave in ("sine", "cosine")])
    # float32 waves carry seven digits
    assert torch.allclose(week.square().sum(0), torch.ones(ROWS), atol=1e-5)
    assert torch.allclose(week[:, 0], week[:, 7], atol=1e-5)  # nine days seven times is a whole number of weeks
    assert not torch.allclose(week[:, 0], week[:, 1], atol=0.1)
    assert not any("of the day" in name for name in encoder.features)
    hours = houses().assign(sold=pd.date_range("2019-01-01", periods=ROWS, freq="7h"))
    assert any("of the day" in name for name in fitted(hours)[0].features)


def test_dates_are_read_as_they_were_in_training():
    frame = houses().assign(sold=pd.date_range("2019-01-01", periods=ROWS).strftime("%d/%m/%Y"))
    encoder, _ = fitted(frame)
    rows = pd.DataFrame({"area": [1.0, 1.0], "town": ["Oslo"] * 2, "sold": ["02/01/2019", "01/02/2019"]})
    trend = column(encoder, rows, "sold")
    assert float(trend[1]) > float(trend[0])


def test_constant_columns_in_training_do_not_explode():
    frame = houses()
    frame["area"] = np.where(np.arange(ROWS) < 60, 7.0, 8.0)
    encoder, frame = fitted(frame, rows=range(60))
    assert column(encoder, frame, "area").tolist() == [0.0] * 60 + [1.0] * 20


def test_absurd_rows_stay_finite():
    encoder, _ = fitted()
    rows = pd.DataFrame({"area": [1e300], "town": ["Oslo"], "sold": ["2019-01-01"]})
    assert bool(torch.isfinite(encoder.encode(rows).x).all())


def test_classes():
    labels = np.where(np.arange(ROWS) % 3 == 0, "10", np.where(np.arange(ROWS) % 3 == 1, "9", "b"))
    encoder, frame = fitted(houses().assign(price=labels))
    assert encoder.task is Task.CLASSIFICATION
    assert isinstance(encoder.target, ClassTarget)
    assert encoder.target.classes == ("9", "10", "b")
    numbers = encoder.encode_target(frame)
    assert numbers.dtype == torch.long
    assert encoder.target.decode(numbers) == labels.tolist()
    with pytest.raises(DataError, match="'c', which was not there"):
        encoder.encode_target(frame.assign(price="c"))


def test_json_there_and_back(tmp_path):
    encoder, frame = fitted()
    path = tmp_path / "encoder.json"
    path.write_text(json.dumps(encoder.to_json(), allow_nan=False), encoding="utf-8")
    again = Encoder.from_json(json.loads(path.read_text(encoding="utf-8")))
    assert again == encoder
    assert torch.equal(again.encode(frame).x, encoder.encode(frame).x)
    with pytest.raises(StorageError, match="install a newer credo"):
        Encoder.from_json({**encoder.to_json(), "encoder": 99})
    with pytest.raises(StorageError, match="missing or damaged"):
        Encoder.from_json({})
    with pytest.raises(StorageError, match="damaged"):
        Encoder.from_json({**encoder.to_json(), "target": {"kind": "os.system"}})


def test_columns_at_prediction():
    encoder, frame = fitted()
    shuffled = frame[list(reversed(frame.columns))].drop(columns=["price", "id", "flat"])
    assert torch.equal(encoder.encode(shuffled).x, encoder.encode(frame).x)
    assert encoder.encode(frame.assign(color="red")).notes[0] == "column(s) unknown to the model are ignored: 'color'"
    with pytest.raises(DataError, match=r"lacks 1 column.*'area'"):
        encoder.encode(frame.drop(columns=["area"]))
    with pytest.raises(DataError, match="no rows"):
        encoder.encode(frame.iloc[:0])
    with pytest.raises(DataError, match="'area' must hold numbers, and 80 of its 80 cells are none"):
        encoder.encode(frame.assign(area="big"))
    with pytest.raises(DataError, match="lacks the target"):
        encoder.encode_target(frame.drop(columns=["price"]))
    with pytest.raises(DataError, match="no numbers"):
        encoder.encode_target(frame.assign(price="dear"))


def test_from_a_file(tmp_path):
    houses().to_csv(tmp_path / "houses.csv", index=False, sep=";")
    problem = pose(read_table(tmp_path / "houses.csv"), "price")
    encoder = Encoder.fit(problem)
    direct, frame = fitted()
    assert encoder.features == direct.features
    # numbers go through text with all their digits, inputs are float32
    assert torch.allclose(encoder.encode(problem.frame).x, direct.encode(frame).x, atol=1e-6)
