"""What a writer holds in one process: the directory, the open file, its ring, and the mutex of its threads.

Invariants
- The mutex comes first, then the lock of one file; no other file is locked meanwhile.
- A file is left for the next only after it was seen closed under its lock.
- A session belongs to the process that made it.  A forked child makes its own (see Writer), for the descriptors
  here are closed there and the mutex may be held by a thread that the child does not have.
- While Python holds a file's lock, `_inside` names the thread: a signal handler or __del__ that runs in the middle of
  that must not wait for the same lock, through whatever writer.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from binlog.errors import (
    BinlogError,
    ClosedError,
    CorruptError,
    GoneError,
    NotFoundError,
    PoisonedError,
    StateError,
    UnknownOutcomeError,
)
from binlog.format.log_header import LOG_HEADER, LogHeader
from binlog.format.names import NUMBER_FIRST
from binlog.log.cutover import Cutover
from binlog.log.directory import LogDirectory
from binlog.log.header_reading import read_header, settled_header
from binlog.log.orphans import settle_orphans
from binlog.log.prepared_file import PreparedFile, new_log_uuid, sweep
from binlog.log.writable_file import PREPARE_BYTES_FIRST, WritableFile
from binlog.storage.files import FILE_MODE, FileSystem, refuse_remote, sync, sync_directory, sync_parent
from binlog.storage.group_commit import Append, Mode
from binlog.storage.locks import lock, unlock
from binlog.storage.native import fork_generation
from binlog.storage.segment import Segment

_Result = TypeVar("_Result")

_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


@dataclass(frozen=True, kw_only=True)
class WriterOptions:
    """How a writer was opened; see Writer."""

    mode: Mode
    strict: bool
    record_bytes_max: int
    prepare_bytes: int
    lock_timeout: float | None
    permissions: int | None
    file_system: FileSystem


class Session:
    """A writer's hold on a log, in one process."""

    def __init__(self, directory: LogDirectory, options: WriterOptions) -> None:
        self.directory = directory
        self.generation = fork_generation()
        self._options = options
        self._mutex = threading.RLock()
        self._busy = False
        self._busy_thread: int | None = None
        self._inside: int | None = None
        self._closed = False
        self._reopen = True
        self._poison: PoisonedError | None = None
        self._file: WritableFile | None = None
        self._segment: Segment | None = None
        self._segment_sought = False
        self._cutover = Cutover(self.directory, file_bytes=self._file_bytes_first, permissions=options.permissions)
        if options.file_system is FileSystem.LOCAL:
            refuse_remote(directory.fd, directory.path)
        _sessions.add(self)
        self.run(lambda file, header: None)
        self._reopen = False

    @property
    def _file_bytes_first(self) -> int:
        return min(PREPARE_BYTES_FIRST, self._options.prepare_bytes)

    def append(self, data: bytes | memoryview, record_count: int, mode: Mode, *, framed: bool) -> tuple[int, int]:
        """Append, and return the file's number and where in it the first record lies."""
        append = Append(wait=self._options.lock_timeout is None)
        append.fill(data, record_count, mode, framed=framed)
        if self._busy and self._busy_thread != threading.get_ident():
            # Another thread of ours is at it: whoever commits next takes this record along.
            append.stage(self._segment)
        try:
            return self._entered(lambda: self._append(append))
        except BinlogError as error:
            if append.done():
                return append.place
            if not append.withdraw():
                text = "a commit that others began with this record failed; look before repeating"
                raise UnknownOutcomeError(text) from error
            raise
        finally:
            append.withdraw()  # after Ctrl-C, what nobody has taken yet is taken back

    def drain(self, *, confirm: bool) -> None:
        """Commit what is staged in all processes, and with `confirm` have everything in the open file synced."""

        def drain(file: WritableFile, header: LogHeader) -> None:
            file.drain(self._segment, confirm=confirm)

        self.run(drain)

    def cutover(self, expected: int | None) -> int:
        """See Writer.cutover."""

        def close(file: WritableFile, header: LogHeader) -> int:
            if expected is not None and file.number != expected:
                return file.number
            return self._cutover.run(file, header)

        def prepare(file: WritableFile) -> None:
            if expected is None or file.number == expected:
                self._cutover.prepare(file)

        return self.run(close, prepare=prepare)

    def run(
        self,
        action: Callable[[WritableFile, LogHeader], _Result],
        *,
        prepare: Callable[[WritableFile], None] | None = None,
    ) -> _Result:
        """Run `action` with the open file, its lock held and its header, and wake that file's readers.

        prepare: what to do beforehand with each file that may turn out to be the open one, without its lock.
        """
        return self._entered(lambda: self._run(action, prepare))

    def close(self) -> None:
        """Give everything back but the directory.  What is staged is committed first, where that can be done."""
        with self._mutex:
            if self._busy:
                raise StateError("the writer was closed from within one of its own calls")
            try:
                if self._segment is not None and not self._closed and self._segment.staged_bytes():
                    self.drain(confirm=False)
            finally:
                self._closed = True
                segment, self._segment = self._segment, None
                if segment is not None:
                    segment.retire()
                self._leave()
                self._cutover.discard()

    def _entered(self, call: Callable[[], _Result]) -> _Result:
        """Make the call as the one thread of this writer that does."""
        with self._mutex:
            if self._closed:
                raise ClosedError("the writer is closed")
            if self._poison is not None:
                raise PoisonedError(str(self._poison)) from self._poison
            # An RLock lets this thread in again: from a signal handler or __del__ in the middle of a call.
            if self._busy:
                raise StateError("the writer was entered again from within one of its own calls")
            self._busy = True
            self._busy_thread = threading.get_ident()
            try:
                self._refuse_own_lock()
                return call()
            except PoisonedError as error:
                # Kept here as well as in the file: one that another program made has no place for it.
                self._poison = error
                raise
            finally:
                self._busy_thread = None
                self._busy = False

    def _append(self, append: Append) -> tuple[int, int]:
        file = self._file
        if file is not None and file.ours:
            done = file.commits.append(append, self._segment)
            while done is None and append.waits:
                done = file.commits.append(append, self._segment)  # a signal came, and its handlers have run
            if done:
                return append.place
        return self._run(lambda file, header: file.append(header, append, self._segment), None)

    def _run(
        self, action: Callable[[WritableFile, LogHeader], _Result], prepare: Callable[[WritableFile], None] | None
    ) -> _Result:
        while True:
            file = self._file = self._file or self._find_open_file()
            if prepare is not None:
                prepare(file)
            fd = file.fd
            removed = False
            self._refuse_own_lock()
            try:
                self._inside = threading.get_ident()
                lock(fd, file.path, self._options.lock_timeout)
                header = file.settle(reopen=self._reopen)
                if header.next_number and not header.closed:
                    # Whoever cut over died between naming the next file here and closing, or recovery sealed the file.
                    self._cutover.run(file, header)
                elif not header.closed:
                    header = self._settle_segment(file, header)
                    result = action(file, header)
                    break
                else:
                    # Whoever closed it may have died before the sync.  What is appended to the next file is reachable
                    # only through this one, so the close must be durable first.
                    file.sync()
            except GoneError:
                removed = True
            except PoisonedError as error:
                file.mark_poisoned(error)
                raise
            finally:
                unlock(fd)
                self._inside = None
            if removed:
                # The name may lead to another file by now; bytes written to this one would be seen by nobody.
                self._leave()
            else:
                self._move_on(file)
        if self._segment is not None:
            self._segment.wake()
        file.wake()
        return result

    def _settle_segment(self, file: WritableFile, header: LogHeader) -> LogHeader:
        """Join the segment, or see what a leader that died left in it.  The open file's lock is held."""
        if not header.ours:
            return header
        joined = False
        if self._segment is None and not self._segment_sought:
            self._segment_sought = True
            permissions = FILE_MODE if self._options.permissions is None else self._options.permissions
            self._segment = Segment.join(self.directory.fd, header.uuid, mode=permissions)
            joined = self._segment is not None
        if self._segment is None:
            return header
        settle_orphans(self.directory, self._segment, header)
        if joined:
            # What the dead had staged, so that their rings can be had.
            file.drain(self._segment, confirm=False)
            self._segment.claim()
            header = read_header(file.fd, file.number, file.path)
        return header

    def _refuse_own_lock(self) -> None:
        """Raise StateError where this thread holds a lock through another writer, for it might wait for it for ever.

        That is so in a signal handler or __del__ that ran in the middle of the other one's action.
        """
        own = threading.get_ident()
        if any(other is not self and other._inside == own for other in list(_sessions)):
            raise StateError("this thread is within a call of another writer")

    def _leave(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _move_on(self, file: WritableFile) -> None:
        """Go from a file that was closed to the one that it names."""
        header = read_header(file.fd, file.number, file.path)
        file.wake()
        self._leave()
        try:
            self._file = self._open(header.next_number)
        except NotFoundError:
            if not self.directory.exists(file.number):
                return  # both were moved away since, closed files as they were: the newest is found by name
            text = f"file {header.number} is closed and leads to file {header.next_number}, which is not there"
            raise CorruptError(file.path, LOG_HEADER.offset("next_number"), "missing-next", text) from None

    def _open(self, number: int) -> WritableFile:
        options = self._options
        return WritableFile(self.directory, number, prepare_bytes=options.prepare_bytes, strict=options.strict)

    def _find_open_file(self) -> WritableFile:
        """The newest file, made where there is none, once the one before it is known to be closed."""
        while True:
            numbers = self.directory.numbers()
            try:
                if not numbers:
                    self._make_first_file()
                    continue
                # Another process may have named the file and not yet synced the directory: what is appended to a file
                # that loses its name in a power cut is lost with it.
                sync_directory(self.directory.fd, self.directory.path)
                if len(numbers) > 1:
                    self._settle(numbers[-2], numbers[-1])
                sweep(self.directory, numbers[-1])
                return self._open(numbers[-1])
            except (NotFoundError, GoneError):
                continue  # retention removed it since the listing

    def _make_first_file(self) -> None:
        # The directory may be new, made by us or by a process that died before it was durable.
        sync_parent(self.directory.fd, self.directory.path)
        prepared = PreparedFile(
            self.directory, NUMBER_FIRST, file_bytes=self._file_bytes_first, permissions=self._options.permissions
        )
        try:
            prepared.give_name(log_uuid=new_log_uuid(), first_sequence=0)
        finally:
            prepared.discard()

    def _settle(self, number: int, newest: int) -> None:
        """Finish what a process left that died while it cut over from `number` to `newest`."""
        if self._closed_and_cut(number, newest):
            return
        file = self._open(number)
        fd = file.fd
        try:
            lock(fd, file.path, self._options.lock_timeout)
            header = file.settle(reopen=self._reopen)
            if not header.closed and newest == number + 1:
                self._cutover.run(file, header)
            elif header.closed and header.next_number == newest:
                file.cut(header.tail)
            else:
                text = f"file {number} does not lead to the newest file, {newest}"
                raise CorruptError(file.path, LOG_HEADER.offset("next_number"), "missing-next", text)
        finally:
            unlock(fd)
            file.close()

    def _closed_and_cut(self, number: int, newest: int) -> bool:
        """Whether nothing is left to do, which most often is so, and needs no permission to write there."""
        fd = self.directory.open(number)
        try:
            path = self.directory.file_path(number)
            header = settled_header(fd, number, path)
            if not header.closed or header.next_number != newest:
                return False
            sync(fd, path)  # for the reason that `_run` gives
            return os.fstat(fd).st_size <= header.tail
        finally:
            os.close(fd)
