"""The log of a group in one process: appends operations, and applies all operations in their order.

An operation is decided by its place in the log: `submit` appends it and then applies everything up to it.  Threads
append side by side, so that they share a sync, and apply one at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack

from binlog.consumers.clock import GroupClock
from binlog.consumers.logs import LogReader, LogWriter
from binlog.consumers.state import GroupState, Outcome
from binlog.errors import CorruptError, GoneError, InternalError
from binlog.format.consumers.operation import (
    NO_SEAT,
    Kind,
    Operation,
    Section,
    group_seed,
    pack_operation,
    parse_operation,
)
from binlog.format.record import Ref
from binlog.log.directory import LogDirectory
from binlog.log.reader import Reader
from binlog.log.writer import Writer
from binlog.storage.mode import Mode

_RULE = "group_operation"


class GroupLog:
    """The operations of a group, and its state after those that were applied.

    seat, generation: of this member, once it has joined.
    """

    def __init__(self, path: str, writer: LogWriter, reader: LogReader, uuid: bytes, clock: GroupClock) -> None:
        self.path = path
        self._writer, self._reader = writer, reader
        self._clock = clock
        self.seat, self.generation = NO_SEAT, 0
        self._number = 0
        self.state = GroupState()
        self.uuid = uuid
        self._seed = group_seed(uuid)
        self._applying = threading.Lock()
        self._appending = threading.Lock()
        self._applied = Ref(0, 0)
        self._outcomes: dict[Ref, Outcome] = {}

    @classmethod
    def open(cls, path: str, clock: GroupClock) -> GroupLog:
        """Open the log in a directory, and make it if there is none."""
        with ExitStack() as undoing:
            writer = undoing.enter_context(Writer(path))
            reader = undoing.enter_context(Reader(path))
            with LogDirectory(path) as directory:
                uuid = directory.read_header(directory.log_numbers()[-1]).uuid
            undoing.pop_all()
        return cls(path, writer, reader, uuid, clock)

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
        ref = self._writer.append(pack_operation(operation, self._seed), mode=mode)
        assert ref is not None
        with self._applying:
            return self._apply_up_to(ref)

    def catch_up(self) -> None:
        """Apply all operations of other processes so far.  Raises: as a Reader; CorruptError."""
        with self._applying:
            self._apply_batches(None)

    def _apply_up_to(self, ref: Ref) -> Outcome:
        if self._applied < ref:
            self._apply_batches(ref)
        outcome = self._outcomes.pop(ref, None)
        if outcome is None:
            raise InternalError(f"{self.path}: the operation at {ref} was not applied")
        return outcome

    def _apply_batches(self, ref: Ref | None) -> None:
        while len(batch := self._reader.read_batch()):
            for entry in batch.entries():
                self._apply(entry.ref, entry.data)
        if ref is not None and self._applied < ref:
            raise InternalError(f"{self.path}: a reader does not see the operation at {ref}")

    def _apply(self, ref: Ref, record: bytes) -> None:
        operation = parse_operation(record, self._seed)
        if operation is None:
            raise CorruptError(self.path, ref.offset, _RULE, f"the record at {ref} is no operation of this group")
        outcome = self.state.apply(operation)
        self._applied = ref
        if operation.seat == self.seat or operation.seat == NO_SEAT:
            self._outcomes[ref] = outcome
            if len(self._outcomes) > 64:
                # Of calls that ended with an exception, and of other processes without a seat.
                del self._outcomes[min(self._outcomes)]

    def check_usable(self) -> None:
        """Raise GoneError if the group was deleted."""
        if self.state.is_deleted:
            raise GoneError(f"{self.path}: the group was deleted")

    def set_up(self, values: dict[str, object]) -> None:
        """Create the group with these settings, unless it was created."""
        self.catch_up()
        if not self.state.is_created:
            self.submit([(Kind.SETTINGS, {**values, "create": True})], mode=Mode.SYNC, anonymous=True)

    def sync(self) -> None:
        """Wait until all operations are durable."""
        self._writer.sync()

    def close(self) -> None:
        """Make all operations durable, and close the log."""
        try:
            self._reader.close()
        finally:
            self._writer.close()
