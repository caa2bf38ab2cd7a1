"""Reading archives: every way of reading returns the same as from the file."""

from __future__ import annotations

import base64
import itertools
import os
import random
import shutil
import struct
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import binlog
from binlog import Mode, RangeReader, Reader, Ref, Sequence, Since, Start, TimedBatch, Writer
from binlog.errors import FullError, GoneError
from binlog.format.checksums import crc32c
from binlog.format.index_file import IndexEntry, entry_seed
from binlog.log.read.position import KEEP_SECONDS
from tests.support.archives import FRAME_BYTES, archive_path, archived, fill, frames_of, names, small_frames, unpacked
from tests.support.examples import examples
from tests.support.indexes import index_entries
from tests.support.logs import jpos_file, read_all


@pytest.fixture(autouse=True)
def _small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    small_frames(monkeypatch)


def test_every_way_of_reading_returns_the_same_as_before(log: Path) -> None:
    fill(log)
    with Reader(log) as reader:
        before = list(reader)
    tails = [file.tail for file in binlog.stat(log).files]
    assert archived(log) == [1, 2, 3]
    assert names(log) == [
        "00000001.dat.zst", "00000001.idx", "00000002.dat.zst", "00000002.idx", "00000003.dat.zst", "00000003.idx",
        "00000004.dat", "00000004.idx",
    ]  # fmt: skip
    with Reader(log) as reader:
        assert list(reader) == before
    assert binlog.check(log) == []
    assert [file.tail for file in binlog.stat(log).files] == tails
    assert archived(log) == []


def test_zstd_decompresses_the_file_byte_for_byte(log: Path, tmp_path: Path) -> None:
    """RFC 8878: by the package, which is libzstd, and by the command if it is installed."""
    fill(log, files=1)
    raw = (log / "00000001.dat").read_bytes()
    archived(log)
    path = archive_path(log)
    assert unpacked(path) == raw
    assert path.read_bytes()[10:266] == raw[:256]
    if (command := shutil.which("zstd")) is not None:
        subprocess.run([command, "-d", "-q", path, "-o", tmp_path / "raw"], check=True)
        assert (tmp_path / "raw").read_bytes() == raw


def test_frames_start_where_ranges_of_the_index_do(log: Path) -> None:
    fill(log, files=1, records=4000)
    entries = index_entries(log)
    archived(log)
    frames = frames_of(archive_path(log))
    assert len(frames) > 3
    assert {start for _, start, _ in frames} <= {entry.offset for entry in entries}
    for (_, start, end), (_, _, following) in itertools.pairwise(frames):
        assert end - start <= FRAME_BYTES or sum(start <= entry.offset < end for entry in entries) == 1
        assert following - start > FRAME_BYTES


@pytest.mark.slow
def test_a_reader_starts_at_any_record_of_an_archive(log: Path) -> None:
    fill(log)
    with Reader(log) as reader:
        before = list(reader)
    archived(log, keep_last=1)
    for number, entry in enumerate(before):
        with Reader(log, entry.ref) as reader:
            assert next(reader) == entry
        with Reader(log, Sequence(number)) as reader:
            assert next(reader) == entry
    with Reader(log, Ref(1, before[0].ref.offset), follow=False) as reader:
        assert [entry.ref.number for entry in reader] == [1] * 200
        assert not reader.wait(0)
        assert reader.next_ref == Ref(2, 256)
    with Reader(log, Start.END) as reader:
        assert list(reader) == []
    with pytest.raises(ValueError, match="is not the start of a record"):
        Reader(log, Ref(1, before[1].ref.offset + 1))


def test_a_time_is_found_in_an_archive(log: Path) -> None:
    fill(log, files=1)
    time.sleep(0.01)
    middle = datetime.now(UTC)
    time.sleep(0.01)
    with Writer(log) as writer:
        writer.append(b"later")
        writer.cutover()
        writer.append(b"last")
    long_ago = time.time() - 3600
    os.utime(log / "00000001.dat", (long_ago, long_ago))
    modified = [os.stat(log / f"0000000{number}.dat").st_mtime_ns for number in (1, 2)]
    archived(log)
    with Reader(log, Since(middle)) as reader:
        assert b"later" in [entry.data for entry in reader][-2:]
    assert [os.stat(archive_path(log, number)).st_mtime_ns for number in (1, 2)] == modified
    (log / "00000001.idx").unlink()
    with Reader(log, Since(middle)) as reader:
        assert next(reader).ref.number == 2


def test_without_its_index_an_archive_is_read_and_split_by_frame(log: Path) -> None:
    fill(log, files=1)
    before = read_all(log)
    archived(log)
    (log / "00000001.idx").unlink()
    assert read_all(log) == before
    file = binlog.stat(log).files[0]
    pieces = binlog.split_range(log, 1, file.first_offset, file.tail, bytes_max=FRAME_BYTES)
    assert [start for start, _ in pieces[1:]] == [start for _, start, _ in frames_of(archive_path(log))][1:]
    assert [record for piece in pieces for record in _records(log, *piece)] == before[:-1]


