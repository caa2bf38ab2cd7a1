"""What a journal consists of, at one moment."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from binlog.errors import BusyError, GoneError, NotFoundError
from binlog.format.journal.compiled import scan_records
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.names import ATTIC_FOLDER, LOCK_FILE, JournalNames
from binlog.journal.check import find_problems
from binlog.journal.inspection import InspectedFile, Inspection, inspect_journal
from binlog.journal.journal_file import JournalFile
from binlog.journal.kept import Kept, kept_files
from binlog.journal.ledger import Ledger, dead_files
from binlog.journal.look import read_seen
from binlog.journal.record_states import RecordState
from binlog.journal.replay import Replay
from binlog.storage.files import open_named_directory
from binlog.storage.sole_owner import find_owner

_TRIES = 16


@dataclass(frozen=True, kw_only=True)
class JournalFileStat:
    """A file.

    file_id: of its present use.  began_ns: when that began, nanoseconds since 1970 UTC; None where the layout says
    nothing of it.  disk_bytes: what it takes on the disk.
    is_used: it has records, or had some that are damaged; otherwise it waits to be used.
    live_count, live_bytes: of its records those that are there.
    kept: what keeps it from being used again; None where nothing does, or nobody asked.
    """

    path: str
    file_id: int
    began_ns: int | None
    file_bytes: int
    disk_bytes: int
    is_used: bool
    record_count: int
    live_count: int
    live_bytes: int
    kept: Kept | None


@dataclass(frozen=True, kw_only=True)
class JournalStat:
    """A journal, as it is on the disk.

    layout: None where there is no file.
    owned: a process has it; owner: a text that names it, None where that cannot be known.
    files: oldest first; the one behind the last with records is used next.
    prepared_count, open_count: transactions that are prepared, and that go on otherwise, or that a crash left.
    attic: names and sizes of what loads have set aside, as it was damaged.  unfinished: names of files that are being
    made, or compacted, or were when a process ended.  problem_count: what a check tells of.
    """

    path: str
    layout: JournalLayout | None
    owned: bool
    owner: str | None
    files: tuple[JournalFileStat, ...]
    prepared_count: int
    open_count: int
    attic: tuple[tuple[str, int], ...]
    unfinished: tuple[str, ...]
    problem_count: int

    @property
    def record_count(self) -> int:
        """How many records the files have."""
        return sum(file.record_count for file in self.files)

    @property
    def live_count(self) -> int:
        """How many of them are there."""
        return sum(file.live_count for file in self.files)

    @property
    def disk_bytes(self) -> int:
        """What the files take on the disk."""
        return sum(file.disk_bytes for file in self.files)


def stat_journal(
    path: str | os.PathLike[str],
    *,
    prefix: str = "journal",
    extension: str = "jnl",
    layout: JournalLayout | None = None,
    why: bool = False,
) -> JournalStat:
    """What the journal in a folder consists of.  Reads all of it, takes no lock, and writes nothing.

    why: what keeps each file is found out too, which takes an object for each record.
    Raises: as `check_journal`.
    """
    path = os.path.abspath(path)
    for _ in range(_TRIES):
        found = inspect_journal(path, JournalNames(prefix, extension), layout)
        try:
            kept = _kept(found.files) if why else {}
        except GoneError:
            continue
        return _stat(path, found, kept)
    raise BusyError(f"the files of {path} are used again faster than they can be read", holder=None)


def _stat(path: str, found: Inspection, kept: dict[str, Kept]) -> JournalStat:
    directory_fd = open_named_directory(path)
    try:
        owned, owner = find_owner(path, directory_fd, LOCK_FILE)
    finally:
        os.close(directory_fd)
    states = found.states
    each = zip(found.files, states.states, states.live_bytes, strict=True)
    return JournalStat(
        path=path,
        layout=found.look.layout,
        owned=owned,
        owner=owner,
        files=tuple(_file(file, kinds, size, kept.get(file.seen.name)) for file, kinds, size in each),
        prepared_count=_transactions(found, RecordState.PREPARED),
        open_count=_transactions(found, RecordState.OPEN),
        attic=tuple((name, _bytes(os.path.join(path, ATTIC_FOLDER, name))[0]) for name in found.look.attic),
        unfinished=found.look.unfinished,
        problem_count=len(find_problems(found)),
    )


def _file(file: InspectedFile, states: bytes, live_bytes: int, kept: Kept | None) -> JournalFileStat:
    seen = file.seen
    return JournalFileStat(
        path=seen.path,
        file_id=seen.header.file_id,
        began_ns=seen.header.began_ns or None,
        file_bytes=seen.file_bytes,
        disk_bytes=_bytes(seen.path)[1],
        is_used=file.is_used,
        record_count=file.columns.record_count,
        live_count=states.count(RecordState.LIVE) + states.count(RecordState.UPDATED),
        live_bytes=live_bytes,
        kept=kept,
    )


def _bytes(path: str) -> tuple[int, int]:
    """A file's size, and what it takes on the disk; nothing where it is gone."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0, 0
    return status.st_size, status.st_blocks * 512


def _transactions(found: Inspection, state: RecordState) -> int:
    """How many transactions have records in a state."""
    ids: set[int] = set()
    for file, states in zip(found.files, found.states.states, strict=True):
        if states.count(state):
            numbers = memoryview(file.columns.tx_id).cast("q")
            ids.update(tx_id for tx_id, each in zip(numbers, states, strict=True) if each == state)
    return len(ids)


def _kept(files: Iterable[InspectedFile]) -> dict[str, Kept]:
    """What keeps each file, by its name, as the journal itself counts it."""
    used = [file.seen for file in files if file.is_used]
    found = [JournalFile(seen.folder, -1, seen.name, seen.header, seen.file_bytes) for seen in used]
    ledger = Ledger()
    replay = Replay(ledger, found)
    for seen, file in zip(used, found, strict=True):
        try:
            replay.go_through(file, scan_records(read_seen(seen), seen.header).records)
        except NotFoundError as error:
            raise GoneError(f"{seen.path} is gone") from error
    last = found[-1] if found else None
    dead = set(dead_files(found[:-1], last))
    return {kept.name: kept for kept in kept_files([file for file in found[:-1] if file not in dead], ledger)}
