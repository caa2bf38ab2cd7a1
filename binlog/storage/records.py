"""Lengths walked by the compiled scan."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from binlog.storage.native import ffi, gather_records, lib, spread_records

# Cleared, each page of an array would be touched, of which the records found mostly fill one.
_uncleared = ffi.new_allocator(should_clear_after_alloc=False)


class Stop(enum.IntEnum):
    """Why a scan ended."""

    END = lib.BINLOG_SCAN_END  # the tail, or as many records as were asked for
    SHORT = lib.BINLOG_SCAN_SHORT  # a record leads past the bytes given
    LENGTH = lib.BINLOG_SCAN_LENGTH  # a length is negative or leads past the tail
    LARGE = lib.BINLOG_SCAN_LARGE  # a record is larger than the limit
    MORE = lib.BINLOG_SCAN_MORE  # of what is read: these are records of whole ranges, more than was asked for


@dataclass(frozen=True, slots=True)
class Scan:
    """count: records found.  consumed: bytes they take.  offsets: count + 1 places in the data, as uint32."""

    count: int
    consumed: int
    stop: Stop
    offsets: memoryview


def scan(data: bytes | memoryview, to_tail: int, record_bytes_max: int, count_max: int) -> Scan:
    """Find complete records from the start of `data`, of which the log's tail is `to_tail` bytes away."""
    # A record takes four bytes at least, so no more fit than this, and a small read makes a small array.
    offsets = _uncleared("uint32_t[]", min(count_max, len(data) // 4) + 1)
    consumed = ffi.new("uint64_t *")
    stop = ffi.new("int *")
    count = lib.binlog_scan(
        ffi.from_buffer("uint8_t[]", data), len(data), to_tail, record_bytes_max, offsets, count_max, consumed, stop
    )
    view = memoryview(ffi.buffer(offsets, 4 * (count + 1))).cast("B").cast("I")
    return Scan(count, consumed[0], Stop(stop[0]), view)


def spread(values: bytes | bytearray | memoryview, bounds: memoryview) -> tuple[bytes, memoryview]:
    """The reverse of `gather`: the records with their lengths in one run, and where each starts, and the last ends."""
    found = spread_records(values, bounds)
    if found is None:
        raise ValueError("bounds are int32, one more than there are records, and rise within the values")
    data, places = found
    return data, memoryview(places).cast("I")


def gather(data: bytes | memoryview, offsets: memoryview) -> tuple[bytes, memoryview]:
    """The records without their lengths in one run, and its bounds as int32, one more than there are records."""
    found = gather_records(data, offsets)
    if found is None:
        raise ValueError("offsets are uint32, one more than there are records, and rise by a length each in the data")
    values, bounds = found
    return values, memoryview(bounds).cast("i")
