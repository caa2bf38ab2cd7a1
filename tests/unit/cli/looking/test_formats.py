"""The output formats: what they show, and that a record cannot forge a line, a field or a terminal command."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import binlog
from binlog.cli.looking.formats import Csv, Form, Json, Named, Short, Templated
from binlog.cli.looking.templates import Template
from binlog.cli.looking.views import RecordView
from binlog.cli.main import main
from tests.support.examples import examples
from tests.support.sample_events import event_record
from tests.unit.cli.run_command import fill, run
from tests.unit.cli.test_terminal import HOSTILE, OBEYED, on_terminal

_EVENT = {
    "time": "2026-01-02T03:04:05.678901Z",
    "severity": 13,
    "level": "WARNING",
    "logger": "app.db",
    "body": "slow query",
    "attributes": {"order": 7, "customer": "A B", "exception.stacktrace": "many\nlines"},
}
_TIME_NS = 1_767_323_045_678_901_000

# Newlines, quotes, separators and escapes are more frequent than in random text.
_PIECES = st.sampled_from(
    [
        "\n",
        "\r",
        "\r\n",
        "\0",
        "\x1e",
        ",",
        '"',
        "\t",
        "{",
        "}",
        "\\",
        "\x1b[31m",
        "\x9b",
        "\u2028",
        "\u202e",
        "\ud800",
        "ü",
    ]
)
_TEXTS = st.lists(_PIECES | st.text(max_size=3)).map("".join)
_JSON = st.recursive(
    _TEXTS | st.integers() | st.none(), lambda each: st.dictionaries(_TEXTS, each, max_size=3), max_leaves=4
)
_DATA = st.one_of(
    st.dictionaries(
        st.sampled_from(
            ["time", "severity", "level", "logger", "body", "event", "attributes", "ref", "log", "sequence"]
        ),
        _JSON,
    ).map(lambda event: json.dumps(event).encode()),
    _TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.binary(max_size=20),
)
_NAMES = ("log", "ref", "sequence", "time", "level", "logger", "body", "attributes")


def _views(datas: list[bytes]) -> list[RecordView]:
    from binlog.cli.looking.event_fields import parse_event

    return [
        RecordView("logs/a\nb", binlog.Ref(1, 256 + index), index, _TIME_NS, data, parse_event(data))
        for index, data in enumerate(datas)
    ]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(_DATA, max_size=4), st.booleans())
@pytest.mark.slow
def test_a_record_cannot_add_a_line_or_a_control_character_to_text(datas: list[bytes], named: bool) -> None:
    views = _views(datas)
    options = {"named": named, "coloured": False, "utc": True}
    template = Template("{time}\\t{body}\\t{level:<8}\\t{attributes}\\t{ref}", utc=True)
    for end in (b"\n", b"\0"):
        formats = [Short(end=end, **options), Templated(template, end=end, **options), Named(end=end, **options)]
        for each in formats:
            out = each.of_views(views)
            assert out.count(end) == len(views)
            plain = out.replace(end, b"").replace(b"\t", b"" if isinstance(each, Templated) else b"\t")
            assert not re.search(rb"[\x00-\x1f\x7f]", plain)
            assert not re.search("[\x80-\x9f\u2028\u2029\u202a-\u202e]", plain.decode())
    lines = Templated(template, end=b"\n", **{**options, "named": False}).of_views(views).decode().split("\n")
    for index, line in enumerate(lines[:-1]):
        fields = line.split("\t")
        assert len(fields) == 5
        assert fields[4] == f"1:{256 + index}"


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(_DATA, max_size=4))
@pytest.mark.slow
def test_csv_has_a_row_for_each_record_with_its_fields(datas: list[bytes]) -> None:
    views = _views(datas)
    rows_of = Csv(_NAMES, end="\r\n", named=True, utc=True)
    text = (rows_of.begin() + rows_of.of_views(views)).decode()
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert head == list(_NAMES)
    assert len(rows) == len(views)
    for view, row in zip(views, rows, strict=True):
        assert row[:3] == [view.log, str(view.ref), str(view.sequence)]
        assert len(row) == len(_NAMES)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(_DATA, max_size=4), st.booleans(), st.booleans())
@pytest.mark.slow
def test_json_has_an_object_for_each_record(datas: list[bytes], sequences: bool, chosen: bool) -> None:
    views = _views(datas)
    names = _NAMES if chosen else ()
    out = Json(names, start=b"\x1e" if sequences else b"", end=b"\n", named=True).of_views(views)
    assert out.count(b"\n") == len(views)
    assert out.count(b"\x1e") == (len(views) if sequences else 0)
    # RFC 7464: texts are found by the record separators alone.
    texts = out.split(b"\x1e")[1:] if sequences else out.split(b"\n")[:-1]
    for view, text in zip(views, texts, strict=True):
        shown = json.loads(text)
        assert (shown["log"], shown["ref"], shown["sequence"]) == (view.log, str(view.ref), view.sequence)
        if chosen:
            assert list(shown) == list(names)
        else:
            data = shown["text"].encode() if "text" in shown else base64.b64decode(shown["base64"])
            assert data == view.data


@pytest.mark.parametrize("form", [form for form in Form if form is not Form.TEMPLATE])
def test_a_terminal_gets_only_our_colours(form: Form, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event = {"severity": 17, "level": HOSTILE, "logger": HOSTILE, "body": HOSTILE, "attributes": {HOSTILE: HOSTILE}}
    fill(log, [json.dumps(event).encode(), HOSTILE.encode()])
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with on_terminal(monkeypatch) as message:
        assert main(["cat", "-o", form.value, str(log)]) == 0
    shown = message()
    assert shown
    for colour in (b"\x1b[31m", b"\x1b[0m"):
        shown = shown.replace(colour, b"")
    assert [obeyed for obeyed in OBEYED if obeyed in shown] == []


@pytest.mark.parametrize(
    ("variable", "value", "colours"), [("NO_COLOR", "", 2), ("NO_COLOR", "1", 0), ("TERM", "dumb", 0)]
)
@pytest.mark.slow
def test_events_are_coloured_by_level_on_a_terminal(
    variable: str, value: str, colours: int, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, [json.dumps({"severity": severity, "body": "x"}).encode() for severity in (9, 13, 17)])
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(variable, value)
    for words in (["-o", "short"], ["--template", "{body}"]):
        with on_terminal(monkeypatch) as message:
            assert main(["cat", *words, str(log)]) == 0
        assert message().count(b"\x1b[0m") == colours
    assert b"\x1b" not in run("cat", "-o", "short", log).stdout


def test_a_terminal_shows_no_carriage_returns_of_csv(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, [b"x"])
    with on_terminal(monkeypatch) as message:
        assert main(["cat", "-o", "csv", "--fields", "text", str(log)]) == 0
    assert message() == b"text\nx\n"


def test_short_shows_time_sequence_level_logger_body_and_attributes() -> None:
    event = json.dumps(_EVENT).encode()
    out = Short(end=b"\n", named=False, coloured=False, utc=True).of_views(_views([event, b"plain \n", b"[1]", b"{}"]))
    assert out.decode().splitlines() == [
        '2026-01-02 03:04:05.678 0 WARNING  app.db: slow query order=7 customer="A B"',
        "2026-01-02 03:04:05.678 - plain \\n".replace(" - ", " 1 "),
        "2026-01-02 03:04:05.678 2 [1]",
        "2026-01-02 03:04:05.678 3 {}",
    ]


def test_the_fields_of_the_log_cannot_be_forged_by_an_event(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    forged = {"log": "x", "ref": "9:9", "number": 9, "offset": 9, "sequence": 99, "appended": "x", "text": "x"}
    fill(log, [json.dumps({**forged, "body": "b"}).encode()])
    names = ",".join(forged)
    assert main(["cat", "-o", "json", "--fields", names, "--fields", "attributes.none", str(log)]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert (shown["log"], shown["ref"], shown["number"], shown["offset"]) == (str(log), "1:256", 1, 256)
    assert (shown["sequence"], shown["attributes.none"]) == (0, None)
    assert shown["appended"].endswith("Z")
    assert json.loads(shown["text"])["ref"] == "9:9"


def test_the_time_of_an_event_is_its_own(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [json.dumps(_EVENT).encode(), b"plain"])
    assert main(["cat", "--utc", "--template", "{time}|{sequence}|{body}|{order:>3}", str(log)]) == 0
    first, second = capfd.readouterr().out.splitlines()
    assert first == "2026-01-02T03:04:05.678901Z|0|slow query|  7"
    with binlog.Reader(log) as reader:
        _, entry = reader
        time = entry.time.isoformat(timespec="microseconds").replace("+00:00", "Z")
    assert second == f"{time}|1|plain|   "


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-02T03:04:05",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+23:59",
        "1960-01-01T00:00:00Z",
        "today",
        "",
        7,
        None,
        {"a": 1},
    ],
)
def test_an_event_without_a_time_that_can_be_shown_has_that_of_the_log(
    time: object, log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(log, [json.dumps({"time": time, "severity": 9, "body": "b"}).encode()])
    for words in (["--template", "{time}"], ["--template", "{appended}"]):
        assert main(["cat", *words, str(log)]) == 0
    shown, appended = capfd.readouterr().out.splitlines()
    assert shown == appended
    assert main(["cat", "-o", "short", str(log)]) == 0


@pytest.mark.slow
def test_raw_and_null_ends(log: Path) -> None:
    records = [event_record(number) for number in range(20)]
    fill(log, records)
    assert run("cat", "-o", "raw", log).stdout == b"".join(records)
    assert run("cat", "-0", log).stdout == b"".join(record + b"\0" for record in records)
    assert run("cat", "-o", "short", "-0", log).stdout.count(b"\0") == 20
    assert run("cat", "-o", "csv", log).stdout.startswith(b"time,sequence,ref,level,logger,body,attributes\r\n")


@pytest.mark.slow
def test_each_line_names_its_log_if_there_are_several(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    fill(log, [b"one\nother: forged"])
    fill(other, [b"two"])
    assert run("cat", log, other).stdout.decode() == f"{log}: one\\nother: forged\n{other}: two\n"
    for form in ("short", "json", "json-seq"):
        lines = run("tail", "-o", form, log, other).stdout.decode().split("\n")
        assert str(log) in lines[0]
        assert str(other) in lines[1]
    out = run("cat", "--template", "{log}={body}", log, other).stdout.decode()
    assert out == f"{log}=one\\nother: forged\n{other}=two\n"


def test_a_message_with_an_envelope_is_shown_by_its_body(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    messages = [
        binlog.Message(body=body, key=b"k", headers={"h": b"1"}).pack()
        for body in (b"plain", json.dumps({"level": "INFO", "body": "said"}).encode())
    ]
    fill(log, [*messages, b"\xb1MSG not a message"])
    assert main(["tail", "-n", "9", "-o", "short", str(log)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].endswith(" 0 plain")
    assert ": said" in lines[1]
    assert lines[2].endswith(r" 2 \xb1MSG not a message")
    assert main(["monitor", "--once", str(log)]) == 0
    assert main(["tail", "-n", "9", "--json", str(log)]) == 0
    packed = [json.loads(line)["base64"] for line in capfd.readouterr().out.splitlines()[-3:]]
    assert [base64.b64decode(each) for each in packed[:2]] == messages
