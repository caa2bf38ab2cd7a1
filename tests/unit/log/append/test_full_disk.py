"""A disk that is really full: the test's own small file system, in a mount namespace."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Batch, ExternalFile, ExternalFileWriter, Reader, Writer
from binlog.errors import FullError
from tests.support.namespaces import on_a_small_disk
from tests.unit.cli.run_command import wait_for


def _fill(writer: Writer, record: bytes) -> int:
    """Append until the disk is full; return the number of successful appends."""
    for count in range(100):
        try:
            writer.append(record)
        except FullError:
            return count
    raise AssertionError("the disk is never full")


def _use(disk: Path) -> None:
    log, filler = disk / "log", disk / "filler"
    record = bytes(100_000)
    with Writer(log) as writer:
        appended = _fill(writer, record)
    assert appended > 20
    assert binlog.check(log) == []
    filler.write_bytes(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
    with Writer(log) as writer:
        for call in (lambda: writer.append_many([record] * 10), writer.cutover):
            with pytest.raises(FullError):
                call()
        assert writer.append(b"small") is not None  # it fits in the page of the last record's end
    assert [len(entry.data) for entry in Reader(log)] == [100_000] * appended + [5]
    assert sorted(path.name for path in log.glob("*.dat*")) == ["00000001.dat"]
    with pytest.raises(FullError):
        Writer(disk / "another")
    filler.unlink()
    with Writer(disk / "another") as writer:
        writer.append(b"first")
    assert binlog.check(log) == []


def _go_on(disk: Path) -> None:
    log, filler = disk / "log", disk / "filler"
    with Writer(log) as writer:
        writer.append(b"before")
        filler.write_bytes(bytes((3 << 20) - 8192))
        assert _fill(writer, bytes(100_000)) <= 10  # a mebibyte was allocated for the log before
        filler.unlink()
        writer.append(bytes(1_500_000))
        assert writer.cutover() == 2
        writer.append(b"after")
    assert binlog.check(log) == []
    records = [entry.data for entry in Reader(log)]
    assert (records[0], len(records[-2]), records[-1]) == (b"before", 1_500_000, b"after")


def _meet_a_limit(disk: Path) -> None:
    log, filler = disk / "log", disk / "filler"
    with Writer(log, cutover_bytes=1000) as writer:
        filler.write_bytes(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
        refs = [
            writer.append(bytes(500)) for _ in range(5)
        ]  # the space allocated to the file before has room for these
        assert [ref.number for ref in refs] == [1] * 5
        filler.unlink()
        wait_for(lambda: binlog.stat(log).files[0].closed)
        assert writer.append(b"after").number == 2
    assert binlog.check(log) == []


def _batches(disk: Path) -> None:
    log = disk / "log"
    mebibyte = Batch.from_records([bytes(1020)] * 1024)
    with Writer(log) as writer:
        writer.append(b"before")
        size = (log / "00000001.dat").stat().st_size
        for _ in range(2):
            with pytest.raises(FullError):
                writer.append_idempotent([mebibyte] * 200, producer="s", sequence=1)
            assert (log / "00000001.dat").stat().st_size == size
        assert writer.append_idempotent([Batch.from_records([b"turn"])], producer="s", sequence=1) is not None
        writer.append(b"between")
        assert writer.cutover() == 2
        assert writer.append_idempotent([mebibyte], producer="s", sequence=2) is not None
    assert [entry.data for entry in Reader(log)][:3] == [b"before", b"turn", b"between"]
    assert binlog.check(log) == []


def _ingests(disk: Path) -> None:
    log, filler = disk / "log", disk / "filler"

    def external_files() -> list[ExternalFile]:
        made = []
        for number in range(2):
            with ExternalFileWriter(log / f"{number}.external") as external:
                external.append(Batch.from_records([bytes(1020)] * 500))
                made.append(external.finish())
        return made

    with Writer(log) as writer:
        writer.append(b"before")
        made = external_files()
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        # The space shrinks, so that each step that needs some fails once.
        for left in range(0, 5 * 4096, 4096):
            filler.write_bytes(bytes(free - left))
            try:
                writer.ingest(made, producer="s", sequence=1)
            except FullError:
                pass
            else:
                break
            assert writer.last_producer_batch("s") is None
            assert [path.name for path in sorted(log.glob("*.dat"))] == ["00000001.dat"]
            assert binlog.check(log) == []
            filler.unlink()
            for path in log.glob("*.external"):
                path.unlink()
            made = external_files()
        else:
            raise AssertionError("there is never enough")
        assert left > 0
        filler.unlink()
        writer.append(b"after")
    assert [len(entry.data) for entry in Reader(log)] == [6, *[1020] * 1000, 5]
    assert binlog.check(log) == []


@pytest.mark.parametrize("work", [_use, _go_on, _meet_a_limit, _batches, _ingests])
@pytest.mark.slow
def test_a_full_disk_fails_the_append_and_nothing_else(tmp_path: Path, work: Callable[[Path], None]) -> None:
    on_a_small_disk(tmp_path, lambda: work(tmp_path))
