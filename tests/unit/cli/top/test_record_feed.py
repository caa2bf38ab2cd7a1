"""RecordFeed: which records are kept, and which are skipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import binlog
from binlog.cli.looking.options import parse_filters
from binlog.cli.top import record_feed
from binlog.cli.top.record_feed import KEPT_MAX, RecordFeed
from tests.unit.cli.run_command import fill


def _feed(log: Path, words: str = "") -> RecordFeed:
    return RecordFeed([(str(log), "log")], parse_filters(words))


def _shown(feed: RecordFeed) -> list[bytes]:
    return [view.data for view in feed.shown.views]


@pytest.mark.slow
def test_the_last_records_are_kept_also_while_it_is_paused(log: Path) -> None:
    records = [b"%d" % number for number in range(3 * KEPT_MAX)]
    fill(log, records[:10])
    feed = _feed(log)
    fill(log, records[10 : KEPT_MAX + 5])
    feed.update()
    assert _shown(feed) == records[5 : KEPT_MAX + 5]
    feed.pause(is_paused=True)
    fill(log, records[KEPT_MAX + 5 :])
    while feed.update() or feed.new_count < 2 * KEPT_MAX - 5:
        pass
    assert _shown(feed) == records[5 : KEPT_MAX + 5]
    feed.pause(is_paused=False)
    assert _shown(feed) == records[-KEPT_MAX:]
    assert feed.skipped == KEPT_MAX - 5
    feed.close()


def test_large_records_do_not_fill_the_memory(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_feed, "_KEPT_BYTES_MAX", 10_000)
    fill(log, [b"x" * 3000] * 10)
    feed = _feed(log)
    assert (len(feed.shown.views), feed.shown.trimmed) == (3, 7)
    fill(log, [b"y" * 50_000])
    feed.update()
    assert [len(view.data) for view in feed.shown.views] == [50_000]
    feed.close()


def test_records_that_come_too_fast_are_skipped_and_counted(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_feed, "_BEHIND_BYTES_MAX", 1000)
    monkeypatch.setattr(record_feed, "KEPT_MAX", 10)
    fill(log, [b"first"])
    feed = _feed(log)
    fill(log, [b"%04d" % number for number in range(500)])
    feed.update()
    # The last ones are shown although no more come.
    assert (_shown(feed), feed.skipped) == ([b"%04d" % number for number in range(490, 500)], 490)
    fill(log, [b"last"])
    feed.update()
    assert _shown(feed)[-2:] == [b"0499", b"last"]
    feed.close()


def test_levels_are_counted_whatever_the_filter_is(log: Path) -> None:
    fill(log, [b"x"])
    feed = _feed(log, "--grep nothing")
    events = [json.dumps({"severity": severity}).encode() for severity in (5, 9, 13, 14, 17, 21, 17)]
    fill(log, [*events, b'{"body":"\\"severity\\":17"}', b'{"severity":"17"}', b"plain"])
    feed.update()
    meters = {level: rate.per_second for level, rate in feed.level_rates().items()}
    assert meters["errors"] == pytest.approx(1.5 * meters["warnings"])
    assert meters["warnings"] > 0
    assert _shown(feed) == []
    feed.close()


def test_a_log_whose_files_were_removed_continues_with_the_oldest_record(log: Path) -> None:
    fill(log, [b"one"], [b"two"])
    feed = _feed(log)
    assert _shown(feed) == [b"one", b"two"]
    fill(log, [b"three"], [b"four"], [b"five"])
    binlog.prune(log, keep_bytes=0)
    for _ in range(3):
        feed.update()
    assert _shown(feed)[-1] == b"five"
    assert feed.problem is None
    feed.close()


def test_damage_is_a_problem_and_the_feed_continues_after_it_is_repaired(log: Path) -> None:
    fill(log, [b"one"])
    feed = _feed(log)
    with open(log / "00000001.dat", "rb+") as file:
        file.write(b"\xff")
        file.flush()
        damaged = _feed(log)
        assert damaged.problem is not None
        file.seek(0)
        file.write(b"\x00")
    fill(log, [b"two"])
    damaged.update()
    feed.update()
    assert damaged.problem is None
    assert _shown(feed)[-1] == b"two"
    for each in (feed, damaged):
        each.close()
