"""The JSON of events: whatever is logged, it is one line of valid JSON with the fields of the schema."""

from __future__ import annotations

import enum
import logging
import pickle
import re
import socket
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog.logging import JsonFormatter
from binlog.logging.events import SEVERITY_MAX, level_of, severity
from tests.support.events import event_of
from tests.support.examples import examples

_LOGGER = logging.getLogger("app.db")


def _record(
    message: object = "connected", *args: object, level: int = logging.INFO, extra: Any = None, info: Any = None
) -> logging.LogRecord:
    return _LOGGER.makeRecord(_LOGGER.name, level, "db.py", 7, message, args, info, "connect", extra)  # type: ignore[arg-type]


def _event(record: logging.LogRecord, formatter: JsonFormatter | None = None) -> dict[str, Any]:
    return event_of((formatter or JsonFormatter()).format(record))


def _raised(error: BaseException) -> Any:
    try:
        raise error
    except BaseException:  # noqa: BLE001 - any error of a test
        return sys.exc_info()


_FAILED = "<unprintable _Unprintable: ValueError>"


class _Unprintable:
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


def test_an_event_has_the_names_of_the_schema() -> None:
    record = _record("connected to %s", "db1", extra={"order": 7})
    record.created = 1_764_255_845.123456
    event = _event(record, JsonFormatter(static={"service.name": "shop"}))
    assert event == {
        "time": "2025-11-27T15:04:05.123456Z",
        "severity": 9,
        "level": "INFO",
        "logger": "app.db",
        "body": "connected to db1",
        "attributes": {"order": 7},
        "resource": {"host.name": socket.gethostname(), "service.name": "shop", "process.pid": record.process},
    }
    assert list(event)[:5] == ["time", "severity", "level", "logger", "body"]


def test_the_time_is_that_of_the_record_to_the_microsecond() -> None:
    formatter = JsonFormatter()
    for _ in range(100):
        record = _record()
        found = datetime.fromisoformat(_event(record, formatter)["time"])
        assert abs((found - datetime.fromtimestamp(record.created, UTC)).total_seconds()) <= 2e-6


def test_event_is_a_field_and_code_is_optional() -> None:
    event = _event(_record(extra={"event": "db.connect"}), JsonFormatter(code=True))
    assert event["event"] == "db.connect"
    assert "attributes" not in event
    assert event["code"] == {"file": "db.py", "line": 7, "function": "connect"}
    assert _event(_record(extra={"event": 5}))["attributes"] == {"event": 5}


@pytest.mark.parametrize(
    ("level", "number"), [(0, 1), (10, 5), (15, 7), (20, 9), (30, 13), (40, 17), (50, 21), (99, 24)]
)
def test_levels_become_severity_numbers(level: int, number: int) -> None:
    assert severity(level) == number


def test_a_severity_number_becomes_the_least_level_that_has_it() -> None:
    for number in range(1, SEVERITY_MAX + 1):
        assert severity(level_of(number)) == number
        assert number == 1 or severity(level_of(number) - 1) == number - 1


def test_a_name_of_a_level_that_another_formatter_changed_is_not_used() -> None:
    record = _record()
    record.levelname = "\x1b[32mINFO\x1b[0m"
    assert _event(record)["level"] == "INFO"


def test_extras_never_replace_fields_of_the_event() -> None:
    names = ("time", "severity", "level", "logger", "body", "attributes", "resource", "trace_id")
    event = _event(_record(extra=dict.fromkeys(names, "mine")))
    assert event["attributes"] == dict.fromkeys(names, "mine")
    assert event["body"] == "connected"
    assert re.fullmatch(r"20\d\d-.*Z", event["time"])


def test_what_other_formatters_leave_in_a_record_is_no_attribute() -> None:
    record = _record(extra={"order": 7})
    logging.Formatter("%(asctime)s %(message)s").format(record)
    assert _event(record)["attributes"] == {"order": 7}


class _Color(enum.IntEnum):
    RED = 1


class _OddMapping(dict[str, int]):
    def __getitem__(self, key: str) -> int:
        raise KeyError("no such key")


def _cyclic() -> list[object]:
    found: list[object] = [1]
    found += [found, found]
    return found


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("nan"), None),
        (float("-inf"), None),
        (1.5, 1.5),
        (True, True),
        (None, None),
        (_Color.RED, 1),
        (b"x", "b'x'"),
        ({1, 2}, "{1, 2}"),
        ((1, float("nan")), [1, None]),
        ({1: {None: "x"}}, {"1": {"None": "x"}}),
        (_Unprintable(), _FAILED),
        ({_Unprintable(): 1}, {_FAILED: 1}),
        (_cyclic(), [1, "[1, [...], [...]]", "[1, [...], [...]]"]),
        (10**5000, "<unprintable int: ValueError>"),
        ("line\nfeed \x1b[31m \ud800", "line\nfeed \x1b[31m \ud800"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_attribute_of_any_type_is_json(value: object, expected: object) -> None:
    record = _record()
    record.__dict__["value"] = value
    line = JsonFormatter().format(record).encode("utf-8", "backslashreplace")
    assert event_of(line)["attributes"] == {"value": expected}


def test_a_mapping_that_raises_becomes_its_repr() -> None:
    record = _record(extra={"value": _OddMapping(a=1)})
    assert _event(record)["attributes"] == {"value": "{'a': 1}"}


def test_structures_end_at_a_depth_of_sixteen() -> None:
    deep: Any = "end"
    for _ in range(1000):
        deep = [deep]
    found: Any = _event(_record(extra={"deep": deep}))["attributes"]["deep"]
    depth = 0
    while isinstance(found, list):
        (found,), depth = found, depth + 1
    assert depth == 16
    assert isinstance(found, str)


_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.builds(_Unprintable),
    st.dates(), st.decimals(), st.complex_numbers(), st.just(object), st.characters(categories=["Cs", "Cc", "Zl"]),
)  # fmt: skip
_KEYS = st.one_of(st.text(), st.integers(), st.none(), st.floats(), st.builds(_Unprintable), st.binary())
_VALUES = st.recursive(_LEAVES, lambda each: st.lists(each) | st.dictionaries(_KEYS, each) | st.tuples(each, each))


