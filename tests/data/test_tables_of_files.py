"""Tables as inputs: every rule of columns against pandas and plain loops, files against the frames they came from."""

from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from hush.data.columns import Encoding, columns_of
from hush.data.tables import read_csv, read_parquet, table_of

ROWS = 6
FRAME = pd.DataFrame(
    {
        "age": [30, 41, 52, 63, 74, 85],
        "dose": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5],
        "smokes": [True, False, True, True, False, False],
        "ward": ["b", "a", "c", "b", "b", "a"],
    }
)


def encoded(frame: Any, columns: list[str] | None = None) -> tuple[Encoding, np.ndarray[Any, Any]]:
    table = table_of("frame", frame)
    found = columns_of("frame", table, columns or table.column_names)
    encoding = Encoding.of(found)
    return encoding, encoding("frame", found)


def test_numbers_booleans_and_text_against_pandas() -> None:
    encoding, x = encoded(FRAME)
    dummies = pd.get_dummies(FRAME, columns=["ward"], prefix_sep="=")
    assert encoding.names == tuple(dummies.columns)
    assert x.dtype == np.float32
    np.testing.assert_array_equal(x, dummies.to_numpy(np.float32))


@pytest.mark.parametrize(
    "as_given",
    [
        lambda frame: pa.Table.from_pandas(frame),
        lambda frame: frame.astype({"ward": "category", "age": "Int64", "dose": "float32"}),
        lambda frame: frame.set_index(np.arange(ROWS) * 7),
        lambda frame: SimpleNamespace(to_arrow=lambda: pa.Table.from_pandas(frame)),
        lambda frame: SimpleNamespace(to_pandas=lambda: frame),
        lambda frame: pa.concat_tables([pa.Table.from_pandas(frame[:2]), pa.Table.from_pandas(frame[2:])]),
        lambda frame: frame.assign(dose=[Decimal(str(value)) for value in frame["dose"]]),
    ],
)
def test_every_kind_of_frame_is_the_same_table(as_given: Any) -> None:
    expected, x = encoded(FRAME)
    found, same = encoded(as_given(FRAME))
    assert found.names == expected.names
    np.testing.assert_array_equal(same, x)


def test_strings_of_every_arrow_type() -> None:
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        table = pa.table({"ward": pa.array(FRAME["ward"].tolist(), pa.string()).cast(kind)})
        assert encoded(table)[0].names == ("ward=a", "ward=b", "ward=c")


def test_lists_are_features_and_a_sole_one_keeps_its_shape() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (ROWS, 2, 3)).astype(np.uint8)
    nested = pa.array(pixels.tolist(), pa.list_(pa.list_(pa.uint8(), 3)))
    encoding, x = encoded(pa.table({"pixels": nested}))
    assert x.dtype == np.uint8
    np.testing.assert_array_equal(x, pixels)
    assert encoding.names[4] == "pixels[1][1]"
    encoding, x = encoded(pa.table({"pixels": nested, "age": FRAME["age"]}))
    np.testing.assert_array_equal(x, np.c_[pixels.reshape(ROWS, -1), FRAME["age"]])
    assert len(encoding.names) == x.shape[1] == 7
    # A slice of a list column begins in the middle of its numbers.
    _, x = encoded(pa.table({"pixels": nested}).slice(2, 3))
    np.testing.assert_array_equal(x, pixels[2:5])
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(pixels.astype(np.float32))
    _, x = encoded(pa.table({"pixels": tensors}))
    np.testing.assert_array_equal(x.reshape(ROWS, 2, 3), pixels)
    _, x = encoded(pd.DataFrame({"pixels": [row.ravel().tolist() for row in pixels]}))
    np.testing.assert_array_equal(x, pixels.reshape(ROWS, -1))


def test_a_category_that_only_the_test_has_is_zero_everywhere() -> None:
    encoding, _ = encoded(FRAME)
    test = columns_of("test", table_of("test", FRAME.assign(ward=["a", "z", "q", "b", "z", "c"])), list(FRAME))
    with pytest.warns(UserWarning, match=r"column 'ward' has texts that no training row has, \['q', 'z'\].* in 3 rows"):
        x = encoding("test", test)
    assert x[:, 3:].tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]]


