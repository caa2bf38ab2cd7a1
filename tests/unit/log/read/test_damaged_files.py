"""Damaged and hostile files: one of our own errors, and every record before the damage is readable."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Entry, Reader, Ref, Writer
from binlog.errors import AccessError, BinlogError, CorruptError, GoneError, NotFoundError, PoisonedError, VersionError
from tests.support.children import Child
from tests.support.logs import jpos_file

RECORDS = [b"record %d" % index for index in range(6)]
PLACES = [256 + 12 * index for index in range(3)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three records in each of two files; the first closed, the second open."""
    with Writer(tmp_path / "log") as writer:
        writer.append_many(RECORDS[:3])
        writer.cutover()
        writer.append_many(RECORDS[3:])
    return tmp_path / "log"


def _overwrite(path: Path, offset: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def _read(log: Path, *, verify: bool = True) -> tuple[list[bytes], BinlogError]:
    """Return the records that can be read, and the error that ends reading."""
    found: list[bytes] = []
    try:
        found.extend(entry.data for entry in Reader(log, verify=verify))
    except BinlogError as error:
        return found, error
    raise AssertionError(f"nothing was wrong: {found}")


def _refused(log: Path) -> BinlogError:
    """Check that a writer refuses the log, and changes nothing."""
    before = {path.name: path.read_bytes() for path in log.iterdir()}
    with pytest.raises(BinlogError) as caught, Writer(log) as writer:
        writer.append(b"more")
    assert {path.name: path.read_bytes() for path in log.iterdir()} == before
    return caught.value


@pytest.mark.parametrize("length", [0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 13 + 12, 1 << 20])
def test_a_length_that_is_negative_or_past_the_tail(log: Path, length: int) -> None:
    _overwrite(log / "00000002.dat", PLACES[1], struct.pack(">I", length))
    found, error = _read(log, verify=False)
    assert found == RECORDS[:4]
    assert isinstance(error, CorruptError)
    assert (error.rule, error.offset, Path(error.path).name) == ("length", PLACES[1], "00000002.dat")
    # They are one range of the index, and nothing shows which of its records is damaged.
    found, error = _read(log)
    assert found == RECORDS[:3]
    assert isinstance(error, CorruptError)
    assert (error.rule, error.offset, Path(error.path).name) == ("index-crc", PLACES[0], "00000002.dat")


@pytest.mark.parametrize(
    ("file_bytes", "readable"), [(256, 3), (258, 3), (267, 3), (268, 4), (270, 4), (275, 4), (291, 5)]
)
def test_a_truncated_file(log: Path, file_bytes: int, readable: int) -> None:
    os.truncate(log / "00000002.dat", file_bytes)
    found, error = _read(log)
    assert found == RECORDS[:3]  # a part of a range is not read as if it were whole
    assert isinstance(error, CorruptError)
    assert (error.rule, error.offset) == ("truncated", file_bytes)
    found, error = _read(log, verify=False)
    assert found == RECORDS[:readable]
    assert isinstance(error, CorruptError)
    assert error.rule == "truncated"
    refusal = _refused(log)
    assert isinstance(refusal, CorruptError)
    assert (refusal.rule, refusal.offset) == ("truncated", file_bytes)


@pytest.mark.parametrize("file_bytes", [0, 1, 255])
def test_a_file_without_a_whole_header(log: Path, file_bytes: int) -> None:
    os.truncate(log / "00000002.dat", file_bytes)
    found, error = _read(log)
    assert found == RECORDS[:3]
    assert isinstance(error, CorruptError)
    assert error.rule == "short-header"
    assert isinstance(_refused(log), CorruptError)


def _not_believed(log: Path, rule: str) -> None:
    """The field contradicts all others: every record is read, check reports it, and the next writer corrects it."""
    assert [entry.data for entry in Reader(log)] == RECORDS
    assert [problem.rule for problem in binlog.check(log)] == [rule]
    with Writer(log) as writer:
        writer.append(b"more")
    assert [entry.data for entry in Reader(log)] == [*RECORDS, b"more"]
    assert binlog.check(log) == []


@pytest.mark.parametrize("next_number", [0, 1, 3, 2**32 - 1])
def test_a_wrong_next_number(log: Path, next_number: int) -> None:
    _overwrite(log / "00000001.dat", 20, struct.pack(">I", next_number))
    _not_believed(log, "next-number")


@pytest.mark.parametrize("next_number", [0, 1, 2**32 - 1])
def test_a_closed_file_without_a_next_file_and_number(log: Path, next_number: int) -> None:
    _overwrite(log / "00000002.dat", 6, struct.pack(">H", 1))
    _overwrite(log / "00000002.dat", 20, struct.pack(">I", next_number))
    assert {problem.rule for problem in binlog.check(log)} <= {"status", "next-number"}
    with Writer(log) as writer:
        writer.append(b"more")
    assert [entry.data for entry in Reader(log)] == [*RECORDS, b"more"]
    assert binlog.check(log) == []


def test_a_closed_file_whose_next_one_is_missing(log: Path) -> None:
    _overwrite(log / "00000002.dat", 6, struct.pack(">H", 1))
    _overwrite(log / "00000002.dat", 20, struct.pack(">I", 3))
    found, error = _read(log)
    assert found == RECORDS
    assert isinstance(error, CorruptError)
    assert error.rule == "missing-next"
    assert isinstance(_refused(log), CorruptError)


def test_a_next_file_that_was_removed(log: Path) -> None:
    (log / "00000002.dat").unlink()
    found, error = _read(log)
    assert found == RECORDS[:3]
    assert isinstance(error, CorruptError)
    assert error.rule == "missing-next"
    assert isinstance(_refused(log), CorruptError)


def test_a_next_file_of_another_log(log: Path, tmp_path: Path) -> None:
    with Writer(tmp_path / "other") as writer:
        writer.cutover()
        writer.append(b"not ours")
    os.replace(tmp_path / "other" / "00000002.dat", log / "00000002.dat")
    found, error = _read(log)
    assert found == RECORDS[:3]
    assert isinstance(error, CorruptError)
    assert error.rule == "uuid"


def test_a_tail_moved_into_prepared_space_shows_no_records(log: Path) -> None:
    _overwrite(log / "00000002.dat", 8, struct.pack(">Q", 292 + 400))
    assert [entry.data for entry in Reader(log)] == RECORDS
    assert [problem.rule for problem in binlog.check(log)] == ["tail"]
    # It may be another program's first records, all of them empty.
    assert isinstance(_refused(log), CorruptError)


@pytest.mark.parametrize("tail", [0, 255, 280, 2**40, 2**63, 2**64 - 1])
def test_an_impossible_tail(log: Path, tail: int) -> None:
    _overwrite(log / "00000002.dat", 8, struct.pack(">Q", tail))
    _not_believed(log, "tail")


DAMAGED_HEADERS: dict[str, tuple[int, bytes, type[BinlogError]]] = {
    "header length": (0, b"\0\0\0\1", CorruptError),
    "version": (4, b"\0\7", VersionError),
    "number": (16, b"\0\0\0\3", CorruptError),
    "magic": (24, b"X", CorruptError),
    "layout version": (30, b"\0\7", VersionError),
    "identity": (33, b"\xee\xee\xee", CorruptError),
}


@pytest.mark.parametrize("what", DAMAGED_HEADERS)
def test_a_damaged_header(log: Path, what: str) -> None:
    offset, data, kind = DAMAGED_HEADERS[what]
    _overwrite(log / "00000002.dat", offset, data)
    found, error = _read(log)
    assert found == RECORDS[:3]
    assert isinstance(error, kind)
    assert isinstance(_refused(log), kind)


def test_a_status_that_is_neither_open_nor_closed(log: Path) -> None:
    _overwrite(log / "00000002.dat", 6, b"\0\2")
    _not_believed(log, "status")


def test_a_damaged_live_block_is_restored_from_a_commit_slot(log: Path) -> None:
    _overwrite(log / "00000002.dat", 70, b"\xee\xee\xee")
    _not_believed(log, "live-crc")


def test_poison_stops_every_writer_and_no_reader(log: Path) -> None:
    from binlog.log.append.writable_file import WritableFile

    with Writer(log) as writer, Writer(log) as other:
        cause = PoisonedError("a sync failed")
        cause.__cause__ = OSError(5, "Input/output error")
        writer._open_session().run(lambda file, header: WritableFile.mark_poisoned(file, cause))
        for each in (writer, other):
            with pytest.raises(PoisonedError, match="Input/output error"):
                each.append(b"more")
        with pytest.raises(PoisonedError):
            other.cutover()
    assert [entry.data for entry in Reader(log)] == RECORDS
    assert [problem.rule for problem in binlog.check(log)] == ["poison"]


def test_other_files_in_the_directory_are_not_touched(log: Path) -> None:
    others = ["notes.txt", "1.dat", "00000003.dat.tmp", "1.idx", ".hidden"]
    for name in others:
        (log / name).write_bytes(b"mine")
    with Writer(log) as writer:
        writer.cutover()
    assert [entry.data for entry in Reader(log)] == RECORDS
    assert binlog.check(log) == []
    assert all((log / name).read_bytes() == b"mine" for name in others)


def _a_directory(path: Path) -> None:
    path.mkdir()


def _a_link(path: Path) -> None:
    path.symlink_to("00000002.dat")


def _a_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [_a_directory, _a_link, _a_pipe])
def test_a_name_of_no_regular_file_does_not_hang_or_crash(log: Path, make: Callable[[Path], None]) -> None:
    with Writer(log) as writer:
        writer.cutover()
    (log / "00000003.dat").unlink()
    make(log / "00000003.dat")
    found, error = _read(log)
    assert found == RECORDS
    assert isinstance(error, AccessError | CorruptError)
    with pytest.raises(BinlogError):
        Writer(log)
    assert binlog.check(log) != []


