"""Repairing a log, which happens only on request.

Acknowledged records that are damaged are never removed silently: they are quarantined, byte for byte, in a file of
their own, and reported.  docs/decisions/0011-fillers-for-damaged-records.md says why their offsets are kept.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, closing, nullcontext
from datetime import timedelta
from typing import NamedTuple

from binlog.errors import CorruptError, NotFoundError, VersionError
from binlog.format.log_header import LogHeader
from binlog.format.names import log_file_name
from binlog.format.values import member, seconds_of
from binlog.log.append.producers import damaged_producer_files
from binlog.log.append.session import Session
from binlog.log.directory import LogDirectory
from binlog.log.maintain.file_repair import FileRepair
from binlog.log.maintain.gap_repair import GapRepair
from binlog.log.options import WriterOptions
from binlog.log.recovery.evidence import FileEvidence
from binlog.log.recovery.recovery_table import Action, decide
from binlog.storage.boot import boot_id
from binlog.storage.files import FileSystem
from binlog.storage.locking.directory_lock import hold_lock_file

LOCK_NAME = ".repair.lock"


class Repair(NamedTuple):
    """An action of a repair: the file, the offset in it, a short name, and a sentence."""

    path: str
    offset: int
    action: str
    text: str

    def __str__(self) -> str:
        return f"{self.path} at offset {self.offset}: {self.text} [{self.action}]"


def repair(
    path: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    lock_timeout: float | timedelta | str | None = None,
    file_system: FileSystem | str = FileSystem.LOCAL,
) -> list[Repair]:
    """Repair the log in a directory as far as possible; return the actions, an empty list for none.

    dry_run: only report what would be done.
    lock_timeout: seconds to wait for each file's lock, which writers hold only while they append; None waits forever.
    file_system: as for a Writer.

    Damaged records are moved to `<file>.<from>-<to>.damaged`.  If the index has their count, as many fillers replace
    them, and every other record keeps its ref and sequence number.  If not, everything from the damage to the end of
    the file is moved.  Then every file gets a complete index.  A writer's death or a power cut is
    recovered from as by opening a Writer.  If the sequence numbers of two files show that records are missing, fillers
    replace them; a missing file is replaced by an empty one.  `check` continues to report damage that cannot be
    repaired.
    Of an archive everything but its records is repaired: a damaged frame is lost, as `check` reports.
    Durable on return.  Other processes may read and append meanwhile.
    Raises: NotFoundError if there is no log; BusyError if another process repairs it, or holds a lock for long;
    AccessError; FullError; PoisonedError.
    """
    file_system = member(FileSystem, file_system, "file_system")
    lock_timeout = None if lock_timeout is None else seconds_of(lock_timeout, "lock_timeout")
    with LogDirectory(path) as directory:
        directory.log_numbers()
        with _alone(directory, dry_run=dry_run):
            done = []
            numbers = directory.numbers()
            for number in numbers:
                try:
                    if not directory.is_file(number):
                        done += _repair_archive(directory, number, dry_run=dry_run)
                        continue
                    done += _repair_file(directory, number, dry_run=dry_run, lock_timeout=lock_timeout)
                except (NotFoundError, CorruptError, VersionError):
                    continue  # pruned after the listing, or the header is unusable, as `check` reports
            done += [Repair(*each) for each in GapRepair(directory, dry_run=dry_run, lock_timeout=lock_timeout).run()]
            if numbers and dry_run:
                done += [
                    _repaired_producer(directory, name)
                    for name, error in damaged_producer_files(directory).items()
                    if not error
                ]
            elif numbers:
                options = WriterOptions(lock_timeout=lock_timeout, file_system=file_system)
                done += [_repaired_producer(directory, name) for name in _open_and_close(directory, options)]
            return done


def _alone(directory: LogDirectory, *, dry_run: bool) -> AbstractContextManager[None]:
    """Exclude other repairs, and archiving.  A dry run makes no lock file, because the directory may be read-only."""
    if dry_run:
        return nullcontext()
    return hold_lock_file(directory, LOCK_NAME, "repairs the log", directory.access())


def _repair_archive(directory: LogDirectory, number: int, *, dry_run: bool) -> list[Repair]:
    # Imported on use, because it imports zstd.
    from binlog.log.archive.archive_building import repair_archive

    return [Repair(*each) for each in repair_archive(directory, number, dry_run=dry_run)]


def _open_and_close(directory: LogDirectory, options: WriterOptions) -> list[str]:
    """Let a writer finish recovery, cutovers and ingests; return the producer files that were rewritten."""
    try:
        with closing(Session(directory, options)) as session:
            return session.run(lambda file, header: file.producers.repair())
    except (CorruptError, VersionError):
        return []  # `check` reports it


def _repaired_producer(directory: LogDirectory, name: str) -> Repair:
    text = "a flipped bit in the file of a producer's last batch is corrected"
    return Repair(directory.file_path(name), 0, "producer", text)


def _repair_file(directory: LogDirectory, number: int, *, dry_run: bool, lock_timeout: float | None) -> list[Repair]:
    with directory.locked(log_file_name(number), lock_timeout, writable=not dry_run) as fd:
        file = FileRepair(directory, number, fd, dry_run=dry_run)
        header = file.repair_header()
        if header is not None:
            _repair_records(header, fd, directory.log_path(number), file)
        return [Repair(*each) for each in file.done]


def _repair_records(header: LogHeader, fd: int, path: str, file: FileRepair) -> None:
    if file.check_cut(header):
        return
    same_boot = header.boot_id == boot_id()
    verdict = decide(header, FileEvidence(fd, path), same_boot=same_boot, opened_before_unconfirmed=False)
    if verdict.action is Action.REFUSE:
        file.salvage(header, verdict.text)
    elif verdict.action is Action.KEEP or (verdict.action is Action.CONFIRM and same_boot):
        file.repair(header)  # its writers confirm what is only flushed
    elif header.closed:
        file.repair(file.recover(header, verdict))
    else:
        file.report(
            verdict.tail, "recovered", f"the file is recovered: {verdict.action.value}"
        )  # by the writer that is opened last
