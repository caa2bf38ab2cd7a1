"""Arrow columns from batches, without a Java virtual machine; marked `spark` for its packages."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog import Batch, Reader, TimedBatch, Writer
from binlog.errors import CorruptError
from binlog.spark.schema import Field
from tests.support.examples import examples

pytestmark = pytest.mark.spark

ALL = tuple(Field(name, name, True) for name in ("source", "number", "offset", "sequence", "time", "data", "damage"))


def batch_of(records: list[bytes], *, number: int = 1, offset: int = 256, first_sequence: int | None = 0) -> Batch:
    """Return a batch as a reader would."""
    data = b"".join(len(record).to_bytes(4, "big") + record for record in records)
    offsets = [0]
    for record in records:
        offsets.append(offsets[-1] + 4 + len(record))
    view = memoryview(b"".join(value.to_bytes(4, "little") for value in offsets)).cast("I")
    return Batch(number, offset, data, view, first_sequence)


@settings(max_examples=examples(200))
@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=50),
    st.integers(1, 2**32 - 1),
    st.integers(248, 2**62),
    st.none() | st.integers(0, 2**62),
    st.data(),
)
def test_columns_equal_the_batch(
    records: list[bytes], number: int, offset: int, first_sequence: int | None, data: st.DataObject
) -> None:
    from binlog.spark.columns import arrow_schema, record_batch

    batch = batch_of(records, number=number, offset=offset, first_sequence=first_sequence)
    count = len(records)
    bounds = sorted(data.draw(st.sets(st.integers(1, count), max_size=5)) | {count}) if data.draw(st.booleans()) else []
    times = [data.draw(st.integers(0, 2**62)) for _ in bounds]
    made = record_batch(TimedBatch(batch, array("Q", bounds), array("Q", times)), "/log", ALL, arrow_schema(ALL))
    made.validate(full=True)
    micros = [times[bisect_right(bounds, at)] // 1000 if times else None for at in range(count)]
    assert made.column("time").cast("int64").to_pylist() == micros
    assert made.drop_columns("time").to_pydict() == {
        "source": ["/log"] * count,
        "number": [number] * count,
        "offset": [ref.offset for ref in batch.refs()],
        "sequence": [None if first_sequence is None else first_sequence + index for index in range(count)],
        "data": records,
        "damage": [None] * count,
    }


def test_damage_is_a_row() -> None:
    from binlog.spark.columns import Damage, arrow_schema, damage_batch

    error = CorruptError("/log/00000003.dat", 300, "range", "it is bad")
    made = damage_batch("/log", 3, Damage(300, 400, error), ALL, arrow_schema(ALL))
    made.validate(full=True)
    assert made.to_pylist() == [
        {
            "source": "/log",
            "number": 3,
            "offset": 300,
            "sequence": None,
            "time": None,
            "data": None,
            "damage": {"end": 400, "reason": "/log/00000003.dat at offset 300: it is bad [range]"},
        }
    ]


def test_the_schema_is_that_expected_by_spark() -> None:
    import pyarrow as pa

    from binlog.spark.columns import arrow_schema

    fields = (Field("data", "DATA", False), Field("sequence", "sequence", True))
    expected = pa.schema([pa.field("DATA", pa.binary(), nullable=False), pa.field("sequence", pa.int64())])
    assert arrow_schema(fields).equals(expected)


def test_columns_outlive_the_reader(tmp_path: Path) -> None:
    from binlog.spark.columns import arrow_schema, record_batch

    with Writer(tmp_path) as writer:
        writer.append_many([b"%d" % number for number in range(1000)])
    with Reader(tmp_path) as reader:
        batches = [reader.read_batch(records_max=300) for _ in range(4)]
    none = array("Q")
    made = [record_batch(TimedBatch(batch, none, none), "/log", ALL, arrow_schema(ALL)) for batch in batches]
    del batches
    values = [value for batch in made for value in batch.column("data").to_pylist()]
    assert values == [b"%d" % number for number in range(1000)]


def test_columns_make_no_object_per_record() -> None:
    import sys

    from binlog.spark.columns import arrow_schema, record_batch

    timed = TimedBatch(batch_of([b"x" * 20] * 5000), array("Q", [2000, 5000]), array("Q", [1, 2]))
    schema = arrow_schema(ALL)
    record_batch(timed, "/log", ALL, schema)
    before = sys.getallocatedblocks()
    made = record_batch(timed, "/log", ALL, schema)
    assert sys.getallocatedblocks() - before < 200
    assert made.num_rows == 5000
