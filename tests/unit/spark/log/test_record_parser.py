"""Parsing records with a user's function, and the records that it cannot parse; without Spark."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

# Without PyArrow, these tests are deselected by their marker.
with contextlib.suppress(ImportError):
    import pyarrow as pa
    import pyarrow.compute as pc

    from binlog.spark.log.record_parser import RecordParser, load_parser, schema_of

pytestmark = pytest.mark.spark


def split(data: Any) -> Any:
    """Parse `7 seven` to 7 and seven; raise for the whole batch if one number is invalid."""
    texts = data.cast(pa.string())
    parts = pc.split_pattern(texts, " ", max_splits=1)
    return pa.RecordBatch.from_arrays(
        [pc.list_element(parts, 0).cast(pa.int64()), pc.list_element(parts, 1)], names=["number", "name"]
    )


def parse(function: Any, records: list[bytes]) -> tuple[list[Any], list[Any], list[Any]]:
    kind = pa.struct([pa.field("number", pa.int32()), pa.field("name", pa.string())])
    found = RecordParser(function, kind).parse(pa.array(records, pa.binary()))
    assert found.rows.type == kind
    return found.rows.to_pylist(), found.bad.to_pylist(), found.error.to_pylist()


def test_rows_are_cast_to_the_requested_types() -> None:
    rows, bad, error = parse(split, [b"1 one", b"2 two"])
    assert rows == [{"number": 1, "name": "one"}, {"number": 2, "name": "two"}]
    assert bad == error == [None, None]


@pytest.mark.parametrize("bad", [b"x ten", b"\xff\xfe", b"", b"99999999999 too large", b"3"])
def test_a_bad_record_does_not_affect_others(bad: bytes) -> None:
    records = [b"%d n%d" % (number, number) for number in range(100)]
    records[41] = bad
    rows, kept, error = parse(split, records)
    assert [index for index, value in enumerate(kept) if value is not None] == [41]
    assert (rows[41], kept[41]) == (None, bad)
    assert ": " in error[41]
    assert [row["number"] for row in rows if row] == [number for number in range(100) if number != 41]


def test_good_and_bad_records_add_up() -> None:
    chance = random.Random(1)
    records = [b"%d n" % number if chance.random() < 0.5 else b"bad" for number in range(1000)]
    rows, kept, error = parse(split, records)
    assert [row is None for row in rows] == [value is not None for value in kept] == [bool(each) for each in error]
    assert [value if row is None else b"%d n" % row["number"] for row, value in zip(rows, kept, strict=True)] == records


def test_a_row_of_nulls_is_bad_and_one_with_a_value_is_not() -> None:
    def some(data: Any) -> Any:
        return pa.table({"number": [1, None, None], "name": [None, "b", None], "more": [1, 2, 3]})

    rows, bad, error = parse(some, [b"a", b"b", b"c"])
    assert rows == [{"number": 1, "name": None}, {"number": None, "name": "b"}, None]
    assert bad == [None, None, b"c"]
    assert error == [None, None, "the parser returned only nulls"]


def test_rows_left_out_are_bad_records() -> None:
    def good_ones(data: Any) -> Any:
        kept = data.filter(pc.equal(pc.binary_length(data), 1))
        return pa.StructArray.from_arrays([pa.nulls(len(kept), pa.int32()), kept.cast(pa.string())], ["number", "name"])

    rows, bad, error = parse(good_ones, [b"a", b"bb", b"c", b""])
    assert [row and row["name"] for row in rows] == ["a", None, "c", None]
    assert bad == [None, b"bb", None, b""]
    assert error[1] == "ValueError: 1 records became 0 rows"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (lambda data: [1] * len(data), "returned a value of type list"),
        (lambda data: pa.table({"number": [1] * len(data)}), "returned no column 'name'"),
    ],
)
def test_a_wrong_result_type_raises(given: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        parse(given, [b"a", b"b"])


def test_no_records() -> None:
    assert parse(split, []) == ([], [], [])


def test_an_error_that_is_not_unicode_is_escaped() -> None:
    def fail(data: Any) -> Any:
        raise ValueError("\udcff" + "x" * 10_000)

    _, _, [error] = parse(fail, [b"a"])
    assert error.startswith("ValueError: \\udcffxxx")
    assert len(error) < 600


def test_a_parser_is_loaded_by_name() -> None:
    assert load_parser("json:loads.__call__") is not None
    for name, text in (
        ("json", "must be module:function"),
        ("no_such_module:parse", "cannot import the parser no_such_module:parse: No module named"),
        ("json:no_such", "cannot import the parser json:no_such"),
        ("json:__name__", "is not a function"),
    ):
        with pytest.raises(ValueError, match=text):
            load_parser(name)


def test_the_schema_of_a_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    here = f"{__name__}:split"
    schema = pa.schema([("number", pa.int64()), ("a `name`", pa.list_(pa.string()))])
    monkeypatch.setattr(split, "schema", schema, raising=False)
    assert schema_of(here) == "`number`: bigint, `a ``name```: array<string>"
    with pytest.raises(ValueError, match="has no attribute 'schema'"):
        schema_of("json:loads")
