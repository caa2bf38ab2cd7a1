"""Damage in an archive: reported with its offset; never a foreign error, a wrong record, or unbounded memory."""

from __future__ import annotations

import os
import random
import resource
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

import binlog
from binlog import DamagedRange, RangeReader, Reader, Ref, Sequence, Start, TimedBatch, Writer
from binlog.errors import BinlogError, CorruptError, VersionError
from binlog.format.archive_file import ARCHIVE_FACTS, FACTS_FRAME_BYTES, START_BYTES, pack_end, pack_start
from binlog.format.checksums import crc32c
from binlog.format.log_header import parse_log_header
from binlog.log.archive.zstd import checksum_of
from tests.support.archives import archive_path, archived, fill, frames_of, small_frames
from tests.support.children import Child
from tests.support.logs import read_all


@pytest.fixture(autouse=True)
def _small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    small_frames(monkeypatch)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Make a log with an archive of many frames, to be damaged, so not under the fixture's check."""
    log = tmp_path / "log"
    fill(log, files=2, records=2000)
    assert archived(log) == [1, 2]
    assert len(frames_of(archive_path(log))) > 5
    return log


def flip(path: Path, at: int, mask: int = 1) -> None:
    with open(path, "r+b") as file:
        byte = os.pread(file.fileno(), 1, at)[0]
        os.pwrite(file.fileno(), bytes([byte ^ mask]), at)


def read_until_damage(log: Path, start: Ref | Start = Start.BEGINNING) -> tuple[list[bytes], BinlogError | None]:
    found: list[bytes] = []
    try:
        with Reader(log, start) as reader:
            found.extend(entry.data for entry in reader)
    except BinlogError as error:
        return found, error
    return found, None


@pytest.mark.slow
def test_records_before_a_damaged_frame_are_read_and_its_offset_reported(damaged: Path) -> None:
    whole = read_all(damaged)
    with Reader(damaged) as reader:
        entries = list(reader)
    for place, start, end in frames_of(archive_path(damaged)):
        flip(archive_path(damaged), place + 20)
        found, error = read_until_damage(damaged)
        before = [entry.data for entry in entries if entry.ref < Ref(1, start)]
        assert found == before
        assert isinstance(error, CorruptError)
        assert (error.path, error.offset, error.rule) == (str(archive_path(damaged)), start, "frame")
        assert f"the bytes to {end} are lost" in error.text
        if end < entries[-2].ref.offset:
            behind, _ = read_until_damage(damaged, Ref(1, end))
            assert behind == [entry.data for entry in entries if entry.ref >= Ref(1, end)]
        flip(archive_path(damaged), place + 20)
    assert read_all(damaged) == whole


def test_a_reader_after_a_damaged_frame_gets_no_sequence_number(damaged: Path) -> None:
    (place, start, end), (_, _, following) = frames_of(archive_path(damaged))[1:3]
    flip(archive_path(damaged), place + 20)
    with Reader(damaged, Ref(1, following)) as reader:
        assert reader.read_batch().first_sequence is not None  # the index proves it by the frame before
    (damaged / "00000001.idx").unlink()
    with Reader(damaged, Ref(1, end)) as reader:
        assert reader.read_batch().first_sequence is None
    with pytest.raises(ValueError, match="is not the start of a record"):
        Reader(damaged, Ref(1, end + 1))
    with pytest.raises(CorruptError):
        Reader(damaged, Ref(1, start + 4))
    with pytest.raises(CorruptError):
        Reader(damaged, Sequence(1900))


@pytest.mark.parametrize("index", [True, False])
def test_a_range_reader_continues_after_damaged_frames(damaged: Path, index: bool) -> None:
    frames = frames_of(archive_path(damaged))
    hit = [frames[1], frames[3], frames[4]]
    with Reader(damaged, follow=False) as reader:
        entries = list(reader)
    counts = {start: sum(start <= entry.ref.offset < end for entry in entries) for _, start, end in hit}
    for place, _, _ in hit:
        flip(archive_path(damaged), place + 30)
    if not index:
        (damaged / "00000001.idx").unlink()
    with RangeReader(damaged, 1) as reading:
        found = list(reading)
    told = [each for each in found if isinstance(each, DamagedRange)]
    assert told == [DamagedRange(start, end, counts[start] if index else None) for _, start, end in hit]
    records = [record for each in found if isinstance(each, TimedBatch) for record in each.batch]
    lost = [range(start, end) for _, start, end in hit]
    assert records == [entry.data for entry in entries if not any(entry.ref.offset in each for each in lost)]
    if index:
        sequences = [each.batch.first_sequence for each in found if isinstance(each, TimedBatch)]
        assert None not in sequences


