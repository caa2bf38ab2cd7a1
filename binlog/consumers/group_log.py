"""The log of a group in one process: appends operations, and applies all operations in their order.

An operation is decided by its place in the log: `submit` appends it and then applies everything up to it.  Threads
append side by side, so that they share a sync, and apply one at a time.

The first member that appends to a new file of the log marks a place there, and then appends a checkpoint: the state at
that place.  So older files may be removed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack

from binlog.consumers.clock import GroupClock
from binlog.consumers.logs import LogWriter
from binlog.consumers.settings import Settings
from binlog.consumers.state import GroupState, Outcome
from binlog.consumers.state_reader import StateReader
from binlog.errors import GoneError, InternalError
from binlog.format.consumers.operation import MARK, NO_SEAT, Kind, Operation, Section, Setting, pack_operation
from binlog.format.names import NUMBER_FIRST
from binlog.format.record import Ref
from binlog.log.maintain.prune import prune
from binlog.log.writer import Writer
from binlog.storage.mode import Mode

_FILE_BYTES = 16 << 20
_HISTORY_BYTES = 64 << 20
_OUTCOMES_MAX = 64


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
        self._is_checkpointing = False

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
    ) -> Outcome:
        """Append an operation, and return what it did.

        anonymous: it is no member's.  Blocks and raises: as `Writer.append`.
        """
        with self._appending:
            operation = Operation(
                seat=NO_SEAT if anonymous else self.seat,
                generation=0 if anonymous else self.generation,
                number=self._number,
                group_time_ns=self._clock.now_ns(self.state),
                epoch=self.state.epoch,
                want=want,
                flags=flags,
                sections=list(sections),
            )
            self._number += 1
        ref = self._writer.append(pack_operation(operation, self._reader.seed), mode=mode)
        assert ref is not None
        with self._applying:
            self._apply_all()
            outcome = self._outcomes.pop(ref, None)
        if outcome is None:
            raise InternalError(f"{self.path}: the operation at {ref} was not applied")
        if ref.number > max(self._reader.checkpoint_number, NUMBER_FIRST) and not self._is_checkpointing:
            self._write_checkpoint()
        return outcome

    def catch_up(self) -> None:
        """Apply all operations of other processes so far.  Raises: as a Reader; CorruptError."""
        with self._applying:
            self._apply_all()

    def _apply_all(self) -> None:
        for ref, applied in self._reader.advance():
            if applied.seat in (self.seat, NO_SEAT):
                self._outcomes[ref] = applied.outcome
                if len(self._outcomes) > _OUTCOMES_MAX:
                    # Of a call that ended with an exception, or of another process without a seat.
                    del self._outcomes[min(self._outcomes)]

    def _write_checkpoint(self) -> None:
        """Append the state to a file of the log that has no checkpoint, and remove files of the distant past."""
        self._is_checkpointing = True
        try:
            self.submit([], flags=MARK, anonymous=True)
            with self._applying:
                marked = self._reader.marked
            assert marked is not None
            self.submit([(Kind.CHECKPOINT, marked.pack())], anonymous=True, mode=Mode.SYNC)
            prune(self.path, keep_bytes=_HISTORY_BYTES, before=Ref(marked.mark.number, 0))
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
