"""Statistics of a journal, its files and its quarantine."""

from __future__ import annotations

import os
from dataclasses import dataclass

from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.names import LOCK_FILE, QUARANTINE_FOLDER, JournalNames
from binlog.journal.files.journal_files import JournalFile
from binlog.journal.inspection.inspection import Inspection, find_problems, inspect_journal
from binlog.journal.ledger import FilePins, Ledger, dead_files
from binlog.journal.loading.record_states import RecordState, StatesInput, record_states
from binlog.storage.directory import Directory
from binlog.storage.locking.directory_lock import find_owner


@dataclass(frozen=True, kw_only=True)
class JournalFileStat:
    """Statistics of one file.

    file_id: of its current use.  began_ns: when that use began, in nanoseconds since 1970 UTC; None if the layout has
    no such field.  disk_bytes: space that it takes on the disk.
    is_used: it has records, or bytes at the place of the first one; otherwise it is free.
    live_count, live_bytes: of its live records.
    pins: None if the file is dead, is the last one with records, or with_pins was not given.
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
    pins: FilePins | None


@dataclass(frozen=True, kw_only=True)
class JournalStat:
    """Statistics of a journal.

    layout: None if no file has a header.
    owned: a process has the journal open.  owner: a text that names it; None if unknown.
    files: oldest first.  The file after the last one with records is used next.
    prepared_count: prepared transactions.  open_count: other open transactions, running or left by a crash.
    quarantine: names and sizes of files that loads have moved there.
    unfinished: names of files that are being created, or written by a compaction, or were left by a crash.
    problem_count: problems that `check_journal` would report.
    """

    path: str
    layout: JournalLayout | None
    owned: bool
    owner: str | None
    files: tuple[JournalFileStat, ...]
    prepared_count: int
    open_count: int
    quarantine: tuple[tuple[str, int], ...]
    unfinished: tuple[str, ...]
    problem_count: int

    @property
    def record_count(self) -> int:
        """Records in all files."""
        return sum(file.record_count for file in self.files)

    @property
    def live_count(self) -> int:
        """Live records in all files."""
        return sum(file.live_count for file in self.files)

    @property
    def disk_bytes(self) -> int:
        """Space that all files take on the disk."""
        return sum(file.disk_bytes for file in self.files)


def stat_journal(
    path: str | os.PathLike[str],
    *,
    prefix: str = "journal",
    extension: str = "jnl",
    layout: JournalLayout | None = None,
    with_pins: bool = False,
) -> JournalStat:
    """Return statistics of the journal in a folder.  Reads all of it; takes no lock and writes nothing.

    with_pins: also find the pins of each file, which takes an object in memory for each live record.
    Raises: as `check_journal`.
    """
    path = os.path.abspath(path)
    with Directory(path) as directory:
        journal = inspect_journal(path, JournalNames(prefix, extension), layout)
        pins = _pins(directory, journal) if with_pins else {}
        owned, owner = find_owner(directory, LOCK_FILE)
    states = [each.state for each in journal.states.transactions]
    return JournalStat(
        path=path,
        layout=journal.folder.layout,
        owned=owned,
        owner=owner,
        files=tuple(_file(journal, number, pins.get(file.use.name)) for number, file in enumerate(journal.files)),
        prepared_count=states.count(RecordState.PREPARED),
        open_count=states.count(RecordState.OPEN),
        quarantine=tuple(
            (name, _bytes(os.path.join(path, QUARANTINE_FOLDER, name))[0]) for name in journal.folder.quarantine
        ),
        unfinished=journal.folder.unfinished,
        problem_count=len(find_problems(journal)),
    )


def _file(journal: Inspection, number: int, pins: FilePins | None) -> JournalFileStat:
    file = journal.files[number]
    use = file.use
    return JournalFileStat(
        path=use.path,
        file_id=use.header.file_id,
        began_ns=use.header.began_ns or None,
        file_bytes=use.file_bytes,
        disk_bytes=_bytes(use.path)[1],
        is_used=file.is_used,
        record_count=file.columns.record_count,
        live_count=journal.states.live_count(number),
        live_bytes=journal.states.live_bytes[number],
        pins=pins,
    )


def _bytes(path: str) -> tuple[int, int]:
    """Return the size of a file and its space on the disk; zeros if it no longer exists."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0, 0
    return status.st_size, status.st_blocks * 512


def _pins(directory: Directory, inspected: Inspection) -> dict[str, FilePins]:
    """Return the pins of each file by its name, from a ledger like the journal's own."""
    used = [file for file in inspected.files if file.is_used]
    columns = [file.columns for file in used]
    files = [JournalFile(directory, each.name, each.header, each.file_bytes) for each in (f.use for f in used)]
    ids, numbers = [file.header.record_id for file in files], [file.number for file in files]
    states = record_states(map(StatesInput, ids, columns, numbers))
    ledger = Ledger()
    ledger.restore(files, columns, states)
    dead = set(dead_files(files[:-1], files[-1] if files else None))
    return {pins.name: pins for pins in ledger.file_pins([file for file in files[:-1] if file not in dead])}
