"""The messages of a group's log: finds new ones, and reads those that a member gets.

No message is named in the group's log before it is durable.  Otherwise another message could get its sequence number
after a power cut, and an acknowledgement of the lost one would apply to it.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress

from binlog._codec import some_record_starts_with
from binlog.consumers.state.group_state import GroupState
from binlog.consumers.state.logs import LogReader, MessageLog
from binlog.consumers.state.state_reader import log_headers
from binlog.errors import CorruptError, GoneError, NotFoundError
from binlog.format.checksums import crc32c
from binlog.format.consumers.message import MAGIC, Message
from binlog.format.consumers.operation import MessageFacts, Window
from binlog.format.record import LENGTH_BYTES, Ref
from binlog.log.batch import Batch, Entry
from binlog.log.directory import LogDirectory
from binlog.log.maintain.fillers import is_filler
from binlog.log.read.start import Sequence, StartPosition
from binlog.log.reader import Reader
from binlog.log.writer import Writer
from binlog.storage.waiting.bell_watcher import Bell

_WINDOW_RECORDS = 1024
_KEPT_BYTES = 1 << 22
_KEPT_BATCHES = 16
_SKIPPED_MAX = 4096


_new = tuple.__new__  # each message comes here, and the constructor of a NamedTuple is slow

StoredRecord = Entry
"""A record of the log, and its place."""


class LogOnDisk:
    """A log in a directory, as a MessageLog."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._directory = LogDirectory(path)
        self._writer: Writer | None = None

    def reader_at(self, sequence: int) -> LogReader:
        """Return a reader that begins with this sequence number."""
        return Reader(self.path, Sequence(sequence))

    def first_sequence(self) -> int:
        """Return the sequence number of the first record that the log still has."""
        return log_headers(self.path)[0].first_sequence

    def make_durable(self, number: int, offset: int) -> bool:
        """Sync the log, unless all records before this place are durable; return whether they are then."""
        if not self._is_durable(number, offset):
            if self._writer is None:
                self._writer = Writer(self.path)
            self._writer.sync()
        # After a failed sync, recovery may have closed the file before these records.
        return self._is_durable(number, offset)

    def _is_durable(self, number: int, offset: int) -> bool:
        try:
            header = self._directory.read_header(number)
        except NotFoundError:
            return True  # retention removed the file, because the group was done with it
        return (header.tail if header.closed else header.confirmed_end) >= offset

    def close(self) -> None:
        """Close the files."""
        if self._writer is not None:
            self._writer.close()
        self._directory.close()


