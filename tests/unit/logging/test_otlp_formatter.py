"""OTLP lines: the protocol's own messages accept them, and they have all values."""

from __future__ import annotations

import json
import logging
import pickle
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, LogsData
from opentelemetry.sdk.trace import TracerProvider

from binlog.logging import OtlpFormatter
from tests.support.examples import examples


def _record(message: str = "connected", *, level: int = logging.INFO, extra: Any = None) -> logging.LogRecord:
    logger = logging.getLogger("app.db")
    return logger.makeRecord(logger.name, level, "db.py", 7, message, (), None, "connect", extra)


def _parse(line: str) -> tuple[LogsData, LogRecord]:
    """Parse a line strictly.  Ids are hexadecimal in OTLP's JSON, unlike in protobuf's."""
    message = json.loads(line)
    (record,) = message["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    for name, digits in (("traceId", 32), ("spanId", 16)):
        if name in record:
            assert len(bytes.fromhex(record.pop(name))) * 2 == digits
    found = Parse(json.dumps(message), LogsData())
    return found, found.resource_logs[0].scope_logs[0].log_records[0]


def test_a_line_is_a_message_of_the_protocol() -> None:
    record = _record(level=logging.WARNING, extra={"event": "db.connect", "order": 7, "tags": ["a", None, 1.5, True]})
    line = OtlpFormatter(static={"service.name": "shop"}, code=True).format(record)
    assert "\n" not in line
    data, found = _parse(line)
    resource = {each.key: each.value for each in data.resource_logs[0].resource.attributes}
    assert resource["service.name"].string_value == "shop"
    assert resource["process.pid"].int_value == record.process
    assert data.resource_logs[0].scope_logs[0].scope.name == "app.db"
    assert (found.severity_number, found.severity_text) == (13, "WARNING")
    assert (found.body.string_value, found.event_name) == ("connected", "db.connect")
    assert abs(found.time_unix_nano - record.created * 1e9) < 2000
    attributes = {each.key: each.value for each in found.attributes}
    assert attributes["order"].int_value == 7
    assert [each.WhichOneof("value") for each in attributes["tags"].array_value.values] == [
        "string_value", None, "double_value", "bool_value",
    ]  # fmt: skip
    assert attributes["code.line.number"].int_value == 7


def test_the_ids_of_the_current_span_are_in_the_line() -> None:
    with TracerProvider().get_tracer("test").start_as_current_span("work") as span:
        line = OtlpFormatter().format(_record())
    context = span.get_span_context()
    _parse(line)
    assert f'"traceId":"{context.trace_id:032x}"' in line
    assert f'"spanId":"{context.span_id:016x}"' in line


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(st.text(), each, max_size=4),
    max_leaves=10,
)


@given(extra=st.dictionaries(st.text(min_size=1), _VALUES, max_size=4))
@settings(max_examples=examples(100))
@pytest.mark.slow
def test_any_attributes_are_accepted(extra: dict[str, object]) -> None:
    record = _record()
    for name, value in extra.items():
        record.__dict__.setdefault(name, value)
    line = OtlpFormatter().format(record)
    _, found = _parse(line.encode("utf-8", "replace").decode())
    assert len(found.attributes) + bool(found.event_name) <= len(extra)


def test_a_formatter_is_pickled_as_its_arguments() -> None:
    formatter = OtlpFormatter(static={"service.name": "shop"})
    record = _record()
    assert pickle.loads(pickle.dumps(formatter)).format(record) == formatter.format(record)
