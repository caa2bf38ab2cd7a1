"""The logs under test: each kind of file in a log's directory, in each state that matters."""

from __future__ import annotations

import enum
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import binlog
from binlog import Batch, Mode, Writer
from binlog.format.archive_file import START_BYTES, table_bytes
from binlog.format.log_header import HEADER_BYTES
from binlog.log.append.producers import Producers
from binlog.log.append.writable_file import WritableFile
from binlog.log.directory import LogDirectory
from binlog.log.files.prepared_file import PreparedFile
from binlog.log.ingest.ingestion import IngestedFile, Ingestion
from stress.crash.systems.log.actor import external_file_of

PREPARE_BYTES = 4096
SOURCE = "a source"

_RECORDS = 4
_DIED = 9


class Promise(enum.Enum):
    """The promise for a flipped bit, besides: only binlog's errors, little memory, no change by a call that refuses."""

    REPAIRED = "the records before the damage are read, and after a repair all"
    READ = "every record is read, even before a repair, and writers append"
    TREE = "nothing more, because no checksum covers the bytes"


@dataclass(frozen=True)
class IntactLog:
    """A log with nothing wrong, and the bits of it that are flipped.

    files: their bytes, by name; for a hard link, the name of the first one.
    targets: the ranges of bytes, by name.
    records: every record that a reader finds; the first `acknowledged` are, or all if that is None.
    later: those that a writer adds when it opens the log.
    sequence: of the last producer batch of SOURCE that a writer finds in the log.
    """

    name: str
    promise: Promise
    files: dict[str, bytes | str]
    targets: dict[str, list[range]]
    records: list[bytes]
    later: list[bytes] = field(default_factory=list)
    sequence: int | None = None
    acknowledged: int | None = None
    rules: frozenset[str] = frozenset()

    def bits(self) -> list[tuple[str, int]]:
        """Return every bit: the file, and the number of the bit in it."""
        return [
            (name, 8 * at + bit)
            for name, ranges in self.targets.items()
            for each in ranges
            for at in each
            for bit in range(8)
        ]

    def build(self, log: Path, name: str = "", bit: int = 0) -> None:
        """Make the log, with a bit of a file flipped if one is named."""
        log.mkdir()
        target = name and self.files[name]
        for each, data in self.files.items():
            if isinstance(data, str):
                os.link(log / data, log / each)  # the first name comes before it
                continue
            changed = bytearray(data)
            if name and each in (name, target):
                changed[bit // 8] ^= 1 << bit % 8
            (log / each).write_bytes(changed)


def make_intact_logs(scratch: Path) -> Iterable[IntactLog]:
    """Make every log of the table, in an empty folder, and leave nothing there."""
    for name, make in _TABLE.items():
        log = scratch / "made"
        yield make(name, log)
        shutil.rmtree(log)


def _fill(log: Path, files: int) -> list[bytes]:
    """Append records to each of `files` files, in ranges of one record and of two."""
    records = []
    with Writer(log, prepare_bytes=PREPARE_BYTES) as writer:
        for file in range(files):
            if file:
                writer.cutover()
            for index in range(_RECORDS):
                records.append(b"%d %d" % (file, index) * (9 * index + 1))
                writer.append(records[-1], mode=Mode.FLUSH if index == 1 else Mode.SYNC)
    return records


def _read(log: Path) -> dict[str, bytes | str]:
    """Return the files of a directory; a hard link is the name of the first one."""
    found: dict[str, bytes | str] = {}
    first: dict[int, str] = {}
    for name in sorted(os.listdir(log), key=lambda name: (name.startswith("."), name)):
        path = log / name
        if path.is_file() and name != ".repair.lock":
            inode = path.stat().st_ino
            found[name] = first[inode] if inode in first else path.read_bytes()
            first.setdefault(inode, name)
    return found


def _whole(files: dict[str, bytes | str], *names: str) -> dict[str, list[range]]:
    return {name: [range(len(files[name]))] for name in names}


def _headers(*names: str) -> dict[str, list[range]]:
    return {name: [range(HEADER_BYTES)] for name in names}


def _die(log: Path, owner: object, name: str, work: Callable[[Writer], object], *, times: int = 1) -> None:
    """Let a process die at the `times`-th call of a function while it works with a writer."""
    pid = os.fork()
    if pid:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == _DIED, f"{name} was not called"
        return
    try:
        call, left = getattr(owner, name), [None] * (times - 1)

        def dying(*arguments: object, **named: object) -> object:
            if not left:
                os._exit(_DIED)
            left.pop()
            return call(*arguments, **named)

        setattr(owner, name, dying)
        with Writer(log, prepare_bytes=PREPARE_BYTES) as writer:
            work(writer)
    finally:
        os._exit(1)


def _header(name: str, log: Path, *, files: int, number: int) -> IntactLog:
    records = _fill(log, files)
    return IntactLog(name, Promise.REPAIRED, _read(log), _headers(f"{number:08d}.dat"), records)


def _index(name: str, log: Path, *, files: int, number: int) -> IntactLog:
    records = _fill(log, files)
    found = _read(log)
    return IntactLog(name, Promise.READ, found, _whole(found, f"{number:08d}.idx"), records)


def _batch_records(sequence: int) -> list[bytes]:
    return [b"turn %d" % sequence, b"of two records" * sequence]


def _append_producer_batch(writer: Writer, sequence: int) -> None:
    writer.append_idempotent([Batch.from_records(_batch_records(sequence))], producer=SOURCE, sequence=sequence)


def _sequence(name: str, log: Path, *, files: int, dies: str) -> IntactLog:
    """Append producer batch 1, then let a process die in batch 2, unless `dies` is "none"."""
    records = _fill(log, files) + _batch_records(1)
    with Writer(log, prepare_bytes=PREPARE_BYTES) as writer:
        _append_producer_batch(writer, 1)
    sequence = 1
    if dies == "named":  # published, but not recorded yet
        _die(log, Producers, "finish", lambda writer: _append_producer_batch(writer, 2))
        records, sequence = records + _batch_records(2), 2
    elif dies == "written":  # written, but not published
        _die(log, WritableFile, "_require", lambda writer: _append_producer_batch(writer, 2))
    found = _read(log)
    targets = _whole(found, *(each for each in found if ".producer" in each))
    return IntactLog(name, Promise.READ, found, targets, records, sequence=sequence)


def _intent_header(name: str, log: Path, *, files: int) -> IntactLog:
    """Make a log with an intent to resolve in the header of its open file."""
    made = _sequence(name, log, files=files, dies="written")
    return IntactLog(
        name, Promise.REPAIRED, made.files, _headers(f"{files:08d}.dat"), made.records, sequence=made.sequence
    )


def _ingest_external_files(log: Path, sequence: int, writer: Writer) -> None:
    files = [external_file_of(log / "aside", Batch.from_records([record])) for record in _batch_records(sequence)]
    writer.ingest(files, producer=SOURCE, sequence=sequence)


_INGEST_DEATHS: dict[str, tuple[object, str, int, int]] = {
    # the call, how often before; how many of the two files a reader sees
    "decided": (IngestedFile, "give_name", 1, 0),
    "named": (WritableFile, "close_at", 1, 0),
    "half": (IngestedFile, "give_name", 2, 1),
    "placed": (Ingestion, "_end", 1, 2),
}


def _ingest(name: str, log: Path, *, files: int, dies: str, headers: bool) -> IntactLog:
    """Let a process die in the middle of producer batch 1, of two external files."""
    records = _fill(log, files)
    owner, call, times, seen = _INGEST_DEATHS[dies]
    _die(log, owner, call, partial(_ingest_external_files, log, 1), times=times)
    found = _read(log)
    added = _batch_records(1)
    if headers:
        targets = _headers(*(each for each in found if each.endswith(".dat") and int(each[:8]) >= files))
    else:
        parts = [each for each in found if each.startswith(".ingest.")]
        targets = _whole(found, ".ingest") | _headers(*parts)
    promise = Promise.REPAIRED if headers or dies == "named" else Promise.READ
    return IntactLog(
        name, promise, found, targets, records + added[:seen], added[seen:], sequence=1, acknowledged=len(records)
    )


def _leftover(name: str, log: Path, *, files: int) -> IntactLog:
    """Make a log with everything that a process leaves if it dies before it has named a file."""
    records = _fill(log, files)
    _die(log, PreparedFile, "give_name", lambda writer: writer.cutover())
    _die(log, LogDirectory, "rename", lambda writer: _append_producer_batch(writer, 1))
    _die(log, LogDirectory, "rename", partial(_ingest_external_files, log, 1))
    found = _read(log)
    names = [each for each in found if each.startswith(".")]
    targets = {each: [range(min(len(found[each]), HEADER_BYTES))] for each in names}
    return IntactLog(name, Promise.READ, found, targets, records)


def _archive(name: str, log: Path, *, files: int, number: int) -> IntactLog:
    records = _fill(log, files)
    binlog.archive(log)
    found = _read(log)
    target = f"{number:08d}.dat.zst"
    data = found[target]
    assert isinstance(data, bytes)
    return IntactLog(
        name, Promise.READ, found, {target: [range(START_BYTES), range(_end_of(data), len(data))]}, records
    )


def _end_of(archive: bytes) -> int:
    """Return the offset of our metadata in an archive."""
    size = table_bytes(archive[-9:])
    assert size is not None
    return len(archive) - size - 72


def _archive_index(name: str, log: Path, *, files: int) -> IntactLog:
    made = _archive(name, log, files=files, number=1)
    return IntactLog(name, Promise.READ, made.files, _whole(made.files, "00000001.idx"), made.records)


def _quarantined(name: str, log: Path, *, files: int) -> IntactLog:
    """Make a log with a damaged record that a repair has quarantined; the fillers are ordinary records now."""
    _fill(log, files)
    with (log / "00000001.dat").open("r+b") as file:
        file.seek(300)
        file.write(b"\xff")
    binlog.repair(log)
    with binlog.Reader(log) as reader:
        records = [entry.data for entry in reader]
    found = _read(log)
    names = [each for each in found if each.endswith(".damaged")]
    return IntactLog(name, Promise.READ, found, _whole(found, *names), records, rules=frozenset({"quarantined"}))


_TABLE: dict[str, Callable[[str, Path], IntactLog]] = {
    **{
        f"{what} {number} of {files}": partial(make, files=files, number=number)
        for what, make in (("header", _header), ("index", _index))
        for files, number in ((1, 1), (3, 1), (3, 2), (3, 3))
    },
    **{
        f"turn {dies}, {files}": partial(_sequence, files=files, dies=dies)
        for dies in ("none", "named", "written")
        for files in (1, 3)
    },
    **{f"turn written, header, {files}": partial(_intent_header, files=files) for files in (1, 3)},
    **{f"ingest {dies}, 1": partial(_ingest, files=1, dies=dies, headers=False) for dies in _INGEST_DEATHS},
    **{f"ingest {dies}, 3": partial(_ingest, files=3, dies=dies, headers=False) for dies in ("decided", "half")},
    **{f"ingest {dies}, headers, 1": partial(_ingest, files=1, dies=dies, headers=True) for dies in _INGEST_DEATHS},
    "ingest decided, headers, 3": partial(_ingest, files=3, dies="decided", headers=True),
    "left over, 1": partial(_leftover, files=1),
    **{f"archive {number} of 3": partial(_archive, files=3, number=number) for number in (1, 2)},
    "archive, index": partial(_archive_index, files=3),
    **{f"quarantined, {files}": partial(_quarantined, files=files) for files in (1, 3)},
}

QUICK = (
    "header 1 of 1", "header 2 of 3", "index 1 of 3", "turn named, 1", "turn written, 3", "turn written, header, 1",
    "ingest placed, 1",
)  # fmt: skip
"""A log of each kind."""
