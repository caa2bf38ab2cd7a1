"""Records as they are read: one by one, or many at a time without an object for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from binlog.format.record import LENGTH_BYTES
from binlog.format.ref import Ref
from binlog.storage.native import BatchIterator
from binlog.storage.records import gather

_PACKED_BYTES_MAX = 2**31 - 1


Found = tuple[int, int, bytes, bytes, int | None]
"""Records as they were read, for a Batch to be made of: number, offset, data, places, sequence.

The places are a Batch's offsets as bytes, of which a memoryview is still to be made; the data may go on after the last.
"""


class Entry(NamedTuple):
    """A record and where it lies."""

    ref: Ref
    data: bytes

    @property
    def next_ref(self) -> Ref:
        """Where this record ends: a reader that starts there goes on after it."""
        return Ref(self.ref.number, self.ref.offset + LENGTH_BYTES + len(self.data))


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records of one file, as they lie there.

    number: the file.  offset: where in it `data` starts.
    data: a buffer of the records with their 4-byte lengths.
    offsets: a uint32 memoryview, one longer than there are records: record i is data[offsets[i] + 4 : offsets[i + 1]].
    first_sequence: the sequence number of the first record, or None where it is not known.

    `len()` counts the records, and iterating gives each as bytes.
    """

    number: int
    offset: int
    data: bytes
    offsets: memoryview
    first_sequence: int | None

    @classmethod
    def of(cls, found: Found) -> Batch:
        """What was found, without the bytes that were read after its last record."""
        number, offset, data, places, sequence = found
        offsets = memoryview(places).cast("I")
        return cls(number, offset, data[: offsets[-1]], offsets, sequence)

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
        return list(self._iterate(BatchIterator(Ref, Entry)))

    @property
    def next_ref(self) -> Ref:
        """Where the record after the last one will lie, in this file."""
        return Ref(self.number, self.offset + self.offsets[-1])

    def packed(self) -> tuple[bytearray, memoryview]:
        """The records without their lengths in one run, and its bounds: an int32 memoryview, one longer than records.

        This is the shape of an Arrow binary column.  Raises: ValueError for 2 GiB or more.
        """
        if len(self.data) > _PACKED_BYTES_MAX:
            raise ValueError(f"a batch of {len(self.data)} bytes is too large for 32-bit bounds")
        return gather(self.data, self.offsets)

    def _iterate(self, iterator: BatchIterator) -> BatchIterator:
        iterator._load(self.number, self.offset, self.data, self.offsets, self.first_sequence)
        return iterator