@pytest.mark.parametrize("use", [Writer, Reader, binlog.check, binlog.stat])
def test_a_directory_that_is_a_file_and_a_missing_one(tmp_path: Path, use: Callable[[Path], object]) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(AccessError) as caught:
        use(tmp_path / "file")
    assert isinstance(caught.value, OSError)
    # A writer makes the directory, but not its parent.
    with pytest.raises(AccessError if use is Writer else NotFoundError):
        use(tmp_path / "missing" / "log")


def test_a_directory_without_permission(tmp_path: Path) -> None:
    """In a child without the permissions of root, which nothing is refused to."""
    log = tmp_path / "log"
    with Writer(log) as writer:
        writer.append(b"secret")
    log.chmod(0o700)

    def use_as_nobody() -> None:
        os.chdir(tmp_path)
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        else:
            os.chmod("log", 0)
        for use in (Reader, binlog.check, Writer):
            with pytest.raises(AccessError):
                use("log")

    Child(use_as_nobody).join()
    log.chmod(0o700)


def test_a_file_removed_under_a_writer_and_its_directory_too(log: Path) -> None:
    writer = Writer(log)
    for path in log.iterdir():
        path.unlink()
    log.rmdir()
    with pytest.raises(GoneError):
        writer.append(b"to nowhere")
    writer.close()


def test_a_log_removed_under_a_reader_ends_with_an_error(log: Path) -> None:
    reader = Reader(log)
    assert next(reader).data == RECORDS[0]
    for path in log.iterdir():
        path.unlink()
    with pytest.raises(GoneError):
        list(reader)


def test_a_jpos_file_is_bounded_by_its_tail(tmp_path: Path) -> None:
    path = jpos_file(tmp_path, [b"hello"])
    _overwrite(path, 8, struct.pack(">Q", 247))
    with pytest.raises(CorruptError):
        Reader(tmp_path)
    _overwrite(path, 8, struct.pack(">Q", 2**62))
    assert next(Reader(tmp_path)) == Entry(Ref(1, 248), b"hello")