@pytest.mark.slow
@given(message=_LEAVES, args=st.lists(_LEAVES, max_size=3), extra=st.dictionaries(_KEYS, _VALUES, max_size=5))
@settings(max_examples=examples(500))
def test_whatever_is_logged_is_one_line_of_json(message: object, args: list[object], extra: dict[Any, object]) -> None:
    record = _record(message, *args)
    for name, value in extra.items():
        record.__dict__.setdefault(name, value)
    line = JsonFormatter().format(record).encode("utf-8", "backslashreplace")
    event = event_of(line)
    assert isinstance(event["body"], str)
    assert len(event.get("attributes", {})) + ("event" in event) <= len(extra)


@pytest.mark.parametrize(
    ("message", "args", "expected"),
    [
        ("%s is %d", ("x", 1), "x is 1"),
        ("%(name)s", ({"name": "x"},), "x"),
        ("no arguments: 100%", (), "no arguments: 100%"),
        ("%s and %r", (_Unprintable(), _Unprintable()), f"{_FAILED} and {_FAILED}"),
        ("%d", ("x",), "%d ('x',)"),
        ("%s %s", (1,), "%s %s (1,)"),
        (_Unprintable(), (), _FAILED),
    ],
)  # fmt: skip
def test_a_message_is_made_whatever_its_arguments_are(message: object, args: tuple[object, ...], expected: str) -> None:
    assert _event(_record(message, *args))["body"] == expected


class _BraceRecord(logging.LogRecord):
    def getMessage(self) -> str:  # noqa: N802 - a name of logging
        return str(self.msg).format(*self.args)  # type: ignore[misc]


def test_a_record_of_another_class_formats_its_own_message() -> None:
    assert _event(_BraceRecord("app", 20, "", 0, "{} is {}", ("x", 1), None))["body"] == "x is 1"
    assert _event(_BraceRecord("app", 20, "", 0, "{} %s", (), None))["body"] == "{} %s"


class _UnpicklableError(Exception):
    def __init__(self, first: object, second: object) -> None:
        super().__init__()
        self.attribute = (lambda: first, second)

    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


class _NoTextError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def _deep() -> BaseException:
    def recurse(depth: int) -> None:
        if depth:
            recurse(depth - 1)
        raise ValueError("deep")

    try:
        recurse(100)
    except ValueError as error:
        return error
    raise AssertionError


def _group() -> BaseException:
    return ExceptionGroup("several", [ValueError("a"), KeyError("b")])


def _chained() -> BaseException:
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error
    except ValueError as error:
        return error


@pytest.mark.parametrize(
    ("make", "kind", "message", "part"),
    [
        (lambda: ValueError("bad"), "ValueError", "bad", "ValueError: bad"),
        (lambda: _UnpicklableError(1, 2), f"{__name__}._UnpicklableError", "", "_UnpicklableError"),
        (_NoTextError, f"{__name__}._NoTextError", "<unprintable _NoTextError: RuntimeError>", "_NoTextError"),
        (_deep, "ValueError", "deep", "recurse"),
        (_chained, "ValueError", "second", "KeyError: 'first'"),
        (_group, "ExceptionGroup", "several (2 sub-exceptions)", "KeyError: 'b'"),
    ],
    ids=["plain", "unpicklable", "unprintable", "deep", "chained", "group"],
)  # fmt: skip
def test_an_exception_becomes_three_attributes(
    make: Callable[[], BaseException], kind: str, message: str, part: str
) -> None:
    attributes = _event(_record(info=_raised(make())))["attributes"]
    assert attributes["exception.type"] == kind
    assert attributes["exception.message"] == message
    assert part in attributes["exception.stacktrace"]


def test_no_exception_and_no_stack_give_no_attributes() -> None:
    assert "attributes" not in _event(_record(info=(None, None, None)))


def test_the_ids_of_the_current_span_are_in_the_event() -> None:
    from opentelemetry.sdk.trace import TracerProvider

    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("work") as span:
        event = _event(_record())
    context = span.get_span_context()
    assert (event["trace_id"], event["span_id"]) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")
    assert "trace_id" not in _event(_record())


def test_a_formatter_is_pickled_as_its_arguments() -> None:
    formatter = JsonFormatter(static={"service.name": "shop"}, code=True)
    record = _record()
    assert pickle.loads(pickle.dumps(formatter)).format(record) == formatter.format(record)
