"""What a journal consists of, at one moment."""

from __future__ import annotations

import os
from dataclasses import dataclass

from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.names import LOCK_FILE, QUARANTINE_FOLDER, JournalNames
from binlog.journal.files.journal_files import JournalFile
from binlog.journal.inspection.inspection import Inspection, find_problems, inspect_journal
from binlog.journal.ledger import Kept, Ledger, dead_files
from binlog.journal.loading.record_states import RecordState, StatesInput, record_states
from binlog.storage.directory import Directory
from binlog.storage.locking.directory_lock import find_owner


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
    quarantine: names and sizes of what loads have set aside, as it was damaged.  unfinished: names of files that are
    being made, or compacted, or were when a process ended.  problem_count: what a check tells of.
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

    why: what keeps each file is found out too, which takes an object for each record that is there.
    Raises: as `check_journal`.
    """
    path = os.path.abspath(path)
    with Directory(path) as directory:
        found = inspect_journal(path, JournalNames(prefix, extension), layout)
        kept = _kept(directory, found) if why else {}
        owned, owner = find_owner(directory, LOCK_FILE)
    going = [each.state for each in found.states.transactions]
    return JournalStat(
        path=path,
        layout=found.look.layout,
        owned=owned,
        owner=owner,
        files=tuple(_file(found, place, kept.get(file.seen.name)) for place, file in enumerate(found.files)),
        prepared_count=going.count(RecordState.PREPARED),
        open_count=going.count(RecordState.OPEN),
        quarantine=tuple(
            (name, _bytes(os.path.join(path, QUARANTINE_FOLDER, name))[0]) for name in found.look.quarantine
        ),
        unfinished=found.look.unfinished,
        problem_count=len(find_problems(found)),
    )


def _file(found: Inspection, place: int, kept: Kept | None) -> JournalFileStat:
    file = found.files[place]
    seen = file.seen
    return JournalFileStat(
        path=seen.path,
        file_id=seen.header.file_id,
        began_ns=seen.header.began_ns or None,
        file_bytes=seen.file_bytes,
        disk_bytes=_bytes(seen.path)[1],
        is_used=file.is_used,
        record_count=file.columns.record_count,
        live_count=found.states.live_count(place),
        live_bytes=found.states.live_bytes[place],
        kept=kept,
    )


def _bytes(path: str) -> tuple[int, int]:
    """A file's size, and what it takes on the disk; nothing where it is gone."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0, 0
    return status.st_size, status.st_blocks * 512


def _kept(directory: Directory, inspected: Inspection) -> dict[str, Kept]:
    """What keeps each file, by its name, as the journal itself counts it."""
    used = [file for file in inspected.files if file.is_used]
    columns = [file.columns for file in used]
    files = [JournalFile(directory, each.name, each.header, each.file_bytes) for each in (f.seen for f in used)]
    ids, numbers = [file.header.record_id for file in files], [file.number for file in files]
    found = record_states(map(StatesInput, ids, columns, numbers))
    ledger = Ledger()
    ledger.take(files, columns, found)
    dead = set(dead_files(files[:-1], files[-1] if files else None))
    return {kept.name: kept for kept in ledger.kept_files([file for file in files[:-1] if file not in dead])}
