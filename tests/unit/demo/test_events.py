"""The demo's events: their content, their division among writers, and their keys."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from stress.demo import events
from stress.demo.events import Key


def test_a_key_round_trips() -> None:
    key = Key(3, 1234, "ab" * 32)
    assert Key.parse(str(key)) == key


def test_the_key_of_a_record_changes_with_any_byte() -> None:
    record = events.make_record({"path": "/x", "line": 1, "text": "hello"}, writer=2, sequence=7)
    assert events.key_of(record) == Key(2, 7, events.hash_of(record))
    changed = record.replace(b"hello", b"hellp")
    assert events.key_of(changed)[:2] == (2, 7)
    assert events.key_of(changed) != events.key_of(record)


@pytest.mark.parametrize("record", [b"", b"{}", b"[1]", b"\xff", b"1", b'{"writer": 1}'])
def test_invalid_events_are_refused(record: bytes) -> None:
    with pytest.raises(ValueError, match="not an event of the demo"):
        events.key_of(record)


def test_an_event_describes_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    [item] = itertools.islice(events.file_items([path]), 1)
    event = json.loads(events.make_record(item, writer=0, sequence=0))
    assert (event["path"], event["size"], event["turn"]) == (str(path), 7, 1)
    assert event["sha256"] == events.hash_of(b"content")
    assert event["mtime"] == path.stat().st_mtime


def test_a_removed_file_is_an_event(tmp_path: Path) -> None:
    event = json.loads(events.make_record({"path": str(tmp_path / "gone"), "turn": 1}, writer=0, sequence=0))
    assert event["error"] == "No such file or directory"


def test_a_file_with_a_strange_name(tmp_path: Path) -> None:
    path = tmp_path / b"caf\xe9\n".decode(errors="surrogateescape")
    path.write_bytes(b"content")
    work = tmp_path / "work"
    events.write_work(work, events.file_items([path]), 1)
    [(_, item)] = events.read_work(work, writer=0, writers=1)
    event = json.loads(events.make_record(item, writer=0, sequence=0))
    assert event["size"] == 7
    assert event["path"].encode() == bytes(tmp_path) + b"/caf\\xe9\n"


def test_files_are_repeated() -> None:
    items = itertools.islice(events.file_items([Path("/a"), Path("/b")]), 5)
    assert [(item["path"], item["turn"]) for item in items] == [("/a", 1), ("/b", 1), ("/a", 2), ("/b", 2), ("/a", 3)]
    assert list(events.file_items([])) == []


def test_lines_of_a_given_file(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"first\n\nwith \xff\nr\xc3\xa9sum\xc3\xa9\r\nlast, without an end")
    items = list(events.line_items([path]))
    assert [item["line"] for item in items] == [1, 2, 3, 4, 5]
    assert [item.get("text") for item in items] == ["first", "", None, "résumé\r", "last, without an end"]
    assert items[2]["base64"] == "d2l0aCD/"


def test_the_work_is_divided_completely(tmp_path: Path) -> None:
    work = tmp_path / "work"
    assert events.write_work(work, ({"line": number} for number in range(100)), 23) == 23
    shares = [list(events.read_work(work, writer=writer, writers=4)) for writer in range(4)]
    assert [len(share) for share in shares] == [events.share(23, writer=writer, writers=4) for writer in range(4)]
    assert sorted(item["line"] for share in shares for _, item in share) == list(range(23))
    for share in shares:
        assert [sequence for sequence, _ in share] == list(range(len(share)))


def test_a_successor_gets_the_same_work(tmp_path: Path) -> None:
    work = tmp_path / "work"
    events.write_work(work, ({"line": number} for number in range(23)), None)
    whole = list(events.read_work(work, writer=1, writers=4))
    assert list(events.read_work(work, writer=1, writers=4, first=2)) == whole[2:]
    assert list(events.read_work(work, writer=1, writers=4, first=len(whole))) == []


@pytest.mark.slow
def test_the_python_installation_has_enough_events() -> None:
    files = events.python_files()
    assert len(files) > 500
    assert len(set(files)) == len(files)
    assert not any("__pycache__" in path.parts for path in files)