class MessageSource:
    """The messages of a log, by sequence number, and those in memory that were read ahead.  Threads may share it."""

    def __init__(self, log: MessageLog) -> None:
        self._log = log
        self._mutex = threading.Lock()
        self._next: LogReader | None = None
        self._next_sequence = -1
        self._older: LogReader | None = None  # reads what other members have named
        self._older_sequence = 0
        self._kept: deque[tuple[int, int, Batch]] = deque()  # sequences from first to end, and batches; newest first
        self._kept_bytes = 0

    def window(self, first: int, *, to_group_ns: int = 0, records_max: int = _WINDOW_RECORDS) -> Window | None:
        """Return the durable messages from a sequence number on, or None if there are none yet.

        to_group_ns: group time minus the wall clock.
        Blocks: for a sync of the log, if producers have not synced the messages.
        Raises: GoneError, CorruptError and others, as a Reader.
        """
        with self._mutex:
            reader = self._reader_at(first)
            self._next_sequence = -1  # if an exception ends this, the next call opens another reader
            batch = reader.read_batch(records_max=records_max)
            if not len(batch):
                self._next_sequence = first
                return None
            if batch.first_sequence != first:
                text = (
                    f"sequence {first} is expected at {batch.number}:{batch.offset}, which has {batch.first_sequence}"
                )
                raise CorruptError(self._log.path, batch.offset, "sequence", text)
            end = batch.next_ref
            if not self._log.make_durable(end.number, end.offset):
                return None
            self._keep(first, batch)
            self._next_sequence = first + len(batch)
        messages: tuple[MessageFacts, ...] = ()
        if some_record_starts_with(batch.data, batch.offsets, MAGIC):
            facts = [facts_of(record, to_group_ns) for record in batch]
            messages = tuple(facts) if any(map(any, facts)) else ()
        last = _record(batch, len(batch) - 1).data
        return Window(first, len(batch), (end.number, end.offset), crc32c(last), messages)

    def read(self, sequence: int) -> StoredRecord:
        """Return a message.  Raises: GoneError, CorruptError and others, as a Reader."""
        for first, end, batch in self._kept:
            if first <= sequence < end:
                return _record(batch, sequence - first)
        with self._mutex:
            first, batch = self._batch_with(sequence)
            self._keep(first, batch)
            return _record(batch, sequence - first)

    def _batch_with(self, sequence: int) -> tuple[int, Batch]:
        """Read on to the batch that has a message: the messages that a member gets rise, with gaps for the others'."""
        reader, first = self._older, self._older_sequence
        self._older = None  # if an exception ends this, the next call opens another reader
        if reader is not None and first <= sequence < first + _SKIPPED_MAX:
            with suppress(GoneError):  # retention removed what is between, and perhaps not the message
                return self._read_on(reader, first, sequence)
        if reader is not None:
            reader.close()
        return self._read_on(self._log.reader_at(sequence), sequence, sequence)

    def _read_on(self, reader: LogReader, first: int, sequence: int) -> tuple[int, Batch]:
        while len(batch := reader.read_batch()):
            if sequence < first + len(batch):
                self._older, self._older_sequence = reader, first + len(batch)
                return first, batch
            first += len(batch)
        reader.close()
        raise GoneError(f"{self._log.path}: there is no message {sequence}")

    @property
    def path(self) -> str:
        """The log's directory."""
        return self._log.path

    def check_history(self, state: GroupState) -> None:
        """Check that the log still has the last message that the group knows, unless retention removed it.

        Raises: CorruptError (rule `other_history`) if the log was restored from an older copy, or was cut.  New
        messages would get the sequence numbers of lost ones then, and the group would take them for done.
        """
        if state.witness is None:
            return
        sequence, (end, crc) = state.known_end - 1, state.witness
        try:
            record: StoredRecord | None = self.read(sequence)
        except CorruptError:
            return  # it is damaged, and its place is the same
        except (GoneError, ValueError):
            if self._log.first_sequence() > sequence:
                return
            record = None
        if record is not None:
            number, offset = record.ref
            is_known = crc32c(record.data) == crc and (number, offset + LENGTH_BYTES + len(record.data)) == end
            if is_known or is_filler(self.path, record.ref, record.data):
                return
        text = f"message {sequence} is not the one that the group had, because the log is an older copy, or was cut"
        raise CorruptError(self.path, end[1], "other_history", f"{text}; reset the group")

    def first_sequence(self) -> int:
        """Return the sequence number of the first message that the log still has."""
        return self._log.first_sequence()

    def bell_to_wait_on(self, first: int) -> tuple[Bell, int, float] | None:
        """Return as `Reader.bell_to_wait_on`, for the message with this sequence number."""
        with self._mutex:
            return self._reader_at(first).bell_to_wait_on()

    def close(self) -> None:
        """Close the files."""
        for reader in (self._next, self._older):
            if reader is not None:
                reader.close()
        self._log.close()

    def _reader_at(self, sequence: int) -> LogReader:
        if self._next is None or self._next_sequence != sequence:
            if self._next is not None:
                self._next.close()
            self._next = self._log.reader_at(sequence)
            self._next_sequence = sequence
        return self._next

    def _keep(self, first: int, batch: Batch) -> None:
        kept, kept_bytes = deque([(first, first + len(batch), batch), *self._kept]), self._kept_bytes + len(batch.data)
        while len(kept) > 1 and (kept_bytes > _KEPT_BYTES or len(kept) > _KEPT_BATCHES):
            kept_bytes -= len(kept.pop()[2].data)
        self._kept, self._kept_bytes = kept, kept_bytes  # a thread may read the one before


def _record(batch: Batch, index: int) -> StoredRecord:
    start, end = batch.offsets[index], batch.offsets[index + 1]
    ref = _new(Ref, (batch.number, batch.offset + start))
    return _new(StoredRecord, (ref, bytes(batch.data[start + LENGTH_BYTES : end])))


def facts_of(record: bytes, to_group_ns: int) -> MessageFacts:
    """Return the facts about a message that its group needs.  to_group_ns: group time minus the wall clock."""
    if not record.startswith(MAGIC):
        return MessageFacts()
    message = Message.parse(record)
    key_hash = 0
    if message.key is not None:
        from hashlib import blake2b  # it loads OpenSSL, 4 MiB, and many groups have no keys

        # 0 means no key.
        key_hash = int.from_bytes(blake2b(message.key, digest_size=8).digest()) or 1
    times = [max(each + to_group_ns, 1) if each else 0 for each in (message.due_ns, message.expiry_ns)]
    return MessageFacts(key_hash, *times)


def sequence_at(path: str, start: StartPosition) -> int:
    """Return the sequence number at which a group begins that starts there.  Raises: as a Reader."""
    with Reader(path, start) as reader:
        batch = reader.read_batch(records_max=1)
        ref = reader.next_ref
    if batch.first_sequence is not None and len(batch):
        _make_durable(path, batch.number, batch.offset)
        return batch.first_sequence
    with LogDirectory(path) as directory:
        numbers = directory.numbers()
        if not numbers:
            return 0
        header = directory.read_header(ref.number if ref.number in numbers else numbers[-1])
    _make_durable(path, header.number, header.tail)
    return header.first_sequence + header.record_count


def _make_durable(path: str, number: int, offset: int) -> None:
    """Make the messages before a start durable: others could get their sequence numbers after a power cut."""
    log = LogOnDisk(path)
    try:
        log.make_durable(number, offset)
    finally:
        log.close()
