"""A writer's session in one process: the directory, the open file, its ring, and the mutex of its threads.

Invariants
- Lock order: the mutex, then the lock of one file.  A session never holds two files' locks.
- A session leaves a file for the next one only after it saw the file closed, under its lock.
- A session belongs to the process that made it.  A forked child makes its own (see Writer): here the descriptors are
  closed, and a thread that the child does not have may hold the mutex.
- While Python holds a file's lock, its thread is marked (storage/locking/locks.py).  A signal handler or __del__ that
  runs meanwhile must not wait for the same lock, through any writer.
- A thread is in a call while it is in a `with` statement of the fast path.  That state, and the mark of a held lock,
  change in one call of C each, so an exception of a signal handler cannot leave either of them set.
"""

from __future__ import annotations

import errno
import math
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from binlog.errors import (
    BinlogError,
    BusyError,
    ClosedError,
    GoneError,
    PoisonedError,
    StateError,
    UnknownOutcomeError,
)
from binlog.format.log_header import LogHeader
from binlog.format.record import LENGTH_BYTES, Ref
from binlog.log.append.open_file import OpenFileFinder
from binlog.log.append.writable_file import WritableFile, write_close
from binlog.log.directory import LogDirectory
from binlog.log.files.cutover import Cutover
from binlog.log.ingest.ingestion import Ingestion
from binlog.log.options import WriterOptions
from binlog.log.recovery.dead_leader import resolve_dead_leader, resolve_group_of_other_log
from binlog.storage.commit_file import RECORD_BYTES_COPIED, Append
from binlog.storage.files import FileSystem
from binlog.storage.locking.locks import hold, let_go, lock
from binlog.storage.mode import Mode
from binlog.storage.native import FastPath, ffi, fork_generation
from binlog.storage.staging_area import StagingArea

_Result = TypeVar("_Result")
_Action = Callable[[WritableFile, LogHeader], _Result]


