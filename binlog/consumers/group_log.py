"""The log of a group in one process: appends operations, and applies all operations in their order.

An operation is decided by its place in the log: `submit` appends it and then applies everything up to it.  Threads
append side by side, so that they share a sync, and apply one at a time.

The first member that appends to a new file of the log marks a place there, and then appends a checkpoint: the state at
that place.  So older files may be removed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack

from binlog.consumers.clock import GroupClock
from binlog.consumers.logs import LogWriter
from binlog.consumers.settings import Settings
from binlog.consumers.state import GroupState, Outcome
from binlog.consumers.state_reader import StateReader
from binlog.errors import BusyError, CorruptError, FullError, GoneError, UnknownOutcomeError
from binlog.format.consumers.operation import MARK, NO_SEAT, Kind, Operation, Section, Setting, pack_operation
from binlog.format.names import NUMBER_FIRST
from binlog.format.record import Ref
from binlog.log.maintain.prune import prune
from binlog.log.writer import Writer
from binlog.storage.mode import Mode

_FILE_BYTES = 16 << 20
_HISTORY_BYTES = 64 << 20
_CHECKPOINT_SECONDS = 1.0


class GroupLog:
    """The operations of a group.  seat, generation: of this member, once it has joined."""

    def __init__(self, path: str, writer: LogWriter, reader: StateReader, clock: GroupClock) -> None:
        self.path = path
        self.seat, self.generation = NO_SEAT, 0
        self._writer, self._reader, self._clock = writer, reader, clock
        self._number = 0
        self._applying = threading.Lock()
        self._appending = threading.Lock()
        self._outcomes: dict[Ref, Outcome] = {}
        self._own = threading.local()
        self._calls = 0  # that wait for their outcomes
        self._is_interrupted = False  # an exception ended the application of a batch
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
        return cls(path, writer, reader, clock)

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
        with self._appending:
            operation = Operation(
                seat=NO_SEAT if anonymous else self.seat,
                generation=0 if anonymous else self.generation,
                number=self._number,
                group_time_ns=self._clock.now_ns(self.state),
                epoch=self.state.epoch if epoch is None else epoch,
                want=want,
                flags=flags,
                sections=list(sections),
            )
            self._number = (self._number + 1) & 0xFFFFFFFF
            self._calls += 1
        try:
            ref = self._writer.append(pack_operation(operation, self._reader.seed), mode=mode)
            assert ref is not None
            self._own.ref = ref
            with self._applying:
                self._apply_all()
                outcome = self._outcomes.pop(ref, None)
        finally:
            with self._appending:
                self._calls -= 1
        if outcome is None:
            raise UnknownOutcomeError(f"{self.path}: the operation at {ref} was applied, and its effect is not known")
        if ref.number > max(self._reader.checkpoint_number, NUMBER_FIRST):
            self._write_checkpoint()
        return outcome

    def catch_up(self) -> None:
        """Apply all operations of other processes so far.  Raises: as a Reader; CorruptError."""
        with self._applying:
            self._apply_all()

    def _apply_all(self) -> None:
        if self._failure is not None:
            raise self._failure
        if not self._calls:
            self._outcomes.clear()  # of calls that ended with an exception, and of other processes
        is_restart, self._is_interrupted = self._is_interrupted, True
        try:
            for ref, applied in self._reader.restart() if is_restart else self._reader.advance():
                if self._calls and applied.seat in (self.seat, NO_SEAT):
                    self._outcomes[ref] = applied.outcome
        except CorruptError as error:
            self._failure = error
            raise
        self._is_interrupted = False

    def _write_checkpoint(self) -> None:
        """Append the state to a file of the log that has no checkpoint, and remove files of the distant past."""
        if self._is_checkpointing or time.monotonic() < self._checkpoint_at:
            return
        self._is_checkpointing = True
        try:
            self.submit([], flags=MARK, anonymous=True)
            with self._applying:
                marked = self._reader.marked
            assert marked is not None
            self.submit([(Kind.CHECKPOINT, marked.pack())], anonymous=True, mode=Mode.SYNC)
            prune(self.path, keep_bytes=_HISTORY_BYTES, before=Ref(marked.mark.number, 0))
        except (FullError, BusyError):
            # The operation before counts all the same, and a later one tries again.
            self._checkpoint_at = time.monotonic() + _CHECKPOINT_SECONDS
        finally:
            self._is_checkpointing = False

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

    def sync(self) -> None:
        """Wait until all operations are durable."""
        self._writer.sync()

    def close(self) -> None:
        """Make all operations durable, and close the log."""
        try:
            self._reader.close()
        finally:
            self._writer.close()