def test_mean_and_deviation_are_of_numbers_alone() -> None:
    table = table_of("frame", FRAME.assign(same=3.0))
    columns = columns_of("frame", table, table.column_names)
    encoding = Encoding.of(columns)
    mean, deviation = encoding.spread(columns, encoding("frame", columns))
    expected = FRAME[["age", "dose"]]
    np.testing.assert_allclose(mean, [*expected.mean(), 0, 0, 0, 0, 3])
    np.testing.assert_allclose(deviation, [*expected.std(ddof=0), 1, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"age": [1, None, 3, None, 5, 6], "ward": [None, *"abcde"], "dose": [0.1, np.nan, np.inf, 1, 1, 1]},
            "found missing or infinite ones: age 2, dose 1, ward 1",
        ),
        ({"age": [[1, 2]] * 5 + [[1, None]]}, "age 1"),
        ({"age": [[1, 2]] * 5 + [None]}, "age 1"),
        ({"age": [np.inf] * 6}, "age 6"),
        ({"age": [None] * 6}, "age 6"),
        ({"age": [[1, 2]] * 5 + [[1]]}, "column 'age' must be of .*, found lists of 1 to 2 entries"),
        ({"age": [["a"]] * 6}, "found lists of text"),
        ({"age": [{"a": 1}] * 6}, "column 'age' must be of numbers, true and false, text, .*, found struct"),
        ({"age": [b"a"] * 6}, "found binary"),
        ({"age": pd.date_range("2020-01-01", periods=6)}, "found timestamp.*; make numbers of dates first"),
        ({"age": [1, "a", 2, 3, 4, 5]}, "frame must have columns of one kind each"),
    ],
)
def test_columns_that_are_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        encoded(FRAME.assign(**change))


def test_other_refusals() -> None:
    with pytest.raises(ValueError, match="a DataFrame of pandas or polars, or an Arrow table, found list"):
        table_of("frame", [1, 2])
    with pytest.raises(ValueError, match="with different names"):
        table_of("frame", pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(ValueError, match=r"frame has no column 'agee'; did you mean 'age'\?"):
        encoded(FRAME, ["agee"])
    with pytest.raises(ValueError, match="1,001 different texts, at most 1,000 can be categories"):
        encoded(pd.DataFrame({"note": [f"text {number}" for number in range(1001)]}))
    with pytest.raises(ValueError, match="at least one column, found none beside target and client"):
        Encoding.of({})
    encoding, _ = encoded(FRAME)
    for change, found in (({"ward": range(ROWS)}, r"must be text, .*found numbers"), ({"age": "b"}, "found text")):
        other = columns_of("test", table_of("test", FRAME.assign(**change)), list(FRAME))
        with pytest.raises(ValueError, match=found):
            encoding("test", other)


def same(table: pa.Table, frame: pd.DataFrame) -> None:
    found = table.select(list(frame)).to_pandas()
    for name in frame:
        assert found[name].tolist() == frame[name].tolist()


def test_a_csv_file_and_a_folder_of_them(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "all.csv", index=False)
    same(read_csv("path", tmp_path / "all.csv"), FRAME)
    FRAME.to_csv(tmp_path / "german.txt", index=False, sep=";")
    same(read_csv("path", str(tmp_path / "german.txt"), ";"), FRAME)
    parts = tmp_path / "parts"
    parts.mkdir()
    FRAME[:2].to_csv(parts / "1.csv", index=False)
    FRAME[2:][list(FRAME)[::-1]].to_csv(parts / "2.csv", index=False)
    (parts / "README").write_text("not a table")
    same(read_csv("path", parts), FRAME)
    FRAME[["age"]].to_csv(parts / "3.csv", index=False)
    with pytest.raises(ValueError, match=r"same columns in all files, .*3.csv differs by dose, smokes, ward"):
        read_csv("path", parts)


def test_a_parquet_file_and_a_folder_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.Table.from_pandas(FRAME), tmp_path / "all.parquet")
    same(read_parquet("path", tmp_path / "all.parquet"), FRAME)
    parts = tmp_path / "parts"
    named = FRAME.assign(site=["x 1", "x 1", "y", "y", "y", "y"])
    pq.write_to_dataset(pa.Table.from_pandas(named), parts, partition_cols=["site"])
    (parts / "_SUCCESS").write_text("")
    same(read_parquet("path", str(parts)), named)
    one = next((parts / "site=y").glob("*.parquet"))
    assert read_parquet("path", one).column_names == list(FRAME)
    assert read_parquet("path", one.parent).column_names == list(FRAME)
    monkeypatch.chdir(tmp_path)
    same(read_parquet("path", "parts"), named)
    same(read_parquet("path", "./parts/"), named)
    monkeypatch.chdir(parts)
    same(read_parquet("path", "."), named)
    pq.write_table(pa.table({"age": [1]}), parts / "site=y" / "odd.parquet")
    with pytest.raises(ValueError, match=r"same columns in all files, .* differs by dose, smokes, ward"):
        read_parquet("path", parts)


@pytest.mark.parametrize("read", [read_csv, read_parquet])
def test_files_that_are_refused(read: Any, tmp_path: Path) -> None:
    for path, sentence in (
        (tmp_path / "nowhere", "must name a file or a folder, found none at .*nowhere, seen from /"),
        (tmp_path, "must hold files that end in .*, found none in"),
        ("", "must name a file or a folder, found ''"),
        (7, "must name a file or a folder, found 7"),
    ):
        with pytest.raises(ValueError, match=sentence):
            read("path", path)
    (tmp_path / "odd.csv").write_bytes(b"\xff\xfe\x00broken")
    with pytest.raises(ValueError, match=r"odd.csv cannot be read as (CSV|Parquet)"):
        read("path", tmp_path / "odd.csv")
