"""The columns of messages, compared with messages that are parsed one by one; marked `spark` for its packages."""

from __future__ import annotations

import sys
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog import Batch, Message, TimedBatch, Writer
from binlog.format.consumers.message import MAGIC, MadeBy
from binlog.spark.log.options import ReadOptions
from binlog.spark.schema import MESSAGE_COLUMNS, Field
from tests.support.examples import examples

pytestmark = pytest.mark.spark

NAMES = tuple(column.name for column in MESSAGE_COLUMNS)
ALL = tuple(Field(name, name, True) for name in (*NAMES, "data"))

_numbers = st.integers(0, (1 << 64) - 1)
_messages = st.builds(
    Message,
    body=st.binary(max_size=30),
    key=st.none() | st.binary(max_size=10),
    headers=st.dictionaries(st.text(max_size=5), st.binary(max_size=5), max_size=3),
    produced_ns=_numbers,
    due_ns=st.just(0) | _numbers,
    expiry_ns=st.just(0) | _numbers,
    made_by=st.none() | st.builds(MadeBy, st.binary(min_size=16, max_size=16), _numbers),
)
_records = _messages.map(Message.pack) | st.binary(max_size=40) | st.binary(max_size=40).map(lambda rest: MAGIC + rest)


def columns_of(records: list[bytes], fields: tuple[Field, ...] = ALL) -> Any:
    """Return a batch of the fields of messages, as a task makes it."""
    from binlog.spark.columns import arrow_schema, record_batch
    from binlog.spark.log.message_columns import message_types

    schema = arrow_schema(fields)
    timed = TimedBatch(Batch.from_records(records), array("Q"), array("Q"))
    made = record_batch(timed, "/log", fields, schema, messages=message_types(fields, schema))
    made.validate(full=True)
    return made


def expected_row(record: bytes) -> dict[str, Any]:
    message = Message.parse(record)
    if len(message.body) == len(record):
        return {**dict.fromkeys(NAMES), "data": record}
    made_by = message.made_by
    times = zip(("produced", "due", "expiry"), (message.produced_ns, message.due_ns, message.expiry_ns), strict=True)
    return {
        "key": message.key,
        "headers": list(message.headers.items()),
        **{f"{name}_time": time_ns // 1000 if time_ns else None for name, time_ns in times},
        "producer": made_by and made_by.producer,
        "producer_sequence": made_by.sequence if made_by and made_by.sequence < 1 << 63 else None,
        "data": message.body,
    }


@settings(max_examples=examples(200))
@given(st.lists(_records, min_size=1, max_size=20))
def test_columns_equal_the_parsed_messages(records: list[bytes]) -> None:
    import pyarrow as pa

    made = columns_of(records)
    for name in ("produced_time", "due_time", "expiry_time"):
        assert made.schema.field(name).type == pa.timestamp("us", "UTC")
        at = made.schema.get_field_index(name)
        made = made.set_column(at, name, made.column(name).cast("int64"))
    assert made.to_pylist() == [expected_row(record) for record in records]


def test_records_without_an_envelope_are_not_copied() -> None:
    import pyarrow as pa

    from binlog.spark.log.message_columns import message_columns

    records = pa.array([b"", b"one", b"two"], pa.binary())
    made = message_columns(records, {"data": pa.binary(), "key": pa.binary()})
    assert made["data"] is records
    assert made["key"].to_pylist() == [None, None, None]


def test_a_batch_without_records_has_no_rows() -> None:
    assert columns_of([]).to_pydict() == {name: [] for name in (*NAMES, "data")}


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        (("offset", "time", "sequence"), set()),
        (("offset", "key"), {"key"}),
        (("due_time", "data"), {"due_time", "data"}),
        (("parsed", "bad"), {"data"}),
    ],
)
def test_only_the_columns_asked_for_are_made(asked: tuple[str, ...], made: set[str]) -> None:
    import pyarrow as pa

    from binlog.spark.log.message_columns import message_types

    fields = tuple(Field(name, name.upper(), True) for name in asked)
    schema = pa.schema([pa.field(field.name, pa.binary()) for field in fields])
    assert message_types(fields, schema).keys() == made


@pytest.mark.parametrize(("messages", "names"), [(False, ("data",)), (True, ("offset", "sequence", "time"))])
def test_other_reads_make_no_object_per_record(tmp_path: Path, messages: bool, names: tuple[str, ...]) -> None:
    """Without the option, and with it if no column of a message is asked for."""
    from binlog.spark.log.reading import BatchReader

    with Writer(tmp_path) as writer:
        writer.append_many([Message(body=b"%d" % number, key=b"k").pack() for number in range(5000)])
    fields = tuple(Field(name, name, True) for name in names)
    reader = BatchReader(ReadOptions((str(tmp_path),), messages=messages), fields)
    [task] = reader.partitions()
    assert sum(batch.num_rows for batch in reader.read(task)) == 5000
    before = sys.getallocatedblocks()
    made = list(reader.read(task))
    assert sys.getallocatedblocks() - before < 1000
    assert sum(batch.num_rows for batch in made) == 5000