@pytest.mark.parametrize("bytes_max", [1, FRAME_BYTES, 3 * FRAME_BYTES, 1 << 30])
def test_an_archive_is_split_by_frame(log: Path, bytes_max: int) -> None:
    expected = fill(log, files=1)
    archived(log)
    file = binlog.stat(log).files[0]
    starts = [256, *(start for _, start, _ in frames_of(archive_path(log)))]
    pieces = binlog.split_range(log, 1, file.first_offset, file.tail, bytes_max=bytes_max)
    assert {start for start, _ in pieces} <= set(starts)
    assert (pieces[0][0], pieces[-1][1]) == (256, file.tail)
    assert [record for piece in pieces for record in _records(log, *piece)] == expected[:-1]


def _records(log: Path, start: int, end: int) -> list[bytes]:
    with RangeReader(log, 1, start, end) as reader:
        found = list(reader)
    assert all(isinstance(each, TimedBatch) for each in found)
    return [record for each in found if isinstance(each, TimedBatch) for record in each.batch]


def test_narrow_range_and_limit_range_return_the_same_for_an_archive(log: Path) -> None:
    fill(log, files=1, records=2000)
    tail = binlog.stat(log).files[0].tail

    def asked() -> list[object]:
        return [
            *(binlog.narrow_range(log, 1, 256, tail, sequences=(low, low + 30)) for low in range(0, 2000, 200)),
            *(binlog.narrow_range(log, 1, 256, tail, offsets=(low, low + 3000)) for low in range(256, tail, 5000)),
            *(binlog.limit_range(log, 1, 256, tail, records_max=count, bytes_max=None) for count in (1, 500, 5000)),
            *(binlog.limit_range(log, 1, 256, tail, records_max=None, bytes_max=size) for size in (1, 5000, 50_000)),
        ]

    before = asked()
    archived(log)
    assert asked() == before


def test_stat_shows_an_archive_as_such(log: Path) -> None:
    fill(log, records=2000)
    before = binlog.stat(log)
    archived(log, keep_last=1)
    after = binlog.stat(log)
    assert [file.archived for file in after.files] == [True, True, False, False]
    first = after.files[0]
    assert (first.path, first.durable_end, first.prepared_bytes) == (str(archive_path(log)), first.tail, 0)
    size = archive_path(log).stat()
    assert (first.file_bytes, first.disk_bytes) == (size.st_size, 512 * size.st_blocks)
    assert after.archive_bytes == sum(file.disk_bytes for file in after.files[:2])
    assert after.disk_bytes == after.index_bytes + sum(file.disk_bytes for file in after.files)
    assert after.disk_bytes < before.disk_bytes
    for one, other in zip(before.files, after.files, strict=True):
        assert (one.record_count, one.first_sequence, one.uuid) == (
            other.record_count,
            other.first_sequence,
            other.uuid,
        )


def test_a_waiting_follower_continues_after_an_archive(log: Path) -> None:
    fill(log, files=1)
    archived(log)
    with Reader(log, Ref(1, 256)) as reader, Writer(log) as writer:
        count = len(list(reader))
        assert not reader.wait(0)
        writer.append(b"more")
        assert reader.wait(5)
        assert next(reader).data == b"more"
    assert count == 201


@pytest.mark.slow
def test_a_record_larger_than_a_frame_has_its_own(log: Path) -> None:
    large = os.urandom(1000) * 12_000  # more than is ever kept of a frame
    with Writer(log) as writer:
        writer.append_many([b"before", large, b"after"])
        writer.cutover()
    archived(log)
    assert [end - start for _, start, end in frames_of(archive_path(log))] == [10, len(large) + 4, 9]
    assert read_all(log) == [b"before", large, b"after"]
    with Reader(log, record_bytes_max=1000) as reader:
        assert next(reader).data == b"before"
        with pytest.raises(FullError):
            next(reader)
    with Reader(log, Sequence(2)) as reader:
        assert next(reader).data == b"after"
    assert _records(log, 256, binlog.stat(log).files[0].tail) == [b"before", large, b"after"]


def test_a_reader_of_a_pruned_archive_gets_an_error(log: Path) -> None:
    fill(log, files=3)
    archived(log)
    with Reader(log) as reader:
        next(reader)
        binlog.prune(log, keep_bytes=0)
        with pytest.raises(GoneError):
            list(reader)


