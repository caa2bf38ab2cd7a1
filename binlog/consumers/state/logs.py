"""The logs that a group uses: protocols that a log on the disk fulfils, and the log of the crash model."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from binlog.format.record import Ref
from binlog.log.batch import Batch
from binlog.storage.mode import Mode
from binlog.storage.waiting.bell_watcher import Bell


class LogWriter(Protocol):
    """Appends to a log; see Writer."""

    def append(self, record: bytes, *, mode: Mode) -> Ref | None: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...


class LogReader(Protocol):
    """Reads a log from some record on; see Reader."""

    def read_batch(self, *, records_max: int = ...) -> Batch: ...
    def skip(self, ref: Ref, size: int) -> bool: ...
    def read_to(self, ref: Ref, size: int) -> Batch | None: ...
    def bell_to_wait_on(self) -> tuple[Bell, int, float] | None: ...
    def close(self) -> None: ...


class MessageLog(Protocol):
    """The log whose messages a group hands out."""

    path: str

    def reader_at(self, sequence: int) -> LogReader:
        """Return a reader that begins with this sequence number.  Raises: as a Reader."""

    def first_sequence(self) -> int:
        """Return the sequence number of the first record that the log still has."""

    def make_durable(self, number: int, offset: int) -> bool:
        """Make all records before this place durable; return whether they are.  Blocks: for a sync, if needed."""

    def close(self) -> None: ...


class LastLetter(NamedTuple):
    """The last dead letter in a log, and its number.  record: None if it was removed, or is damaged."""

    number: int
    record: bytes | None


class DeadLetterLog(Protocol):
    """The log of dead letters: see DeadLetters."""

    def append_idempotent(self, batches: list[Batch], *, producer: str, sequence: int) -> object: ...
    def last_letter(self, producer: str) -> LastLetter | None: ...
    def close(self) -> None: ...
