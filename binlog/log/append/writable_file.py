"""One log file as a writer has it: its lock, its header under the lock, its commits, its bell.

Invariants
- The lock is held from before the tail is read until after it is published.
- What the header said under an earlier lock is never used under a later one, but to see that nothing happened.
- In a file that another program made, only the tail, the status and the next number are ever written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

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
from binlog.log.append.producers import Turn, Turns
from binlog.log.directory import LogDirectory
from binlog.log.files.header import check_size, read_header
from binlog.log.index.index_building import CATCH_UP_BYTES_MAX, IndexWriter
from binlog.log.recovery.evidence import FileEvidence, heal
from binlog.log.recovery.recovery import Recovery
from binlog.log.recovery.recovery_table import Action, decide
from binlog.storage.boot import boot_id
from binlog.storage.descriptors import Identity
from binlog.storage.failures import failure
from binlog.storage.file_access import FileAccess, access_like
from binlog.storage.files import DiskFile, allocate, read_at, sync, write_at
from binlog.storage.group_commit import Append, CommitFile, commit_foreign
from binlog.storage.locking.locks import try_lock, unlock
from binlog.storage.native import lib
from binlog.storage.staging_area import StagingArea
from binlog.storage.waiting.doorbell import Doorbell

_STATUS = LOG_HEADER.offset("status")
_NEXT = LOG_HEADER.offset("next_number")
_BELL = LOG_HEADER.offset("doorbell")
_OWN_TAIL = LOG_HEADER.offset("own_tail")
_LIVE_BYTES = LOG_HEADER.offset("confirmed_counter") - _OWN_TAIL  # own_tail .. confirmed_end

PREPARE_BYTES_FIRST = 1 << 20

# How much of a large append is written before the kernel is told to begin with the disk.
_WRITTEN_OUT_BYTES = 8 << 20


def write_close(fd: int, next_number: int, path: str) -> None:
    """Close a file durably, or make sure that it is: what is appended to the next file is reachable only through this.

    A close that is there already is written again, for a descriptor is not told of a failed sync before it was opened
    (fsync(2)).  Nobody ever changes it, so that this needs no lock.  Raises: PoisonedError; FullError; AccessError.
    """
    write_at(fd, next_number.to_bytes(4, "big"), _NEXT, path)
    write_at(fd, Status.CLOSED.to_bytes(2, "big"), _STATUS, path)
    sync(fd, path)


class WritableFile:
    """A log file open for appending.  All methods but `close` and `wake` want the file's lock held."""

    def __init__(self, directory: LogDirectory, number: int, *, prepare_bytes: int, strict: bool) -> None:
        self.number = number
        self.path = directory.log_path(number)
        self._directory = directory
        self._prepare_bytes = prepare_bytes
        self._descriptor = directory.descriptor(log_file_name(number))
        self._doorbell = Doorbell(self.fd, _BELL)
        self._vouched = False
        self._index: IndexWriter | None = None
        self._index_epoch = -1
        self.ours = False
        self.turns = Turns(directory, access_like(self._descriptor.status))
        self.commits = CommitFile(self.fd, number, self.path, prepare_bytes=prepare_bytes, strict=strict)

    @property
    def identity(self) -> Identity:
        """What tells the file from every other on this machine: device and inode."""
        return self._descriptor.identity

    @property
    def intact(self) -> bool:
        """Whether the descriptor is still the file's, and was not closed behind our back."""
        return self._descriptor.intact

    def sync_moved(self) -> None:
        """Put on stable storage what is in a file that was moved away, for nobody else will.  Raises: PoisonedError."""
        if self.intact and os.fstat(self.fd).st_nlink:
            self.sync()

    def access(self, permissions: int | None = None) -> FileAccess:
        """Owner, group and mode of the files that are made beside it.  permissions: the mode to use instead."""
        return access_like(os.fstat(self.fd), permissions)

    @property
    def fd(self) -> int:
        """The descriptor that holds the lock."""
        return self._descriptor.fd

    def settle(self, *, reopen: bool) -> LogHeader:
        """The header, once the file is as a commit or a cutover leaves it; what a death left is put right.

        reopen: whether a failed write or sync may be dealt with, by sealing the file, or is still to be refused.
        Raises: GoneError if the name, or the path of the directory, leads elsewhere; PoisonedError; CorruptError;
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
        verdict = decide(header, FileEvidence(self.fd, self.path), same_boot=same_boot, vouched=self._vouched)
        if verdict.action is Action.REFUSE:
            raise CorruptError(self.path, verdict.tail, f"recovery-{verdict.row}", verdict.text)
        check_size(verdict.tail, self.fd, self.path)
        if verdict.action is Action.SEAL and same_boot and not reopen:
            if not header.flags & Flag.POISON:
                raise PoisonedError(f"{self.path}: {verdict.text}")
            reason = os.strerror(header.poison_errno)
            raise PoisonedError(f"{self.path}: a write or sync failed before ({reason}); open the log again to recover")
        heal(self.fd, found, header, self.path)
        lost = self._index is not None and not (self.commits.writes_index and self._index.intact)
        if lost or verdict.action is not Action.KEEP or self._index_epoch != header.epoch:
            self._cut_index(header, verdict.tail)
        recovery = Recovery(self._directory, self.number, DiskFile(self.fd, self.path))
        # Of a closed file there is nothing to settle: turns are settled in the open one.
        unsettled = not header.closed and (header.flags & Flag.ONCE or verdict.action is not Action.KEEP)
        header = recovery.carry_out(header, verdict, vouched=self._vouched)
        if unsettled:
            header = self._settle_turns(header, recovery)
        self._vouched = True
        self.ours = header.ours
        if header.ours:
            self.commits.remember_header(header, self._doorbell)
            self._follow_with_index(header)
        return header

    def _settle_turns(self, header: LogHeader, recovery: Recovery) -> LogHeader:
        """Settle the turn that a dead writer was appending, and only then clear the flag.

        An ingest that is not finished keeps the flag, so that every writer goes on with it: see Ingest.
        """
        self.turns.settle(header, self.fd, self.path)
        if not header.ours or not header.flags & Flag.ONCE or self._directory.has(INGEST_FILE):
            return header
        return recovery.write(replace(header, flags=header.flags & ~Flag.ONCE))

    def tell_failure(self, number: int, *, reopen: bool) -> None:
        """Deal with a failed write or sync, the errno `number`, of which only the shared memory tells.

        reopen: mark the file, so that settling seals it: those whose records failed were told so, or have them staged
        still, so what lies beyond the last confirmed commit must not come back.
        Raises: PoisonedError, unless `reopen`, or where the file still cannot be marked.
        """
        if not reopen:
            reason = os.strerror(number)
            raise PoisonedError(f"{self.path}: a write or sync failed before ({reason}); open the log again to recover")
        header = self.header()
        if header.live_good and not header.flags & Flag.POISON:
            marked = replace(header, flags=header.flags | Flag.POISON, poison_errno=number)
            write_at(self.fd, marked.published(), PUBLISHED.start, self.path)

    def _cut_index(self, header: LogHeader, tail: int) -> None:
        """See to it that the index tells of nothing beyond the tail, before anything new can get there."""
        self._forget_index()
        if not header.ours:
            return
        if header.ingesting and not self._directory.has(index_file_name(self.number)):
            # The writer that placed the file here died before it made the index.  Entries take the time of the file's
            # last change, which must not be before others could see the records.
            with suppress(OSError):
                os.utime(self.fd)
        with suppress(BinlogError, OSError):  # else it stays behind, or is of no use, and is closed again
            index = IndexWriter(self._directory, self.number, self.fd)
            if index.cut(header, tail):
                self._index = index

    def _follow_with_index(self, header: LogHeader) -> None:
        """Bring the index up to date, and have commits go on with it."""
        if self._index_epoch == header.epoch:
            return
        self._index_epoch = header.epoch
        if self._index is not None and self.complete_index(header):
            self.commits.write_index_to(self._index.fd)

    def complete_index(self, header: LogHeader, *, bytes_max: int | None = CATCH_UP_BYTES_MAX) -> bool:
        """Make what entries are missing; False where they cannot be made, or are of more than so many bytes."""
        self.commits.flush_index()
        if self._index is not None and not self._index.intact:
            return False  # the next to settle the file opens it again
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
        """The header as it is now."""
        return read_header(self.fd, self.number, self.path)

    def unconfirmed(self) -> tuple[int, int]:
        """The range of the file that no sync covers, as far as a look without the lock tells.  Raises: AccessError."""
        if not self.ours:
            return 0, 0
        data = read_at(self.fd, _LIVE_BYTES, _OWN_TAIL, self.path)
        own_tail, confirmed_end = int.from_bytes(data[:8], "big"), int.from_bytes(data[-8:], "big")
        return (confirmed_end, own_tail) if confirmed_end <= own_tail <= OFFSET_MAX else (0, 0)

    def write_out(self, first: int, end: int, *, wait: bool) -> None:
        """Have the kernel write what lies from `first` to `end`, so that the sync under the lock takes less long.

        For any thread, without the lock.  Through a descriptor of its own: a failure to write is told to each one
        once, and the one that commits must hear of it (fsync(2)).
        Raises: AccessError; NotFoundError.
        """
        with self._directory.opened(log_file_name(self.number), writable=True) as fd:
            result = lib.binlog_write_out(fd, first, end - first, wait)
        if result != 0:
            raise failure(-result, self.path, "writing")

    def confirm(self, header: LogHeader) -> LogHeader:
        """Have everything in the file synced; the header as it is then.  Raises: PoisonedError; FullError."""
        if not header.ours:
            self.sync()
            return header
        if header.confirmed_end == header.tail:
            return header
        self.drain(None, confirm=True)
        return self.header()

    def append(self, header: LogHeader, append: Append, area: StagingArea | None) -> tuple[int, int]:
        """Append right after the file was settled; the file's number and where in it the first record lies.

        Raises: FullError or AccessError with nothing changed; PoisonedError; UnknownOutcomeError.
        """
        if header.ours:
            self._do(self.commits.append(append, area, locked=True))
            return append.place
        if append.done():
            return append.place
        if not append.withdraw():
            raise UnknownOutcomeError(f"{self.path}: others began a commit with this record, and it did not end")
        data = append.framed()
        self._make_room(header.tail, header.tail + len(data))
        commit_foreign(self.fd, data, header.tail, self.path)
        return self.number, header.tail

    def mark_once(self, header: LogHeader) -> None:
        """Have the header say, durably, that whoever takes the lock next has something to settle first."""
        marked = replace(header, flags=header.flags | Flag.ONCE)
        write_at(self.fd, marked.published(), PUBLISHED.start, self.path)
        sync(self.fd, self.path)

    def forget_once(self) -> LogHeader:
        """Clear Flag.ONCE right after the file was settled; the header as it is then."""
        header = self.header()
        if not header.ours or not header.flags & Flag.ONCE:
            return header
        recovery = Recovery(self._directory, self.number, DiskFile(self.fd, self.path))
        header = recovery.write(replace(header, flags=header.flags & ~Flag.ONCE))
        self.commits.remember_header(header, self._doorbell)
        return header

    def last_turn(self, header: LogHeader, source: str) -> Turn | None:
        """The last turn of a source that is in the log; right after the file was settled."""
        self.turns.settle(header, self.fd, self.path)
        return self.turns.last(source)

    def append_together(
        self, runs: Iterable[tuple[memoryview, int]], area: StagingArea | None, *, source: str | None, turn: int
    ) -> Turn:
        """Append all of it or nothing, as a turn of a source where one is named; right after the file was settled.

        Whatever ends it early leaves nothing that is not settled by whoever appends next, this process or another.
        runs: framed records, and how many.
        Raises: FullError with nothing changed; PoisonedError; UnknownOutcomeError.
        """
        self.drain(area, confirm=True)
        header = self.header()
        entries = bytearray()
        size = os.fstat(self.fd).st_size
        try:
            end, crc, count = self._write_runs(header.tail, runs, self._ranges_at_tail(header), entries)
        except FullError:
            self.cut(size)
            raise
        found = Turn(source or "", turn, count, self.number, header.tail, end, crc)
        if source is not None:
            if count:
                self.mark_once(header)
            self.turns.begin(found)
        if count:
            size = end - header.tail
            self._do(self.commits.commit_written(area, size=size, crc=crc, record_count=count))
        # It is in the log by now, and whatever fails here says nothing of that.  A turn counts without its last
        # name, which whoever takes the next one tries again to give it; and the index is only behind.
        with suppress(FullError, AccessError):
            if source is not None:
                self.turns.finish(source)
        with suppress(FullError, AccessError):
            if entries and self._index is not None:
                self._index.add(entries)
            if count:
                self.complete_index(self.header(), bytes_max=None)
        return found

    def _ranges_at_tail(self, header: LogHeader) -> Ranges | None:
        """What makes index entries of records while they are at hand; None where the index cannot go on with them."""
        if not self.complete_index(header) or self._index is None:
            return None
        try:
            return self._index.ranges_at_tail(header)
        except (BinlogError, OSError):
            return None

    def _write_runs(
        self, tail: int, runs: Iterable[tuple[memoryview, int]], ranges: Ranges | None, entries: bytearray
    ) -> tuple[int, int, int]:
        """Write records behind the tail, where they mean nothing yet; where they end, their CRC, and their count.

        entries: takes those of the index for them, made by `ranges`.
        """
        at, crc, count, written_out = tail, 0, 0, tail
        for data, records in runs:
            self._make_room(at, at + len(data))
            write_at(self.fd, data, at, self.path)
            if len(data) < RANGE_BYTES_MAX:
                ranges = None  # an entry for each that is so small is too many; the rest are made of the file
            if ranges is None:
                crc = crc32c(data, crc)
            else:
                entries += ranges.build(data, to_end=True)
                crc = ranges.crc
            at += len(data)
            count += records
            if at - written_out >= _WRITTEN_OUT_BYTES:
                self.write_out(written_out, at, wait=False)
                written_out = at
        return at, crc, count

    def drain(self, area: StagingArea | None, *, confirm: bool) -> None:
        """Commit what is staged, and with `confirm` have everything in the file synced; right after it was settled."""
        if self.ours:
            self._do(self.commits.drain(area, confirm=confirm, locked=True))
            self.commits.flush_index()
        elif confirm:
            self.sync()

    def _do(self, done: bool | None) -> None:
        if not done:
            raise InternalError(f"{self.path} cannot be committed to right after it was settled")

    def sync(self) -> None:
        """Put on stable storage what any program wrote here.  Raises: PoisonedError."""
        sync(self.fd, self.path)

    def close_at(self, header: LogHeader, next_number: int) -> None:
        """The end of a cutover, once file `next_number` has its name: name it here, close, sync, cut to the tail."""
        write_close(self.fd, next_number, self.path)
        if header.ours:
            bell = (header.doorbell + 1) & 0xFFFFFFFF
            write_at(self.fd, bell.to_bytes(4, "big"), _BELL, self.path)
        self.cut(header.tail)

    def cut(self, end: int) -> None:
        """Give back the space prepared beyond `end`: the tail, which must have been read under this lock, or more."""
        if os.fstat(self.fd).st_size > end:
            # It is only space: where it cannot be given back now, the next writer that opens the log tries again.
            with suppress(OSError):
                os.ftruncate(self.fd, max(end, HEADER_BYTES))

    def wake(self) -> None:
        """Wake every reader that waits on this file.  After unlocking: they would only wait for us."""
        self._doorbell.wake()

    def close(self) -> None:
        """Close the descriptor, and so free its lock."""
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
        """Tell every other writer, through the file, that a write or sync failed here."""
        cause = error.__cause__
        if not isinstance(cause, OSError):
            return  # it was read from the file
        try:
            header = read_header(self.fd, self.number, self.path)
            if header.ours and not header.flags & Flag.POISON:
                marked = replace(header, flags=header.flags | Flag.POISON, poison_errno=cause.errno or 0)
                write_at(self.fd, marked.published(), PUBLISHED.start, self.path)
        except BinlogError as failure:
            error.add_note(f"the file could not be marked: {failure}")

    def _make_room(self, tail: int, end: int) -> None:
        """As make_room in native/log/commit.c, for what is not written there."""
        size = os.fstat(self.fd).st_size
        if end <= size:
            return
        step = min(max(tail, PREPARE_BYTES_FIRST), self._prepare_bytes)
        try:
            self._grow(size, max(end, size + step))
        except FullError:
            # A nearly full disk, or a limit on the file's size, may still have room for this one.
            self._grow(size, end)

    def _grow(self, size: int, end: int) -> None:
        try:
            allocate(self.fd, size, end, self.path)
        except FullError:
            # ext4 has given all that was left, some of which is wanted for what is written beside this file.
            self.cut(size)
            raise
