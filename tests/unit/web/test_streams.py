"""The events of a browser as a log grows: states, records that match, and notes; a slow browser."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import binlog
from binlog.cli.watching.web_log import WebLog
from binlog.web import watcher
from binlog.web.outbox import Outbox
from binlog.web.watcher import Watcher
from tests.support.web_pages import Page, Stream, running
from tests.unit.cli.run_command import ended, fill, read_lines, started

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("web-streams")]

_ERROR = b'{"severity":17,"level":"ERROR","logger":"app.db","body":"lost","attributes":{"order":%d}}'
_INFO = b'{"severity":9,"level":"INFO","logger":"app.http","body":"served","attributes":{"order":%d}}'


def _append(log: Path, *records: bytes) -> None:
    with binlog.Writer(log) as writer:
        writer.append_many(records)


def test_a_stream_has_the_last_records_and_then_each_new_one(tmp_path: Path) -> None:
    fill(tmp_path, [b"one", b"two"])
    with running(tmp_path) as page, page.stream() as stream:
        assert stream.texts(2) == ["one", "two"]
        _append(tmp_path, b"three")
        assert [row["text"] for row in stream.next("rows")["rows"]] == ["three"]
        with binlog.Writer(tmp_path) as writer:
            writer.cutover()
            ref = writer.append(b"four")
        [row] = stream.next("rows")["rows"]
        assert (row["text"], row["ref"], row["sequence"]) == ("four", str(ref), 3)


def test_no_record_is_lost_or_twice_while_a_stream_begins(tmp_path: Path) -> None:
    numbers = itertools.count()
    fill(tmp_path, [b"%d" % next(numbers)])
    with running(tmp_path) as page, binlog.Writer(tmp_path) as writer:
        for _ in range(20):
            before = writer.append(b"%d" % next(numbers)).offset
            with page.stream() as stream:
                wanted = [writer.append(b"%d" % next(numbers)).offset for _ in range(5)]
                seen: list[int] = []
                while not seen or seen[-1] < wanted[-1]:
                    name, data = next(stream.events())
                    if name in ("start", "rows"):
                        seen += [binlog.Ref.parse(row["ref"]).offset for row in data["rows"]]
                assert seen == sorted(set(seen))
                assert {before, *wanted} <= set(seen)


def test_each_browser_gets_the_records_that_match_its_filter(tmp_path: Path) -> None:
    fill(tmp_path, [_ERROR % 1, _INFO % 1, b"plain LOST"])
    filters: list[tuple[dict[str, Any], list[str]]] = [
        ({"level": "warning"}, ["lost order=1", "lost order=2"]),
        ({"logger": "app.h*"}, ["served order=1", "served order=2"]),
        ({"field": "order=2"}, ["lost order=2", "served order=2"]),
        ({"text": "lOsT"}, ["lost order=1", "plain LOST", "lost order=2"]),
        ({"level": "info", "field": "order=2", "text": "served"}, ["served order=2"]),
    ]
    with running(tmp_path) as page:
        streams = [page.stream(**values) for values, _ in filters]
        for stream, (values, texts) in zip(streams, filters, strict=True):
            assert stream.texts(0) == [text for text in texts if "2" not in text], values
        _append(tmp_path, _ERROR % 2, _INFO % 2)
        for stream, (values, texts) in zip(streams, filters, strict=True):
            found = [row["text"] for row in stream.next("rows")["rows"]]
            assert found == [text for text in texts if "2" in text], values
            stream.__exit__()


@pytest.mark.parametrize("values", [{"level": "loud"}, {"field": "order"}, {"field": "=7"}, {"level": "25"}])
def test_a_wrong_filter_is_refused_with_the_reason(page: Page, values: dict[str, str]) -> None:
    for path in ("/api/check", "/events"):
        answer = page.get(path, log=0, **values)
        assert answer.status == 400
        assert next(iter(values.values())) in answer.json["error"]


def test_the_state_of_every_log_reaches_every_stream(tmp_path: Path) -> None:
    logs = [tmp_path / "first", tmp_path / "second"]
    for log in logs:
        fill(log, [b"one"])
    (logs[1] / "audit.position").write_text("1:256\n")
    with running(*logs) as page:
        assert page.get("/api/logs").json["logs"] == list(map(str, logs))
        with page.stream(log=1) as stream:
            states = {state["log"]: state for state in (stream.next("state"), stream.next("state"))}
            assert [states[number]["record_count"] for number in (0, 1)] == [1, 1]
            [follower] = states[1]["followers"]
            assert (follower["name"], follower["records_behind"]) == ("audit.position", 1)
            _append(logs[0], b"two", b"three")
            while (state := stream.next("state"))["log"] != 0 or state["record_count"] != 3:
                pass
            assert max([*state["history"][-5:], state["rate"]["records"]]) > 0
            _append(logs[1], b"two")
            assert [row["text"] for row in stream.next("rows")["rows"]] == ["two"]


def test_damage_is_noted_and_later_records_are_read(tmp_path: Path) -> None:
    refs = fill(tmp_path, [b"one", b"two" * 1000], [b"three"])
    with running(tmp_path) as page, page.stream() as stream:
        assert stream.texts(3)[2] == "three"
        with (tmp_path / "00000001.dat").open("r+b") as file:
            file.seek(refs[1].offset + 100)
            file.write(b"damage")
        with page.stream() as other:
            assert other.next("start")["rows"]
            _append(tmp_path, b"four")
            assert [row["text"] for row in other.next("rows")["rows"]] == ["four"]
        assert page.get("/api/record", log=0, ref=refs[1]).status == 200


def test_a_browser_that_reads_nothing_costs_a_fixed_amount(tmp_path: Path) -> None:
    fill(tmp_path, [b"first"])
    with running(tmp_path) as page, page.stream() as slow, page.stream() as quick, binlog.Writer(tmp_path) as writer:
        slow.texts(1)
        quick.texts(1)
        before = _resident_bytes(page)
        records = [b"x" * 3000 for _ in range(100)]
        for _ in range(10):
            for _ in range(30):
                last = writer.append_many(records, mode=binlog.Mode.FLUSH)[-1]
            # If the writer did not wait for the quick browser, the server itself could skip records.
            _rows_to(quick, last)
        assert _resident_bytes(page) - before < 30 << 20  # the records are 90 MB
        # The slow browser then learns how many it missed, and gets the last records.
        received, skipped = _rows_to(slow, last)
        assert received + skipped == 30_000
        assert skipped > 10_000


def _rows_to(stream: Stream, last: binlog.Ref) -> tuple[int, int]:
    """Read a stream up to a record; return how many records it had, and how many it said were skipped."""
    received = skipped = 0
    while True:
        found = stream.next("rows")
        received += len(found["rows"])
        skipped += found["skipped"]
        if found["rows"] and found["rows"][-1]["ref"] == str(last):
            return received, skipped


def test_records_that_come_too_fast_are_skipped_with_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "_BEHIND_BYTES_MAX", 1000)
    monkeypatch.setattr(watcher, "STATE_SECONDS", 0.0)  # so each batch takes too long
    fill(tmp_path, [b"first"])

    async def seen() -> list[str]:
        outbox = Outbox(asyncio.get_running_loop())
        log = WebLog(str(tmp_path), "log", ())
        watching = Watcher(0, log)
        await asyncio.to_thread(watching.listen, outbox, log.query({}))
        fill(tmp_path, [b"x" * 1000], [b"x" * (3 << 20), b"last"])
        watching.start()
        texts: list[str] = []
        while "last" not in texts:
            for name, data in await outbox.take(30, None):
                texts += [json.loads(data)["text"]] if name == "note" else []
                texts += [row["text"] for row in json.loads(data)["rows"]] if name == "rows" else []
        await asyncio.to_thread(watching.end)
        return texts

    texts = asyncio.run(seen())
    assert "records came faster than they could be read: 3 MiB of them were skipped" in texts
    assert texts.count("last") == 1


def test_a_large_record_that_is_no_text_takes_little_time(tmp_path: Path) -> None:
    # Escaping all of its bytes takes some ten seconds, in which the server answers nothing.
    [ref] = fill(tmp_path, [b"\xff" * (60 << 20)])
    log = WebLog(str(tmp_path), "log", ())
    began = time.process_time()
    [row] = log.query({}).last(100).rows
    assert json.loads(row.data)["text"] == "\\xff" * 500
    found = log.record(ref)
    assert (found["text"], found["is_cut"]) == ("\\xff" * (1 << 18), True)
    assert time.process_time() - began < 3
    log.close()


def _resident_bytes(page: Page) -> int:
    pages = int(Path(f"/proc/{page.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_streams_end_when_the_server_ends(tmp_path: Path, number: signal.Signals) -> None:
    fill(tmp_path, [b"one"])
    with started("web", tmp_path) as process:
        [line] = read_lines(process.stdout, 1)
        with Page(tmp_path, line.decode().strip(), process).stream() as stream:
            assert stream.texts(1) == ["one"]
            process.send_signal(number)
            assert all(name == "state" for name, _ in stream.events())
        assert ended(process) == (-number, b"")