def test_check_reports_each_damaged_frame_once(damaged: Path) -> None:
    frames = frames_of(archive_path(damaged))
    for place, _, _ in (frames[1], frames[-1]):
        flip(archive_path(damaged), place + 30)
    problems = binlog.check(damaged)
    assert [(each.path, each.offset, each.rule) for each in problems] == [
        (str(archive_path(damaged)), frames[1][1], "frame"),
        (str(archive_path(damaged)), frames[-1][1], "frame"),
    ]
    assert binlog.repair(damaged) == []
    assert binlog.check(damaged) == problems


@pytest.mark.slow
def test_a_flipped_bit_anywhere_is_reported_and_shows_no_wrong_record(damaged: Path) -> None:
    """At every byte outside of the frames of records, and at some of those inside."""
    expected = read_all(damaged)
    path = archive_path(damaged)
    size = path.stat().st_size
    frames = frames_of(path)
    chosen = random.Random(1)
    places = [
        *range(START_BYTES),
        *chosen.sample(range(START_BYTES, size), 60),
        *(place + offset for place, _, _ in frames for offset in (0, 4, 5, 6)),
        *range(size - 40, size),
        *chosen.sample(range(size - 12 * len(frames) - 100 - FACTS_FRAME_BYTES, size), 60),
    ]
    told = 0
    for at in places:
        mask = 1 << chosen.randrange(8)
        flip(path, at, mask)
        found, error = read_until_damage(damaged)
        assert found == expected[: len(found)], at
        problems = binlog.check(damaged)
        if error is None:
            assert found == expected, at
        else:
            assert isinstance(error, CorruptError), at
            assert problems != [], at
        told += problems != []  # zstd ignores some bits
        flip(path, at, mask)
    assert told > 0.95 * len(places)
    assert read_all(damaged) == expected


@pytest.mark.slow
def test_an_archive_cut_anywhere_is_reported(damaged: Path) -> None:
    path = archive_path(damaged)
    expected, data = read_all(damaged), path.read_bytes()
    frames_end = len(data) - 9 - 12 * struct.unpack("<I", data[-9:-5])[0] - 8 - FACTS_FRAME_BYTES
    chosen = random.Random(2)
    for size in [0, 1, 9, 100, START_BYTES, len(data) - 1, *chosen.sample(range(len(data)), 30)]:
        # Cut as it is, and as a power cut would leave unsynced bytes.
        for rest in (b"", bytes(len(data) - size)):
            path.write_bytes(data[:size] + rest)
            found, error = read_until_damage(damaged)
            if size < frames_end:
                assert (found, type(error)) == ([], CorruptError), size
            else:
                assert (found, error) == (expected, None), size  # all its frames are whole
            assert binlog.check(damaged) != []


def _spliced_frame(data: bytes, other: bytes, frames: list[tuple[int, int, int]]) -> bytes:
    place, following = frames[1][0], frames[2][0]
    return data[:place] + other[place:following] + data[following:]


def _spliced_end(data: bytes, other: bytes, frames: list[tuple[int, int, int]]) -> bytes:
    return data[: frames[-1][0]] + other[frames[-1][0] :]


def _spliced_table(data: bytes, other: bytes, frames: list[tuple[int, int, int]]) -> bytes:
    size = 9 + 12 * struct.unpack("<I", data[-9:-5])[0]
    return data[:-size] + other[-size:]


def _swapped_frames(data: bytes, _: bytes, frames: list[tuple[int, int, int]]) -> bytes:
    one, two, three = (place for place, _, _ in frames[1:4])
    return data[:one] + data[two:three] + data[one:two] + data[three:]


@pytest.mark.parametrize("splice", [_spliced_frame, _spliced_end, _spliced_table, _swapped_frames])
def test_parts_of_another_archive_are_reported(
    tmp_path: Path, splice: Callable[[bytes, bytes, list[tuple[int, int, int]]], bytes]
) -> None:
    """Each frame is whole, and as large as the one that it replaces: only the table shows that it is another one."""
    log = tmp_path / "log"
    chosen = random.Random(3)
    with Writer(log) as writer:
        for _ in range(2):
            for _ in range(10):
                # Incompressible data, so that frames are of the same size.
                writer.append_many([chosen.randbytes(1000) for _ in range(4)])
            writer.cutover()
    expected = read_all(log)
    archived(log)
    one, two = (archive_path(log, number).read_bytes() for number in (1, 2))
    frames = frames_of(archive_path(log))
    assert frames == frames_of(archive_path(log, 2))
    archive_path(log).write_bytes(splice(one, two, frames))
    for index in (True, False):
        if not index:
            (log / "00000001.idx").unlink()
        found, error = read_until_damage(log)
        if splice is _spliced_table:
            assert (found, error) == (expected, None)  # the frames are the file's
        else:
            assert isinstance(error, CorruptError)
            assert found == expected[: len(found)]
        assert binlog.check(log) != []


