"""Making drafts the next files of a log, as they are: all at once, or none, and with no copy.

The order, under the open file's lock: its header takes Flag.ONCE, durably; the turn is named, where it is one; the
marker is set (joining.py); each draft gets its header and is synced, and gets its name; the directory is synced; the
open file names the first of them, durably, which decides it; it is closed, as in a cutover.  That close, a write of
two bytes, is what brings them all into the log.  A death before it is decided leaves a log without them, which whoever
takes the lock next clears of their names; after a later one, whoever takes it closes the file.

The last of them is the open file from then on, and its lock, taken before it has its name, when nobody else can have
it, is kept until its index is written and the marker is gone.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from binlog.errors import AccessError, BinlogError, CorruptError, FullError, PoisonedError
from binlog.format.log_header import FIRST_OFFSET, HEADER_BYTES, CommitSlot, LogHeader, Status
from binlog.format.names import NUMBER_MAX, log_file_name
from binlog.log.directory import LogDirectory
from binlog.log.draft import Drafted
from binlog.log.index_building import open_index_writing
from binlog.log.joining import Joining, remove_joining, write_joining
from binlog.log.once import Turn
from binlog.log.prepared_file import new_header, sweep
from binlog.log.writable_file import WritableFile
from binlog.storage.descriptor import Descriptor
from binlog.storage.failures import own_errors
from binlog.storage.file_access import FileAccess, check_can_give, give_access
from binlog.storage.files import link_file, read_at, sync, sync_directory, write_at
from binlog.storage.locks import lock

_NONCE_BYTES = 4


class Adoption:
    """Adopts drafts for one writer.  permissions: of the files; None for those of the open file."""

    def __init__(self, directory: LogDirectory, *, permissions: int | None) -> None:
        self._directory = directory
        self._permissions = permissions

    def can_adopt(self, drafts: Sequence[Drafted]) -> bool:
        """Whether they are files that may have a second name: synced, ours, whole, and on the log's file system."""
        return bool(drafts) and all(draft.durable and self._is_own(draft) for draft in drafts)

    def _is_own(self, draft: Drafted) -> bool:
        try:
            status = os.lstat(draft.path)
        except OSError:
            return False  # whoever reads it tells why
        return (
            stat.S_ISREG(status.st_mode)
            and status.st_nlink == 1
            and status.st_uid == os.geteuid()
            and status.st_size == draft.end
            and status.st_dev == os.fstat(self._directory.fd).st_dev
        )

    def run(
        self, file: WritableFile, header: LogHeader, first_sequence: int, drafts: Sequence[Drafted], turn: Turn
    ) -> None:
        """Adopt the drafts behind `file`, whose lock is held, which is open, confirmed, and followed by none.

        first_sequence: of their first record.  turn: what is named, unless it has no source.
        Raises: FullError or AccessError with nothing changed; PoisonedError.
        """
        joining = Joining(file.number, file.number + len(drafts))
        if joining.last > NUMBER_MAX:
            raise FullError(f"{file.path}: there are no more file numbers", limit=NUMBER_MAX)
        file.mark_once(header)
        headers = self._headers(header, joining, first_sequence, drafts)
        opened: Descriptor | None = None
        try:
            try:
                if turn.source:
                    file.turns.begin(turn)
                access = file.access(self._permissions)
                write_joining(self._directory.fd, self._directory.path, joining, file.access())
                for draft, new in zip(drafts, headers, strict=True):
                    if opened is not None:
                        opened.close()
                    opened = Descriptor(self._directory.fd, draft.path, draft.path)
                    self._give_name(opened.fd, draft, new, access)
                sync_directory(self._directory.fd, self._directory.path)
                file.complete_index(header)
                file.name_next(file.number + 1)
            except PoisonedError:
                raise
            except BinlogError:
                with suppress(FullError, AccessError, CorruptError):
                    file.settle(reopen=False)  # as whoever takes the lock next would: it gives the space back
                raise
            # They are as good as in the log by now, and what there is no space for here says nothing of that: whoever
            # takes the lock next does what is left.
            with suppress(FullError, AccessError):
                file.close_at(header, file.number + 1)
                for draft, new in zip(drafts, headers, strict=True):
                    self._write_index(draft, new)
                if turn.source:
                    file.turns.finish(turn.source)
                remove_joining(self._directory.fd, self._directory.path)
                sweep(self._directory, joining.last)
        finally:
            if opened is not None:
                opened.close()

    def _headers(
        self, before: LogHeader, joining: Joining, first_sequence: int, drafts: Sequence[Drafted]
    ) -> list[LogHeader]:
        """What each is to say of itself: all but the last one that it is closed."""
        found = []
        for number, draft in zip(joining.numbers, drafts, strict=True):
            empty = new_header(number, log_uuid=before.uuid, first_sequence=first_sequence, epoch=before.epoch)
            slot = CommitSlot(
                counter=1, start=FIRST_OFFSET, end=draft.end, record_count=draft.record_count,
                time_ns=empty.created_ns + 1, group_crc=draft.crc, epoch=empty.epoch,
                nonce=int.from_bytes(os.urandom(_NONCE_BYTES), "big"),
            )  # fmt: skip
            full = replace(
                empty.with_slot(slot), tail=draft.end, own_tail=draft.end, record_count=draft.record_count,
                confirmed_end=draft.end, confirmed_counter=slot.counter,
            )  # fmt: skip
            if number < joining.last:
                full = replace(full, status=Status.CLOSED, next_number=number + 1)
            found.append(full)
            first_sequence += draft.record_count
        return found

    def _give_name(self, fd: int, draft: Drafted, header: LogHeader, access: FileAccess) -> None:
        """Write the draft's header, durably, and give it the name of a log file, which is not durable yet.

        Its lock is held from here on, by `fd`: were it given to two calls, one of them would write into the other's
        log.
        """
        directory, path = self._directory, draft.path
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
            # It is one of the draft alone, and the log is none the worse for it.
            number = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
            text = f"{path} could not be made a file of the log: {os.strerror(number or 0)}"
            raise AccessError(text, errno=number or errno.EIO, path=path) from error
        name = log_file_name(header.number)
        if not link_file(directory.fd, path, name, directory.file_path(header.number), durable=False):
            text = f"{path} is gone, or {directory.file_path(header.number)} is there already"
            raise AccessError(text, errno=errno.EEXIST, path=path)

    def _write_index(self, draft: Drafted, header: LogHeader) -> None:
        """Write the index of a file that is in the log now."""
        directory = self._directory
        path = directory.file_path(header.number)
        with suppress(BinlogError, OSError):
            descriptor = Descriptor(directory.fd, log_file_name(header.number), path)
            try:
                index = open_index_writing(directory.fd, header.number, path, descriptor.fd)
                if index is None:
                    return
                try:
                    if index.cut(header, FIRST_OFFSET):
                        entries = bytearray(draft.entries)
                        index.add(entries, first_sequence=header.first_sequence, time_ns=time.time_ns())
                finally:
                    index.close()
            finally:
                descriptor.close()
