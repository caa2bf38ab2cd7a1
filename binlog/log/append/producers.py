"""Idempotent producers: each batch is appended once, however often the producer retries.

A producer numbers its batches.  A file next to the log holds the last batch that is in the log.  A second file holds
the pending batch, and is durable before the records are published.  After a crash that file alone does not say whether
they were, because other writers may have appended since.  So the log file's header has Flag.INTENT while a batch is
being appended, and one write publishes the records and clears the flag.  Invariants:

- If the flag is set and the lock is free, the writer died and nothing was appended since.  Every writer checks the flag
  under the lock before anything else.  It resolves each pending batch by comparing the bytes, and then clears the flag.
- If the flag is not set, a pending batch is in the log.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass

from binlog.errors import CorruptError, NotFoundError
from binlog.format.checksums import pack_text, parse_text
from binlog.format.log_header import LogHeader
from binlog.format.names import (
    NUMBER_MAX,
    PENDING_SUFFIX,
    is_pending_file,
    is_producer_file,
    pending_file_name,
    producer_file_name,
)
from binlog.format.record import COUNT_MAX, OFFSET_MAX, Ref
from binlog.log.files.header import validated_header
from binlog.log.recovery.evidence import FileEvidence
from binlog.log.recovery.file_operations import Directory, replace_file
from binlog.storage.file_access import FileAccess
from binlog.storage.files import ByteSource

_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class ProducerBatch:
    """A batch of a producer, and its place in the log.

    producer: the name.  sequence: the batch's number, rising from batch to batch.
    number, start, end: the log file, and the range in it.
    crc: CRC-32C of these bytes.
    """

    producer: str
    sequence: int
    record_count: int
    number: int
    start: int
    end: int
    crc: int

    @property
    def ref(self) -> Ref:
        """The ref of the first record."""
        return Ref(self.number, self.start)


def parse_producer_batch(values: object) -> ProducerBatch:
    """Return the batch that parsed JSON describes.  Raises: ValueError."""
    if not isinstance(values, dict) or set(values) != set(ProducerBatch.__slots__):
        raise ValueError("its keys are not those of a producer batch")
    producer, *numbers = (values[name] for name in ProducerBatch.__slots__)
    if not isinstance(producer, str) or not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("its values are not those of a producer batch")
    batch = ProducerBatch(producer, *numbers)
    within = 1 <= batch.number <= NUMBER_MAX and batch.start <= batch.end <= OFFSET_MAX
    if not within or batch.crc >= 1 << 32 or batch.record_count > COUNT_MAX:
        raise ValueError("its range is outside every log file")
    return batch


class Producers:
    """The producers of a log, in files next to it.  The caller holds the open file's lock for each change.

    access: owner and mode of these files.
    """

    def __init__(self, directory: Directory, access: FileAccess) -> None:
        self._directory = directory
        self._access = access

    def last(self, producer: str) -> ProducerBatch | None:
        """Return the last batch of a producer that is in the log.  The producer must have no pending batch."""
        return self._read(producer_file_name(producer))

    def begin(self, batch: ProducerBatch) -> None:
        """Record durably that this batch is about to be appended."""
        self._write(batch, pending_file_name(producer_file_name(batch.producer)))

    def record(self, batch: ProducerBatch) -> None:
        """Record durably that this batch is the producer's last one, unless a later one is recorded."""
        last = self.last(batch.producer)
        if last is None or last.sequence < batch.sequence:
            self._write(batch, producer_file_name(batch.producer))

    def _write(self, batch: ProducerBatch, name: str) -> None:
        import json  # not needed without a producer

        data = pack_text(json.dumps(asdict(batch)).encode())
        replace_file(self._directory, name, f".{name}", data, self._access)

    def finish(self, producer: str) -> None:
        """Make the pending batch the producer's last one, durably."""
        name = producer_file_name(producer)
        self._directory.rename(pending_file_name(name), name)

    def resolve_intents(self, header: LogHeader, content: ByteSource, path: str) -> None:
        """Resolve every pending batch: keep it if its records are in the log, otherwise discard it.

        header, content, path: of the open file, after its recovery.
        """
        for name in filter(is_pending_file, self._directory.names()):
            batch = self._read(name)
            if batch is None:
                continue
            if self._is_in_log(batch, header, content, path):
                self.finish(batch.producer)
            else:
                self._directory.remove(name)
                # Sync before the flag is cleared: otherwise a power loss could restore the name after other writers
                # have appended.
                self._directory.sync()

    def _is_in_log(self, batch: ProducerBatch, header: LogHeader, content: ByteSource, path: str) -> bool:
        """Whether a batch's records are in the log, by their bytes.

        If another program appended or cut over in the middle of the batch, other bytes are in that range.
        """
        if batch.number == header.number:
            return _holds(batch, header, FileEvidence(content, path))
        if batch.number > header.number:
            return False
        try:
            with self._directory.log_file(batch.number) as file:
                before = validated_header(file.content, batch.number, file.path)
                return _holds(batch, before, FileEvidence(file.content, file.path))
        except NotFoundError:
            return True  # retention removed it, and retention removes only closed files

    def repair(self) -> list[str]:
        """Rewrite each file that has one flipped bit, durably; return their names.  Other damage stays."""
        found = [name for name, problem in damaged_producer_files(self._directory).items() if problem is None]
        for name in found:
            batch = self._read(name)
            if batch is not None:
                self._write(batch, name)
        return found

    def _read(self, name: str) -> ProducerBatch | None:
        found = read_producer_batch(self._directory, name)
        return None if found is None else found[0]


def _holds(batch: ProducerBatch, header: LogHeader, evidence: FileEvidence) -> bool:
    return header.tail >= batch.end and evidence.crc_holds(batch.start, batch.end, batch.crc)


def damaged_producer_files(directory: Directory) -> dict[str, CorruptError | None]:
    """Return the damaged files by name: the error, or None if the damage is one flipped bit, which can be corrected."""
    found: dict[str, CorruptError | None] = {}
    for name in sorted(filter(is_producer_file, directory.names())):
        try:
            read = read_producer_batch(directory, name)
        except CorruptError as error:
            found[name] = error
        else:
            if read is not None and read[1]:
                found[name] = None
    return found


def read_producer_batch(directory: Directory, name: str) -> tuple[ProducerBatch, bool] | None:
    """Return the batch in a file, and whether one flipped bit was corrected in memory; None if the file does not exist.

    Raises: CorruptError; AccessError.
    """
    import json  # not needed without a producer

    path = os.path.join(directory.path, name)
    try:
        data = directory.read(name, _BYTES_MAX)
    except NotFoundError:
        return None
    try:
        body, is_corrected = parse_text(data)
        batch = parse_producer_batch(json.loads(body))
    except (ValueError, RecursionError) as error:
        raise CorruptError(path, 0, "producer", f"it is no producer batch ({error})") from error
    if producer_file_name(batch.producer) != name.removesuffix(PENDING_SUFFIX):
        raise CorruptError(path, 0, "producer", f"it is a batch of {batch.producer!r}, whose file has another name")
    return batch, is_corrected
