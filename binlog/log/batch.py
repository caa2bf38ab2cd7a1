"""Records as they are read: one by one, or many at a time without an object for each.

Where the records of one call lie.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol, overload

from binlog._codec import frame_records
from binlog.errors import BinlogError, FullError, StateError
from binlog.format.checksums import crc32c
from binlog.format.record import LENGTH_BYTES, RECORD_BYTES_FORMAT_MAX, Ref, Stop, gather, scan, spread
from binlog.format.values import plain_bytes
from binlog.storage.native import BatchIterator

_PACKED_BYTES_MAX = 2**31 - 1
_OFFSET_MAX = 2**32 - 1


Found = tuple[int, int, bytes, bytes, int | None]
"""Records as they were read, for a Batch to be made of: number, offset, data, places, sequence.

The places are a Batch's offsets as bytes, of which a memoryview is still to be made; the data may go on after the last.
"""


class Places(Protocol):
    """What a log tells of a place."""

    def sequence(self, ref: Ref) -> int | None:
        """Return the sequence number of the record there."""

    def time(self, ref: Ref) -> datetime:
        """Return when the record was in the file."""


class Entry(NamedTuple):
    """A record and where it lies.  Of one that a Reader gave, `sequence` and `time` are looked up when asked for."""

    ref: Ref
    data: bytes

    @property
    def next_ref(self) -> Ref:
        """Where this record ends: a reader that starts there goes on after it."""
        return Ref(self.ref.number, self.ref.offset + LENGTH_BYTES + len(self.data))

    @property
    def sequence(self) -> int | None:
        """How many records of the log came before it; None if another program made the file.

        Each use reads the log's index: some 0.1 ms.  Raises: GoneError if the file was removed; StateError for an entry
        that no Reader gave; AccessError, CorruptError.
        """
        return self._known_places().sequence(self.ref)

    @property
    def time(self) -> datetime:
        """When it was in the file, in UTC, as the index tells: of its commit, or of 64 KiB of records together.

        Of a record that is not in the index yet, and in a file that has none, it is when the file was last written to.
        Each use reads the log's index: some 0.1 ms.  Raises: as `sequence`.
        """
        return self._known_places().time(self.ref)

    def __reduce__(self) -> tuple[type[Entry], tuple[Ref, bytes]]:
        return Entry, (self.ref, self.data)

    def _known_places(self) -> Places:
        # Of the type of a log's entries: see places.py.
        places: Places | None = getattr(self, "_places", None)
        if places is None:
            raise StateError("this entry was not given by a Reader, so its log is not known")
        return places


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records of one file, as they lie there.

    number: the file.  offset: where in it `data` starts.
    data: the records with their 4-byte lengths; bytes from a reader, else what the batch was made of.
    offsets: a uint32 memoryview, one longer than there are records: record i is data[offsets[i] + 4 : offsets[i + 1]].
    first_sequence: the sequence number of the first record, or None where it is not known.

    `len()` counts the records, and iterating gives each as bytes.
    """

    number: int
    offset: int
    data: bytes | memoryview
    offsets: memoryview
    first_sequence: int | None
    _entry_type: type[Entry] = field(default=Entry, repr=False, compare=False)

    @classmethod
    def of(cls, found: Found, entry_type: type[Entry] = Entry) -> Batch:
        """What was found, without the bytes that were read after its last record."""
        number, offset, data, places, sequence = found
        offsets = memoryview(places).cast("I")
        return cls(number, offset, data[: offsets[-1]], offsets, sequence, entry_type)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[bytes]:
        return self._iterate(BatchIterator())

    def refs(self) -> list[Ref]:
        """Where each record lies."""
        number, base = self.number, self.offset
        return [Ref(number, base + start) for start in self.offsets[:-1]]

    def entries(self) -> list[Entry]:
        """Each record with its ref."""
        return list(self._iterate(BatchIterator(Ref, self._entry_type)))

    @property
    def next_ref(self) -> Ref:
        """Where the record after the last one will lie, in this file."""
        return Ref(self.number, self.offset + self.offsets[-1])

    @classmethod
    def from_packed(cls, values: bytes | bytearray | memoryview, bounds: memoryview) -> Batch:
        """A batch to be appended, of records that lie in one run without their lengths: what `packed` gives.

        bounds: int32, one more than there are records.  Raises: ValueError where they do not rise within the values.
        """
        data, offsets = spread(values, bounds)
        return cls(0, 0, data, offsets, None)

    @classmethod
    def from_records(cls, records: Iterable[bytes | bytearray | memoryview]) -> Batch:
        """A batch to be appended, of records at hand, 4 GiB at most."""
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
        """A batch to be appended, of the whole records at the start of a run of records with their 4-byte lengths.

        What follows the last whole one, from `offsets[-1]` on, is left; where the first is not whole there are none.
        data: 4 GiB at most; of a memoryview nothing is copied, so the batch is good as long as what lies there is.
        Raises: ValueError for a length that no record has.
        """
        if len(data) > _OFFSET_MAX:
            raise ValueError(f"a batch of {len(data)} bytes is too large for 32-bit offsets")
        no_end = len(data) + LENGTH_BYTES + RECORD_BYTES_FORMAT_MAX
        found = scan(data, no_end, RECORD_BYTES_FORMAT_MAX, len(data))
        if found.stop is Stop.LENGTH:
            raise ValueError(f"the length at {found.consumed} is none of a record")
        return cls(0, 0, data[: found.consumed], found.offsets, None)

    def framed(self, *, record_bytes_max: int = RECORD_BYTES_FORMAT_MAX) -> memoryview:
        """The records with their lengths in one run, each of which is looked at.

        Raises: ValueError where the data are not the records that the offsets say; FullError for one that is larger.
        """
        data = memoryview(self.data)[self.offsets[0] : self.offsets[-1]]
        found = scan(data, len(data), record_bytes_max, len(self))
        if found.stop is Stop.LARGE:
            size = int.from_bytes(data[found.consumed : found.consumed + LENGTH_BYTES], "big")
            limit = record_bytes_max
            raise FullError(f"a record of {size} bytes; the limit is {limit}", limit=limit, size=size)
        if found.count != len(self) or found.consumed != len(data):
            raise ValueError("the batch's data are not the records that its offsets say")
        return data

    def crc32c(self, before: int = 0) -> int:
        """The CRC-32C of the records with their lengths.  before: the CRC of what comes before them, to go on from."""
        return crc32c(memoryview(self.data)[self.offsets[0] : self.offsets[-1]], before)

    def packed(self) -> tuple[bytes, memoryview]:
        """The records without their lengths in one run, and its bounds: an int32 memoryview, one longer than records.

        This is the shape of an Arrow binary column.  Raises: ValueError for 2 GiB or more, or for wrong offsets.
        """
        if len(self.data) > _PACKED_BYTES_MAX:
            raise ValueError(f"a batch of {len(self.data)} bytes is too large for 32-bit bounds")
        return gather(self.data, self.offsets)

    def _iterate(self, iterator: BatchIterator) -> BatchIterator:
        iterator._load(self.number, self.offset, bytes(self.data), self.offsets, self.first_sequence)
        return iterator


class CallerError(Exception):
    """An error of whoever gives batches to append: not to be taken for one of this log's own, which may be mended."""

    def __init__(self, error: BinlogError) -> None:
        super().__init__(str(error))
        self.error = error


def framed_all(batches: Iterable[Batch], record_bytes_max: int) -> Iterator[tuple[memoryview, int]]:
    """The records of each batch with their lengths, and how many.  Raises: CallerError; what else the batches raise."""
    try:
        for batch in batches:
            yield batch.framed(record_bytes_max=record_bytes_max), len(batch)
    except BinlogError as error:
        raise CallerError(error) from error


class Refs(Sequence[Ref]):
    """The refs of records that lie one after the other in one file, in their order.  Each is made when it is asked for.

    Equal to any sequence of the same refs.  Takes 8 bytes a record.
    """

    __slots__ = ("_first", "_number", "_starts")

    def __init__(self, number: int, first: int, starts: bytes) -> None:
        """`first`: the offset of what begins with the records; `starts`: where in that each begins, as uint64."""
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
