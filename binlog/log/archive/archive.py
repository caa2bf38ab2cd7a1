"""Archiving: compressed copies take the place of closed log files and are read like them.

Invariants
- A file is removed only after its archive is complete, synced, read back and found equal, and durably named.  If both
  exist, the file counts: the process that archived it died, and the next call of `archive` finishes its work.
- A lock proves that the file is the one that was archived, and is held until the file is removed.  Compressing and
  comparing take no lock, because a foreign writer that appends after the close would wait for it; a lock of their own
  keeps repairs out.
- The index stays as it is, and is complete: its CRCs prove the file before it is archived, and the archive afterwards.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from binlog.errors import BusyError, CorruptError, GoneError, NotFoundError, VersionError
from binlog.format.archive_file import RAW_BYTES_MAX
from binlog.format.log_header import Flag, LogHeader
from binlog.format.names import archive_file_name, log_file_name, unfinished_archive_name, unfinished_archive_number
from binlog.format.values import seconds_of
from binlog.log.directory import LogDirectory
from binlog.log.files.closed_files import ClosedFile, closed_files, is_written, list_files
from binlog.log.index.index import Index, opened_index
from binlog.log.index.index_building import complete_index
from binlog.log.maintain.repair import LOCK_NAME
from binlog.log.recovery.evidence import FileEvidence, heal
from binlog.log.recovery.recovery_table import Action, decide
from binlog.storage.boot import boot_id
from binlog.storage.file_access import access_like
from binlog.storage.files import sync
from binlog.storage.locking.directory_lock import hold_lock_file

LEVEL_DEFAULT = 3
LEVEL_MAX = 19

_LOCK_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Archived:
    """A file that was archived, would be archived in a dry run, or could not be archived.

    name: of the archive, in the log's directory.
    record_count: None if another program made the file.
    closed_ns: when the file was closed, as far as is known.
    raw_bytes: the file's size up to its tail.  archive_bytes: the archive's; None if it was not made.
    problem: why the file was left as it is; None if it was archived.
    """

    number: int
    name: str
    record_count: int | None
    closed_ns: int
    raw_bytes: int
    archive_bytes: int | None = None
    problem: str | None = None


def archive(
    path: str | os.PathLike[str],
    *,
    keep_last: int = 0,
    keep_seconds: float | timedelta | str | None = None,
    level: int = LEVEL_DEFAULT,
    dry_run: bool = False,
) -> list[Archived]:
    """Replace each closed file by a compressed archive, oldest first, and return a report for each.

    keep_last: leave n of the newest closed files as they are.
    keep_seconds: leave files that were closed less than n seconds ago.
    level: zstd's, 1 to 19; higher is smaller and slower, but not slower to read.
    dry_run: archive nothing, and report the files that would be archived.

    Records keep their refs, and everything that reads a log reads archives: a Reader, `check`, Spark.  A file is
    removed only after its archive was synced and compared, byte for byte, with the file and with the index, which is
    completed first.  A file is left, and reported with a `problem`, if its bytes are not those that were written, or if
    another program may write to it.
    Needs disk space for one more archive, and memory for some MiB and three times the largest record.
    May run beside writers and readers.  Durable on return.
    Raises: NotFoundError if there is no log; BusyError if another process archives or repairs it; AccessError,
    CorruptError, VersionError for a file's header; FullError, PoisonedError, which leave the file; ValueError.
    """
    keep_seconds = None if keep_seconds is None else seconds_of(keep_seconds, "keep_seconds")
    _check_arguments(keep_last, keep_seconds, level)
    with LogDirectory(path) as directory:
        directory.log_numbers()
        if dry_run:
            return [_report(each) for each in _wanted(directory, keep_last, keep_seconds)[0]]
        with hold_lock_file(directory, LOCK_NAME, "archives or repairs the log", directory.access()):
            _remove_unfinished(directory)
            done = []
            wanted, has_foreign_writers = _wanted(directory, keep_last, keep_seconds)
            for each in wanted:
                try:
                    done.append(_archive(directory, each, level=level, has_foreign_writers=has_foreign_writers))
                except NotFoundError:
                    continue  # pruned after the listing
            return done


def _check_arguments(keep_last: int, keep_seconds: float | None, level: int) -> None:
    if keep_last < 0:
        raise ValueError(f"keep_last is 0 or more, not {keep_last}")
    if keep_seconds is not None and not 0 <= keep_seconds < math.inf:
        raise ValueError(f"keep_seconds is 0 or more, not {keep_seconds}")
    if not 1 <= level <= LEVEL_MAX:
        raise ValueError(f"level is 1 to {LEVEL_MAX}, not {level}")


def _wanted(directory: LogDirectory, keep_last: int, keep_seconds: float | None) -> tuple[Sequence[ClosedFile], bool]:
    """Return the files to archive, oldest first, and whether other programs write to the log."""
    files = list(list_files(directory))
    has_foreign_writers = any(file.header.has_foreign_writers for file in files)
    now_ns = time.time_ns()
    closed = [file.header.number for file in files if file.header.closed]
    kept = set(closed[-keep_last:] if keep_last else [])
    found = []
    for each in closed_files(files, has_foreign_writers=has_foreign_writers, now_ns=now_ns):
        if each.file.archived:
            continue
        number = each.file.header.number
        young = keep_seconds is not None and now_ns - each.closed_ns < keep_seconds * 1e9
        if number in kept or young or (has_foreign_writers and is_written(directory, number)):
            break
        found.append(each)
    return found, has_foreign_writers


def _report(closed: ClosedFile) -> Archived:
    header = closed.file.header
    return Archived(
        number=header.number, name=archive_file_name(header.number),
        record_count=header.record_count if header.is_native else None, closed_ns=closed.closed_ns,
        raw_bytes=header.tail,
    )  # fmt: skip


def _archive(directory: LogDirectory, closed: ClosedFile, *, level: int, has_foreign_writers: bool) -> Archived:
    if closed.file.header.tail > RAW_BYTES_MAX:
        return replace(_report(closed), problem=f"file {closed.file.header.number} has more than {RAW_BYTES_MAX} bytes")
    number = closed.file.header.number
    with directory.opened(log_file_name(number)) as fd:
        try:
            size = _RawFile(directory, number, fd).archive(level=level, has_foreign_writers=has_foreign_writers)
        except (BusyError, CorruptError, VersionError, GoneError) as error:
            return replace(_report(closed), problem=str(error))
    return replace(_report(closed), archive_bytes=size)


def _remove_unfinished(directory: LogDirectory) -> None:
    """Remove archives that are unfinished because their process died."""
    for name in directory.names():
        if unfinished_archive_number(name) is not None:
            directory.remove(name)


class _RawFile:
    """A closed file that is being archived.

    It is open only for reading while that takes time, because in a log with foreign writers an open for writing counts
    as one.
    """

    def __init__(self, directory: LogDirectory, number: int, fd: int) -> None:
        self._directory = directory
        self._number = number
        self._name = log_file_name(number)
        self._path = directory.log_path(number)
        self._archive_name = archive_file_name(number)
        self._fd = fd

    def archive(self, *, level: int, has_foreign_writers: bool) -> int:
        """Replace the file by its archive, and return the archive's size.

        has_foreign_writers: other programs write to the log.
        Raises: BusyError, CorruptError, VersionError, GoneError if the file must not be archived.
        """
        # Imported on use, because it imports zstd.
        from binlog.log.archive.archive_building import verify_archive, write_archive

        directory = self._directory
        with directory.locked(self._name, _LOCK_SECONDS) as fd:  # waits for a writer that is just closing it
            header = self._header(fd)
        source = (self._fd, header, self._path)
        with self._completed_index(header) as index:
            if directory.has(self._archive_name):
                left = self._verified(source, index)
                self._replace_file(header, None, has_foreign_writers=has_foreign_writers)
                return left
            name = unfinished_archive_name(self._number)
            try:
                with directory.created(name, access_like(os.fstat(self._fd))) as unfinished:
                    write_archive(unfinished, source, index, level=level)
                    verify_archive(unfinished.content, source, index, path=unfinished.path)
                    self._replace_file(header, name, has_foreign_writers=has_foreign_writers)
                    return os.fstat(unfinished.content).st_size
            finally:
                directory.remove(name)

    def _header(self, fd: int) -> LogHeader:
        """Return the header if the file is as a cutover leaves it.  Raises: GoneError; CorruptError."""
        found, header = self._directory.believed_header(fd, self._number)
        if os.fstat(fd).st_nlink == 0 or not header.closed:
            raise GoneError(f"{self._path} is not what it was when it was listed")
        verdict = decide(
            header, FileEvidence(fd, self._path), same_boot=header.boot_id == boot_id(), opened_before_unconfirmed=False
        )
        if verdict.action is not Action.KEEP or header.flags & Flag.POISON:
            text = f"it needs recovery ({verdict.text or verdict.action.value}): open the log with a writer"
            raise CorruptError(self._path, verdict.tail, f"recovery-{verdict.row}", text)
        heal(fd, found, header, self._path)
        return header

    @contextmanager
    def _completed_index(self, header: LogHeader) -> Iterator[Index]:
        """Yield the index, after completing it if a death left it without its last entries, or if it was removed."""
        directory, number = self._directory, self._number
        with opened_index(directory, number) as index:
            is_complete = index is not None and _is_complete(index, header)
        if not is_complete:
            with directory.locked(self._name, _LOCK_SECONDS) as fd:
                complete_index(directory, header, fd)
        with opened_index(directory, number) as index:
            if index is None or not _is_complete(index, header):
                text = "the file's index cannot be completed; see `binlog repair`"
                raise CorruptError(self._path, header.first_offset, "index", text)
            index.sync()  # appends do not; after the file is removed, only the index proves the records
            yield index

    def _verified(self, source: tuple[int, LogHeader, str], index: Index) -> int:
        """Return the size of an archive that has its name already: its process died before it removed the file.

        Raises: CorruptError, VersionError if it is not of this file; then it stays, because its origin is unknown.
        """
        from binlog.log.archive.archive_building import verify_archive

        path = self._directory.file_path(self._archive_name)
        with self._directory.opened(self._archive_name) as fd:
            sync(fd, path)
            verify_archive(fd, source, index, path=path)
            return os.fstat(fd).st_size

    def _replace_file(self, header: LogHeader, unfinished: str | None, *, has_foreign_writers: bool) -> None:
        """Name the archive and remove the file, each durably.

        unfinished: the archive's present name; None if it has its final name already.
        """
        directory = self._directory
        if has_foreign_writers and is_written(directory, self._number):
            raise BusyError(f"{self._path} is open for writing, and other programs write to the log")
        with directory.locked(self._name, _LOCK_SECONDS) as fd:
            if self._header(fd)._replace(doorbell=header.doorbell) != header:
                raise GoneError(f"{self._path} changed while it was archived; archive it again")
            if unfinished is not None:
                directory.rename(unfinished, self._archive_name)
            else:
                directory.sync()
            directory.remove(self._name)
            directory.sync()


def _is_complete(index: Index, header: LogHeader) -> bool:
    """Return whether an index of the file reaches its tail."""
    if not index.fits(header):
        return False
    last = index.entry(index.count - 1) if index.count else None
    end = header.first_offset if not index.count else None if last is None else last.end
    return end == header.tail