def test_an_archive_under_another_files_name_is_reported(damaged: Path) -> None:
    one, two = (archive_path(damaged, number) for number in (1, 2))
    data = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(data)
    with pytest.raises(CorruptError, match="number"):
        Reader(damaged)


def test_a_file_made_by_zstd_alone_is_not_an_archive(damaged: Path) -> None:
    raw = zstandard.ZstdDecompressor().stream_reader(archive_path(damaged).read_bytes(), read_across_frames=True).read()
    archive_path(damaged).write_bytes(zstandard.compress(raw))
    with pytest.raises(CorruptError, match="archive"):
        Reader(damaged)
    (damaged / "00000001.dat").write_bytes(raw)  # `zstd -d` is the way out, and then the file counts
    assert len(read_all(damaged)) == 4001


def test_another_version_is_refused_by_name(damaged: Path) -> None:
    path = archive_path(damaged)
    data = bytearray(path.read_bytes())
    (count,) = struct.unpack("<I", data[-9:-5])
    at = len(data) - 9 - 12 * count - 8 - ARCHIVE_FACTS.size
    data[at + 8 : at + 10] = struct.pack(">H", 2)
    data[at + 60 : at + 64] = struct.pack(">I", crc32c(bytes(data[at : at + 60])))
    path.write_bytes(data)
    with Reader(damaged) as reader, pytest.raises(VersionError) as caught:
        list(reader)
    assert (caught.value.found, caught.value.known) == (2, (1,))
    assert [each.rule for each in binlog.check(damaged)] == ["version"]


def _forged(log: Path, frames: list[tuple[bytes, int]]) -> None:
    """Make an archive of file 1 as an attacker may: each frame, and the content size that it claims."""
    path = archive_path(log)
    header = parse_log_header(path.read_bytes()[10:266], path=str(path))
    tail = 256 + sum(size for _, size in frames)
    header = header._replace(tail=tail, published_tail=tail, record_count=100, confirmed_end=tail).pack()
    start = pack_start(header, zstandard.ZstdCompressor(write_checksum=True).compress(header)[-4:])
    told = [(len(start), 256, checksum_of(start)), *((len(frame), size, checksum_of(frame)) for frame, size in frames)]
    uuid = header[32:48]
    end = pack_end(number=1, uuid=uuid, frames=told)
    path.write_bytes(start + b"".join(frame for frame, _ in frames) + end)


def _frame(data: bytes, dictionary: zstandard.ZstdCompressionDict | None = None) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True, dict_data=dictionary).compress(data)


def _zeros(size: int, window_log: int = 20) -> bytes:
    """Make a frame of many zeros, without having them."""
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=window_log, write_checksum=True)
    compressing = zstandard.ZstdCompressor(compression_params=parameters).compressobj(size=size)
    block = bytes(1 << 20)
    return b"".join(compressing.compress(block) for _ in range(size >> 20)) + compressing.flush()


TAIL_BYTES = 1 << 30
SMALL = _frame(bytes(1000))
CLAIMS_MUCH = b"\x28\xb5\x2f\xfd\xe4" + struct.pack("<Q", TAIL_BYTES) + SMALL[7:]

BOMBS: dict[str, Callable[[], list[tuple[bytes, int]]]] = {
    "holds more than it is said to": lambda: [(_zeros(TAIL_BYTES), 4096)],
    "holds as much as it is said to": lambda: [(_zeros(TAIL_BYTES), TAIL_BYTES)],
    "says it holds much": lambda: [(CLAIMS_MUCH, 1000)],
    "says it holds much, and so does the table": lambda: [(CLAIMS_MUCH, TAIL_BYTES)],
    "is said to hold much": lambda: [(SMALL, TAIL_BYTES)],
    "is said to hold a little more": lambda: [(SMALL, 1001)],
    "is said to hold a little less": lambda: [(SMALL, 999)],
    "nothing of the kind": lambda: [(b"no frame at all, nor any kind of one", 1000)],
    "needs a large window": lambda: [(_zeros(16 << 20, window_log=27), 16 << 20)],
}
MEMORY_BYTES = 256 << 20


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_compression_bomb_takes_no_memory(damaged: Path, bomb: str) -> None:
    _forged(damaged, BOMBS[bomb]())

    def reading() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, resource.RLIM_INFINITY))
        began = time.monotonic()
        found, error = read_until_damage(damaged)
        assert isinstance(error, CorruptError), error
        assert (found, error.rule) == ([], "frame")
        assert binlog.check(damaged) != []
        with RangeReader(damaged, 1) as reader:
            try:
                for _ in reader:
                    pass
            except CorruptError:
                pass
        assert time.monotonic() - began < 60

    Child(reading).join()


