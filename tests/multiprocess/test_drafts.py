"""Drafts that many processes add to a log at once, beside appends and cutovers: each set whole, once, in one place."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

import binlog
from binlog import Batch, ExternalFile, ExternalFileWriter, Reader, Start, Writer
from binlog.spark.log.snapshot import take_snapshot
from tests.support.children import Child
from tests.support.logs import all_raw_records, jobs_by_writer, read_all
from tests.support.workers import append_and_cut_over, append_jobs, run_all

_FILES, _RECORDS = 3, 4
_LAST = b"the last one"


def _record(publisher: int, turn: int, index: int) -> bytes:
    return b"draft %d %d %d" % (publisher, turn, index)


def _drafts(log: Path, publisher: int, turn: int) -> list[ExternalFile]:
    made = []
    for file in range(_FILES):
        with ExternalFileWriter(log / "aside" / os.urandom(8).hex()) as draft:
            indexes = range(file * _RECORDS, (file + 1) * _RECORDS)
            draft.append(Batch.from_records([_record(publisher, turn, index) for index in indexes]))
            made.append(draft.finish())
    return made


def _publish(log: Path, publisher: int, turns: int, pause: float = 0.0) -> None:
    with Writer(log) as writer:
        for turn in range(turns):
            writer.ingest(_drafts(log, publisher, turn), producer=f"publisher {publisher}", sequence=turn)
            time.sleep(pause)


def _look(log: Path) -> int:
    """List the log and read it from new starts, until the last record is there; how often that was."""
    looks = 0
    while True:
        with Reader(log) as reader:
            found = [entry.data for entry in reader]
        _check_whole(found, until=found[-1:])
        files = take_snapshot(log)
        counts = [file.record_count or 0 for file in files]
        assert [file.first_sequence for file in files[:-1]] == [
            sum(counts[:before]) for before in range(len(counts) - 1)
        ]
        with Reader(log, Start.END) as reader:
            assert reader.next_ref.number >= files[-2:][0].number
        looks += 1
        if found and found[-1] == _LAST:
            return looks


def _follow(log: Path) -> list[bytes]:
    with Reader(log) as reader:
        found = []
        for entry in reader.tail():
            found.append(entry.data)
            if entry.data == _LAST:
                return found
    raise AssertionError("it is never closed")


def _check_whole(found: list[bytes], *, until: list[bytes] | None = None) -> None:
    """Each turn's records are all there, next to each other and in order, and those of a publisher's turns rise.

    until: the last record, of a turn whose last files may not be in the log yet.
    """
    if until and until[0].startswith(b"draft "):
        publisher, turn, index = map(int, until[0].split()[1:])
        assert (index + 1) % _RECORDS == 0, "a part of a file"
        found = found + [_record(publisher, turn, rest) for rest in range(index + 1, _FILES * _RECORDS)]
    drafted = [tuple(map(int, record.split()[1:])) for record in found if record.startswith(b"draft ")]
    size = _FILES * _RECORDS
    turns = [drafted[start : start + size] for start in range(0, len(drafted), size)]
    for turn in turns:
        assert turn == [(*turn[0][:2], index) for index in range(size)]
    counts = Counter(turn[0][0] for turn in turns)
    for publisher in counts:
        assert [turn[0][1] for turn in turns if turn[0][0] == publisher] == list(range(counts[publisher]))


def _all_of(log: Path, publishers: int, turns: int, writers: int, count: int) -> None:
    work = [(_publish, (log, publisher, turns)) for publisher in range(publishers)]
    work += [(append_jobs, (log, writer, count)) for writer in range(writers - 1)]
    run_all("fork", [*work, (append_and_cut_over, (log, writers - 1, count, 20))])
    with Writer(log) as writer:
        writer.append(_LAST)


def test_publishers_appenders_and_cutovers_at_once(log: Path) -> None:
    publishers, turns, writers, count = 3, 12, 3, 150
    (log / "aside").mkdir(parents=True)
    with Writer(log):
        pass
    found = run_all(
        "fork",
        [(_all_of, (log, publishers, turns, writers, count)), (_look, (log,)), (_follow, (log,)), (_follow, (log,))],
    )
    records = read_all(log)
    _check_whole(records)
    assert sum(record.startswith(b"draft ") for record in records) == publishers * turns * _FILES * _RECORDS
    jobs = [record for record in all_raw_records(log) if not record.startswith(b"draft ") and record != _LAST]
    assert jobs_by_writer(jobs) == {writer: list(range(count)) for writer in range(writers)}
    assert found[1] > 3
    assert found[2] == found[3] == records
    assert not list(log.glob(".*"))


@pytest.mark.slow
def test_publishers_that_are_killed_again_and_again_beside_others(log: Path) -> None:
    """Killed at whatever moment, and begun anew with all their turns, until they are through."""
    turns, kills = 40, 30
    (log / "aside").mkdir(parents=True)
    with Writer(log):
        pass
    beside = Child(append_and_cut_over, log, 0, 600, 40)
    watching = Child(_look, log)
    for number in range(kills):
        child = Child(_publish, log, number % 2, turns, 0.002)
        time.sleep(0.03 + (number * 7919 % 100) / 700)
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        os.close(child._errors)
        assert binlog.check(log) == []
    for publisher in range(2):
        _publish(log, publisher, turns)
    beside.join()
    with Writer(log) as writer:
        writer.append(_LAST)
    watching.join()
    records = read_all(log)
    _check_whole(records)
    assert sum(record.startswith(b"draft ") for record in records) == 2 * turns * _FILES * _RECORDS
