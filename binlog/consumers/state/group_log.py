"""The log of a group in one process: appends operations, and applies all operations in their order.

An operation is decided by its place in the log: `submit` appends it and then applies everything up to it.  Threads
append side by side, so that they share a sync, and apply one at a time.

The first member that appends to a new file of the log marks a place there, and then appends a checkpoint: the state at
that place.  So older files may be removed.  A checkpoint that is larger than a file is followed by as many bytes of
operations before the next one.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from threading import get_ident

from binlog.consumers.state.clock import GroupClock
from binlog.consumers.state.group_state import AppliedOperation, GroupState, Outcome
from binlog.consumers.state.logs import LogWriter
from binlog.consumers.state.settings import Settings
from binlog.consumers.state.state_reader import StateReader, Wanted
from binlog.errors import BusyError, CorruptError, FullError, GoneError, UnknownOutcomeError
from binlog.format.consumers.operation import MARK, NO_SEAT, Join, Kind, Operation, Section, Setting, pack_operation
from binlog.format.names import NUMBER_FIRST
from binlog.format.record import Ref
from binlog.log.maintain.prune import prune
from binlog.log.writer import Writer
from binlog.storage.descriptors import Descriptor
from binlog.storage.directory import Directory
from binlog.storage.locking.locks import try_lock
from binlog.storage.mode import Mode

_FILE_BYTES = 4 << 20
_HISTORY_BYTES = 64 << 20
_CHECKPOINT_SECONDS = 1.0
_CHECKPOINT_LOCK = "checkpoint"

Turn = Callable[[], AbstractContextManager[bool]]


class GroupLog:
    """The operations of a group.

    seat, generation: of this member, once it has joined.
    applied: called with each operation of the member, in the log's order, when its outcome is known.
    was_reset: called if the group was reset; the member does not have any item then.
    lost: called if the outcomes of some operations are not known, because the state was taken from a checkpoint.
    is_unsure: an exception ended a call, and its operation may be in the log.
    turn: yields whether this process may write a checkpoint now; at most one process at a time may.
    """

    def __init__(
        self, path: str, writer: LogWriter, reader: StateReader, clock: GroupClock, turn: Turn | None = None
    ) -> None:
        self.path = path
        self.seat, self.generation = NO_SEAT, 0
        self.applied: Callable[[AppliedOperation], None] = _ignore
        self.lost: Callable[[], None] = _ignore_all
        self.was_reset: Callable[[], None] = _ignore_all
        self._epoch = reader.state.epoch
        self._writer, self._reader, self._clock = writer, reader, clock
        self._turn = turn or (lambda: nullcontext(True))
        self._numbers = itertools.count()
        self._applying = threading.RLock()
        self._outcomes: dict[Ref, Outcome] = {}
        self._own = threading.local()
        self._callers: set[int] = set()  # the threads that wait for an outcome
        self._is_interrupted = False  # an exception ended the application of a batch
        self.is_unsure = False
        self._failure: CorruptError | None = None
        self._is_checkpointing = False
        self._checkpoint_at = 0.0

    @classmethod
    def open(cls, path: str, clock: GroupClock) -> GroupLog:
        """Open the log in a directory, and make it if there is none.  Raises: as a Writer and a StateReader."""
        with ExitStack() as undoing:
            writer = undoing.enter_context(Writer(path, cutover_bytes=_FILE_BYTES))
            reader = StateReader.open(path)
            undoing.pop_all()
        return cls(path, writer, reader, clock, lambda: _turn_of(path))

    @property
    def state(self) -> GroupState:
        """The group's state, as far as this process has applied it."""
        return self._reader.state

    @property
    def position(self) -> Ref:
        """The place of the last operation that was applied."""
        return self._reader.applied

    @property
    def own_position(self) -> Ref:
        """The place of the last operation that this thread appended."""
        ref: Ref = self._own.ref
        return ref

    @property
    def uuid(self) -> bytes:
        """The UUID of the group's log."""
        return self._reader.uuid

    def join(self, seat: int, join: Join) -> None:
        """Append that a member takes a seat; from then on, operations are its own.  Blocks and raises: as `submit`."""
        with self._applying:  # a thread that reads meanwhile would take the operation for another member's
            self.seat, self.generation = seat, self.state.last_generation(seat) + 1
        self.submit([(Kind.JOIN, join)])

    def submit(
        self,
        sections: Sequence[Section],
        *,
        want: int = 0,
        flags: int = 0,
        mode: Mode = Mode.FLUSH,
        anonymous: bool = False,
        epoch: int | None = None,
    ) -> Outcome:
        """Append an operation, and return what it did.

        anonymous: it is no member's.  epoch: in which it counts, by default the present one.
        Blocks and raises: as `Writer.append`; CorruptError if the group's log is damaged.
        """
        state, generation = self._reader.state, 0 if anonymous else self.generation
        operation = Operation(
            NO_SEAT if anonymous else self.seat,
            generation,
            next(self._numbers) & 0xFFFFFFFF,
            self._clock.now_ns(state),
            state.epoch if epoch is None else epoch,
            want,
            flags,
            sections,
        )
        return self._append(pack_operation(operation, self._reader.seed), mode, generation, anonymous=anonymous)

    def step(self, sequence: int, delivery: int, start: int, want: int, mode: Mode, epoch: int) -> Outcome:
        """Acknowledge a delivery, start an item, and ask for `want`: a fast `submit` for each message of a loop."""
        state, generation = self._reader.state, self.generation
        number, time_ns = next(self._numbers) & 0xFFFFFFFF, self._clock.now_ns(state)
        record = state.pack_step(self.seat, generation, number, time_ns, epoch, want, sequence, delivery, start)
        return self._append(record, mode, generation, anonymous=False)

    def _append(self, record: bytes, mode: Mode, generation: int, *, anonymous: bool) -> Outcome:
        me, is_known = get_ident(), False
        try:
            self._callers.add(me)
            ref = self._writer.append(record, mode=mode)
            assert ref is not None
            self._own.ref = ref
            with self._applying:
                outcome = self._outcome(ref, record)
            is_known = True
        finally:
            self._callers.discard(me)
            if not is_known:
                self.is_unsure = True
        if outcome is None:
            if not anonymous and generation != self.generation:
                # An operator released the member, and another thread has joined again: it lost its items by then.
                return Outcome(False, [], [], [])
            raise UnknownOutcomeError(f"{self.path}: the operation at {ref} was applied, and its effect is not known")
        reader = self._reader
        if ref.number > max(NUMBER_FIRST, reader.checkpoint_number + reader.checkpoint_bytes // _FILE_BYTES):
            self._write_checkpoint(ref.number)
        return outcome

    def catch_up(self) -> None:
        """Apply all operations of other processes so far.  Raises: as a Reader; CorruptError."""
        with self._applying:
            self._outcome(None, b"")

    def resolve_unknown(self) -> None:
        """Apply the operation whose outcome is not known, if one `is_unsure`.  Raises: as `catch_up`."""
        self.catch_up()
        self.is_unsure = False

    def _outcome(self, own: Ref | None, record: bytes) -> Outcome | None:
        """Apply all operations, and return the outcome of the own one, in `record`; None if it is not known."""
        if self._failure is not None:
            raise self._failure
        if own is not None and (outcome := self._outcomes.pop(own, None)) is not None:
            return outcome  # another thread has applied it
        if len(self._callers) == (own is not None):
            self._outcomes.clear()  # of calls that ended with an exception
        is_restart, self._is_interrupted = self._is_interrupted, True
        try:
            if own is not None and not is_restart and (applied := self._reader.apply_own(own, record)) is not None:
                self._check_epoch(applied[2])
                self.applied(applied)
                self._is_interrupted = False
                return applied.outcome
            outcome = self._apply_all(own, len(record), is_restart=is_restart)
        except CorruptError as error:
            self._failure = error
            raise
        self._is_interrupted = False
        return outcome

    def _apply_all(self, own: Ref | None, own_bytes: int, *, is_restart: bool) -> Outcome | None:
        found: Outcome | None = None
        reader, restarts = self._reader, self._reader.restarts
        me = (self.seat, self.generation)
        # Another thread may append an operation of no member while this one reads.
        wanted = Wanted(*me, anonymous=True)
        operations = reader.restart(wanted) if is_restart else reader.advance(wanted, own, own_bytes)
        for ref, applied in operations:
            is_member = applied[:2] == me
            if ref == own:
                found = applied[4]
            elif is_member or applied.seat == NO_SEAT:
                self._outcomes[ref] = applied.outcome
            self._check_epoch(applied[2])
            # A finalizer that runs in this loop may use the group, and so restart the reader.
            if is_member and reader.restarts == restarts:
                self.applied(applied)
        self._check_epoch(self.state.epoch)
        if reader.restarts != restarts:
            self.lost()
        return found

    def _check_epoch(self, epoch: int) -> None:
        """Take note of the group's epoch after an operation."""
        if self._epoch != epoch:
            self._epoch = epoch
            self.was_reset()

    def _write_checkpoint(self, number: int) -> None:
        """Append the state to a file of the log that has no checkpoint, and remove files of the distant past."""
        if self._is_checkpointing or time.monotonic() < self._checkpoint_at:
            return
        self._is_checkpointing = True
        try:
            with self._turn() as is_ours:
                if not is_ours:
                    self._checkpoint_at = time.monotonic() + _CHECKPOINT_SECONDS  # another process does it
                    return
                self.catch_up()
                if self._reader.checkpoint_number >= number:
                    return
                self.submit([], flags=MARK, anonymous=True)
                with self._applying:
                    marked = self._reader.marked
                if marked is None:
                    return  # another thread took the state from a checkpoint meanwhile; a later operation tries again
                self.submit([(Kind.CHECKPOINT, marked.pack())], anonymous=True, mode=Mode.SYNC)
                self._remove_before(marked.mark)
        except (FullError, BusyError):
            # The operation before counts all the same, and a later one tries again.
            self._checkpoint_at = time.monotonic() + _CHECKPOINT_SECONDS
        finally:
            self._is_checkpointing = False

    def _remove_before(self, mark: Ref) -> None:
        """Remove files before that of a durable checkpoint, except for some history."""
        prune(self.path, keep_bytes=_HISTORY_BYTES, before=Ref(mark.number, 0))

    def check_usable(self) -> None:
        """Raise GoneError if the group was deleted."""
        if self.state.is_deleted:
            raise GoneError(f"{self.path}: the group was deleted")

    def set_up(self, settings: Settings, start: int) -> None:
        """Create the group with these settings, unless it was created.  start: the sequence at which it begins."""
        self.catch_up()
        if not self.state.is_created:
            values = {Setting.START: start, **settings.as_values()}
            self.submit([(Kind.SETTINGS, values)], mode=Mode.SYNC, anonymous=True)

    def set_clock(self, is_gone: Callable[[int], bool]) -> None:
        """Set group time, unless a process has in this boot; then record the deaths of earlier boots.

        is_gone: whether no process has a seat.  A member joins after the clock was set in its boot, so a seat without a
        file has no living member: a power cut took the file.
        """
        state = self.state
        if self._clock.is_set(state):
            return
        sections: list[Section] = [(Kind.CLOCK, self._clock.for_this_boot(state))]
        if dead := [(number, seat.generation) for number, seat in state.seats.items() if is_gone(number)]:
            sections.append((Kind.DEATH, dead))
        self.submit(sections, anonymous=True)

    def sync(self) -> None:
        """Wait until all operations are durable."""
        self._writer.sync()

    def close(self) -> None:
        """Make all operations durable, and close the log."""
        try:
            self._reader.close()
        finally:
            self._writer.close()


def _ignore(_: AppliedOperation) -> None:
    pass


def _ignore_all() -> None:
    pass


@contextmanager
def _turn_of(path: str) -> Iterator[bool]:
    """Hold the lock of the process that writes a checkpoint, if it is free; yields whether it was."""
    with ExitStack() as closing:
        directory = closing.enter_context(Directory(path))
        if not directory.has(_CHECKPOINT_LOCK):
            directory.make(_CHECKPOINT_LOCK)
        lock = Descriptor(directory.fd, _CHECKPOINT_LOCK, directory.file_path(_CHECKPOINT_LOCK))
        closing.callback(lock.close)
        yield try_lock(lock.fd)
