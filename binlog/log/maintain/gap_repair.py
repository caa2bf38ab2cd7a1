"""GapRepair: restores a single history of a log if files are missing or were copied at different moments.

A copy of a live log may have a file from before a cutover and the next one from after it, or lack the newest file.
Each pair of files is repaired under the lock of the first, in steps that may be repeated: recovery; fillers for the
missing records, by the next file's first sequence number; the close.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from binlog.errors import BinlogError, CorruptError, NotFoundError, VersionError
from binlog.format.log_header import HEADER_BYTES, LOG_HEADER, Flag, LogHeader
from binlog.format.names import NUMBER_MAX, log_file_name
from binlog.log.append.writable_file import write_close
from binlog.log.directory import LogDirectory
from binlog.log.files.prepared_file import make_file, new_header, new_log_uuid
from binlog.log.files.sequences import RecordCounts, missing_between
from binlog.log.index.index_building import complete_index
from binlog.log.maintain.file_repair import Done, FileRepair
from binlog.log.recovery.evidence import FileEvidence
from binlog.log.recovery.recovery import Recovery
from binlog.log.recovery.recovery_table import Action, decide, recovered
from binlog.storage.boot import boot_id
from binlog.storage.files import DiskFile, truncate

# A log with a file 1 and a file 99999999 does not get all files between.
_FILES_MADE_MAX = 64


class GapRepair:
    """Goes through a log once, and repairs or with `dry_run` only reports."""

    def __init__(self, directory: LogDirectory, *, dry_run: bool, lock_timeout: float | None) -> None:
        self._directory = directory
        self._dry_run = dry_run
        self._lock_timeout = lock_timeout

    def run(self) -> Iterator[Done]:
        """Repair pair by pair, and yield each action.  Raises: BusyError, FullError, AccessError, PoisonedError."""
        numbers = self._directory.numbers()
        if not numbers or numbers[-1] - numbers[0] >= len(numbers) + _FILES_MADE_MAX:
            return
        before: LogHeader | None = None
        for number in range(numbers[0], min(numbers[-1] + 2, NUMBER_MAX)):
            following = self._header(number)
            if before is not None and following is None and self._is_missing(number):
                if not before.closed and number > numbers[-1]:
                    return  # the newest file
                yield self._report_made(number)
                following = self._make(before, number)
            if before is not None and following is not None and self._is_due(before, following, last=numbers[-1]):
                with suppress(NotFoundError, CorruptError, VersionError):  # pruned, or reported by `check`
                    yield from self._join(before.number, following)
            before = following

    def _header(self, number: int) -> LogHeader | None:
        """Return the header of a file; None if the file is missing or its header is unusable, as `check` reports."""
        with suppress(BinlogError):
            return self._directory.read_header(number)
        return None

    def _is_missing(self, number: int) -> bool:
        """Return whether a file is missing and was not pruned: the one before it, which would go first, exists."""
        return not self._directory.exists(number) and (self._dry_run or self._directory.exists(number - 1))

    def _is_due(self, before: LogHeader, following: LogHeader, *, last: int) -> bool:
        """Return whether the first of two files may need to be closed, or filled."""
        if not self._directory.is_file(before.number):
            return False  # nothing is added to an archive
        if before.is_native and following.is_native and before.uuid != following.uuid:
            return False
        if not before.closed and (not following.unused or following.number < last):
            return True
        with suppress(BinlogError), self._directory.log_file(before.number) as file:
            return missing_between(self._directory, before, file.content, following) > 0
        return False

    def _join(self, number: int, following: LogHeader) -> list[Done]:
        """Fill and close a file that has a next file."""
        directory, path = self._directory, self._directory.log_path(number)
        with directory.locked(log_file_name(number), self._lock_timeout, writable=not self._dry_run) as fd:
            repair = FileRepair(directory, number, fd, dry_run=self._dry_run)
            header = self._recovered_header(fd, number)
            if header is None:
                return []
            if missing := missing_between(directory, header, fd, following):
                header = repair.fill_gap(header, missing)
            if not header.closed:
                text = f"the file was open although file {number + 1} follows it, and is closed"
                repair.report(LOG_HEADER.offset("status"), "closed", text)
            if repair.done and not self._dry_run:
                write_close(fd, number + 1, path)
                truncate(fd, max(header.tail, HEADER_BYTES), path)
                with suppress(CorruptError):  # the next repair rebuilds the index
                    complete_index(directory, header, fd)
            return repair.done

    def _recovered_header(self, fd: int, number: int) -> LogHeader | None:
        """Recover a locked file, and return its header; None if recovery refuses it."""
        directory, path = self._directory, self._directory.log_path(number)
        _, header = directory.believed_header(fd, number)
        verdict = decide(
            header, FileEvidence(fd, path), same_boot=header.boot_id == boot_id(), opened_before_unconfirmed=False
        )
        if verdict.action is Action.REFUSE:
            return None
        if self._dry_run:
            return recovered(header, verdict)
        return Recovery(directory, number, DiskFile(fd, path)).carry_out(header, verdict)

    def _report_made(self, number: int) -> Done:
        text = "the file before names this one, which is missing: an empty file is made, its records are lost"
        return self._directory.log_path(number), 0, "next-file", text

    def _make(self, before: LogHeader, number: int) -> LogHeader:
        """Make a missing file, empty and open, and return its header."""
        directory = self._directory
        uuid = self._log_uuid() or new_log_uuid()
        if self._dry_run:
            return new_header(number, log_uuid=uuid, first_sequence=before.first_sequence + before.record_count)
        with directory.log_file(before.number) as file:
            sequence = RecordCounts(directory).sequence_after(before, file.content)
        flags = Flag.FOREIGN_WRITERS if before.has_foreign_writers else 0
        make_file(
            directory, number, file_bytes=HEADER_BYTES, access=directory.access(),
            log_uuid=uuid, first_sequence=sequence, epoch=before.epoch, flags=flags,
        )  # fmt: skip
        return directory.read_header(number)

    def _log_uuid(self) -> bytes | None:
        """Return the log's uuid; None if other programs made all of its files."""
        headers = (self._header(number) for number in reversed(self._directory.listed()))
        return next((header.uuid for header in headers if header is not None and header.is_native), None)
