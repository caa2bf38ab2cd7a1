"""The filters of `tail` and `cat`: byte checks never drop a record that a parser would keep."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog import Batch
from binlog.cli.looking.event_fields import MISSING, field_of, parse_event, parse_severity, text_of
from binlog.cli.looking.filters import Filters
from binlog.cli.main import main
from tests.support.examples import examples
from tests.support.sample_events import event_record, plain_filter
from tests.unit.cli.run_command import fill

_KEYS = st.sampled_from(["severity", "level", "logger", "order", "a.b", "attributes", "ключ", 'q"', "x/y"])
_VALUES = st.one_of(
    st.sampled_from(
        [5, 13, 17, 24, 25, -0.0, 13.0, 1e300, True, None, "app", "app.db", "13", "7", 7, "é", 'a"b', "a/b"]
    ),
    st.text(max_size=4),
)
_OBJECTS = st.dictionaries(
    _KEYS, st.one_of(_VALUES, st.dictionaries(_KEYS, _VALUES, max_size=3), st.lists(_VALUES, max_size=2)), max_size=5
)


def _escaped(text: str, how: int) -> str:
    """Write JSON in another way: with spaces, or with escapes of ordinary characters."""
    if how == 1:
        return text.replace('":', '" \t:\n ')
    if how == 2:
        return text.replace("s", "\\u0073").replace("p", "\\u0070")
    if how == 3:
        return "\n " + text.replace("/", "\\/")
    return text


_RECORDS = st.one_of(
    st.builds(
        lambda value, how, ascii_only: _escaped(json.dumps(value, ensure_ascii=ascii_only), how).encode(),
        _OBJECTS,
        st.integers(0, 3),
        st.booleans(),
    ),
    st.binary(max_size=20),
    st.sampled_from([b"", b"[]", b'"severity":17', b'{"severity":17', b'x{"severity":17}', b'{"severity":17}{}']),
)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(_RECORDS, max_size=8),
    st.sampled_from([None, 1, 5, 13, 24]),
    st.lists(st.sampled_from(["app*", "*db", "app", "a[p]p", "é", "*"]), max_size=2),
    st.lists(st.tuples(_KEYS, _VALUES.map(text_of)), max_size=2),
)
@pytest.mark.slow
def test_filters_equal_a_parser(
    records: list[bytes], level: int | None, loggers: list[str], fields: list[tuple[str, str]]
) -> None:
    batch = Batch.from_records(records)
    filters = Filters(severity_min=level, loggers=loggers, fields=fields)
    wanted = plain_filter(level=level, loggers=tuple(loggers), fields=tuple(fields))
    assert list(filters.matches(batch).records) == [record for record in records if wanted(record)]


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([b"a", b"b", b"\n", b"\0\0\0\2", b"ab"])).map(b"".join), max_size=12),
    st.lists(st.sampled_from(["ab", "b", "^a", "a$", "a.b", "(?s)a.b"]), max_size=2),
    st.lists(st.sampled_from(["ba", "bb$"]), max_size=2),
)
@pytest.mark.slow
def test_patterns_match_each_record_alone(records: list[bytes], greps: list[str], excludes: list[str]) -> None:
    filters = Filters(
        patterns=[re.compile(grep.encode()) for grep in greps],
        excluded=[re.compile(each.encode()) for each in excludes],
    )
    wanted = plain_filter(greps=tuple(greps), excludes=tuple(excludes))
    found = filters.matches(Batch.from_records(records))
    assert list(found.records) == [record for record in records if wanted(record)]


def test_most_records_that_do_not_match_are_never_parsed() -> None:
    """An equal key of an object in the record is no reason to parse it, if the record's own key came first."""
    records = [
        json.dumps({"severity": 9, "logger": "web", "attributes": {"severity": 21, "logger": "db"}}).encode(),
        json.dumps({"attributes": {"severity": 21, "logger": "db"}, "severity": 9, "logger": "web"}).encode(),
        json.dumps({"severity": 21, "logger": "db"}).encode(),
    ]
    batch = Batch.from_records(records)
    filters = Filters(severity_min=17, loggers=["db*"])
    assert Filters(loggers=["db", "app.*", "[ab]", "é"])._members[0].starts == (b'"db"', b'"app.', b'"', b'"')
    assert list(batch.json_candidates(filters._members)) == [1, 2]
    assert list(filters.matches(batch).records) == [records[2]]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("order", 7),
        ("level", "INFO"),
        ("attributes.order", 7),
        ("customer.id", "c1"),
        ("exception.type", "KeyError"),
        ("resource.service.name", "shop"),
        ("missing", MISSING),
        ("level.x", MISSING),
    ],
)
def test_a_field_is_a_key_of_the_event_or_of_its_attributes(name: str, value: Any) -> None:
    event = {
        "level": "INFO",
        "attributes": {"order": 7, "level": "no", "customer": {"id": "c1"}, "exception.type": "KeyError"},
        "resource": {"service.name": "shop"},
    }
    assert field_of(event, name) == value


def test_a_number_is_found_however_it_is_written() -> None:
    records = [b'{"n":0}', b'{"n":-0}', b'{"attributes":{"n": "0"}}', b'{"n":10}', b'{"n":1}']
    batch = Batch.from_records(records)
    assert list(Filters(fields=[("n", "0")]).matches(batch).records) == records[:3]
    assert list(Filters(fields=[("n", "10")]).matches(batch).records) == records[3:4]


@pytest.mark.parametrize(
    ("text", "severity"), [("warning", 13), ("WARN", 13), ("9", 9), ("24", 24), ("fatal", 21), ("trace", 1)]
)
def test_a_level_is_a_name_or_a_number(text: str, severity: int) -> None:
    assert parse_severity(text) == severity


@pytest.mark.parametrize("text", ["", "0", "25", "loud", "-1", "1.5"])
def test_another_level_is_wrong_usage(text: str, log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"x"])
    assert main(["tail", f"--level={text}", str(log)]) == 2
    assert "--level" in capfd.readouterr().err


@pytest.mark.parametrize(
    "data", [b"[1]", b"{", b'{"a":NaN}', b'{"a":\xff}', b"[" * 100_000, b'{"a":' * 100_000, b"", b"1" * 5000]
)
def test_a_record_that_is_no_json_object_is_no_event(data: bytes) -> None:
    assert parse_event(data) is None


def test_the_conditions_of_both_commands_are_the_same(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    records = [event_record(number) for number in range(400)]
    fill(log, records[:150], records[150:])
    wanted = plain_filter(
        level=13, loggers=("app.db*", "audit"), fields=(("order", "3"),), greps=("request",), excludes=("1[05]",)
    )
    out = b"".join(record + b"\n" for record in records if wanted(record)).decode()
    assert out
    words = ["--level", "warning", "--logger", "app.db*", "--logger", "audit", "--field", "order=3"]
    words += ["--grep", "REQUEST", "-i", "--exclude", "1[05]", str(log)]
    for command in (["cat"], ["tail", "--from", "beginning"], ["tail", "-n", "400"]):
        assert main([*command, *words]) == 0
        assert capfd.readouterr().out == out
    assert main(["cat", "--count", *words]) == 0
    assert int(capfd.readouterr().out) == sum(map(wanted, records))


@pytest.mark.parametrize("given", ["order", "=7", ""])
def test_a_field_without_a_name_is_wrong_usage(given: str, log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"x"])
    assert main(["cat", "--field", given, str(log)]) == 2
    assert "not NAME=VALUE" in capfd.readouterr().err
