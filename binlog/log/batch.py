"""Entry, Batch and Refs: records as a reader returns them, one by one or many at once."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple, Protocol, overload

from binlog._codec import find_json_members, frame_records
from binlog.errors import BinlogError, FullError, StateError
from binlog.format.checksums import crc32c
from binlog.format.record import LENGTH_BYTES, RECORD_BYTES_FORMAT_MAX, Ref, Stop, frame_column, scan, unframe_column
from binlog.format.values import plain_bytes
from binlog.storage.native import BatchIterator

_PACKED_BYTES_MAX = 2**31 - 1
_OFFSET_MAX = 2**32 - 1


RawBatch = tuple[int, int, bytes, bytes, int | None]
"""The records of one read, from which a Batch is made: number, offset, data, offsets, sequence.

The offsets are those of a Batch, as bytes; the data may continue after the last record.
"""


class RecordLookup(Protocol):
    """Finds facts about a record in its log."""

    def sequence(self, ref: Ref) -> int | None:
        """Return the sequence number of the record at a ref."""

    def time(self, ref: Ref) -> datetime:
        """Return the time at which the record was in the file."""


class Entry(NamedTuple):
    """A record and its ref.  `sequence` and `time` of an entry from a Reader are read from the log on each use."""

    ref: Ref
    data: bytes

    @property
    def next_ref(self) -> Ref:
        """The ref after this record, at which a later reader resumes."""
        return Ref(self.ref.number, self.ref.offset + LENGTH_BYTES + len(self.data))

    @property
    def sequence(self) -> int | None:
        """The number of records in the log before this one; None if another program made the file.

        Each use reads the log's index, in some 0.1 ms.  Raises: GoneError if the file was removed; StateError if the
        entry is not from a Reader; AccessError, CorruptError.
        """
        return self._lookup().sequence(self.ref)

    @property
    def time(self) -> datetime:
        """The time in UTC at which the record was in the file: of its commit, or of 64 KiB of records together.

        If the index does not cover the record yet, or does not exist, it is the file's time of modification.
        Each use reads the log's index, in some 0.1 ms.  Raises: as `sequence`.
        """
        return self._lookup().time(self.ref)

    def __reduce__(self) -> tuple[type[Entry], tuple[Ref, bytes]]:
        return Entry, (self.ref, self.data)

    def _lookup(self) -> RecordLookup:
        # An attribute of the type that `entry_type` makes for each log.
        records: RecordLookup | None = getattr(self, "_records", None)
        if records is None:
            raise StateError("this entry is not from a Reader, so its log is not known")
        return records


class JsonMember(NamedTuple):
    """A member of a JSON object, to find the records that may have it.

    key: the text of its key with the quotes, as `"level"`; without the opening quote, any key that ends so.
    starts: the value begins with one of these, as `"WARN`; with anything if there are none.
    top_level: only a member of the record's own object counts, and not one of an object in it.
    """

    key: bytes
    starts: tuple[bytes, ...] = ()
    top_level: bool = True


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records of one file, as the file stores them.

    number: of the file.  offset: of `data` in the file.
    data: the records with their 4-byte lengths; bytes from a reader, else as given to the constructor.
    offsets: a uint32 memoryview with one item more than records: record i is data[offsets[i] + 4 : offsets[i + 1]].
    first_sequence: the sequence number of the first record, or None if it is not known.

    `len()` counts the records, and iterating gives each as bytes.
    """

    number: int
    offset: int
    data: bytes | memoryview
    offsets: memoryview
    first_sequence: int | None
    _entry_type: type[Entry] = field(default=Entry, repr=False, compare=False)

    @classmethod
    def of(cls, found: RawBatch, entry_type: type[Entry] = Entry) -> Batch:
        """Make a batch of a read's records, without the bytes after the last one."""
        number, offset, data, places, sequence = found
        offsets = memoryview(places).cast("I")
        return cls(number, offset, data[: offsets[-1]], offsets, sequence, entry_type)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[bytes]:
        return self._iterate(BatchIterator())

    def refs(self) -> list[Ref]:
        """Return the ref of each record."""
        number, base = self.number, self.offset
        return [Ref(number, base + start) for start in self.offsets[:-1]]

    def entries(self) -> list[Entry]:
        """Return each record with its ref."""
        return list(self._iterate(BatchIterator(Ref, self._entry_type)))

    @property
    def next_ref(self) -> Ref:
        """The ref after the last record, in this file."""
        return Ref(self.number, self.offset + self.offsets[-1])

    def before(self, offset: int) -> Batch:
        """Return the records before an offset of the file, where a record starts or ends."""
        count = bisect_left(self.offsets, offset - self.offset)
        if count >= len(self):
            return self
        return replace(self, data=self.data[: self.offsets[count]], offsets=self.offsets[: count + 1])

    @classmethod
    def from_packed(cls, values: bytes | bytearray | memoryview, bounds: memoryview) -> Batch:
        """Make a batch to append, of records in one run without their lengths, as `packed` returns them.

        bounds: int32, one item more than records.  Raises: ValueError if they do not rise within the values.
        """
        data, offsets = frame_column(values, bounds)
        return cls(0, 0, data, offsets, None)

    @classmethod
    def from_records(cls, records: Iterable[bytes | bytearray | memoryview]) -> Batch:
        """Make a batch to append, of single records, at most 4 GiB together."""
        framed = frame_records([plain_bytes(record) for record in records], RECORD_BYTES_FORMAT_MAX)
        assert framed is not None
        data, starts = framed
        if len(data) > _OFFSET_MAX:
            raise ValueError(f"a batch of {len(data)} bytes is too large for 32-bit offsets")
        offsets = array("I", memoryview(starts).cast("Q"))
        offsets.append(len(data))
        return cls(0, 0, data, memoryview(offsets), None)

    @classmethod
    def from_framed(cls, data: bytes | memoryview) -> Batch:
        """Make a batch to append, of the whole records at the start of a run of records with their 4-byte lengths.

        Bytes after the last whole record, from `offsets[-1]` on, are left out; if the first record is not whole, the
        batch is empty.
        data: at most 4 GiB; a memoryview is not copied, so its bytes must not change while the batch is in use.
        Raises: ValueError for a length that no record can have.
        """
        if len(data) > _OFFSET_MAX:
            raise ValueError(f"a batch of {len(data)} bytes is too large for 32-bit offsets")
        no_end = len(data) + LENGTH_BYTES + RECORD_BYTES_FORMAT_MAX
        found = scan(data, no_end, RECORD_BYTES_FORMAT_MAX, len(data))
        if found.stop is Stop.LENGTH:
            raise ValueError(f"the length at {found.consumed} is not one of a record")
        return cls(0, 0, data[: found.consumed], found.offsets, None)

    def framed(self, *, record_bytes_max: int = RECORD_BYTES_FORMAT_MAX) -> memoryview:
        """Return the records with their lengths in one run, after checking each length.

        Raises: ValueError if the offsets are not those of the records in the data; FullError if a record is larger.
        """
        data = memoryview(self.data)[self.offsets[0] : self.offsets[-1]]
        found = scan(data, len(data), record_bytes_max, len(self))
        if found.stop is Stop.LARGE:
            size = int.from_bytes(data[found.consumed : found.consumed + LENGTH_BYTES], "big")
            limit = record_bytes_max
            raise FullError(f"a record of {size} bytes; the limit is {limit}", limit=limit, size=size)
        if found.record_count != len(self) or found.consumed != len(data):
            raise ValueError("the batch's offsets are not those of the records in its data")
        return data

    def json_candidates(self, members: Iterable[JsonMember], start: int = 0, end: int | None = None) -> memoryview:
        """Return the indexes of the records that may have all of these members, by their bytes; uint32, ascending.

        Each record that is a JSON object in UTF-8 with the members is among them.  Others may be; parse them to know.
        Takes some 0.1 µs a record, where parsing takes microseconds.  If an object has a key twice, either may count.
        start, end: of the records to choose from; all by default.
        """
        last, found = len(self) if end is None else end, None
        for key, starts, top_level in members:
            found = find_json_members(self.data, self.offsets, start, last, found, key, starts, top_level)
        return memoryview(array("I", range(start, last)) if found is None else found).cast("B").cast("I")

    def crc32c(self, before: int = 0) -> int:
        """Return the CRC-32C of the records with their lengths.  before: the CRC of the bytes before, to continue."""
        return crc32c(memoryview(self.data)[self.offsets[0] : self.offsets[-1]], before)

    def packed(self) -> tuple[bytes, memoryview]:
        """Return the records without lengths in one run, and their bounds: int32, one item more than records.

        This is the shape of an Arrow binary column.  Raises: ValueError for 2 GiB or more, or for wrong offsets.
        """
        if len(self.data) > _PACKED_BYTES_MAX:
            raise ValueError(f"a batch of {len(self.data)} bytes is too large for 32-bit bounds")
        return unframe_column(self.data, self.offsets)

    def _iterate(self, iterator: BatchIterator) -> BatchIterator:
        iterator._load(self.number, self.offset, bytes(self.data), self.offsets, self.first_sequence)
        return iterator


