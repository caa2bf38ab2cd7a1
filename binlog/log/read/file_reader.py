"""FileReader: reads one log file or archive while others append to the log.

Facts relied on: a `pread` of 8 aligned bytes is never torn by a `pwrite`, a longer one may be (measured), so a tail is
trusted only by the rule in files/header.py.  Data before a published tail never changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from binlog.errors import CorruptError
from binlog.format.log_header import LOG_HEADER, LogHeader
from binlog.format.record import LENGTH_BYTES, RECORD_BYTES_FORMAT_MAX, Stop, scan
from binlog.log.batch import RawBatch
from binlog.log.directory import LogDirectory
from binlog.log.files.header import HeaderCache
from binlog.log.index.index import IndexedPlace, IndexSearch, opened_index
from binlog.log.index.record_reading import RawRecords
from binlog.log.index.verification import Verification
from binlog.log.recovery.record_walk import count_records, skip_records, too_large
from binlog.storage.files import DecompressedFile, LostFrameError, read_whole_at
from binlog.storage.native import lib, read_published, refresh_and_read
from binlog.storage.waiting.doorbell import Doorbell, Wait

# The bytes of a scan's offsets if it found no record: one offset, where the scan began.
_NO_RECORDS_BYTES = 4

_SAME = int(lib.BINLOG_HEADER_SAME)

_Found = TypeVar("_Found")


class _ArchivedRecords:
    """Reads the records of an archive, whose frames have checksums of their own."""

    def __init__(self, content: DecompressedFile, path: str, record_bytes_max: int) -> None:
        self._content = content
        self._path = path
        self._record_bytes_max = record_bytes_max

    def read(self, offset: int, size: int, to_tail: int, records_max: int, buffer: object) -> RawRecords:
        """As Verification.read."""
        del buffer
        data = read_whole_at(self._content, min(size, to_tail), offset, self._path)
        found = scan(data, to_tail, self._record_bytes_max, records_max)
        return offset, data, bytes(found.offsets), found.stop


class FileReader:
    """A log file, or its archive, open for reading, and the header read last.

    verify: `read` compares records with the index (verification.py).
    """

    def __init__(self, directory: LogDirectory, number: int, *, record_bytes_max: int, verify: bool = False) -> None:
        self.number = number
        self._directory = directory
        self._record_bytes_max = record_bytes_max
        self._doorbell: Doorbell | None = None
        self._records: Verification | _ArchivedRecords | None = None
        self._verify = verify
        self._opened = directory.log_file(number)
        self.identity = self._opened.identity
        self.path = self._opened.path
        self.content = self._opened.content
        try:  # an ExitStack would take a tenth of the time of all this
            self.header_cache = HeaderCache(number, self.path, directory.believe)
            self.header_cache.begin(self.content, self.identity)
        except BaseException:
            self._opened.close()
            raise

    @property
    def header(self) -> LogHeader:
        """The header read last, in full; `header_cache` returns the fields that are asked for most with less work."""
        return self.header_cache.header

    @property
    def intact(self) -> bool:
        """Whether the descriptor still is the file's, and was not closed by other code of this process."""
        return self._opened.intact

    def check_named(self) -> bool:
        """Return whether the name still leads to this file.  Raises: GoneError if the directory was removed or
        moved."""
        return self._directory.check_leads_to(self.number, self.identity)

    def doorbell_and_seen(self) -> tuple[Doorbell, int]:
        """Return the doorbell to wait on, and its value from before the header was read last."""
        if self._doorbell is None:
            assert isinstance(self.content, int), "nothing is waited for in an archive: it is closed, and never changes"
            self._doorbell = Doorbell(self.content, LOG_HEADER.offset("doorbell"))
        return self._doorbell, self.header_cache.doorbell_at_previous_read

    def wake(self) -> None:
        """Wake the waiters on the doorbell."""
        if self._doorbell is not None:
            self._doorbell.wake()

    def prepare_wait(self, timeout: float, offset: int) -> Wait:
        """Return a callable that waits for the doorbell, for `timeout` seconds at most; it may return early.

        If a native writer appended, it returns the records from `offset` on, without another read of the header.  If
        not, pass its result to `end_wait`.
        """
        bell, seen = self.doorbell_and_seen()
        return bell.prepare_wait(self.header_cache.address, seen, timeout, offset, self._record_bytes_max)

    def end_wait(self, result: int | None) -> None:
        """Take the result of a wait that returned no records."""
        self.doorbell_and_seen()[0].end_wait(result)

    def read_new(self, offset: int, sequence: int | None, records_max: int, bytes_max: int) -> RawBatch | bool:
        """Read records at the tail, `offset`, if there are few and the header was read less than a second ago.

        If it reads none: False if there are no more records, True if there may be.
        """
        cache = self.header_cache
        found = refresh_and_read(cache.address, offset, records_max, bytes_max, self._record_bytes_max)
        return (self.number, *found[:3], sequence) if isinstance(found, tuple) else found != _SAME

    def read_published(self, offset: int, end: int, sequence: int | None) -> RawBatch | None:
        """Read records that the caller knows to be published, without reading the header; None if there are many."""
        if self.archived:
            return None
        found = read_published(self.header_cache.address, offset, end, self._record_bytes_max)
        return None if found is None else (self.number, *found[:3], sequence)

    def read(
        self, offset: int, sequence: int | None, records_max: int, bytes_max: int, buffer: bytes | None = None
    ) -> RawBatch:
        """Return the records from `offset` on: at least one if the tail is past it and nothing is damaged.

        bytes_max: how many bytes to read, unless a single record is larger.
        buffer: bytes that no other object has; the data may be read into them.
        Raises: CorruptError; FullError for a record over the limit.  Both come after the records before it.
        """
        cache = self.header_cache
        to_tail = cache.tail - offset
        records = self._records or self._make_records()
        _, data, places, stop = records.read(offset, max(bytes_max, LENGTH_BYTES), to_tail, records_max, buffer)
        if len(places) == _NO_RECORDS_BYTES and stop == Stop.SHORT and len(data) >= LENGTH_BYTES:
            # The record is larger than bytes_max.  The scan has checked its length, so this read is of the right size.
            size = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
            _, data, places, stop = records.read(offset, size, to_tail, 1, None)
        if len(places) == _NO_RECORDS_BYTES and to_tail:
            self._refuse(stop, data, offset)
        return self.number, offset, data, places, None if offset >= cache.after_close_from else sequence

    def sequence_at(self, offset: int) -> int | None:
        """Return the sequence number of the record that starts, or will start, at `offset`, which may be the tail.

        None if the file does not have it.  Reads the lengths of the records from the nearest place in the index on.
        Raises: ValueError if no record starts there; CorruptError.
        """
        header = self.header
        if offset == header.tail == header.published_tail and header.is_native:
            return header.first_sequence + header.record_count
        if header.first_offset <= offset <= header.tail:
            for place in self._places(lambda search: search.before(offset)):
                try:
                    count, end = count_records(self.content, place.offset, offset, header.tail, self.path)
                except LostFrameError:
                    self._check_behind_lost(offset)
                    return None
                if end == offset:
                    return place.sequence + count if header.is_native else None
        raise ValueError(f"{self.number}:{offset} is not the start of a record; the file's tail is {header.tail}")

    def offset_of(self, sequence: int) -> int:
        """Return the offset of the record with this sequence number, or the published tail if that is smaller.

        Raises: CorruptError.
        """
        header = self.header
        if sequence >= header.first_sequence + header.record_count:
            return header.published_tail
        place = self._places(lambda search: search.before_sequence(sequence))[0]
        return skip_records(self.content, place.offset, sequence - place.sequence, header.published_tail, self.path)

    def _check_behind_lost(self, offset: int) -> None:
        """Check that a record starts at `offset`, although frames before it, and so their record counts, are lost.

        Raises: as `sequence_at`.
        """
        assert not isinstance(self.content, int)
        start = self.content.frame_start(offset)
        if count_records(self.content, start, offset, self.header.tail, self.path)[1] != offset:
            raise ValueError(
                f"{self.number}:{offset} is not the start of a record; the file's tail is {self.header.tail}"
            )

    @property
    def archived(self) -> bool:
        """Whether the file is an archive."""
        return not isinstance(self.content, int)

    @property
    def modified_ns(self) -> int:
        """The time of the file's last write, in nanoseconds since 1970 UTC."""
        return self._opened.modified_ns

    def since(self, time_ns: int) -> IndexedPlace:
        """Return the first known place before which nothing was appended at `time_ns` or later.

        It may be the tail.  Without an index it is the file's first record.
        """
        return self._places(lambda search: search.since(time_ns))[0]

    def time_ns_at(self, offset: int) -> int | None:
        """Return when the record at `offset` was in the file, or None if the index does not say."""
        return self._search(lambda search: search.time_ns_at(offset))

    def range_times(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the end and the time of each range of the index from the one with `start` on, up to `end`.

        Empty if the index does not cover `start`; it may end before `end`.
        """
        return self._search(lambda search: search.range_times(start, end)) or []

    @property
    def unindexed_time_ns(self) -> int:
        """When the records that the index does not cover were in the file: at its last write, and after the others."""
        return max(self.modified_ns, self._search(lambda search: search.latest_time_ns()) or 0)

    def last_time_ns(self) -> int | None:
        """Return when the file's last records were in it, or None if the index does not say."""
        return self._search(lambda search: search.last_time_ns())

    def _places(self, find: Callable[[IndexSearch], IndexedPlace | None]) -> list[IndexedPlace]:
        """Return the place that the index has, if any, and the first record's."""
        first = IndexedPlace(self.header.first_offset, self.header.first_sequence)
        found = self._search(find)
        return [first] if found is None else [found, first]

    def _search(self, find: Callable[[IndexSearch], _Found | None]) -> _Found | None:
        with opened_index(self._directory, self.number) as index:
            return None if index is None else find(IndexSearch(index, self.content, self.header, self.path))

    def rest(self) -> None:
        """Close the index and forget the last read, until `read` is called again."""
        if isinstance(self._records, Verification):
            self._records.close_index()
        self._records = None

    def close(self) -> None:
        """Close the file."""
        self.rest()
        if self._doorbell is not None:
            self._doorbell.close()
        self.header_cache.close()
        self._opened.close()

    def _make_records(self) -> Verification | _ArchivedRecords:
        if not isinstance(self.content, int):
            self._records = _ArchivedRecords(self.content, self.path, self._record_bytes_max)
        else:
            self._records = Verification(
                self._directory,
                self._opened,
                self.header,
                seed=self.header_cache.seed,
                record_bytes_max=self._record_bytes_max,
                verify=self._verify,
            )
        return self._records

    def _refuse(self, stop: int, data: bytes, offset: int) -> None:
        if stop == Stop.LARGE:
            raise too_large(self.number, offset, int.from_bytes(data[:LENGTH_BYTES], "big"), self._record_bytes_max)
        if stop == Stop.LENGTH:
            text = f"a record's length is over {RECORD_BYTES_FORMAT_MAX} or leads past the tail {self.header.tail}"
            raise CorruptError(self.path, offset, "length", text)
        raise CorruptError(
            self.path, offset + len(data), "truncated", f"the file ends before its tail {self.header.tail}"
        )
