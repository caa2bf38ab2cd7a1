"""Many processes ingest external files while others append and cut over: each batch is whole, contiguous, and in the
log once.
"""

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


def _record(publisher: int, sequence: int, index: int) -> bytes:
    return b"ingested %d %d %d" % (publisher, sequence, index)


def _external_files(log: Path, publisher: int, sequence: int) -> list[ExternalFile]:
    made = []
    for file in range(_FILES):
        with ExternalFileWriter(log / "aside" / os.urandom(8).hex()) as external:
            indexes = range(file * _RECORDS, (file + 1) * _RECORDS)
            external.append(Batch.from_records([_record(publisher, sequence, index) for index in indexes]))
            made.append(external.finish())
    return made


def _publish(log: Path, publisher: int, batches: int, pause: float = 0.0) -> None:
    with Writer(log) as writer:
        for sequence in range(batches):
            writer.ingest(
                _external_files(log, publisher, sequence), producer=f"publisher {publisher}", sequence=sequence
            )
            time.sleep(pause)


def _look(log: Path) -> int:
    """List the log and read it from new starts, until the last record is in it; return how often."""
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
    """Check that each batch's records are complete, contiguous and in order, and that a publisher's sequences rise.

    until: the last record; the last files of its batch may not be in the log yet.
    """
    if until and until[0].startswith(b"ingested "):
        publisher, sequence, index = map(int, until[0].split()[1:])
        assert (index + 1) % _RECORDS == 0, "a part of a file"
        found = found + [_record(publisher, sequence, rest) for rest in range(index + 1, _FILES * _RECORDS)]
    ingested = [tuple(map(int, record.split()[1:])) for record in found if record.startswith(b"ingested ")]
    size = _FILES * _RECORDS
    batches = [ingested[start : start + size] for start in range(0, len(ingested), size)]
    for batch in batches:
        assert batch == [(*batch[0][:2], index) for index in range(size)]
    counts = Counter(batch[0][0] for batch in batches)
    for publisher in counts:
        assert [batch[0][1] for batch in batches if batch[0][0] == publisher] == list(range(counts[publisher]))


def _all_of(log: Path, publishers: int, batches: int, writers: int, count: int) -> None:
    work = [(_publish, (log, publisher, batches)) for publisher in range(publishers)]
    work += [(append_jobs, (log, writer, count)) for writer in range(writers - 1)]
    run_all("fork", [*work, (append_and_cut_over, (log, writers - 1, count, 20))])
    with Writer(log) as writer:
        writer.append(_LAST)


def test_concurrent_ingests_appends_and_cutovers(log: Path) -> None:
    publishers, batches, writers, count = 3, 12, 3, 150
    (log / "aside").mkdir(parents=True)
    with Writer(log):
        pass
    found = run_all(
        "fork",
        [(_all_of, (log, publishers, batches, writers, count)), (_look, (log,)), (_follow, (log,)), (_follow, (log,))],
    )
    records = read_all(log)
    _check_whole(records)
    assert sum(record.startswith(b"ingested ") for record in records) == publishers * batches * _FILES * _RECORDS
    jobs = [record for record in all_raw_records(log) if not record.startswith(b"ingested ") and record != _LAST]
    assert jobs_by_writer(jobs) == {writer: list(range(count)) for writer in range(writers)}
    assert found[1] > 3
    assert found[2] == found[3] == records
    assert not list(log.glob(".*"))


@pytest.mark.slow
def test_ingesting_processes_that_are_killed_again_and_again(log: Path) -> None:
    """Killed at any moment, and started again with all their batches, until they finish."""
    batches, kills = 40, 30
    (log / "aside").mkdir(parents=True)
    with Writer(log):
        pass
    beside = Child(append_and_cut_over, log, 0, 600, 40)
    watching = Child(_look, log)
    for number in range(kills):
        child = Child(_publish, log, number % 2, batches, 0.002)
        time.sleep(0.03 + (number * 7919 % 100) / 700)
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        os.close(child._errors)
        assert binlog.check(log) == []
    for publisher in range(2):
        _publish(log, publisher, batches)
    beside.join()
    with Writer(log) as writer:
        writer.append(_LAST)
    watching.join()
    records = read_all(log)
    _check_whole(records)
    assert sum(record.startswith(b"ingested ") for record in records) == 2 * batches * _FILES * _RECORDS
