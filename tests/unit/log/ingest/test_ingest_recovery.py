"""Ingests interrupted by a death: the records that readers see then, and the writer that finishes them."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

import binlog
from binlog import ExternalFile, Mode, Reader, Ref, Since, Writer
from binlog.errors import AccessError, BinlogError, CorruptError, UnknownOutcomeError
from binlog.format.checksums import crc32c
from binlog.format.log_header import LOG_HEADER
from binlog.log.append.writable_file import WritableFile
from binlog.log.directory import LogDirectory
from binlog.log.files.prepared_file import PreparedFile
from binlog.log.ingest import ingestion as ingest
from binlog.log.ingest.ingestion import IngestedFile, Ingestion
from binlog.storage.file_access import access_of_directory
from tests.interop import jpos_peer
from tests.support.external_files import external_files
from tests.support.indexes import check_entries
from tests.support.logs import read_all

RECORDS = [b"1"] * 50 + [b"2"] * 50

_PLACES = {
    "take": (Ingestion, "_take"),
    "record": (ingest, "write_ingest"),
    "name": (IngestedFile, "give_name"),
    "close": (WritableFile, "close_at"),
    "index": (IngestedFile, "write_index"),
    "end": (Ingestion, "_end"),
}


def die_at(log: Path, place: str, *, after: bool = False, times: int = 1) -> None:
    """Let a process die in the middle of an ingest of two files, at a call of the ingest.

    after: right after the call.  times: at which of such calls.
    """

    def work() -> None:
        owner, name = _PLACES[place]
        call = getattr(owner, name)
        left = [None] * (times - 1)

        def dying(*arguments: object, **named: object) -> object:
            if left:
                left.pop()
                return call(*arguments, **named)
            if after:
                call(*arguments, **named)
            os._exit(9)

        setattr(owner, name, dying)
        with Writer(log) as writer:
            writer.ingest(external_files(log, [b"1"] * 50, [b"2"] * 50), producer="s", sequence=0)

    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


def hidden(log: Path) -> list[str]:
    return sorted(path.name for path in log.glob(".ingest*"))


DEATHS = [
    # the call, how often before, after it; the records in the log then, and whether all will be
    ("take", 1, False, 0, False),
    ("take", 1, True, 0, False),
    ("take", 2, True, 0, False),
    ("record", 1, False, 0, False),
    ("record", 1, True, 0, True),
    ("name", 1, False, 0, True),
    ("name", 1, True, 0, True),
    ("close", 1, False, 0, True),
    ("close", 1, True, 50, True),
    ("index", 1, False, 50, True),
    ("index", 1, True, 50, True),
    ("name", 2, False, 50, True),
    ("name", 2, True, 50, True),
    ("close", 2, False, 50, True),
    ("close", 2, True, 100, True),
    ("index", 2, True, 100, True),
    ("end", 1, False, 100, True),
    ("end", 1, True, 100, True),
]


@pytest.mark.slow
@pytest.mark.parametrize("beside", [False, True], ids=["opened again", "beside an open writer"])
@pytest.mark.parametrize(("place", "times", "after", "seen", "there"), DEATHS)
def test_the_next_writer_finishes_a_decided_ingest(
    log: Path, place: str, times: int, after: bool, seen: int, there: bool, beside: bool
) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
        if beside:
            writer.append(b"beside")
        die_at(log, place, after=after, times=times)
        before = [b"before", b"beside"][: 1 + beside]
        assert read_all(log) == [*before, *RECORDS[:seen]]
        assert binlog.check(log) == []
        if beside:
            writer.append(b"after")
            assert read_all(log) == [*before, *(RECORDS if there else []), b"after"]
    with Writer(log) as writer:
        if not beside:
            writer.append(b"after")
        assert (
            writer.ingest(external_files(log, RECORDS[:50], RECORDS[50:]), producer="s", sequence=0) is None
        ) == there
        last = writer.last_producer_batch("s")
        assert last is not None
        assert (last.ref, last.record_count) == (Ref(2, 256), 100)
    assert read_all(log) == [*before, *([*RECORDS, b"after"] if there else [b"after", *RECORDS])]
    assert hidden(log) == []
    assert binlog.check(log) == []


@pytest.mark.parametrize(("place", "times", "after", "seen", "there"), DEATHS)
def test_another_program_appends_before_a_writer_finishes_the_ingest(
    tmp_path: Path, place: str, times: int, after: bool, seen: int, there: bool
) -> None:
    """It appends, cuts over and appends; nothing of it, or of the ingest, is lost or duplicated."""
    log = tmp_path / "beside"  # `check` may report late records
    with Writer(log) as writer:
        writer.append(b"before")
    die_at(log, place, after=after, times=times)
    theirs = jpos_peer.Writer(log)
    refs = [theirs.append(b"theirs 1")]
    theirs.cutover()
    refs.append(theirs.append(b"theirs 2"))
    theirs.close()
    with Writer(log) as writer:
        writer.append(b"after")
        writer.cutover()  # a producer batch needs a native file
        assert (
            writer.ingest(external_files(log, RECORDS[:50], RECORDS[50:]), producer="s", sequence=0) is None
        ) == there
        last = writer.last_producer_batch("s")
        assert last is not None
    found = read_all(log)
    assert sorted(found) == sorted([b"before", b"theirs 1", b"theirs 2", b"after", *RECORDS])
    assert found.index(b"theirs 1") < found.index(b"theirs 2") < found.index(b"after")
    with Reader(log) as reader:
        at = {entry.ref: entry.data for entry in reader}
    assert [at[Ref(number, offset)] for number, offset in refs] == [b"theirs 1", b"theirs 2"]
    assert [at[last.ref], at[Ref(last.number, last.end - 5)]] == [b"1", b"1"]
    assert hidden(log) == []
    assert {problem.rule for problem in binlog.check(log)} <= {"late"}


def test_reading_since_a_time_works_without_the_ingested_files_index(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
    moment = time.time()
    die_at(log, "index")
    for path in (log / "00000002.dat", *log.glob(".ingest.*.*")):
        os.utime(path, (moment - 1, moment - 1))  # as if the close had taken a while
    with Writer(log) as writer:
        writer.append(b"after")
    with Reader(log, Since(moment)) as reader:
        assert [entry.data for entry in reader] == [*RECORDS, b"after"]


def test_a_file_after_a_gap_is_reported_and_stays(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
        stray = log / "00000003.dat"
        stray.write_bytes((log / "00000001.dat").read_bytes())
        with pytest.raises(CorruptError, match="file 3 follows a gap"):
            writer.ingest(external_files(log, [b"1"], [b"2"]))
        assert stray.exists()
        stray.unlink()
        writer.append(b"after")
    assert read_all(log) == [b"before", b"after"]


def test_a_file_with_a_header_is_no_external_file(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"one")
        writer.cutover()
        writer.append(b"two")
        path = str(log / "00000001.dat")
        forged = ExternalFile(path, 1, os.stat(path).st_size, 0, durable=True, entries=b"")
        with pytest.raises(AccessError, match="is no external file"):
            writer.ingest([forged])
    assert read_all(log) == [b"one", b"two"]


def test_flushed_records_are_synced_when_a_batch_is_in_the_log_already(log: Path) -> None:
    with Writer(log) as writer:
        writer.ingest(external_files(log, [b"1"]), producer="s", sequence=0)
        writer.append(b"flushed", mode=Mode.FLUSH)
        assert writer.ingest(external_files(log, [b"1"]), producer="s", sequence=0) is None
    last = binlog.stat(log).files[-1]
    assert last.durable_end == last.tail


@pytest.mark.parametrize("place", ["record", "name"])
def test_a_repair_that_closes_the_file_before_an_ingest_loses_no_record(log: Path, place: str) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
    die_at(log, place, after=True)
    path = log / "00000001.dat"
    data = bytearray(path.read_bytes())
    data[64:67] = b"\0\0\1"  # the live block
    for at in range(LOG_HEADER.offset("slot_0"), LOG_HEADER.offset("zero")):
        data[at] ^= 0x55 if data[at] else 0
    path.write_bytes(data)
    binlog.repair(log)
    with Writer(log) as writer:
        writer.append(b"after")
        assert writer.ingest(external_files(log, [b"1"], [b"2"]), producer="s", sequence=0) is None
    assert read_all(log)[-101:] == [*RECORDS, b"after"]
    for path in log.glob("*.damaged"):
        path.unlink()
    assert not binlog.check(log)


def test_a_stale_listing_removes_no_needed_file(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
        directory = LogDirectory(log)
        prepared = PreparedFile(directory, 2, file_bytes=4096, access=access_of_directory(directory.fd))
        numbers = LogDirectory.numbers
        stale = [[1, 2, 3]]
        monkeypatch.setattr(LogDirectory, "numbers", lambda self: stale.pop() if stale else numbers(self))
        with Writer(log) as other:
            other.append(b"after")
        assert list(log.glob(".00000002.dat.*.new"))
        prepared.discard()


@pytest.mark.slow
def test_indexes_missing_after_a_death_are_made_again(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
    die_at(log, "index")
    for _ in range(3):
        with Writer(log):
            pass
    assert read_all(log) == [b"before", *RECORDS]
    binlog.repair(log)
    assert [check_entries(log, number) for number in (2, 3)] == [0, 0]


def test_the_ingest_record_has_the_access_of_the_log_files(log: Path) -> None:
    with Writer(log, permissions=0o644) as writer:
        writer.append(b"before")
    die_at(log, "record", after=True)
    assert (log / ".ingest").stat().st_mode & 0o777 == 0o644
    with Writer(log):
        pass


@pytest.mark.slow
def test_a_copy_of_the_directory_has_each_file_once(log: Path, tmp_path: Path) -> None:
    """Although a copy makes two files of one with two names."""
    with Writer(log) as writer:
        writer.append(b"before")
    die_at(log, "close", after=True)
    assert (log / "00000002.dat").stat().st_nlink == 2
    shutil.copytree(log, tmp_path / "copy")
    assert (tmp_path / "copy" / "00000002.dat").stat().st_nlink == 1
    for each in (tmp_path / "copy", log):
        with Writer(each) as writer:
            writer.append(b"after")
        assert read_all(each) == [b"before", *RECORDS, b"after"]
        assert binlog.check(each) == []


def test_retention_between_a_death_and_the_next_writer_brings_nothing_back(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
    die_at(log, "close", after=True)
    theirs = jpos_peer.Writer(log)
    theirs.append(b"theirs 1")
    theirs.cutover()
    theirs.append(b"theirs 2")
    theirs.close()
    binlog.prune(log, before=Ref(3, 248))
    with Writer(log) as writer:
        writer.append(b"after")
    assert read_all(log)[-53:] == [b"theirs 1", b"theirs 2", *RECORDS[50:], b"after"]


def forge(log: Path, text: bytes) -> None:
    (log / ".ingest").write_bytes(text)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", b"[1]", b'{"id": 5, "batch": null}', b'{"id": "../../etc/passwd", "batch": null}',
        b'{"id": "0123456789abcdef", "batch": 1}', b'{"id": "0123456789abcdef", "batch": {"producer": 1}}',
        b'{"id": "0123456789abcdef"}', b"[" * 100_000, b"\xff\xfe",
        (b'{"id": "0123456789abcdef", "batch": {"producer": "s", "sequence": 0.5, "record_count": 1, "number": 1, '
         b'"start": 1, "end": 2, "crc": 3}}'),
    ],
)  # fmt: skip
def test_a_damaged_ingest_record_raises_and_changes_nothing(log: Path, body: bytes) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
    for text in (body, b"%08x %s" % (crc32c(body), body), b"%08x %s" % (crc32c(body) ^ 1, body)):
        forge(log, text)
        before = {path.name: path.read_bytes() for path in log.iterdir()}
        with pytest.raises(CorruptError, match="no ingest record") as raised:
            Writer(log)
        assert raised.value.path == str(log / ".ingest")
        assert {path.name: path.read_bytes() for path in log.iterdir()} == before
        assert read_all(log) == [b"before"]
        [problem] = binlog.check(log)
        assert (problem.path, problem.rule) == (str(log / ".ingest"), "ingest")
    (log / ".ingest").unlink()
    with Writer(log) as writer:
        writer.append(b"after")


def test_an_ingest_record_without_files_is_removed(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
    body = json.dumps({"id": "0123456789abcdef", "batch": None}).encode()
    forge(log, b"%08x %s\n" % (crc32c(body), body))
    with Writer(log) as writer:
        writer.append(b"after")
    assert hidden(log) == []
    assert read_all(log) == [b"before", b"after"]


@pytest.mark.parametrize("how", ["cut", "longer", "header", "symlink", "other log"])
@pytest.mark.slow
def test_a_damaged_file_of_an_ingest_raises(log: Path, tmp_path: Path, how: str) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
    die_at(log, "record", after=True)
    path = next(log.glob(".ingest.*.00000000"))
    data = path.read_bytes()
    if how == "cut":
        path.write_bytes(data[:-1])
    elif how == "longer":
        path.write_bytes(data + b"x")
    elif how == "header":
        path.write_bytes(data[:70] + b"\xff" + data[71:])
    elif how == "symlink":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        with Writer(tmp_path / "other") as writer:
            writer.append(b"1")
            writer.ingest(external_files(tmp_path / "other", [b"1"] * 50))
        path.write_bytes((tmp_path / "other" / "00000002.dat").read_bytes())
    with pytest.raises((CorruptError, AccessError)):
        Writer(log)
    assert read_all(log) == [b"before"]
    if how == "symlink":
        path.unlink()
    path.write_bytes(data)
    with Writer(log) as writer:
        writer.append(b"after")
    assert read_all(log) == [b"before", *RECORDS, b"after"]


def test_if_the_other_files_cannot_be_placed_the_outcome_is_unknown_and_a_retry_finds_it(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = IngestedFile.give_name
    failing = [False, True, True]

    def full(self: IngestedFile, *arguments: object, **named: object) -> bool:
        if failing and failing.pop(0):
            raise binlog.errors.FullError("no space", limit=0)
        return name(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(IngestedFile, "give_name", full)
    with Writer(log) as writer:
        writer.append(b"before")
        with pytest.raises(UnknownOutcomeError, match="as soon as a writer can resume the ingest"):
            writer.ingest(external_files(log, RECORDS[:50], RECORDS[50:]), producer="s", sequence=0)
        with pytest.raises(BinlogError, match="no space"):
            writer.append(b"not yet")
        assert writer.ingest(external_files(log, RECORDS[:50], RECORDS[50:]), producer="s", sequence=0) is None
        writer.append(b"after")
    assert read_all(log) == [b"before", *RECORDS, b"after"]
    assert binlog.check(log) == []


def test_a_batch_that_cannot_be_recorded_is_known_from_the_ingest_record(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = Ingestion._end
    failing = [True] * 4

    def full(self: Ingestion, *arguments: object) -> None:
        if failing and failing.pop():
            raise binlog.errors.FullError("no space", limit=0)
        end(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Ingestion, "_end", full)
    with Writer(log) as writer:
        batch = writer.ingest(external_files(log, RECORDS[:50], RECORDS[50:]), producer="s", sequence=3)
        assert batch is not None
        assert writer.last_producer_batch("s") == batch
        assert writer.ingest(external_files(log, [b"again"]), producer="s", sequence=3) is None
    with Writer(log) as writer:
        assert writer.last_producer_batch("s") == batch
    assert hidden(log) == []
    assert read_all(log) == RECORDS


@pytest.mark.parametrize(
    ("name", "byte"),
    [(".ingest", 0), (".ingest", 30), (".ingest.*0", 7), (".ingest.*1", 7), (".ingest.*0", 20), (".ingest.*1", 40)]
    + [(".ingest.*1", byte) for byte in (10, 70, 140, 200, 250)],
)
def test_a_flipped_bit_in_a_hidden_file_is_corrected(log: Path, name: str, byte: int) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
    die_at(log, "name")
    [path] = log.glob(name)
    data = bytearray(path.read_bytes())
    data[byte] ^= 1
    path.write_bytes(data)
    if name == ".ingest":
        assert [(problem.path, problem.rule) for problem in binlog.check(log)] == [(str(path), "ingest")]
    with Writer(log) as writer:
        assert writer.ingest(external_files(log, RECORDS[:50], RECORDS[50:]), producer="s", sequence=0) is None
    assert read_all(log) == [b"before", *RECORDS]
    assert hidden(log) == []


@pytest.mark.slow
def test_more_flipped_bits_in_a_hidden_file_raise(tmp_path: Path) -> None:
    log = tmp_path / "damaged"
    with Writer(log) as writer:
        writer.append(b"before")
    die_at(log, "name")
    [path] = log.glob(".ingest.*1")
    data = bytearray(path.read_bytes())
    data[70] ^= 3
    path.write_bytes(data)
    with pytest.raises(CorruptError, match="it is not as it was when its ingest was decided"):
        Writer(log)
    assert read_all(log)[0] == b"before"
