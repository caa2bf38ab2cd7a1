"""Reading one log file while others append to it.

Facts relied on: a `pread` of 8 aligned bytes is never torn by a `pwrite`, one of more may be (measured), so a tail is
believed only as header_reading says.  Data before a published tail never changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from binlog.errors import CorruptError
from binlog.format.log_header import LOG_HEADER, LogHeader
from binlog.format.record import LENGTH_BYTES, RECORD_BYTES_FORMAT_MAX, Stop, scan
from binlog.log.batch import Found
from binlog.log.directory import LogDirectory
from binlog.log.files.header import KnownHeader
from binlog.log.index.index import IndexedPlace, IndexSearch, opened_index
from binlog.log.index.verification import Verification
from binlog.log.recovery.record_walk import skip, too_large, walk
from binlog.storage.files import LostFrameError, Unpacked, read_whole_at
from binlog.storage.native import lib, look_and_read
from binlog.storage.record_reading import FoundAt
from binlog.storage.waiting.doorbell import Doorbell, Wait

# The one place, four bytes, that a scan gives that found no record: where it began.
_NO_PLACES = 4

_SAME = int(lib.BINLOG_HEADER_SAME)

_Found = TypeVar("_Found")


class _UnpackedRecords:
    """Reads the records of an archive, whose frames have checksums of their own."""

    def __init__(self, content: Unpacked, path: str, record_bytes_max: int) -> None:
        self._content = content
        self._path = path
        self._record_bytes_max = record_bytes_max

    def read(self, offset: int, size: int, to_tail: int, records_max: int, buffer: object) -> FoundAt:
        """As Verification.read."""
        del buffer
        data = read_whole_at(self._content, min(size, to_tail), offset, self._path)
        found = scan(data, to_tail, self._record_bytes_max, records_max)
        return offset, data, bytes(found.offsets), found.stop


class FileReader:
    """A log file, or its archive, open for reading, and the header last read from it.

    verify: `read` compares what it reads with the index (verification.py).
    """

    def __init__(self, directory: LogDirectory, number: int, *, record_bytes_max: int, verify: bool = False) -> None:
        self.number = number
        self._directory = directory
        self._record_bytes_max = record_bytes_max
        self._doorbell: Doorbell | None = None
        self._records: Verification | _UnpackedRecords | None = None
        self._verify = verify
        self._opened = directory.log_file(number)
        self.identity = self._opened.identity
        self.path = self._opened.path
        self.content = self._opened.content
        try:  # for an ExitStack takes a tenth of what all of this does
            self.known = KnownHeader(number, self.path, directory.believe)
            self.known.begin(self.content, self.identity)
        except BaseException:
            self._opened.close()
            raise

    @property
    def header(self) -> LogHeader:
        """The header last read, in full; `known` tells what is asked for most with less work."""
        return self.known.header

    @property
    def intact(self) -> bool:
        """Whether the descriptor was not closed behind our back."""
        return self._opened.intact

    def check_named(self) -> bool:
        """Whether the name of the file still leads to it.  Raises: GoneError if the directory went."""
        return self._directory.check_leads_to(self.number, self.identity)

    def doorbell_and_seen(self) -> tuple[Doorbell, int]:
        """The bell to wait on, and its value as it was before the last look."""
        if self._doorbell is None:
            assert isinstance(self.content, int), "nothing is waited for in an archive: it is closed, and never changes"
            self._doorbell = Doorbell(self.content, LOG_HEADER.offset("doorbell"))
        return self._doorbell, self.known.bell_before

    def wake(self) -> None:
        """Wake whoever waits for the bell."""
        if self._doorbell is not None:
            self._doorbell.wake()

    def waiting(self, timeout: float, offset: int) -> Wait:
        """Return a callable that waits for the bell, for `timeout` seconds at most; it may return early.

        If the bell rang for an append of ours, it returns the records from `offset` on, with no other look at the
        header.  If not, pass what it returned to `waited`.
        """
        bell, seen = self.doorbell_and_seen()
        return bell.waiting(self.known.address, seen, timeout, offset, self._record_bytes_max)

    def waited(self, result: int | None) -> None:
        """Take what a wait returned in place of records."""
        self.doorbell_and_seen()[0].waited(result)

    def read_new(self, offset: int, sequence: int | None, records_max: int, bytes_max: int) -> Found | bool:
        """Look for more at the tail, `offset`; read it if it is little and the last look is less than a second old.

        If it reads nothing: False if there is nothing more, True if there may be.
        """
        known = self.known
        found = look_and_read(known.address, offset, records_max, bytes_max, self._record_bytes_max)
        return (self.number, *found[:3], sequence) if isinstance(found, tuple) else found != _SAME

    def read(
        self, offset: int, sequence: int | None, records_max: int, bytes_max: int, buffer: bytes | None = None
    ) -> Found:
        """The records from `offset` on, one at least where the tail is beyond it and nothing is damaged.

        bytes_max: what to read, in bytes, but for a record that alone is larger.
        buffer: bytes that nobody else has: they may be written over, and be the data.
        Raises: CorruptError; FullError for a record over the limit.  What precedes it was returned before.
        """
        known = self.known
        to_tail = known.tail - offset
        records = self._records or self._make_records()
        _, data, places, stop = records.read(offset, max(bytes_max, LENGTH_BYTES), to_tail, records_max, buffer)
        if len(places) == _NO_PLACES and stop == Stop.SHORT and len(data) >= LENGTH_BYTES:
            # A record larger than bytes_max: its length was checked by the scan, so this read is of the right size.
            size = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
            _, data, places, stop = records.read(offset, size, to_tail, 1, None)
        if len(places) == _NO_PLACES and to_tail:
            self._refuse(stop, data, offset)
        return self.number, offset, data, places, None if offset >= known.late_from else sequence

    def sequence_at(self, offset: int) -> int | None:
        """The sequence number of the record that starts at `offset`, or would: that place may be the tail.

        None where the file does not tell.  Reads the lengths of the records between the nearest place that the index
        knows and this one.
        Raises: ValueError where no record starts there; CorruptError.
        """
        header = self.header
        if offset == header.tail == header.published_tail and header.is_native:
            return header.first_sequence + header.record_count
        if header.first_offset <= offset <= header.tail:
            for place in self._places(lambda search: search.before(offset)):
                try:
                    count, end = walk(self.content, place.offset, offset, header.tail, self.path)
                except LostFrameError:
                    self._check_behind_lost(offset)
                    return None
                if end == offset:
                    return place.sequence + count if header.is_native else None
        raise ValueError(f"{self.number}:{offset} does not lie on a record; the file's tail is {header.tail}")

    def offset_of(self, sequence: int) -> int:
        """Where the record with this sequence number starts; the tail of what the header counts where it is higher.

        Raises: CorruptError.
        """
        header = self.header
        if sequence >= header.first_sequence + header.record_count:
            return header.published_tail
        place = self._places(lambda search: search.before_sequence(sequence))[0]
        return skip(self.content, place.offset, sequence - place.sequence, header.published_tail, self.path)

    def _check_behind_lost(self, offset: int) -> None:
        """See that a record starts there, though frames before it are lost, and with them how many there were.

        Raises: as `sequence_at`.
        """
        assert not isinstance(self.content, int)
        start = self.content.frame_start(offset)
        if walk(self.content, start, offset, self.header.tail, self.path)[1] != offset:
            raise ValueError(f"{self.number}:{offset} does not lie on a record; the file's tail is {self.header.tail}")

    @property
    def archived(self) -> bool:
        """Whether it is an archive."""
        return not isinstance(self.content, int)

    @property
    def modified_ns(self) -> int:
        """When the file was last written to."""
        return self._opened.modified_ns

    def since(self, time_ns: int) -> IndexedPlace:
        """The first place known before which nothing was appended at `time_ns` or later.

        It is the file's first record where there is no index, and may be the tail.
        """
        return self._places(lambda search: search.since(time_ns))[0]

    def time_ns_at(self, offset: int) -> int | None:
        """When the record at `offset` is known to have been in the file; None where that is not known."""
        return self._search(lambda search: search.time_ns_at(offset))

    def last_time_ns(self) -> int | None:
        """When the file's last records are known to have been in it; None where that is not known."""
        return self._search(lambda search: search.last_time_ns())

    def _places(self, find: Callable[[IndexSearch], IndexedPlace | None]) -> list[IndexedPlace]:
        """The place that the index gives, if it does, and the first record's."""
        first = IndexedPlace(self.header.first_offset, self.header.first_sequence)
        found = self._search(find)
        return [first] if found is None else [found, first]

    def _search(self, find: Callable[[IndexSearch], _Found | None]) -> _Found | None:
        with opened_index(self._directory, self.number) as index:
            return None if index is None else find(IndexSearch(index, self.content, self.header, self.path))

    def rest(self) -> None:
        """Give back what `read` holds, until it is used again."""
        if isinstance(self._records, Verification):
            self._records.close_index()
        self._records = None

    def close(self) -> None:
        """Give the file back."""
        self.rest()
        if self._doorbell is not None:
            self._doorbell.close()
        self.known.close()
        self._opened.close()

    def _make_records(self) -> Verification | _UnpackedRecords:
        if not isinstance(self.content, int):
            self._records = _UnpackedRecords(self.content, self.path, self._record_bytes_max)
        else:
            self._records = Verification(
                self._directory,
                self._opened,
                self.header,
                seed=self.known.seed,
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
