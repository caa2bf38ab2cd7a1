"""What a writer holds in one process: the directory, the open file, its ring, and the mutex of its threads.

Invariants
- The mutex comes first, then the lock of one file; no other file is locked meanwhile.
- A file is left for the next only after it was seen closed under its lock.
- A session belongs to the process that made it.  A forked child makes its own (see Writer), for the descriptors
  here are closed there and the mutex may be held by a thread that the child does not have.
- While Python holds a file's lock, its thread is marked (storage/locking/locks.py): a signal handler or __del__ that
  runs in the middle of that must not wait for the same lock, through whatever writer.
- A thread is in a call while it is in a `with` statement of the fast path.  That and the mark of a held lock change
  hands in one call of C each, so an exception of a signal handler leaves neither behind.
"""

from __future__ import annotations

import errno
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

from binlog.errors import (
    BinlogError,
    ClosedError,
    GoneError,
    PoisonedError,
    StateError,
    UnknownOutcomeError,
)
from binlog.format.log_header import LogHeader
from binlog.format.record import LENGTH_BYTES, Ref
from binlog.log.append.producers import Turn
from binlog.log.append.writable_file import WritableFile, write_close
from binlog.log.batch import Batch, GivenError, framed_all
from binlog.log.directory import LogDirectory
from binlog.log.files.active_file import Succession
from binlog.log.files.cutover import Cutover
from binlog.log.ingest.external_file import Drafted, used_up
from binlog.log.ingest.ingestion import Ingest, unknown_outcome
from binlog.log.options import WriterOptions
from binlog.log.recovery.dead_leader import settle_of_another_log, settle_orphans
from binlog.storage.files import FileSystem
from binlog.storage.group_commit import RECORD_BYTES_COPIED, Append, Mode
from binlog.storage.locking.locks import hold, let_go, lock
from binlog.storage.native import FastPath, fork_generation
from binlog.storage.staging_area import StagingArea

_Result = TypeVar("_Result")
_Action = Callable[[WritableFile, LogHeader], _Result]

# In place of a turn: the open file was closed first, and the next one is to be looked at.
_CUT_OVER = Turn("", 0, 0, 0, 0, 0, 0)


def _check_room(file: WritableFile, header: LogHeader) -> None:
    """Raise StateError if the open file cannot take records all or none."""
    if not header.ours:
        raise StateError(f"{file.path} was made by another program, and has no room for this; cut over first")


