"""Ingestion: external files become the next files of a log, without a copy, through ordinary cutovers.

The order, under the open file's lock: each external file gets its header, is synced, and moves to a hidden name in the
log's directory.  The ingest record is written durably, which decides the ingest.  Then each file serves one cutover as
its prepared file: it gets the next number, durably, and the open file is closed and names it.  Only then does it lose
its hidden name.  Invariants:

- At each system call the log's files are in a state that an ordinary cutover can leave.  So every reader, and a program
  that knows nothing of ingests (jPOS), agrees with binlog on the contents of the log.
- If a process dies before the record is durable, it leaves hidden files, which the next cutover removes.  After that,
  every writer that takes the open file's lock places the next file before it does anything else: when it opens the log,
  when it moves to another file, and when it sees Flag.INTENT in the header, which the open file has until all files are
  placed.
- When all files are placed, only the producer's batch remains to be recorded.  Appends do not wait for that: the flag
  is cleared, and the ingest record, which holds the batch, stays until a writer has recorded it.
- A hidden file is in the log if it is closed, or if the log has a file with its number and its creation time.  The two
  may be different inodes, because a copy of the directory makes two files of one.
- A file that another program gave the next number meanwhile is never replaced: the ingested file is placed after it.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from binlog.errors import (
    AccessError,
    BinlogError,
    CorruptError,
    FullError,
    GoneError,
    NotFoundError,
    PoisonedError,
    UnknownOutcomeError,
    VersionError,
)
from binlog.format.checksums import correct_flipped_bit
from binlog.format.log_header import (
    FIRST_OFFSET,
    HEADER_BYTES,
    LOG_HEADER,
    CommitSlot,
    Flag,
    LogHeader,
    Status,
    mended_identity,
    parse_log_header,
)
from binlog.format.names import INGEST_FILE, NUMBER_MAX, ingest_part, log_file_name
from binlog.log.append.producers import ProducerBatch
from binlog.log.append.writable_file import WritableFile
from binlog.log.directory import LogDirectory
from binlog.log.files.cutover import Cutover
from binlog.log.files.prepared_file import new_header, new_log_uuid
from binlog.log.index.index_building import IndexWriter
from binlog.log.ingest.ingest_record import (
    IngestRecord,
    part_names,
    read_ingest,
    remove_ingest,
    sweep_ingests,
    write_ingest,
)
from binlog.storage.descriptors import AT_FDCWD, Descriptor
from binlog.storage.failures import own_errors
from binlog.storage.file_access import FileAccess, check_can_give, give_access
from binlog.storage.files import read_at, sync, write_at
from binlog.storage.locking.locks import lock

if TYPE_CHECKING:
    from binlog.log.ingest.external_file import ExternalFile

_NONCE_BYTES = 4


def unknown_outcome(directory: LogDirectory, error: BinlogError) -> UnknownOutcomeError:
    """Return the error to raise if `error` ends the call after the ingest was decided."""
    text = f"{directory.path}: the external files join the log as soon as a writer can resume the ingest: {error}"
    return UnknownOutcomeError(text)


class Ingestion:
    """Ingests external files for one writer, and finishes the ingests of other writers.

    permissions: of the files; None for those of the open file.
    """

    def __init__(self, directory: LogDirectory, cutover: Cutover, *, permissions: int | None) -> None:
        self._directory = directory
        self._cutover = cutover
        self._permissions = permissions
        self._entries: dict[str, bytes] = {}  # the index entries of files that this writer ingests, by hidden name

    def can_take(self, files: Sequence[ExternalFile]) -> bool:
        """Whether each file can move into the log: synced, owned by this user, whole, and on the log's file system."""
        return bool(files) and all(each.durable and self._is_own(each) for each in files)

    def _is_own(self, file: ExternalFile) -> bool:
        try:
            status = os.lstat(file.path)
        except OSError:
            return False  # reading it raises the error
        return (
            stat.S_ISREG(status.st_mode)
            and status.st_nlink == 1
            and status.st_uid == os.geteuid()
            and status.st_size == file.end
            and status.st_dev == os.fstat(self._directory.fd).st_dev
        )

    def ensure_last(self, file: WritableFile, header: LogHeader) -> bool:
        """Whether no file follows the open one, which is locked; if one does, close the open one.

        Raises: CorruptError for a file after a gap; as `Cutover.run`.
        """
        beyond = [number for number in self._directory.listed() if number > file.number]
        if file.number + 1 in beyond:
            self._cutover.run(file, header)  # a process died in a cutover before it closed this file
            return False
        if beyond:
            text = f"file {file.number} is open, and file {beyond[0]} follows a gap"
            raise CorruptError(file.path, LOG_HEADER.offset("next_number"), "missing-next", text)
        return True

    def begin(
        self,
        file: WritableFile,
        header: LogHeader,
        files: Sequence[ExternalFile],
        *,
        producer: str | None,
        sequence: int,
    ) -> ProducerBatch:
        """Decide that the external files follow `file`, and place the first of them; `resume` places the others.

        file: the open one, locked, confirmed, and the last.  producer: None if the files are no producer's
            batch.
        Raises: FullError or AccessError with nothing appended; PoisonedError; UnknownOutcomeError.
        """
        directory, first = self._directory, files[0]
        count = sum(each.record_count for each in files)
        found = ProducerBatch(producer or "", sequence, count, file.number + 1, FIRST_OFFSET, first.end, first.crc)
        if file.number + len(files) > NUMBER_MAX:
            raise FullError(f"{file.path}: there are no more file numbers", limit=NUMBER_MAX)
        before = read_ingest(directory)
        if before is not None:
            self._end(file, before)
        sweep_ingests(directory, directory.names())
        record = IngestRecord(os.urandom(8).hex(), None if producer is None else found)
        names = part_names(record.identity, len(files))
        if header.is_native:
            file.set_intent(header)
        try:
            access = file.access(self._permissions)
            for name, each, new in zip(names, files, self._headers(file, header, files), strict=True):
                self._take(each, name, new, access)
            # Before the record: from then on, a missing hidden name means that its file is in the log.
            directory.sync()
            write_ingest(directory, record, file.access())
            self._entries = {name: each.entries for name, each in zip(names, files, strict=True)}
            self._place(file, header, names[0], record)
        except PoisonedError:
            raise
        except BinlogError as error:
            if not self._cancel(file):
                raise unknown_outcome(directory, error) from error
            raise
        return found

    def _cancel(self, file: WritableFile) -> bool:
        """Cancel an ingest durably if it has placed no file after `file`; return False if it must go through.

        Raises: PoisonedError.
        """
        directory = self._directory
        if directory.exists(file.number + 1):
            return False
        if directory.has(INGEST_FILE):
            try:
                remove_ingest(directory)
            except BinlogError:
                return False  # the record still exists, and decides the ingest
        directory.sync()
        # If this fails, the state is as after a crash, and the next writer and the next cutover clean up.
        with suppress(FullError, AccessError):
            sweep_ingests(directory, directory.names())
        with suppress(FullError, AccessError, CorruptError, GoneError):
            file.recover(reopen=False)
        return True

    def resume(self, file: WritableFile, header: LogHeader) -> LogHeader | None:
        """Place the next file of a decided ingest, or finish the ingest if all files are placed.

        file: the open one, locked, after its recovery.
        Returns the header to continue with; None if `file` is closed now.
        Raises: FullError, AccessError, CorruptError, PoisonedError.
        """
        record = read_ingest(self._directory)
        if record is None:
            return header
        for name in record.names(self._directory):
            if not self._is_placed(name, file.number):
                self._place(file, header, name, record)
                return None
            self._directory.remove(name)
        with suppress(FullError, AccessError):
            self._end(file, record)  # otherwise the next writer tries again
        return file.clear_intent()

    def unrecorded_batch(self, producer: str) -> ProducerBatch | None:
        """Return the producer's batch of an ingest that is finished but for its record; right after `resume`."""
        record = read_ingest(self._directory)
        batch = None if record is None else record.batch
        return batch if batch is not None and batch.producer == producer else None

    def _headers(self, file: WritableFile, before: LogHeader, files: Sequence[ExternalFile]) -> Iterator[LogHeader]:
        """Iterate over the headers that make the external files follow `file`."""
        sequence = self._cutover.sequence_after(file, before)
        log_uuid = self._cutover.log_uuid(before) or new_log_uuid()
        flags = Flag.INTENT | (Flag.FOREIGN_WRITERS if before.has_foreign_writers else 0)
        for number, each in enumerate(files, file.number + 1):
            empty = new_header(number, log_uuid=log_uuid, first_sequence=sequence, epoch=before.epoch, flags=flags)
            slot = CommitSlot(
                counter=1, start=FIRST_OFFSET, end=each.end, record_count=each.record_count,
                time_ns=empty.created_ns + 1, group_crc=each.crc, epoch=empty.epoch,
                nonce=int.from_bytes(os.urandom(_NONCE_BYTES), "big"),
            )  # fmt: skip
            yield empty.committed(slot)
            sequence += each.record_count

    def _take(self, file: ExternalFile, name: str, header: LogHeader, access: FileAccess) -> None:
        """Write the external file's header, durably, and move the file to a hidden name in the log's directory."""
        directory, path = self._directory, file.path
        with closing(Descriptor(AT_FDCWD, path, path)) as descriptor:
            fd = descriptor.fd
            # If two writers were given the same file, the second finds that its name is gone.
            lock(fd, path, 0)
            with own_errors(path, "checking it again"):
                same = os.path.samestat(os.fstat(fd), os.lstat(path))
            if not same or not self._is_own(file):
                raise AccessError(f"{path} has changed since it was finished", errno=errno.ESTALE, path=path)
            if any(read_at(fd, HEADER_BYTES, 0, path)):
                raise AccessError(f"{path} is no external file: it has a header", errno=errno.EINVAL, path=path)
            check_can_give(directory.fd, access, path)
            give_access(fd, access, path)
            try:
                write_at(fd, header.pack(), 0, path)
                sync(fd, path)
            except PoisonedError as error:
                # The disk failed for this file alone; the log is unchanged.
                number = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
                text = f"{path} could not be made a file of the log: {os.strerror(number or 0)}"
                raise AccessError(text, errno=number or errno.EIO, path=path) from error
            with own_errors(path, "moving it into the log's directory"):
                os.rename(path, name, dst_dir_fd=directory.fd)

    def _place(self, file: WritableFile, header: LogHeader, name: str, record: IngestRecord) -> None:
        """Cut over from the open file to a file of the ingest, or to the file that has the next number already."""
        number = file.number + 1
        batch = record.batch
        if batch is not None and ingest_part(name) == (record.identity, 0) and batch.number != number:
            # Other programs cut over after the ingest was decided.
            write_ingest(self._directory, replace(record, batch=replace(batch, number=number)), file.access())
        part = IngestedFile(self._directory, name)
        try:
            self._cutover.run(file, header, following=part)
            if part.named:
                # Under its lock, so that no other process makes another index meanwhile.
                part.write_index(self._entries.pop(name, None))
                self._directory.remove(name)
        finally:
            part.discard()

    def _is_placed(self, name: str, open_number: int) -> bool:
        """Whether a file of an ingest is in the log, whose open file has this number."""
        try:
            found = _parse_header(self._directory.read(name, HEADER_BYTES), self._directory.file_path(name))
        except NotFoundError:
            return True
        if found.status != Status.OPEN and found.next_number:
            return True  # two fields must agree, because both are zero before the file is closed
        if found.number > open_number:
            return False  # it may have that number already, but the file before it is still open
        try:
            existing = self._directory.read_header(found.number)
        except NotFoundError:
            return False
        return (existing.uuid, existing.created_ns) == (found.uuid, found.created_ns)

    def _end(self, file: WritableFile, record: IngestRecord) -> None:
        if record.batch is not None:
            file.producers.record(record.batch)
        remove_ingest(self._directory)


