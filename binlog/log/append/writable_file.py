"""One log file as a writer has it: lock, header, commits, doorbell, index.

Invariants
- The lock is held from before the tail is read until after it is published.
- Values from under an earlier lock serve only to detect that nothing has changed since.
- In a file that another program made, a writer changes only the tail, the status and the next number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from binlog.errors import (
    AccessError,
    BinlogError,
    CorruptError,
    FullError,
    GoneError,
    InternalError,
    PoisonedError,
    UnknownOutcomeError,
)
from binlog.format.checksums import crc32c
from binlog.format.index_file import RANGE_BYTES_MAX, Ranges
from binlog.format.log_header import HEADER_BYTES, LOG_HEADER, PUBLISHED, Flag, LogHeader, Status
from binlog.format.names import INGEST_FILE, index_file_name, log_file_name
from binlog.format.record import OFFSET_MAX
from binlog.log.append.producers import ProducerBatch, Producers
from binlog.log.directory import LogDirectory
from binlog.log.files.header import check_size, read_header
from binlog.log.index.index_building import CATCH_UP_BYTES_MAX, IndexWriter
from binlog.log.recovery.evidence import FileEvidence, heal
from binlog.log.recovery.recovery import Recovery
from binlog.log.recovery.recovery_table import Action, decide
from binlog.storage.boot import boot_id
from binlog.storage.commit_file import Append, CommitFile, commit_foreign
from binlog.storage.descriptors import Identity
from binlog.storage.failures import failure
from binlog.storage.file_access import FileAccess, access_like
from binlog.storage.files import DiskFile, allocate, read_at, sync, truncate, write_at
from binlog.storage.locking.locks import try_lock, unlock
from binlog.storage.native import lib
from binlog.storage.staging_area import StagingArea
from binlog.storage.waiting.doorbell import Doorbell

_STATUS = LOG_HEADER.offset("status")
_NEXT = LOG_HEADER.offset("next_number")
_BELL = LOG_HEADER.offset("doorbell")
_PUBLISHED_TAIL = LOG_HEADER.offset("published_tail")
_LIVE_BYTES = LOG_HEADER.offset("confirmed_counter") - _PUBLISHED_TAIL  # published_tail .. confirmed_end

PREPARE_BYTES_FIRST = 1 << 20

# A large append asks the kernel to start writing each time it has written this many bytes.
_WRITE_OUT_BYTES = 8 << 20


def write_close(fd: int, next_number: int, path: str) -> None:
    """Close a file durably, or sync its close again: the next file's records are reachable only through it.

    An existing close is written again, because a descriptor does not learn of a sync that failed before it was opened
    (fsync(2)).  A close never changes, so this needs no lock.  Raises: PoisonedError; FullError; AccessError.
    """
    write_at(fd, next_number.to_bytes(4, "big"), _NEXT, path)
    write_at(fd, Status.CLOSED.to_bytes(2, "big"), _STATUS, path)
    sync(fd, path)


class WritableFile:
    """A log file open for appending.  All methods but `close` and `wake` require the file's lock."""

    def __init__(self, directory: LogDirectory, number: int, *, prepare_bytes: int, strict: bool) -> None:
        self.number = number
        self.path = directory.log_path(number)
        self._directory = directory
        self._prepare_bytes = prepare_bytes
        self._descriptor = directory.descriptor(log_file_name(number))
        self._doorbell = Doorbell(self.fd, _BELL)
        self._opened_before_unconfirmed = False
        self._index: IndexWriter | None = None
        self._index_epoch = -1
        self.is_native = False
        self.producers = Producers(directory, access_like(self._descriptor.status))
        self.commits = CommitFile(self.fd, number, self.path, prepare_bytes=prepare_bytes, strict=strict)

    @property
    def identity(self) -> Identity:
        """The device and inode, which distinguish the file from every other on this machine."""
        return self._descriptor.identity

    @property
    def intact(self) -> bool:
        """Whether the descriptor is still open on this file: a program may have closed it."""
        return self._descriptor.intact

    def sync_moved(self) -> None:
        """Sync a file that was moved away, because no other process will.  Raises: PoisonedError."""
        if self.intact and os.fstat(self.fd).st_nlink:
            self.sync()

    def access(self, permissions: int | None = None) -> FileAccess:
        """Return the owner, group and mode for new files next to it.  permissions: the mode to use instead."""
        return access_like(os.fstat(self.fd), permissions)

    @property
    def fd(self) -> int:
        """The descriptor that holds the lock."""
        return self._descriptor.fd

    def recover(self, *, reopen: bool) -> LogHeader:
        """Recover the file from a crash, and return its header.

        reopen: whether a failed write or sync is handled by closing the file early; otherwise it raises.
        Raises: GoneError if the file's name, or the directory's path, leads elsewhere; PoisonedError; CorruptError;
        VersionError; FullError.
        """
        self._directory.check_path()
        if not self._directory.leads_to(self.number, self.identity):
            raise GoneError(f"{self.path} was removed, or moved away")
        directory = self._directory
        self.commits.watch(
            self.identity, directory.fd, directory.identity, *directory.lookup_place(log_file_name(self.number))
        )
        found, header = self._directory.believed_header(self.fd, self.number)
        same_boot = header.boot_id == boot_id()
        verdict = decide(
            header,
            FileEvidence(self.fd, self.path),
            same_boot=same_boot,
            opened_before_unconfirmed=self._opened_before_unconfirmed,
        )
        if verdict.action is Action.REFUSE:
            raise CorruptError(self.path, verdict.tail, f"recovery-{verdict.row}", verdict.text)
        check_size(verdict.tail, self.fd, self.path)
        if verdict.action is Action.CLOSE and same_boot and not reopen:
            if not header.flags & Flag.POISON:
                raise PoisonedError(f"{self.path}: {verdict.text}")
            reason = os.strerror(header.poison_errno)
            raise PoisonedError(f"{self.path}: a write or sync failed before ({reason}); open the log again to recover")
        heal(self.fd, found, header, self.path)
        index_lost = self._index is not None and not (self.commits.writes_index and self._index.intact)
        if index_lost or verdict.action is not Action.KEEP or self._index_epoch != header.epoch:
            self._cut_index(header, verdict.tail)
        recovery = Recovery(self._directory, self.number, DiskFile(self.fd, self.path))
        # A closed file has no intents: they are resolved in the open one.
        may_have_intents = not header.closed and (header.flags & Flag.INTENT or verdict.action is not Action.KEEP)
        header = recovery.carry_out(header, verdict, opened_before_unconfirmed=self._opened_before_unconfirmed)
        if may_have_intents:
            header = self._resolve_intents(header, recovery)
        self._opened_before_unconfirmed = True
        self.is_native = header.is_native
        if header.is_native:
            self.commits.remember_header(header, self._doorbell)
            self._follow_with_index(header)
        return header

    def _resolve_intents(self, header: LogHeader, recovery: Recovery) -> LogHeader:
        """Resolve the batch of a dead writer, and only then clear Flag.INTENT.

        An unfinished ingest keeps the flag, so that every writer resumes it: see Ingestion.
        """
        self.producers.resolve_intents(header, self.fd, self.path)
        if not header.is_native or not header.flags & Flag.INTENT or self._directory.has(INGEST_FILE):
            return header
        return recovery.write(header._replace(flags=header.flags & ~Flag.INTENT))

    def handle_failure(self, number: int, *, reopen: bool) -> None:
        """Handle a failed write or sync with this errno, which only the shared memory records.

        reopen: set the poison flag, so that recovery closes the file at the last confirmed commit.  Bytes after it must
            be discarded: their writers got an error, or still have them staged and will write them again.
        Raises: PoisonedError, unless `reopen`, or if the flag still cannot be written.
        """
        if not reopen:
            reason = os.strerror(number)
            raise PoisonedError(f"{self.path}: a write or sync failed before ({reason}); open the log again to recover")
        header = self.header()
        if header.live_good and not header.flags & Flag.POISON:
            marked = header._replace(flags=header.flags | Flag.POISON, poison_errno=number)
            write_at(self.fd, marked.published(), PUBLISHED.start, self.path)

    def _cut_index(self, header: LogHeader, tail: int) -> None:
        """Cut the index at the tail before any new bytes can reach that range."""
        self._forget_index()
        if not header.is_native:
            return
        if header.ingesting and not self._directory.has(index_file_name(self.number)):
            # The writer that placed the file died before it made the index.  Entries take the file's modification time,
            # which must not be before readers could see the records.
            with suppress(OSError):
                os.utime(self.fd)
        with suppress(BinlogError, OSError):  # without an index the file is still sound; a useless one is closed again
            index = IndexWriter(self._directory, self.number, self.fd)
            if index.cut(header, tail):
                self._index = index

    def _follow_with_index(self, header: LogHeader) -> None:
        """Catch the index up, and let commits add to it."""
        if self._index_epoch == header.epoch:
            return
        self._index_epoch = header.epoch
        if self._index is not None and self.complete_index(header):
            self.commits.write_index_to(self._index.fd)

    def complete_index(self, header: LogHeader, *, bytes_max: int | None = CATCH_UP_BYTES_MAX) -> bool:
        """Add the missing entries; False if that fails, or if they cover more than `bytes_max`."""
        self.commits.flush_index()
        if self._index is not None and not self._index.intact:
            return False  # the next recovery of the file opens it again
        try:
            return self._index is not None and self._index.catch_up(header, header.tail, bytes_max=bytes_max)
        except (BinlogError, OSError):
            return False

    def _forget_index(self) -> None:
        self.commits.write_index_to(-1)
        self._index_epoch = -1
        index, self._index = self._index, None
        if index is not None:
            index.close()

    def header(self) -> LogHeader:
        """Return the header as it is now."""
        return read_header(self.fd, self.number, self.path)

    def unconfirmed(self) -> tuple[int, int]:
        """Return the unsynced range of the file, read without the lock.  Raises: AccessError.

        If the program closed the descriptor, whose number may now belong to another file, all may be unsynced.
        """
        if not self.is_native:
            return 0, 0
        if not self.intact:
            return 0, OFFSET_MAX
        data = read_at(self.fd, _LIVE_BYTES, _PUBLISHED_TAIL, self.path)
        published_tail, confirmed_end = int.from_bytes(data[:8], "big"), int.from_bytes(data[-8:], "big")
        return (confirmed_end, published_tail) if confirmed_end <= published_tail <= OFFSET_MAX else (0, 0)

    def write_out(self, first: int, end: int, *, wait: bool) -> None:
        """Make the kernel write `first` to `end` to the disk, which shortens the sync under the lock.

        For any thread, without the lock.  It opens its own descriptor: the kernel reports a failed write once to each
        open file, and the writer that commits must be the one to see it (fsync(2)).
        Raises: AccessError; NotFoundError.
        """
        with self._directory.opened(log_file_name(self.number), writable=True) as fd:
            result = lib.binlog_write_out(fd, first, end - first, wait)
        if result != 0:
            raise failure(-result, self.path, "writing")

    def confirm(self, header: LogHeader) -> LogHeader:
        """Sync everything in the file and return the header.  Raises: PoisonedError; FullError."""
        if not header.is_native:
            self.sync()
            return header
        if header.confirmed_end == header.tail:
            return header
        self.drain(None, confirm=True)
        return self.header()

    def append(self, header: LogHeader, append: Append, area: StagingArea | None) -> tuple[int, int]:
        """Append right after recovery; return the file's number and the offset of the first record.

        Raises: FullError or AccessError with nothing changed; PoisonedError; UnknownOutcomeError.
        """
        if header.is_native:
            self._require(self.commits.append(append, area, locked=True))
            return append.place
        if append.done():
            return append.place
        if not append.withdraw():
            text = "another writer began to commit this record; read the log before you append it again"
            raise UnknownOutcomeError(f"{self.path}: {text}")
        data = append.framed()
        self._make_room(header.tail, header.tail + len(data))
        commit_foreign(self.fd, data, header.tail, self.path)
        return self.number, header.tail

    def set_intent(self, header: LogHeader) -> None:
        """Set Flag.INTENT durably: the next process that takes the lock must resolve a batch or an ingest first."""
        marked = header._replace(flags=header.flags | Flag.INTENT)
        write_at(self.fd, marked.published(), PUBLISHED.start, self.path)
        sync(self.fd, self.path)

    def clear_intent(self) -> LogHeader:
        """Clear Flag.INTENT right after recovery; return the header as it is then."""
        header = self.header()
        if not header.is_native or not header.flags & Flag.INTENT:
            return header
        recovery = Recovery(self._directory, self.number, DiskFile(self.fd, self.path))
        header = recovery.write(header._replace(flags=header.flags & ~Flag.INTENT))
        self.commits.remember_header(header, self._doorbell)
        return header

    def last_batch(self, header: LogHeader, producer: str) -> ProducerBatch | None:
        """Return the last batch of a producer that is in the log, right after recovery."""
        self.producers.resolve_intents(header, self.fd, self.path)
        return self.producers.last(producer)

    def append_together(
        self, runs: Iterable[tuple[memoryview, int]], area: StagingArea | None, *, producer: str | None, sequence: int
    ) -> ProducerBatch:
        """Append all of the records or none, as a producer's batch if `producer` is given; right after recovery.

        If the process dies or an error ends the call, the next writer, in any process, resolves the batch.
        runs: framed records, and their count.
        Raises: FullError with nothing changed; PoisonedError; UnknownOutcomeError.
        """
        self.drain(area, confirm=True)
        header = self.header()
        entries = bytearray()
        size = os.fstat(self.fd).st_size
        try:
            end, crc, count = self._write_runs(header.tail, runs, self._ranges_after_tail(header), entries)
        except FullError:
            self.cut(size)
            raise
        batch = ProducerBatch(producer or "", sequence, count, self.number, header.tail, end, crc)
        if producer is not None:
            if count:
                self.set_intent(header)
            self.producers.begin(batch)
        if count:
            size = end - header.tail
            self._require(self.commits.commit_written(area, size=size, crc=crc, record_count=count))
        # The records are in the log now, so these errors must not end the call.  A batch counts without its final name,
        # which the producer's next batch tries again to give.  The index merely lags.
        with suppress(FullError, AccessError):
            if producer is not None:
                self.producers.finish(producer)
        with suppress(FullError, AccessError):
            if entries and self._index is not None:
                self._index.add(entries)
            if count:
                self.complete_index(self.header(), bytes_max=None)
        return batch

    def _ranges_after_tail(self, header: LogHeader) -> Ranges | None:
        """Return a builder of index entries for the new records, or None if the index cannot continue with them."""
        if not self.complete_index(header) or self._index is None:
            return None
        try:
            return self._index.ranges_at_tail(header)
        except (BinlogError, OSError):
            return None

    def _write_runs(
        self, tail: int, runs: Iterable[tuple[memoryview, int]], ranges: Ranges | None, entries: bytearray
    ) -> tuple[int, int, int]:
        """Write records after the tail, where readers ignore them; return their end, their CRC and their count.

        entries: receives the index entries that `ranges` builds for the records.
        """
        at, crc, count, flushed_to = tail, 0, 0, tail
        for data, records in runs:
            self._make_room(at, at + len(data))
            write_at(self.fd, data, at, self.path)
            if len(data) < RANGE_BYTES_MAX:
                ranges = None  # one entry for each of so small runs would be too many; make them from the file instead
            if ranges is None:
                crc = crc32c(data, crc)
            else:
                entries += ranges.build(data, to_end=True)
                crc = ranges.crc
            at += len(data)
            count += records
            if at - flushed_to >= _WRITE_OUT_BYTES:
                self.write_out(flushed_to, at, wait=False)
                flushed_to = at
        return at, crc, count

    def drain(self, area: StagingArea | None, *, confirm: bool) -> None:
        """Commit everything staged, and with `confirm` sync everything in the file; right after recovery."""
        if self.is_native:
            self._require(self.commits.drain(area, confirm=confirm, locked=True))
            self.commits.flush_index()
        elif confirm:
            self.sync()

    def _require(self, done: bool | None) -> None:
        if not done:
            raise InternalError(f"{self.path} cannot be committed to right after its recovery")

    def sync(self) -> None:
        """Sync the file, including the bytes of other programs.  Raises: PoisonedError."""
        sync(self.fd, self.path)

    def close_at(self, header: LogHeader, next_number: int) -> None:
        """Finish a cutover to `next_number`: name that file here, close this one, ring, sync, and cut it to its tail.

        The caller wakes the readers with `wake`, after it has released the lock.
        """
        write_close(self.fd, next_number, self.path)
        if header.is_native:
            bell = (header.doorbell + 1) & 0xFFFFFFFF
            write_at(self.fd, bell.to_bytes(4, "big"), _BELL, self.path)
        self.cut(header.tail)

    def cut(self, end: int) -> None:
        """Release the prepared space after `end`, which is the tail as read under this lock, or more."""
        if os.fstat(self.fd).st_size > end:
            # Only space: if it cannot be released now, the next writer that opens the log tries again.
            with suppress(BinlogError):
                truncate(self.fd, max(end, HEADER_BYTES), self.path)

    def wake(self) -> None:
        """Wake every reader that waits on this file.  After unlocking, or they would wait for the lock."""
        self._doorbell.wake()

    def close(self) -> None:
        """Close the descriptor, which releases its lock."""
        if self.commits.has_unwritten_entries and self.intact:
            try:
                if try_lock(self.fd):
                    self.commits.flush_index()
            finally:
                unlock(self.fd)
        self._forget_index()
        self._doorbell.close()
        self._descriptor.close()

    def mark_poisoned(self, error: PoisonedError) -> None:
        """Set the poison flag in the file, so that every other writer learns that a write or sync failed here."""
        cause = error.__cause__
        if not isinstance(cause, OSError):
            return  # the error came from the flag in the file
        try:
            header = read_header(self.fd, self.number, self.path)
            if header.is_native and not header.flags & Flag.POISON:
                marked = header._replace(flags=header.flags | Flag.POISON, poison_errno=cause.errno or 0)
                write_at(self.fd, marked.published(), PUBLISHED.start, self.path)
        except BinlogError as failure:
            error.add_note(f"the file could not be marked: {failure}")

    def _make_room(self, tail: int, end: int) -> None:
        """As make_room in native/log/commit.c, for records that are written from here."""
        size = os.fstat(self.fd).st_size
        if end <= size:
            return
        step = min(max(tail, PREPARE_BYTES_FIRST), self._prepare_bytes)
        try:
            self._grow(size, max(end, size + step))
        except FullError:
            # A nearly full disk, or a limit on the file's size, may have room for this record alone.
            self._grow(size, end)

    def _grow(self, size: int, end: int) -> None:
        try:
            allocate(self.fd, size, end, self.path)
        except FullError:
            # ext4 has allocated all that was left, and the files next to this one need some of it.
            self.cut(size)
            raise
