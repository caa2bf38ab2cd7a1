"""Ingest: drafts become the next files of a log, without a copy, through ordinary cutovers.

The order, under the open file's lock: each draft gets its header, is synced, and moves into the log's directory under a
hidden name; the record of the ingest is written, durably, which decides it.  Then each of the files in turn is what a
prepared file is to a cutover: it gets the next number, durably, and the open file is closed and leads to it.  Only then
does it lose its hidden name.  Invariants:

- At each system call the log's files are in a state that an ordinary cutover can leave.  So a program that knows
  nothing of ingests (jPOS), and every reader, agrees with us on what is in the log.
- Before the record is durable, a death leaves hidden files, which the next cutover removes.  After that, every writer
  that takes the open file's lock places the next file before it does anything else: when it opens the log, when it
  moves on to another file, and when it finds Flag.ONCE in the header, which the open file has until all are placed.
- Once all are placed, only the turn is left to be written down.  Appends do not wait for that: the flag goes, and the
  record, which tells the turn, stays until a writer has written it down.
- A hidden file is in the log if it is closed, or if the log has a file with its number and its time of creation.  The
  two may be different inodes: a copy of the directory has made two files of one.
- A file that another program gave the next number meanwhile is never replaced: ours is placed after it.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace

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
from binlog.log.append.producers import Turn
from binlog.log.append.writable_file import WritableFile
from binlog.log.directory import LogDirectory
from binlog.log.files.cutover import Cutover
from binlog.log.files.prepared_file import new_header, new_log_uuid
from binlog.log.index.index_building import IndexWriter
from binlog.log.ingest.external_file import Drafted
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

_NONCE_BYTES = 4


def unknown_outcome(directory: LogDirectory, error: BinlogError) -> UnknownOutcomeError:
    """What to raise if an ingest is decided and `error` ends the call."""
    text = f"{directory.path}: the drafts become files of the log once a writer can go on with it: {error}"
    return UnknownOutcomeError(text)


class Ingest:
    """Ingests drafts for one writer, and finishes the ingests of others.

    permissions: of the files; None for those of the open file.
    """

    def __init__(self, directory: LogDirectory, cutover: Cutover, *, permissions: int | None) -> None:
        self._directory = directory
        self._cutover = cutover
        self._permissions = permissions
        self._entries: dict[str, bytes] = {}  # by a hidden name, of the index of a file that this writer ingests

    def can_take(self, drafts: Sequence[Drafted]) -> bool:
        """Whether each is a file that can move: synced, ours, whole, and on the log's file system."""
        return bool(drafts) and all(draft.durable and self._is_own(draft) for draft in drafts)

    def _is_own(self, draft: Drafted) -> bool:
        try:
            status = os.lstat(draft.path)
        except OSError:
            return False  # reading it raises the error
        return (
            stat.S_ISREG(status.st_mode)
            and status.st_nlink == 1
            and status.st_uid == os.geteuid()
            and status.st_size == draft.end
            and status.st_dev == os.fstat(self._directory.fd).st_dev
        )

    def is_last(self, file: WritableFile, header: LogHeader) -> bool:
        """Whether no file follows the open one, whose lock is held; if one does, the open one is closed now.

        Raises: CorruptError for a file behind a gap; as `Cutover.run`.
        """
        beyond = [number for number in self._directory.listed() if number > file.number]
        if file.number + 1 in beyond:
            self._cutover.run(file, header)  # whoever cut over died before it closed this file
            return False
        if beyond:
            text = f"file {file.number} is open, and file {beyond[0]} lies behind a gap"
            raise CorruptError(file.path, LOG_HEADER.offset("next_number"), "missing-next", text)
        return True

    def begin(
        self, file: WritableFile, header: LogHeader, drafts: Sequence[Drafted], *, source: str | None, turn: int
    ) -> Turn:
        """Decide that the drafts follow `file`, and place the first of them; `go_on` places the others.

        file: the open one, whose lock is held; confirmed, and the last.  source: None if this is no turn.
        Raises: FullError or AccessError with nothing appended; PoisonedError; UnknownOutcomeError.
        """
        directory, first = self._directory, drafts[0]
        count = sum(draft.record_count for draft in drafts)
        found = Turn(source or "", turn, count, file.number + 1, FIRST_OFFSET, first.end, first.crc)
        if file.number + len(drafts) > NUMBER_MAX:
            raise FullError(f"{file.path}: there are no more file numbers", limit=NUMBER_MAX)
        before = read_ingest(directory)
        if before is not None:
            self._end(file, before)
        sweep_ingests(directory, directory.names())
        record = IngestRecord(secrets.token_hex(8), None if source is None else found)
        names = part_names(record.identity, len(drafts))
        if header.ours:
            file.mark_once(header)
        try:
            access = file.access(self._permissions)
            for name, draft, new in zip(names, drafts, self._headers(file, header, drafts), strict=True):
                self._take(draft, name, new, access)
            # Before the record: a hidden name that is not there means that its file is in the log.
            directory.sync()
            write_ingest(directory, record, file.access())
            self._entries = {name: draft.entries for name, draft in zip(names, drafts, strict=True)}
            self._place(file, header, names[0], record)
        except PoisonedError:
            raise
        except BinlogError as error:
            if not self._is_called_off(file):
                raise unknown_outcome(directory, error) from error
            raise
        return found

    def _is_called_off(self, file: WritableFile) -> bool:
        """Call an ingest off, durably, if it has placed no file after `file`; False if it goes on.

        Raises: PoisonedError.
        """
        directory = self._directory
        if directory.exists(file.number + 1):
            return False
        if directory.has(INGEST_FILE):
            try:
                remove_ingest(directory)
            except BinlogError:
                return False  # the record decides, and it is still there
        directory.sync()
        # What cannot be done now is left as after a death, for the next writer and the next cutover.
        with suppress(FullError, AccessError):
            sweep_ingests(directory, directory.names())
        with suppress(FullError, AccessError, CorruptError, GoneError):
            file.settle(reopen=False)
        return True

    def go_on(self, file: WritableFile, header: LogHeader) -> LogHeader | None:
        """Place the next file of an ingest that is decided, or finish it if all are placed.

        file: the open one, whose lock is held, settled.
        Returns the header to go on with; None if `file` is closed now.
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
            self._end(file, record)  # else whoever comes next tries again
        return file.forget_once()

    def unrecorded_turn(self, source: str) -> Turn | None:
        """The turn of an ingest that is finished but for its record; right after `go_on`."""
        record = read_ingest(self._directory)
        turn = None if record is None else record.turn
        return turn if turn is not None and turn.source == source else None

    def _headers(self, file: WritableFile, before: LogHeader, drafts: Sequence[Drafted]) -> Iterator[LogHeader]:
        """The headers of the drafts as the files that follow `file`."""
        sequence = self._cutover.sequence_after(file, before)
        log_uuid = self._cutover.log_uuid(before) or new_log_uuid()
        flags = Flag.ONCE | (Flag.MIXED if before.mixed else 0)
        for number, draft in enumerate(drafts, file.number + 1):
            empty = new_header(number, log_uuid=log_uuid, first_sequence=sequence, epoch=before.epoch, flags=flags)
            slot = CommitSlot(
                counter=1, start=FIRST_OFFSET, end=draft.end, record_count=draft.record_count,
                time_ns=empty.created_ns + 1, group_crc=draft.crc, epoch=empty.epoch,
                nonce=int.from_bytes(os.urandom(_NONCE_BYTES), "big"),
            )  # fmt: skip
            yield replace(
                empty.with_slot(slot), tail=draft.end, own_tail=draft.end, record_count=draft.record_count,
                confirmed_end=draft.end, confirmed_counter=slot.counter,
            )  # fmt: skip
            sequence += draft.record_count

    def _take(self, draft: Drafted, name: str, header: LogHeader, access: FileAccess) -> None:
        """Write the draft's header, durably, and move the file into the log's directory under a hidden name."""
        directory, path = self._directory, draft.path
        with closing(Descriptor(AT_FDCWD, path, path)) as descriptor:
            fd = descriptor.fd
            # Two writers may have been given the same draft: the second one finds that its name is gone.
            lock(fd, path, 0)
            with own_errors(path, "looking for it again"):
                same = os.path.samestat(os.fstat(fd), os.lstat(path))
            if not same or not self._is_own(draft):
                raise AccessError(f"{path} is not what it was when it was given", errno=errno.ESTALE, path=path)
            if any(read_at(fd, HEADER_BYTES, 0, path)):
                raise AccessError(f"{path} is no draft: it has a header", errno=errno.EINVAL, path=path)
            check_can_give(directory.fd, access, path)
            give_access(fd, access, path)
            try:
                write_at(fd, header.pack(), 0, path)
                sync(fd, path)
            except PoisonedError as error:
                # The disk failed for the draft alone; the log is as it was.
                number = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
                text = f"{path} could not be made a file of the log: {os.strerror(number or 0)}"
                raise AccessError(text, errno=number or errno.EIO, path=path) from error
            with own_errors(path, "moving it into the log's directory"):
                os.rename(path, name, dst_dir_fd=directory.fd)

    def _place(self, file: WritableFile, header: LogHeader, name: str, record: IngestRecord) -> None:
        """Cut over from the open file to a file of the ingest, or to what has the next number already."""
        number = file.number + 1
        turn = record.turn
        if turn is not None and ingest_part(name) == (record.identity, 0) and turn.number != number:
            # Others have gone on since it was decided.
            write_ingest(self._directory, replace(record, turn=replace(turn, number=number)), file.access())
        part = IngestedFile(self._directory, name)
        try:
            self._cutover.run(file, header, following=part)
            if part.named:
                # Under its lock, so that nobody makes another index meanwhile.
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
            return True  # two witnesses: before it is closed, both are zero
        if found.number > open_number:
            return False  # it may have that number already, but the file before it is open
        try:
            there = self._directory.read_header(found.number)
        except NotFoundError:
            return False
        return (there.uuid, there.created_ns) == (found.uuid, found.created_ns)

    def _end(self, file: WritableFile, record: IngestRecord) -> None:
        if record.turn is not None:
            file.turns.record(record.turn)
        remove_ingest(self._directory)


class IngestedFile:
    """A file of an ingest that is decided, to be given its number: what a PreparedFile is to an ordinary cutover."""

    def __init__(self, directory: LogDirectory, name: str) -> None:
        self.named = False
        self._directory = directory
        self._name = name
        self._path = directory.file_path(name)
        with ExitStack() as opened:
            self._descriptor = opened.enter_context(closing(directory.descriptor(name)))
            # From before it has a number until its index is written.  Only a process that is dying can have it still.
            lock(self._descriptor.fd, self._path)
            self._header, self._is_mended = read_unnamed_header(self._descriptor.fd, self._path)
            opened.pop_all()

    def give_name(self, number: int, *, log_uuid: bytes | None, first_sequence: int, epoch: int, flags: int) -> bool:
        """Give the file its number, durably; False if the number is taken."""
        found, fd = self._header, self._descriptor.fd
        if log_uuid not in (None, found.uuid):
            raise CorruptError(self._path, LOG_HEADER.offset("uuid"), "ingest", "the file belongs to another log")
        header = replace(found, number=number, first_sequence=first_sequence, flags=found.flags | flags)
        for slot in found.slots():
            header = header.with_slot(slot)  # its CRC depends on the number
        if header != found or self._is_mended:
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
        """Write the index, after the file before it was closed; without `entries` only its beginning."""
        directory, number, fd = self._directory, self._header.number, self._descriptor.fd
        with suppress(BinlogError, OSError):
            os.utime(fd)  # entries that are made later have this time, or a later one
            with closing(IndexWriter(directory, number, fd)) as index:
                if index.cut(self._header, FIRST_OFFSET) and entries is not None:
                    index.add(bytearray(entries), first_sequence=self._header.first_sequence, time_ns=time.time_ns())

    def discard(self) -> None:
        """Give the file back, and so its lock.  Its hidden name stays."""
        self._descriptor.close()


def read_unnamed_header(fd: int, path: str) -> tuple[LogHeader, bool]:
    """The header of a file of an ingest, which nobody has appended to, and whether a flipped bit of it was put right.

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
    """Whether a header is as an ingest leaves it, and the file ends where the header says."""
    try:
        header = parse_log_header(data, path="")
    except (CorruptError, VersionError):
        return False
    first, last = header.slot(0), header.slot(1)
    return (
        header.settled
        and header.status == Status.OPEN
        and not header.next_number
        and not any(header.zero)
        and header.tail == size
        and first is not None
        and last is not None
        and (last.start, last.end) == (FIRST_OFFSET, header.tail)
    )


def _parse_header(data: bytes, path: str) -> LogHeader:
    """A header, with one flipped bit of its identity put right in memory.  Raises: CorruptError; VersionError."""
    try:
        return parse_log_header(data, path=path)
    except (CorruptError, VersionError):
        right = mended_identity(data, number=None)
        if right is None:
            raise
        return parse_log_header(right, path=path)
