"""Index and IndexSearch: a log file's index, and finding places in the log file by it.

Invariant: the index never overrides the log file.  A place from the index is proven by the log file's own bytes: the
entry has its checksum, the bytes of its range have theirs, and exactly n records fill them.  If that fails, the index
gives no place, and the log file is read from its first record.

The times in a log may be wrong, because clocks are.  A time in the future is not believed.  If times contradict each
other, the latest that is believed counts for retention, because a slow clock makes records seem older than they are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from binlog.errors import BinlogError, CorruptError
from binlog.format.index_file import (
    ENTRY_BYTES,
    HEADER_BYTES,
    INDEX_HEADER,
    MAGIC,
    RANGE_BYTES_MAX,
    VERSION,
    IndexEntry,
    Ranges,
    RangeStop,
    entry_columns,
    entry_count,
    entry_offset,
    entry_seed,
    pack_header,
    parse_entry,
)
from binlog.format.log_header import LogHeader
from binlog.format.names import index_file_name
from binlog.format.record import LENGTH_BYTES
from binlog.log.index.record_reading import IndexKey, count_through
from binlog.storage.directory import Directory
from binlog.storage.files import ByteSource, read_at, sync


def believed_ns(time_ns: int, now_ns: int) -> int:
    """Return a time, or 0 if it is in the future."""
    return time_ns if time_ns <= now_ns else 0


def closing_times(known: Sequence[Sequence[int]], now_ns: int) -> list[int]:
    """Return when each file was closed, for retention.

    known: the known times of each file, in order: when it was made, when its records were in it, and last when the next
    file was made.
    A file was closed no earlier than any file before it.  If the last of its times is not believed, it was closed
    before the next files were, or just now.
    """
    found = []
    latest = 0
    for times in known:
        latest = max([latest, *(believed_ns(time_ns, now_ns) for time_ns in times)])
        found.append(latest)
    upper = now_ns
    for index in reversed(range(len(known))):
        if not known[index] or not believed_ns(known[index][-1], now_ns):
            found[index] = max(found[index], upper)
        upper = found[index]
    return found


# A clock that is further ahead or back than this is reported, and its times are not believed.
CLOCK_STEP_NS = 3600 * 10**9
_ENTRIES_AT_ONCE = 1 << 12
# How many damaged entries in a row are skipped to find a sound one.
_DAMAGED_MAX = 64
_VERSION_AT = INDEX_HEADER.offset("version")


class IndexedPlace(NamedTuple):
    """The offset of a record and its sequence number (in a foreign file: counted from its first record)."""

    offset: int
    sequence: int


class Index:
    """An index with the length that it had when it was opened.

    fd: its descriptor, which must stay open while this is used.
    """

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path
        self.header = read_at(fd, HEADER_BYTES, 0, path)
        self.file_bytes = os.fstat(fd).st_size
        self.count = entry_count(self.file_bytes)
        self.seed = 0
        if len(self.header) == HEADER_BYTES:
            values = INDEX_HEADER.unpack(self.header)
            self.seed = entry_seed(number=values["number"], uuid=values["uuid"])

    def refresh(self) -> None:
        """Update `count` with the entries that were added since."""
        self.count = entry_count(os.fstat(self._fd).st_size)

    def fits(self, header: LogHeader) -> bool:
        """Return whether this is the index of the log file with this header."""
        return self.header == pack_header(number=header.number, uuid=header.uuid)

    @property
    def blank(self) -> bool:
        """Whether it counts as none: its header is not whole, or its entries are of an earlier version."""
        cut = len(self.header) < HEADER_BYTES and MAGIC.startswith(self.header[: len(MAGIC)])
        return cut or self.header.count(0) == len(self.header) or self._is_earlier

    @property
    def _is_earlier(self) -> bool:
        version = int.from_bytes(self.header[_VERSION_AT : _VERSION_AT + 2], "big")
        return self.named and 0 < version < VERSION

    @property
    def named(self) -> bool:
        """Whether it begins as an index does, of any log file."""
        return self.header.startswith(MAGIC)

    def entry(self, index: int) -> IndexEntry | None:
        """Return the entry `index`, counted from 0; None if its checksum does not match."""
        return parse_entry(read_at(self._fd, ENTRY_BYTES, entry_offset(index), self._path), self.seed)

    def sound(self, index: int) -> tuple[int, IndexEntry] | None:
        """Return the first entry from `index` on that has its checksum, and its index; None if none is near."""
        for number in range(index, min(index + _DAMAGED_MAX, self.count)):
            entry = self.entry(number)
            if entry is not None:
                return number, entry
        return None

    def entries(self, first: int, count: int) -> bytes:
        """Return the bytes of up to `count` entries."""
        data = read_at(self._fd, min(count, self.count - first) * ENTRY_BYTES, entry_offset(first), self._path)
        return data[: len(data) // ENTRY_BYTES * ENTRY_BYTES]

    def sync(self) -> None:
        """Make the entries durable.  Raises: PoisonedError."""
        sync(self._fd, self._path)

    def count_before(self, offset: int) -> int:
        """Return how many entries are of ranges that end at or before an offset."""
        return self.count_through(IndexKey.END, offset, self.count)

    def count_through(self, key: IndexKey, value: int, count: int) -> int:
        """Return how many of the first `count` entries have a key that is at most `value`."""
        return count_through(self._fd, key, value, count, seed=self.seed)


@contextmanager
def opened_index(directory: Directory, number: int) -> Iterator[Index | None]:
    """Open the index of a log file for a block; yields None if none can be read."""
    name, index = index_file_name(number), None
    with ExitStack() as opened:
        with suppress(BinlogError):
            index = Index(opened.enter_context(directory.opened(name)), directory.file_path(name))
        yield index


def index_path(path: str) -> str:
    """Return the path of the index of a log file or archive, for messages."""
    return os.path.splitext(path.removesuffix(".zst"))[0] + ".idx"


def index_times(directory: Directory, header: LogHeader) -> tuple[int, int] | None:
    """Return the times of the first and the last range of a log file, or None if the index does not have them."""
    with opened_index(directory, header.number) as index:
        count = index.count_before(header.tail) if index is not None and index.fits(header) else 0
        first, last = (index.entry(0), index.entry(count - 1)) if index is not None and count else (None, None)
        return None if first is None or last is None else (first.time_ns, last.time_ns)


class IndexSearch:
    """Finds places in a log file by its index.

    header: the log file's; no place after its tail is returned.
    """

    def __init__(self, index: Index, content: ByteSource, header: LogHeader, path: str) -> None:
        self._index = index if index.fits(header) else None
        self._content = content
        self._header = header
        self._path = path

    def before(self, offset: int) -> IndexedPlace | None:
        """Return the last known place at or before `offset`."""
        return self._start_of(lambda index, count: index.count_through(IndexKey.OFFSET, offset, count) - 1)

    def before_sequence(self, sequence: int) -> IndexedPlace | None:
        """Return the last known place whose sequence number is at most `sequence`."""
        return self._start_of(lambda index, count: index.count_through(IndexKey.SEQUENCE, sequence, count) - 1)

    def after(self, offset: int) -> IndexedPlace | None:
        """Return the first known place after `offset`."""
        place = self._start_of(lambda index, count: index.count_through(IndexKey.OFFSET, offset, count))
        return place if place is not None and place.offset > offset else None

    def after_sequence(self, sequence: int) -> IndexedPlace | None:
        """Return the first known place whose sequence number is higher than `sequence`."""
        place = self._start_of(lambda index, count: index.count_through(IndexKey.SEQUENCE, sequence, count))
        return place if place is not None and place.sequence > sequence else None

    def since(self, time_ns: int) -> IndexedPlace | None:
        """Return the first known place before which nothing was appended at `time_ns` or later.

        It is the end of the index if all its entries are older.  None if the times mean nothing: one is before the file
        was made, or before the time of an earlier range.
        """
        count = self._count()
        first = self._index.entry(0) if self._index is not None and count else None
        if self._index is None or first is None or first.time_ns < believed_ns(self._header.created_ns, time.time_ns()):
            return None
        if not self._is_consecutive(self._index, count):
            return None
        return self._start_of(lambda index, count: index.count_through(IndexKey.TIME_NS, time_ns - 1, count))

    def time_ns_at(self, offset: int) -> int | None:
        """Return when the record at `offset` was in the file, if the index covers it and the file's bytes prove it.

        None if that is long before the file was made.
        """
        count = self._count()
        if self._index is None or count == 0:
            return None
        number = self._index.count_through(IndexKey.OFFSET, offset, count) - 1
        proven = self._proven(number) if number >= 0 else None
        if proven is None or offset >= proven[0].end or self._is_long_before_the_file(proven[0].time_ns):
            return None
        return proven[0].time_ns

    def range_times(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the end and the time of each range from the one with `start` on, up to `end`.

        Empty if the index does not cover `start`, or has a time there that is long before the file was made.  The
        entries are proven by their checksums alone.
        """
        count = self._count()
        first = -1 if self._index is None else self._index.count_through(IndexKey.OFFSET, start, count) - 1
        if self._index is None or first < 0:
            return []
        data = self._index.entries(first, self._index.count_through(IndexKey.OFFSET, end - 1, count) - first)
        _, offsets, times_ns, ends = entry_columns(data)
        sound = Ranges(offsets[0], None, seed=self._index.seed).follow(data, self._header.tail)
        if not sound or ends[0] <= start or self._is_long_before_the_file(times_ns[0]):
            return []
        return list(zip(ends[:sound], times_ns, strict=False))

    def latest_time_ns(self) -> int | None:
        """Return when the last range that the index covers was in the file, if the bytes prove it."""
        count = self._count()
        proven = self._proven(count - 1) if count else None
        return None if proven is None else proven[0].time_ns

    def last_time_ns(self) -> int | None:
        """Return when the last range was in the file, if the index reaches the tail and the bytes prove it."""
        count = self._count()
        proven = self._proven(count - 1) if count else None
        return proven[0].time_ns if proven is not None and proven[0].end == self._header.tail else None

    def _is_long_before_the_file(self, time_ns: int) -> bool:
        return time_ns + CLOCK_STEP_NS < believed_ns(self._header.created_ns, time.time_ns())

    def _count(self) -> int:
        """Return the count of entries up to the tail: a power cut may have lost the bytes of later ones."""
        return 0 if self._index is None else self._index.count_before(self._header.tail)

    def _is_consecutive(self, index: Index, count: int) -> bool:
        """Whether each of the first `count` entries follows from the one before it, in its range and in its time."""
        ranges = Ranges(self._header.first_offset, None, seed=index.seed)
        for at in range(0, count, _ENTRIES_AT_ONCE):
            entries = index.entries(at, min(count - at, _ENTRIES_AT_ONCE))
            if ranges.follow(entries, self._header.tail) * ENTRY_BYTES != len(entries):
                return False
        return True

    def _start_of(self, find: Callable[[Index, int], int]) -> IndexedPlace | None:
        """Return the start of the range that `find` selects, or the end of the index if it selects the next entry."""
        count = self._count()
        if self._index is None or count == 0:
            return None
        number = find(self._index, count)
        proven = self._proven(min(number, count - 1)) if number >= 0 else None
        if proven is None:
            return None
        entry, ranges = proven
        if number < count:
            return IndexedPlace(entry.offset, entry.sequence)
        assert ranges.sequence is not None
        return IndexedPlace(ranges.end, ranges.sequence)

    def _proven(self, number: int) -> tuple[IndexEntry, Ranges] | None:
        """Return an entry, and the position after its range, if the log file's bytes prove it."""
        header, index = self._header, self._index
        entry = None if index is None else index.entry(number)
        if index is None or entry is None or not header.first_offset <= entry.offset < entry.end <= header.tail:
            return None
        if number == 0 and (entry.offset, entry.sequence) != (header.first_offset, header.first_sequence):
            return None
        ranges = Ranges(entry.offset, entry.sequence, seed=index.seed)
        if ranges.verify(entry.pack(index.seed), self._range(entry)) != (1, RangeStop.END):
            return None
        following = index.entry(number + 1) if number + 1 < index.count else None
        # An entry after the tail may be from before a power cut.
        is_consecutive = following is None or following.end > header.tail
        if following is not None and not is_consecutive:
            is_consecutive = (following.offset, following.sequence) == (ranges.end, ranges.sequence)
        return (entry, ranges) if is_consecutive else None

    def _range(self, entry: IndexEntry) -> bytes:
        """Return the bytes of a range; none if it is larger than one can be, or its frame in an archive is damaged."""
        try:
            return self._read_range(entry)
        except CorruptError:
            return b""

    def _read_range(self, entry: IndexEntry) -> bytes:
        if entry.range_bytes > RANGE_BYTES_MAX:
            length = read_at(self._content, LENGTH_BYTES, entry.offset, self._path)
            if LENGTH_BYTES + int.from_bytes(length, "big") != entry.range_bytes:
                return b""
        return read_at(self._content, entry.range_bytes, entry.offset, self._path)