class Session:
    """A writer's hold on a log, in one process.

    fast_path: appends in the common case, and says which thread is in a call.
    closed: nothing is appended any more, and all is given back but the directory.
    """

    def __init__(self, directory: LogDirectory, options: WriterOptions) -> None:
        self.directory = directory
        self.generation = fork_generation()
        self._options = options
        self._mutex = threading.RLock()
        bytes_max = min(options.record_bytes_max, RECORD_BYTES_COPIED)
        self.fast_path = FastPath(self._mutex, Ref, options.mode, bytes_max)
        self.closed = self._closing = False
        self._reopen = True
        if not directory.intact:
            directory.check_path()  # after a fork, or if all descriptors were closed, ours may be another file's
        self._poison: PoisonedError | None = None
        self._file: WritableFile | None = None
        self._area: StagingArea | None = None
        self._area_sought = False
        self._limits = options.limits()
        self._cutover = Cutover(directory, file_bytes=options.file_bytes_first, permissions=options.permissions)
        self._ingest = Ingest(directory, self._cutover, permissions=options.permissions)
        self._succession = Succession(directory, options, self._cutover)
        if options.file_system is FileSystem.LOCAL:
            directory.refuse_remote()
        self.run(lambda file, header: None)
        self._reopen = False

    def finish(self, append: Append, record: bytes) -> tuple[int, int]:
        """Finish an append of `record` that the fast path began; return and raise as `append`."""

        def go_on() -> tuple[int, int]:
            assert append.file is not None
            append.file.check_answer(append)
            place = self._append(append)
            if self._file is not None:
                self._arm(self._file)
            return place

        append.keep(record)
        place = self._outcome(append, lambda: self._entered(go_on))
        return self.within_limits(place, len(record) + LENGTH_BYTES)

    def append(
        self, data: bytes | bytearray | memoryview, record_count: int, mode: Mode, *, framed: bool
    ) -> tuple[int, int]:
        """Append, and return the file's number and where in it the first record lies."""
        append = Append(timeout=self._options.lock_timeout)
        append.fill(data, record_count, mode, framed=framed)
        if self.fast_path.owner not in (0, threading.get_ident()):
            # Another thread of ours is at it: whoever commits next takes this record along.
            append.stage(self._area)
        place = self._outcome(append, lambda: self._entered(lambda: self._append(append)))
        return self.within_limits(place, len(data) + (0 if framed else LENGTH_BYTES))

    def append_batches(self, batches: Iterable[Batch], *, source: str | None = None, turn: int = 0) -> Turn | None:
        """See Writer.append_batches and Writer.append_turn; None where a turn is in the log."""

        def append(file: WritableFile, header: LogHeader) -> Turn | None:
            if self._has_taken(file, header, source, turn):
                return None
            _check_room(file, header)
            runs = framed_all(batches, self._options.record_bytes_max)
            return file.append_together(runs, self._area, source=source, turn=turn)

        return self._together(append)

    def append_drafts(self, drafts: Sequence[Drafted], *, source: str | None = None, turn: int = 0) -> Turn | None:
        """See Writer.append_drafts; None where a turn is in the log."""
        drafts = [draft for draft in drafts if draft.record_count]
        if len({draft.path for draft in drafts}) < len(drafts):
            raise ValueError("a draft is given twice")

        decided = False

        def append(file: WritableFile, header: LogHeader) -> Turn | None:
            nonlocal decided
            if self._has_taken(file, header, source, turn):
                return None
            if not self._ingest.can_take(drafts):
                _check_room(file, header)
                runs = framed_all(used_up(drafts), self._options.record_bytes_max)
                return file.append_together(runs, self._area, source=source, turn=turn)
            if not self._ingest.is_last(file, header):
                return _CUT_OVER
            file.drain(self._area, confirm=True)
            found = self._ingest.begin(file, file.header(), drafts, source=source, turn=turn)
            decided = True
            return found

        while (found := self._together(append)) is _CUT_OVER:
            pass
        if decided:
            self._place_others()
        return found

    def _place_others(self) -> None:
        """Go on with an ingest that is decided.  Raises: UnknownOutcomeError, whatever the reason; PoisonedError."""
        try:
            self.run(lambda file, header: None)
        except PoisonedError:
            raise
        except BinlogError as error:
            raise unknown_outcome(self.directory, error) from error

    def _has_taken(self, file: WritableFile, header: LogHeader, source: str | None, turn: int) -> bool:
        """Whether a turn is in the log."""
        last = None if source is None else self._last_turn(file, header, source)
        return last is not None and last.turn >= turn

    def _together(self, append: _Action[Turn | None]) -> Turn | None:
        try:
            found = self.run(append)
        except GivenError as given:
            raise given.error from given.error.__cause__
        if found is not None:
            self.within_limits((found.number, found.start), found.end - found.start)
        return found

    def last_turn(self, source: str) -> Turn | None:
        """See Writer.last_turn."""
        return self.run(lambda file, header: self._last_turn(file, header, source))

    def _last_turn(self, file: WritableFile, header: LogHeader, source: str) -> Turn | None:
        recorded, unrecorded = file.last_turn(header, source), self._ingest.unrecorded_turn(source)
        return max(filter(None, (recorded, unrecorded)), key=lambda turn: turn.turn, default=None)

    def within_limits(self, place: tuple[int, int], size: int) -> tuple[int, int]:
        """The place of what was just appended, once the file is closed where that brought it to a limit."""
        limits = self._limits
        if limits is not None and place[1] + size >= limits.offset:
            limits.leave_to_the_background()
            # Whatever is met here: the append was done before.  What matters is met again by the next call.
            with suppress(BinlogError):
                self.cutover(place[0])
        return place

    @property
    def limits_look_seconds(self) -> float:
        """How often `keep_limits` is to be called."""
        return math.inf if self._limits is None else self._limits.look_seconds

    def keep_limits(self) -> None:
        """Cut over where the open file has reached a limit, and prepare the next one where it soon will.

        For the background thread.  Raises: as `cutover`.
        """
        limits = self._limits
        if limits is None:
            return
        limits.warn_appends()
        with self._mutex:
            file = self._file
            header = file.header() if file is not None else None
            if file is not None and header is not None and not header.closed and not limits.reached(header):
                if limits.near(header):
                    self._cutover.prepare(file)
                return
        if file is None or header is None or header.closed:
            self.run(lambda file, header: None)  # others have gone on, and so do we; looked at next time
        else:
            self.cutover(file.number)

    def _outcome(self, append: Append, call: Callable[[], tuple[int, int]]) -> tuple[int, int]:
        """What the call gives, or what others made of a record that lay in the ring meanwhile."""
        try:
            return call()
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
        self.run(lambda file, header: file.drain(self._area, confirm=confirm))

    def stage_no_more(self) -> None:
        """Have no record staged until a call of the writer's has found all in order: what is staged would not get on.

        For the background thread, which nobody hears: the next call meets what it met.
        """
        with self._mutex:
            self.fast_path.stage_in(0, None)

    def at_one_moment(self, look: Callable[[WritableFile], _Result]) -> _Result:
        """Commit what is staged in all processes, sync, and look at the open file while no process can append."""

        def action(file: WritableFile, header: LogHeader) -> _Result:
            file.drain(self._area, confirm=True)
            return look(file)

        return self.run(action)

    def pending_bytes(self) -> tuple[int, int]:
        """Bytes staged, in all processes, and bytes in the open file that no sync covers; seen without the lock."""
        with self._mutex:
            staged = self._area.staged_bytes() if self._area is not None else 0
            first, end = self._file.unconfirmed() if self._file is not None else (0, 0)
            return staged, end - first

    def write_out(self, *, wait: bool) -> None:
        """Have the kernel write what no sync covers.  See WritableFile.write_out."""
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

    def run(self, action: _Action[_Result], *, prepare: Callable[[WritableFile], None] | None = None) -> _Result:
        """Run `action` with the open file, its lock held and its header, and wake that file's readers.

        prepare: what to do beforehand with each file that may turn out to be the open one, without its lock.
        """
        return self._entered(lambda: self._run(action, prepare))

    def close(self) -> None:
        """Give everything back but the directory, once what no caller waited for is in the file and synced."""
        if self.generation != fork_generation():
            self.closed = True  # a forked child, in which nothing is open, and another thread may have the mutex
            return
        with self._mutex:
            if self.fast_path.owner:
                raise StateError("the writer was closed from within one of its own calls")
            self._closing = True  # and nothing more is staged: what is staged behind the last drain would be lost
            self.fast_path.stage_in(0, None)
            try:
                if not self.closed and self._poison is None and any(self.pending_bytes()):
                    self.drain(confirm=True)
            except BinlogError:
                self._give_back()
                raise
            self._give_back()

    def _give_back(self) -> None:
        """Close.  After an exception of a signal handler in the middle the next call does the rest."""
        self.closed = True
        if self._area is not None:
            self._area.retire()
            self._area = None
        self.fast_path.stage_in(0, None)
        self._leave()
        self._cutover.discard()

    def _entered(self, call: Callable[[], _Result]) -> _Result:
        """Make the call as the one thread of this writer that does."""
        with self.fast_path:
            if self.closed:
                raise ClosedError("the writer is closed")
            if self._poison is not None:
                raise PoisonedError(str(self._poison)) from self._poison
            try:
                return call()
            except PoisonedError as error:
                self._refuse_from_now_on(error)
                raise

    def _refuse_from_now_on(self, error: PoisonedError) -> None:
        # Kept here as well as in the file: one that another program made has no place for it.
        self._poison = error
        self.fast_path.disarm()
        if self._area is not None:
            self._area.retire()

    def _append(self, append: Append) -> tuple[int, int]:
        file = self._file
        if file is not None and file.ours:
            done = file.commits.append(append, self._area)
            while done is None:
                done = file.commits.append(append, self._area)  # a signal came, and its handlers have run
            if done:
                return append.place
        return self._run(lambda file, header: file.append(header, append, self._area), None)

    def _run(self, action: _Action[_Result], prepare: Callable[[WritableFile], None] | None) -> _Result:
        while True:
            self._drop_lost()
            file = self._file = self._file or self._succession.find(reopen=self._reopen)
            if prepare is not None:
                prepare(file)
            fd = file.fd
            removed = settled = False
            try:
                hold()
                lock(fd, file.path, self._options.lock_timeout)
                self._look_for_failure(file)
                header = file.settle(reopen=self._reopen)
                settled = True
                if header.next_number and not header.closed:
                    # Whoever cut over died between naming the next file here and closing, or recovery sealed the file.
                    self._cutover.run(file, header)
                elif header.closed:
                    # Whoever closed it may have died before the sync, or been told that it failed.
                    write_close(fd, header.next_number, file.path)
                elif (found := self._ingest.go_on(file, header)) is not None:
                    if self._limits is not None:
                        self._limits.know(found)
                    result = action(file, self._with_area(file, found))
                    break
            except GoneError:
                removed = True
            except PoisonedError as error:
                # Not where recovery failed: whoever opens next writes again all that it wrote.  And a mark would let no
                # more count than the header says is confirmed, which may be less than what was, until it is recovered.
                if settled:
                    file.mark_poisoned(error)
                    cause = error.__cause__
                    if self._area is not None and isinstance(cause, OSError):
                        self._area.fail(file.number, cause.errno or errno.EIO)  # the disk may take no mark any more
                raise
            finally:
                let_go(fd)
            # The name of a file that was removed may lead to another one by now; bytes written to this one would be
            # seen by nobody.
            if removed:
                file.sync_moved()
            following = None if removed else self._succession.after(file)
            file.wake()
            self._leave()
            self._file = following
        if self._area is not None:
            self._area.wake()
            if not self._closing:
                self._area.arm(self.fast_path)
        file.wake()
        self._arm(file)
        return result

    def _arm(self, file: WritableFile) -> None:
        if file.ours:
            file.commits.arm(self.fast_path, Append(timeout=self._options.lock_timeout), self._area)

    def _drop_lost(self) -> None:
        """Let go of what was closed behind our back, as a daemon closes all descriptors, so that it is opened again."""
        if self._file is not None and not self._file.intact:
            self._leave()
        if self._area is not None and not self._area.intact:
            self.fast_path.stage_in(0, None)
            self._area, self._area_sought = None, False

    def _look_for_failure(self, file: WritableFile) -> None:
        """Refuse a file that a failing disk did not let say that it is poisoned; on opening anew, have it say so."""
        if self._reopen:
            header = file.header()
            area = self._joined(file, header) if header.ours and not header.closed else None
        else:
            area = self._area
        number = area.failed(file.number) if area is not None else 0
        if number:
            file.tell_failure(number, reopen=self._reopen)

    def _joined(self, file: WritableFile, header: LogHeader) -> StagingArea | None:
        if not self._area_sought:
            self._area = StagingArea.join(self.directory.fd, header.uuid, file.access())
            self._area_sought = True
        return self._area

    def _with_area(self, file: WritableFile, header: LogHeader) -> LogHeader:
        """Join the staging area, or see to what a leader that died left in it; the header as it is then."""
        if not header.ours:
            return header
        if self._area is not None and self._area.uuid != header.uuid:
            header = self._leave_area(self._area, file)
        area = self._joined(file, header)
        if area is None:
            return header
        if self._reopen:
            area.clear_failure()
        settle_orphans(self.directory, area, header, file.sync)
        if not area.has_ring:
            # What the dead had staged goes into the file first, so that their rings can be had.
            file.drain(area, confirm=False)
            claimed = area.claim()
            header = file.header()
            if not claimed and not area.has_name:
                # What is staged there would be found by nobody once we are dead.
                self._area, self._area_sought = None, False
                return self._with_area(file, header)
        return header

    def _leave_area(self, area: StagingArea, file: WritableFile) -> LogHeader:
        """Go on without the staging area of a log that was moved away, once what was staged there is in the new log."""
        settle_of_another_log(area)
        file.drain(area, confirm=False)
        area.wake()
        area.retire()
        self.fast_path.stage_in(0, None)
        self._area, self._area_sought = None, False
        return file.header()

    def _leave(self) -> None:
        self.fast_path.disarm()
        file, self._file = self._file, None
        if file is not None:
            file.close()