@pytest.mark.slow
def test_a_frame_that_needs_a_dictionary_is_damage(damaged: Path) -> None:
    samples = [b"%d of many %d" % (number, number * 7) for number in range(5000)]
    data = b"\0\0\0\x04four" * 100
    _forged(damaged, [(_frame(data, zstandard.train_dictionary(2000, samples, dict_id=7)), len(data))])
    found, error = read_until_damage(damaged)
    assert (found, type(error).__bases__) == ([], (CorruptError,))


def test_an_archive_with_a_dictionary_is_refused_by_name(damaged: Path) -> None:
    path = archive_path(damaged)
    data = bytearray(path.read_bytes())
    at = data.index(b"BINLOGAR")
    data[at + 44 : at + 48] = struct.pack(">I", 2000)
    data[at + 60 : at + 64] = struct.pack(">I", crc32c(bytes(data[at : at + 60])))
    path.write_bytes(data)
    with Reader(damaged) as reader, pytest.raises(VersionError, match="dictionary"):
        list(reader)
    assert [each.rule for each in binlog.check(damaged)] == ["version"]


@pytest.mark.slow
def test_a_table_with_false_sizes_takes_no_memory(damaged: Path) -> None:
    path = archive_path(damaged)
    expected, data, second = read_all(damaged), path.read_bytes(), frames_of(path)[1]
    for count in (0, 1, 5, 2**21 + 2, 2**32 - 1):
        path.write_bytes(data[:-9] + struct.pack("<I", count) + data[-5:])
        assert read_until_damage(damaged) == (expected, None)  # by its frames
        assert [problem.rule for problem in binlog.check(damaged)] == ["archive"]
    with open(path, "r+b") as file:  # and of a file of the right size, with other content
        file.truncate(1 << 40)
        os.pwrite(file.fileno(), data[-9:], (1 << 40) - 9)
    assert read_until_damage(damaged) == (expected, None)
    flip(path, second[0] + 3)
    found, error = read_until_damage(damaged)
    assert (found, type(error)) == ([], CorruptError)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["start", "facts", "table", "footer"])
def test_a_flipped_bit_outside_of_the_records_loses_none_and_is_repaired(damaged: Path, part: str) -> None:
    path = archive_path(damaged)
    whole, good = read_all(damaged), path.read_bytes()
    table = len(good) - 8 - 9 - 12 * struct.unpack("<I", good[-9:-5])[0]
    places = {
        "start": range(0, START_BYTES, 41), "facts": range(table - FACTS_FRAME_BYTES, table, 13),
        "table": range(table, len(good) - 9, 41), "footer": range(len(good) - 9, len(good), 2),
    }  # fmt: skip
    for at in places[part]:
        flip(path, at, 1 << at % 8)
        assert read_all(damaged) == whole
        assert [(each.path, each.rule) for each in binlog.check(damaged)] == [(str(path), "archive")]
        flipped = path.read_bytes()
        assert [(each.path, each.action) for each in binlog.repair(damaged, dry_run=True)] == [(str(path), "archive")]
        assert path.read_bytes() == flipped
        assert [(each.path, each.action) for each in binlog.repair(damaged)] == [(str(path), "archive")]
        assert path.read_bytes() == good
    assert binlog.check(damaged) == []


def test_a_lost_table_is_rebuilt_from_the_frames(damaged: Path) -> None:
    path = archive_path(damaged)
    whole, good = read_all(damaged), path.read_bytes()
    last = frames_of(path)[-1]
    for end in (len(good) - 1, len(good) - 100, good.index(b"BINLOGAR") - 8):
        path.write_bytes(good[:end])
        assert read_all(damaged) == whole
        assert [each.action for each in binlog.repair(damaged)] == ["archive"]
        assert path.read_bytes() == good
    flip(path, last[0] + 20)  # nothing is known of a frame that is damaged too
    os.truncate(path, len(good) - 1)
    found, error = read_until_damage(damaged)
    assert whole[: len(found)] == found
    assert isinstance(error, CorruptError)
    path.write_bytes(good)


@pytest.mark.parametrize("claimed", [(1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
def test_frames_with_false_sizes_take_no_memory_if_the_table_is_damaged(damaged: Path, claimed: int) -> None:
    """The file ends long before; after it would be blocks without an end."""
    path = archive_path(damaged)
    head = b"\x28\xb5\x2f\xfd\xe4" + struct.pack("<Q", claimed)
    _forged(damaged, [(head + bytes(300), (1 << 32) - 1)])
    os.truncate(path, path.stat().st_size - 1)
    found, error = read_until_damage(damaged)
    assert found == []
    assert isinstance(error, CorruptError)