class CallerError(Exception):
    """An error of the caller's iterable of batches, as opposed to one of this log, which recovery may repair."""

    def __init__(self, error: BinlogError) -> None:
        super().__init__(str(error))
        self.error = error


def framed_all(batches: Iterable[Batch], record_bytes_max: int) -> Iterator[tuple[memoryview, int]]:
    """Yield the framed records of each batch, and their count.  Raises: CallerError; any error of the iterable."""
    try:
        for batch in batches:
            yield batch.framed(record_bytes_max=record_bytes_max), len(batch)
    except BinlogError as error:
        raise CallerError(error) from error


class Refs(Sequence[Ref]):
    """The refs of consecutive records of one file, each made when it is used.

    Equal to any sequence of the same refs.  Takes 8 bytes a record.
    """

    __slots__ = ("_first", "_number", "_starts")

    def __init__(self, number: int, first: int, starts: bytes) -> None:
        """first: the offset of the run of records in the file.  starts: the offset of each in the run, as uint64."""
        self._number = number
        self._first = first
        self._starts = memoryview(starts).cast("Q")

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Ref: ...
    @overload
    def __getitem__(self, index: slice) -> list[Ref]: ...
    def __getitem__(self, index: int | slice) -> Ref | list[Ref]:
        if isinstance(index, slice):
            return [Ref(self._number, self._first + start) for start in self._starts[index]]
        return Ref(self._number, self._first + self._starts[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[Refs], tuple[int, int, bytes]]:
        return Refs, (self._number, self._first, self._starts.tobytes())

    def __repr__(self) -> str:
        return f"<binlog.Refs of {len(self)}{f' from {self[0]} to {self[-1]}' if len(self) else ''}>"
