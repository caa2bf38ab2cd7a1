"""Appends of batches: all of their records or none, however many they are.

A batch may belong to a producer, and is then appended once however often the producer retries it.  The records of
external files become files of the log, if that is possible, or are copied to the open file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from binlog.errors import BinlogError, PoisonedError, StateError
from binlog.format.log_header import LogHeader
from binlog.log.append.producers import ProducerBatch
from binlog.log.append.session import Session
from binlog.log.append.writable_file import WritableFile
from binlog.log.batch import Batch, CallerError, framed_all
from binlog.log.ingest.external_file import ExternalFile, consumed
from binlog.log.ingest.ingestion import unknown_outcome

# Returned instead of a batch: this call closed the open file, so retry with the next one.
_CUT_OVER = ProducerBatch("", 0, 0, 0, 0, 0, 0)


def _check_room(file: WritableFile, header: LogHeader) -> None:
    """Raise StateError if the open file cannot take a group that is appended all or none."""
    if not header.is_native:
        raise StateError(f"{file.path} was made by another program, and has no room for this; cut over first")


class BatchAppends:
    """The appends of batches through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def append_batches(
        self, batches: Iterable[Batch], *, producer: str | None = None, sequence: int = 0
    ) -> ProducerBatch | None:
        """See Writer.append_batches and Writer.append_idempotent; None if the batch is in the log already."""

        def append(file: WritableFile, header: LogHeader) -> ProducerBatch | None:
            if self._is_in_log(file, header, producer, sequence):
                return None
            _check_room(file, header)
            runs = framed_all(batches, self._session.options.record_bytes_max)
            return file.append_together(runs, self._session.area, producer=producer, sequence=sequence)

        return self._append_all(append)

    def ingest(
        self, files: Sequence[ExternalFile], *, producer: str | None = None, sequence: int = 0
    ) -> ProducerBatch | None:
        """See Writer.ingest; None if the batch is in the log already."""
        files = [each for each in files if each.record_count]
        if len({each.path for each in files}) < len(files):
            raise ValueError("an external file is given twice")

        decided = False

        def append(file: WritableFile, header: LogHeader) -> ProducerBatch | None:
            nonlocal decided
            if self._is_in_log(file, header, producer, sequence):
                return None
            if not self._session.ingestion.can_take(files):
                _check_room(file, header)
                runs = framed_all(consumed(files), self._session.options.record_bytes_max)
                return file.append_together(runs, self._session.area, producer=producer, sequence=sequence)
            if not self._session.ingestion.ensure_last(file, header):
                return _CUT_OVER
            file.drain(self._session.area, confirm=True)
            found = self._session.ingestion.begin(file, file.header(), files, producer=producer, sequence=sequence)
            decided = True
            return found

        while (found := self._append_all(append)) is _CUT_OVER:
            pass
        if decided:
            self._place_remaining()
        return found

    def _place_remaining(self) -> None:
        """Finish a decided ingest.  Raises: UnknownOutcomeError, whatever the reason; PoisonedError."""
        try:
            self._session.run(lambda file, header: None)
        except PoisonedError:
            raise
        except BinlogError as error:
            raise unknown_outcome(self._session.directory, error) from error

    def _is_in_log(self, file: WritableFile, header: LogHeader, producer: str | None, sequence: int) -> bool:
        """Whether a producer's batch is in the log."""
        last = None if producer is None else self._last_batch(file, header, producer)
        return last is not None and last.sequence >= sequence

    def _append_all(self, append: Callable[[WritableFile, LogHeader], ProducerBatch | None]) -> ProducerBatch | None:
        try:
            found = self._session.run(append)
        except CallerError as given:
            raise given.error from given.error.__cause__
        if found is not None:
            self._session.cut_over_at_limit((found.number, found.start), found.end - found.start)
        return found

    def last_producer_batch(self, producer: str) -> ProducerBatch | None:
        """See Writer.last_producer_batch."""
        return self._session.run(lambda file, header: self._last_batch(file, header, producer))

    def _last_batch(self, file: WritableFile, header: LogHeader, producer: str) -> ProducerBatch | None:
        recorded, unrecorded = file.last_batch(header, producer), self._session.ingestion.unrecorded_batch(producer)
        return max(filter(None, (recorded, unrecorded)), key=lambda batch: batch.sequence, default=None)
