"""Walking the record lengths in a range of a file, in large reads, without keeping the data."""

from __future__ import annotations

from bisect import bisect_left

from binlog.errors import CorruptError, FullError
from binlog.format.record import LENGTH_BYTES, RECORD_BYTES_FORMAT_MAX, Stop, scan
from binlog.storage.files import ByteSource, read_at, read_whole_at

_READ_BYTES = 1 << 20
_COUNT_MAX = _READ_BYTES


def count_records(content: ByteSource, start: int, until: int, tail: int, path: str) -> tuple[int, int]:
    """Return the number of records that begin in `start` to `until`, and the end of the last of them.

    The end equals `until` if that is a record boundary, as the tail always is; otherwise it is greater.
    Raises: CorruptError at a length that leads past the tail.
    """
    at, count = start, 0
    while at < until:
        data = read_whole_at(content, min(_READ_BYTES, tail - at), at, path)
        found = scan(data, tail - at, RECORD_BYTES_FORMAT_MAX, _COUNT_MAX)
        if found.record_count:
            before = bisect_left(found.offsets, until - at, 0, found.record_count)
            count += before
            at += found.offsets[before]
        elif found.stop == Stop.LENGTH:
            raise CorruptError(path, at, "length", f"a record's length leads past the tail {tail}")
        elif len(data) < LENGTH_BYTES:
            raise CorruptError(path, at, "truncated", f"the file ends before its tail {tail}")
        else:
            # Longer than one read: skip it by its length.
            count += 1
            at += LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
    return count, at


def last_whole_record_end(content: ByteSource, start: int, end: int, path: str) -> int:
    """Return the end of the last whole record in `start` to `end`."""
    at = start
    while at < end:
        data = read_at(content, min(_READ_BYTES, end - at), at, path)
        found = scan(data, end - at, RECORD_BYTES_FORMAT_MAX, _COUNT_MAX)
        if found.record_count:
            at += found.consumed
        elif found.stop == Stop.LENGTH or len(data) < LENGTH_BYTES:
            break
        else:
            size = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
            if len(data) < _READ_BYTES and at + size > at + len(data):
                break  # the file ends within the record
            at += size
    return at


def is_blank(content: ByteSource, start: int, end: int, path: str) -> bool:
    """Whether the range holds only zeros, up to the end of the file."""
    while start < end and (data := read_at(content, min(_READ_BYTES, end - start), start, path)):
        if data.count(0) != len(data):
            return False
        start += len(data)
    return True


def skip_records(content: ByteSource, start: int, count: int, tail: int, path: str) -> int:
    """Return the offset of the record `count` records after the one at `start`; the tail if there are fewer.

    Raises: CorruptError at a length that leads past the tail.
    """
    at = start
    while count > 0 and at < tail:
        data = read_whole_at(content, min(_READ_BYTES, tail - at), at, path)
        found = scan(data, tail - at, RECORD_BYTES_FORMAT_MAX, min(count, _COUNT_MAX))
        if found.record_count:
            count -= found.record_count
            at += found.consumed
        else:
            _, at = count_records(content, at, at + 1, tail, path)
            count -= 1
    return at


def too_large(number: int, offset: int, size: int, limit: int) -> FullError:
    """Return the error for a record of `size` bytes at `number:offset` that is larger than a reader accepts."""
    return FullError(f"{number}:{offset} is a record of {size} bytes; the limit is {limit}", limit=limit, size=size)