@pytest.mark.parametrize("sizes", [[], [0], [0, 0, 9_000_000], [9_000_000], [1, 9_000_000, 3], [3, 2_000_000], [4, 5]])
@pytest.mark.slow
def test_the_first_records_of_a_foreign_file_are_in_two_frames(log: Path, sizes: list[int]) -> None:
    """They start at 248, and the frame of the header ends at 256."""
    log.mkdir()
    records = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    jpos_file(log, records, status=1, next_number=2)
    jpos_file(log, [b"theirs"], number=2, status=1, next_number=3)
    jpos_file(log, [b"theirs"], number=3)
    with Writer(log) as writer:
        writer.cutover()
    # Each record is a range of its own in the index, as if each was synced.
    binlog.repair(log)
    at, entries = 248, []
    for number, record in enumerate(records):
        framed = struct.pack(">I", len(record)) + record
        entries.append(
            IndexEntry(number, at, 1, len(framed), crc32c(framed), 1).pack(entry_seed(number=1, uuid=bytes(16)))
        )
        at += len(framed)
    (log / "00000001.idx").write_bytes((log / "00000001.idx").read_bytes()[:32] + b"".join(entries))
    assert binlog.check(log) == []
    then = time.time() - KEEP_SECONDS - 1
    for path in log.glob("*.dat"):
        os.utime(path, (then, then))
    raw = (log / "00000001.dat").read_bytes()
    assert archived(log)[0] == 1
    assert unpacked(archive_path(log)) == raw
    assert read_all(log) == [*records, b"theirs", b"theirs"]
    for start, end in binlog.split_range(log, 1, 248, at, bytes_max=1) if records else []:
        _records(log, start, end)


GOLDEN = base64.b64decode(
    """
KLUv/WQAAAEIAAAAAPwAAQABAAAAAAAAAYcAAAABAAAAAkJJTkxPRwABjmLGXzuxRvOgsGsmmoth2AAAAAAAAAAAGOphku3Y8SMA
AAAAAAABhwAAAAAAAAADAAAAAAAAAYcAAAAAAAAAAQAAAAAAAAAApZYS+vZPRzOnyruthWVDRgAAAAAQeE3iAAAAAqYBzgYAAAAA
AAAAAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAAAABjqYZLt2PEjAAAAAAAAAAAAAAAAKkqYHgAAAAAAAAABAAAAAAAAAQAAAAAAAAAB
hwAAAAAAAAADGOphku5j+LZkxG8gAAAAAJ0MRVqnFAfCAAAAAAAAAADnuBdJKLUv/SSHxQAAeAAAAANvbmUAeHRocmVlIAIALyUZ
DHABXyZZs1sqTRhAAAAAQklOTE9HQVIAAQAAAAAAAY5ixl87sUbzoLBrJpqLYdgAAAAAAAABhwAAAAIAAAAAAAAAAN+EqAQAAAAA
pNcYtV4qTRgtAAAADgEAAAABAADnuBdJJQAAAIcAAABfJlmzSAAAAAAAAACZ6dhRAwAAAICx6pKP
"""
)


"""Version 1: file 1 of a log, archived with the default options."""


def test_an_archive_of_version_1_is_read(tmp_path: Path) -> None:
    archive_path(tmp_path).write_bytes(GOLDEN)
    with Reader(tmp_path, follow=False) as reader:
        assert [entry.data for entry in reader] == [b"one", b"", b"three " * 20]
    assert {problem.rule for problem in binlog.check(tmp_path)} == {"missing-next"}


SIZES = st.one_of(st.integers(0, 300), st.sampled_from([4092, 4096, 5000, 1 << 16, 70_000]))


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.booleans(), st.lists(SIZES, min_size=1, max_size=20)), min_size=1, max_size=8), st.data())
def test_any_records_are_read_as_they_were(
    tmp_path_factory: pytest.TempPathFactory,
    groups: list[tuple[bool, list[int]]],
    data: st.DataObject,
) -> None:
    log = tmp_path_factory.mktemp("archive") / "log"
    with Writer(log) as writer:
        for synced, sizes in groups:
            some = [os.urandom(1) * size for size in sizes]
            writer.append_many(some, mode=Mode.SYNC if synced else Mode.FLUSH)
        writer.cutover()
    with Reader(log) as reader:
        before = list(reader)
    raw = (log / "00000001.dat").read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        small_frames(patch, data.draw(st.sampled_from([1, 100, 4096, 1 << 20])))
        assert archived(log) == [1]
    with Reader(log) as reader:
        assert list(reader) == before
    entry = data.draw(st.sampled_from(before))
    with Reader(log, entry.ref) as reader:
        assert list(reader) == before[before.index(entry) :]
    assert unpacked(archive_path(log)) == raw
    assert binlog.check(log) == []


@pytest.mark.slow
def test_every_zstd_decoder_returns_the_file(log: Path) -> None:
    """RFC 8878: a decoder skips the frames of our facts and the table."""
    chosen = random.Random(1)
    texts = [chosen.randbytes(400) for _ in range(200)]
    with Writer(log) as writer:
        writer.append_many([chosen.choice(texts) + b"%08d" % number for number in range(20_000)], mode=Mode.FLUSH)
        writer.cutover()
    raw = (log / "00000001.dat").read_bytes()
    [done] = binlog.archive(log)
    assert done.archive_bytes is not None
    assert done.archive_bytes < len(raw)
    with open(archive_path(log), "rb") as file:
        found = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
    # A waiter may ring the doorbell after the archive was made.
    assert (len(found), found[256:]) == (len(raw), raw[256:])
