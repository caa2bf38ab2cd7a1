"""Writers, readers, retention and archiving together: no record is lost, returned twice, or out of order."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import binlog
from binlog import Mode, Reader, Ref, Start, Writer
from tests.support.archives import small_frames
from tests.support.children import Child
from tests.support.logs import read_all

CUTOVERS = 25
EACH = 40


def _record(number: int) -> bytes:
    return b"%08d" % number * 20


def _write(log: Path) -> None:
    with Writer(log) as writer:
        for cutover in range(CUTOVERS):
            for group in range(4):
                first = cutover * EACH + group * 10
                writer.append_many([_record(number) for number in range(first, first + 10)], mode=Mode.FLUSH)
            writer.cutover()
        writer.append(b"end")


def _archive_until_done(log: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        small_frames(patch, 1000)
        while binlog.stat(log).files[-1].number <= CUTOVERS or not binlog.stat(log).files[-2].archived:
            assert [each.problem for each in binlog.archive(log) if each.problem is not None] == []


def _follow(log: Path) -> None:
    """Read from the start with one pass."""
    found = []
    with Reader(log) as reader:
        for entry in reader.tail(30):
            if entry.data == b"end":
                break
            found.append(entry.data)
    assert found == [_record(number) for number in range(CUTOVERS * EACH)]


def _restart(log: Path) -> None:
    """Read with a new reader for every few records, each from the position of the last one."""
    found: list[bytes] = []
    at: Ref | Start = Start.BEGINNING
    while True:
        with Reader(log, at) as reader:
            reader.wait(30)
            batch = reader.read_batch(records_max=23)
            found += batch
            at = reader.next_ref
        if found[-1] == b"end":
            break
    assert found == [*(_record(number) for number in range(CUTOVERS * EACH)), b"end"]


def test_archiving_beside_writers_readers_and_cutovers(log: Path) -> None:
    with Writer(log):
        pass
    jobs = [Child(job, log) for job in (_write, _archive_until_done, _follow, _restart, _restart)]
    for job in jobs:
        job.join()
    files = binlog.stat(log).files
    assert [file.archived for file in files] == [True] * CUTOVERS + [False]
    assert len(read_all(log)) == CUTOVERS * EACH + 1


def test_archiving_in_threads_of_one_process(log: Path) -> None:
    with Writer(log):
        pass
    failed: list[BaseException] = []

    def run(job: object) -> None:
        try:
            job(log)  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001 - the test fails with it
            failed.append(error)

    threads = [threading.Thread(target=run, args=[job]) for job in (_write, _archive_until_done, _follow, _restart)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(read_all(log)) == CUTOVERS * EACH + 1