class IngestedFile:
    """A file of a decided ingest that waits for its number, in the role of a PreparedFile in an ordinary cutover."""

    def __init__(self, directory: LogDirectory, name: str) -> None:
        self.named = False
        self._directory = directory
        self._name = name
        self._path = directory.file_path(name)
        with ExitStack() as opened:
            self._descriptor = opened.enter_context(closing(directory.descriptor(name)))
            # Held until the index is written.  Only a dying process may still have the lock.
            lock(self._descriptor.fd, self._path)
            self._header, self._is_corrected = read_unnamed_header(self._descriptor.fd, self._path)
            opened.pop_all()

    def give_name(self, number: int, *, log_uuid: bytes | None, first_sequence: int, epoch: int, flags: int) -> bool:
        """Give the file its number, durably; False if the number is taken."""
        found, fd = self._header, self._descriptor.fd
        if log_uuid not in (None, found.uuid):
            raise CorruptError(self._path, LOG_HEADER.offset("uuid"), "ingest", "the file belongs to another log")
        header = found._replace(number=number, first_sequence=first_sequence, flags=found.flags | flags)
        for slot in found.slots():
            header = header.with_slot(slot)  # its CRC depends on the number
        if header != found or self._is_corrected:
            write_at(fd, header.pack(), 0, self._path)
            sync(fd, self._path)
        self._header = header
        directory = self._directory
        with own_errors(self._path, "naming the file"):
            try:
                os.link(self._name, log_file_name(number), src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
            except FileExistsError:
                return False
        self.named = True
        directory.sync()
        return True

    def write_index(self, entries: bytes | None) -> None:
        """Write the index, after the file before it was closed; without `entries` only its header."""
        directory, number, fd = self._directory, self._header.number, self._descriptor.fd
        with suppress(BinlogError, OSError):
            os.utime(fd)  # entries that are made later have this time, or a later one
            with closing(IndexWriter(directory, number, fd)) as index:
                if index.cut(self._header, FIRST_OFFSET) and entries is not None:
                    index.add(bytearray(entries), first_sequence=self._header.first_sequence, time_ns=time.time_ns())

    def discard(self) -> None:
        """Close the file, which releases its lock.  Its hidden name stays."""
        self._descriptor.close()


def read_unnamed_header(fd: int, path: str) -> tuple[LogHeader, bool]:
    """Return the header of an ingest's file that has no records appended, and whether one flipped bit was corrected.

    Raises: CorruptError; VersionError.
    """
    data, size = read_at(fd, HEADER_BYTES, 0, path), os.fstat(fd).st_size
    if _is_unnamed(data, size):
        return parse_log_header(data, path=path), False
    right = correct_flipped_bit(data, lambda flipped: _is_unnamed(flipped, size))
    if right is not None:
        return parse_log_header(right, path=path), True
    parse_log_header(data, path=path)
    raise CorruptError(path, 0, "ingest", "it is not as it was when its ingest was decided")


def _is_unnamed(data: bytes, size: int) -> bool:
    """Whether a header is as an ingest leaves it, and the file ends at the header's tail."""
    try:
        header = parse_log_header(data, path="")
    except (CorruptError, VersionError):
        return False
    first, last = header.slot(0), header.slot(1)
    return (
        header.is_consistent
        and header.status == Status.OPEN
        and not header.next_number
        and not any(header.zero)
        and header.tail == size
        and first is not None
        and last is not None
        and (last.start, last.end) == (FIRST_OFFSET, header.tail)
    )


def _parse_header(data: bytes, path: str) -> LogHeader:
    """Return a header, with one flipped bit of its identity corrected in memory.  Raises: CorruptError;
    VersionError."""
    try:
        return parse_log_header(data, path=path)
    except (CorruptError, VersionError):
        right = mended_identity(data, number=None)
        if right is None:
            raise
        return parse_log_header(right, path=path)