class Session:
    """A writer's hold on a log, in one process.

    fast_path: appends in the common case, and knows which thread is in a call.
    counters: of what this session has led, and of its waits for other writers; see WriterStat.
    area: the staging area, None before the log is open, or without shared memory.  ingestion: see there.
    closed: the session appends nothing more, and has released everything but the directory.
    """

    def __init__(self, directory: LogDirectory, options: WriterOptions) -> None:
        self.directory = directory
        self.generation = fork_generation()
        self.options = options
        self._mutex = threading.RLock()
        bytes_max = min(options.record_bytes_max, RECORD_BYTES_COPIED)
        self.fast_path = FastPath(self._mutex, Ref, options.mode, bytes_max)
        self.counters = ffi.new("struct binlog_counters *")
        self.closed = self._closing = False
        self._reopen = True
        if not directory.intact:
            # After a fork, or if a program closed all descriptors, the number may belong to another file.
            directory.check_path()
        self._poison: PoisonedError | None = None
        self._file: WritableFile | None = None
        self.area: StagingArea | None = None
        self._area_tried = False
        self._limits = options.limits()
        self._cutover = Cutover(directory, file_bytes=options.file_bytes_first, permissions=options.permissions)
        self.ingestion = Ingestion(directory, self._cutover, permissions=options.permissions)
        self._finder = OpenFileFinder(directory, options, self._cutover)
        if options.file_system is FileSystem.LOCAL:
            directory.refuse_remote()
        self.run(lambda file, header: None)
        self._reopen = False

    def finish(self, append: Append, record: bytes) -> tuple[int, int]:
        """Finish an append of `record` that the fast path began; return and raise as `append`."""

        def resume() -> tuple[int, int]:
            assert append.file is not None
            append.file.check_answer(append)
            place = self._append(append)
            if self._file is not None:
                self._arm(self._file)
            return place

        append.keep(record)
        place = self._outcome(append, lambda: self._entered(resume))
        return self.cut_over_at_limit(place, len(record) + LENGTH_BYTES)

    def append(
        self, data: bytes | bytearray | memoryview, record_count: int, mode: Mode, *, framed: bool
    ) -> tuple[int, int]:
        """Append, and return the file's number and the offset of the first record."""
        append = Append(timeout=self.options.lock_timeout)
        append.fill(data, record_count, mode, framed=framed)
        waits = self.fast_path.owner not in (0, threading.get_ident())
        begun_ns = time.monotonic_ns()
        if waits:
            # Another thread of this writer is in a call: stage the record, so that the next group includes it.
            append.stage(self.area)
        place = self._outcome(append, lambda: self._entered(lambda: self._append(append)))
        if waits:
            self.fast_path.count_wait(time.monotonic_ns() - begun_ns)
        return self.cut_over_at_limit(place, len(data) + (0 if framed else LENGTH_BYTES))

    def cut_over_at_limit(self, place: tuple[int, int], size: int) -> tuple[int, int]:
        """Return the place of an append, after a cutover if the append brought the file to a limit."""
        if self._limits is not None and self.is_at_limit(place, size):
            self._limits.disarm()
            # The append is done, so an error of the cutover must not hide its place.  The next call meets the same
            # error.
            with suppress(BinlogError):
                self.cutover(place[0])
        return place

    def is_at_limit(self, place: tuple[int, int], size: int) -> bool:
        """Whether an append brought the file to a limit."""
        return self._limits is not None and place[1] + size >= self._limits.offset

    @property
    def limits_check_seconds(self) -> float:
        """The interval at which `keep_limits` must be called."""
        return math.inf if self._limits is None else self._limits.check_seconds

    def keep_limits(self) -> None:
        """Cut over if the open file has reached a limit; prepare the next file if it soon will.

        For the background thread.  Raises: as `cutover`.
        """
        limits = self._limits
        if limits is None:
            return
        limits.require_cutover_if_too_old()
        with self._mutex:
            file = self._file
            header = file.header() if file is not None else None
            if file is not None and header is not None and not header.closed and not limits.reached(header):
                if limits.near(header):
                    self._cutover.prepare(file)
                return
        if file is None or header is None or header.closed:
            self.run(
                lambda file, header: None
            )  # another writer cut over: move on to its file, and check that one next time
        else:
            self.cutover(file.number)

    def _outcome(self, append: Append, call: Callable[[], tuple[int, int]]) -> tuple[int, int]:
        """Return the result of the call, or the outcome of the record if another writer committed it meanwhile."""
        try:
            return call()
        except BinlogError as error:
            if append.done():
                return append.place
            if not append.withdraw():
                text = "another writer began to commit this record, and failed; read the log before you append it again"
                raise UnknownOutcomeError(text) from error
            raise
        finally:
            append.withdraw()  # after Ctrl-C, withdraw the record unless a leader has taken it

    def drain(self, *, confirm: bool) -> None:
        """Commit everything staged, in all processes; with `confirm` also sync all of the open file."""
        self.run(lambda file, header: file.drain(self.area, confirm=confirm))

    def stop_staging(self) -> None:
        """Disable staging until a call of the writer succeeds: staged records would not reach the file.

        For the background thread, which has no caller to raise to: the writer's next call meets the same error.
        """
        with self._mutex:
            self.fast_path.stage_in(0, None)

    def while_locked(self, read: Callable[[WritableFile], _Result]) -> _Result:
        """Commit everything staged, in all processes, sync, and call `read` with the open file while no process can
        append."""

        def action(file: WritableFile, header: LogHeader) -> _Result:
            file.drain(self.area, confirm=True)
            return read(file)

        return self.run(action)

    def pending_bytes(self) -> tuple[int, int]:
        """Return the bytes staged in all processes, and the unsynced bytes in the open file, read without the lock."""
        with self._mutex:
            staged = self.area.staged_bytes() if self.area is not None else 0
            first, end = self._file.unconfirmed() if self._file is not None else (0, 0)
            return staged, end - first

    def write_out(self, *, wait: bool) -> None:
        """Make the kernel start writing the unsynced bytes to the disk.  See WritableFile.write_out."""
        with self._mutex:
            file = self._file
            first, end = file.unconfirmed() if file is not None else (0, 0)
        if file is not None and first < end:
            file.write_out(first, end, wait=wait)

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
        action: _Action[_Result],
        *,
        prepare: Callable[[WritableFile], None] | None = None,
        timeout: float | None = None,
    ) -> _Result:
        """Call `action` with the open file, its lock held, and its header; then wake the file's readers.

        prepare: called before the lock is taken, with each file that may be the open one.
        timeout: seconds to wait for the lock; None for those of the writer.
        """
        return self._entered(lambda: self._run(action, prepare, timeout))

    def close(self) -> None:
        """Commit and sync the records that no caller waits for, and release everything but the directory."""
        if self.generation != fork_generation():
            self.closed = (
                True  # a forked child: nothing is open here, and another thread of the parent may have the mutex
            )
            return
        with self._mutex:
            if self.fast_path.owner:
                raise StateError("the writer was closed from within one of its own calls")
            self._closing = True  # no thread may stage from here on: a record staged after the last drain would be lost
            self.fast_path.stage_in(0, None)
            try:
                if not self.closed and self._poison is None and any(self.pending_bytes()):
                    self.drain(confirm=True)
            except BinlogError:
                self._release()
                raise
            self._release()

    def _release(self) -> None:
        """Close.  If a signal handler raises in the middle, the next call continues."""
        self.closed = True
        if self.area is not None:
            self.area.retire()
            self.area = None
        self.fast_path.stage_in(0, None)
        self._close_file()
        self._cutover.discard()

    def _entered(self, call: Callable[[], _Result]) -> _Result:
        """Make the call as the only thread of this writer that is in one."""
        if sys.is_finalizing():
            if not self._mutex.acquire(blocking=False):
                raise BusyError("the interpreter has ended a thread within a call of this writer")
            self._mutex.release()
        with self.fast_path:
            if self.closed:
                raise ClosedError("the writer is closed")
            if self._poison is not None:
                raise PoisonedError(str(self._poison)) from self._poison
            try:
                return call()
            except PoisonedError as error:
                self._poison_session(error)
                raise

    def stage(self, append: Append) -> bool:
        """Stage an append for the next leader, in any thread; return False if there is no room."""
        return append.stage(self.area)

    @property
    def can_stage(self) -> bool:
        """Whether this writer has a ring, which leaders of the open file gather."""
        file, area = self._file, self.area
        return file is not None and file.is_native and area is not None and area.has_ring

    def lead(self, timeout: float) -> None:
        """Commit what this writer has staged, or wait until another one has; at most `timeout` seconds for a lock."""

        def lead() -> None:
            file, area = self._file, self.area
            if file is None or not file.is_native or area is None or not file.commits.await_staged(area, timeout):
                self._run(lambda file, header: file.drain(self.area, confirm=False), timeout=timeout)
            elif not self._closing:
                area.arm(self.fast_path)  # the background thread may have disabled staging

        self._entered(lead)

    def append_if(self, append: Append, begin: Callable[[], bool], timeout: float) -> tuple[int, int] | None:
        """Append under the file's lock if `begin` then returns True; otherwise return None.  timeout: as in `run`."""

        def act(file: WritableFile, header: LogHeader) -> tuple[int, int] | None:
            return file.append(header, append, self.area) if begin() else None

        return self.run(act, timeout=timeout)

    def _poison_session(self, error: PoisonedError) -> None:
        # Kept in the session as well as in the file: a file that another program made has no field for it.
        self._poison = error
        self.fast_path.disarm()
        if self.area is not None:
            self.area.retire()

    def _append(self, append: Append) -> tuple[int, int]:
        file = self._file
        if file is not None and file.is_native:
            done = file.commits.append(append, self.area)
            while done is None:
                done = file.commits.append(append, self.area)  # a signal came, and its handlers have run
            if done:
                return append.place
        return self._run(lambda file, header: file.append(header, append, self.area))

    def _run(
        self,
        action: _Action[_Result],
        prepare: Callable[[WritableFile], None] | None = None,
        timeout: float | None = None,
    ) -> _Result:
        while True:
            self._drop_closed_descriptors()
            file = self._file = self._file or self._finder.find(reopen=self._reopen)
            file.commits.count_in(self.counters)
            if prepare is not None:
                prepare(file)
            fd = file.fd
            removed = recovered = False
            try:
                hold()
                lock(fd, file.path, self.options.lock_timeout if timeout is None else timeout)
                self._check_failed(file)
                header = file.recover(reopen=self._reopen)
                recovered = True
                if header.next_number and not header.closed:
                    # A process died in a cutover after it had named the next file here, or recovery closes it early.
                    self._cutover.run(file, header)
                elif header.closed:
                    # The process that closed it may have died before the sync, or the sync failed.
                    write_close(fd, header.next_number, file.path)
                elif (found := self.ingestion.resume(file, header)) is not None:
                    if self._limits is not None:
                        self._limits.track(found)
                    result = action(file, self._enter_area(file, found))
                    break
            except GoneError:
                removed = True
            except PoisonedError as error:
                # Not if recovery failed: the next writer to open the log writes again everything that recovery wrote.
                # And a mark would limit the log to the bytes that the header says are confirmed, which before
                # recovery may be too few.
                if recovered:
                    file.mark_poisoned(error)
                    cause = error.__cause__
                    if self.area is not None and isinstance(cause, OSError):
                        self.area.fail(file.number, cause.errno or errno.EIO)  # a failed disk may not take the mark
                raise
            finally:
                let_go(fd)
            # The name of a removed file may lead to another file by now; no reader would see bytes written to this one.
            if removed:
                file.sync_moved()
            following = None if removed else self._finder.after(file)
            file.wake()
            self._close_file()
            self._file = following
        if self.area is not None:
            self.area.wake()
            if not self._closing:
                self.area.arm(self.fast_path)
        file.wake()
        self._arm(file)
        return result

    def _arm(self, file: WritableFile) -> None:
        if file.is_native:
            file.commits.arm(self.fast_path, Append(timeout=self.options.lock_timeout), self.area)

    def _drop_closed_descriptors(self) -> None:
        """Release descriptors that a program closed, as a daemon closes them all, so that they are opened again."""
        if self._file is not None and not self._file.intact:
            self._close_file()
        if self.area is not None and not self.area.intact:
            self.fast_path.stage_in(0, None)
            self.area, self._area_tried = None, False

    def _check_failed(self, file: WritableFile) -> None:
        """Refuse a file whose failed disk could not take the poison flag; if the writer reopens, set the flag now."""
        if self._reopen:
            header = file.header()
            area = self._join_area(file, header) if header.is_native and not header.closed else None
        else:
            area = self.area
        number = area.failed(file.number) if area is not None else 0
        if number:
            file.handle_failure(number, reopen=self._reopen)

    def _join_area(self, file: WritableFile, header: LogHeader) -> StagingArea | None:
        if not self._area_tried:
            self.area = StagingArea.join(self.directory.fd, header.uuid, file.access())
            self._area_tried = True
        return self.area

    def _enter_area(self, file: WritableFile, header: LogHeader) -> LogHeader:
        """Join the staging area, or resolve the group that a dead leader left in it; return the header as it is
        then."""
        if not header.is_native:
            return header
        if self.area is not None and self.area.uuid != header.uuid:
            header = self._leave_area(self.area, file)
        area = self._join_area(file, header)
        if area is None:
            return header
        if self._reopen:
            area.clear_failure()
        resolve_dead_leader(self.directory, area, header, file.sync)
        if not area.has_ring:
            # Commit the records that dead writers had staged, so that their rings become free.
            file.drain(area, confirm=False)
            claimed = area.claim()
            header = file.header()
            if not claimed and not area.has_name:
                # No process would find records staged there after this one died.
                self.area, self._area_tried = None, False
                return self._enter_area(file, header)
        return header

    def _leave_area(self, area: StagingArea, file: WritableFile) -> LogHeader:
        """Leave the staging area of a log that was moved away, after committing its staged records to the new log."""
        resolve_group_of_other_log(area)
        file.drain(area, confirm=False)
        area.wake()
        area.retire()
        self.fast_path.stage_in(0, None)
        self.area, self._area_tried = None, False
        return file.header()

    def _close_file(self) -> None:
        self.fast_path.disarm()
        file, self._file = self._file, None
        if file is not None:
            file.close()
