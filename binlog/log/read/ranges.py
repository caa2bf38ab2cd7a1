"""Splitting a file among readers, and leaving out records that none needs, by its index.

No record is left out that may be asked for: if the index does not prove a place, the range stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from binlog.errors import CorruptError
from binlog.format.record import LENGTH_BYTES
from binlog.log.directory import LogDirectory
from binlog.log.index.index import IndexSearch, opened_index
from binlog.log.read.file_reader import FileReader
from binlog.log.recovery.record_walk import count_records, skip_records
from binlog.storage.files import ByteSource

Bounds = tuple[int | None, int | None]
"""The lowest and the highest value asked for; None for no limit."""

_ANY: Bounds = (None, None)


def split_range(
    path: str | os.PathLike[str], number: int, start: int, end: int, *, bytes_max: int
) -> list[tuple[int, int]]:
    """Split a range of a file into ranges of about `bytes_max` bytes, where the index proves that a record starts.

    An archive is split at its frames, so that no frame is decompressed twice.

    start, end: bounds of records.  A range is larger if the index has no place in it, or if a record is larger.
    Raises: NotFoundError, AccessError, CorruptError, VersionError.
    """
    bounds = [start]
    with _search(path, number) as (file, search):
        while bounds[-1] + bytes_max < end:
            try:
                bound = _bound(file.content, search, bounds[-1], bytes_max)
            except CorruptError:
                break  # reading the range raises it again
            if bound is None or bound >= end:
                break
            bounds.append(bound)
    return list(zip(bounds, [*bounds[1:], end], strict=True))


def _bound(content: ByteSource, search: IndexSearch | None, start: int, bytes_max: int) -> int | None:
    """Return where a range that begins at `start` should end; None if the index has no place for it."""
    if not isinstance(content, int):
        at = content.frame_start(start + bytes_max)
        return at if at > start else content.frame_end(start)
    if search is None:
        return None
    place = search.before(start + bytes_max)
    if place is None or place.offset <= start:
        place = search.after(start)
    return None if place is None else place.offset


def narrow_range(
    path: str | os.PathLike[str],
    number: int,
    start: int,
    end: int,
    *,
    offsets: Bounds = _ANY,
    sequences: Bounds = _ANY,
    times_ns: Bounds = _ANY,
) -> tuple[int, int]:
    """Narrow a range of a file to one with all records that have such offsets, sequence numbers and times.

    The result may have other records too.  Equal bounds: there are none.  A record of unknown time may be left out if
    times are asked for.
    Raises: NotFoundError, AccessError, CorruptError, VersionError.
    """
    starts, ends = [start], [end]
    with _search(path, number) as (file, search):
        header = file.header
        before, beyond = offsets
        if (before is not None and before >= end) or (beyond is not None and beyond < start):
            return start, start
        lowest, highest = sequences
        if header.is_native and header.tail == header.published_tail:
            if highest is not None and highest < header.first_sequence:
                return start, start
            if lowest is not None and lowest >= header.first_sequence + header.record_count:
                return start, start
        if search is None:
            return start, end
        if before is not None:
            place = search.before(before)
            starts += [place.offset] if place else []
        if beyond is not None:
            place = search.after(beyond)
            ends += [place.offset] if place else []
        if lowest is not None and header.is_native:
            place = search.before_sequence(lowest)
            starts += [place.offset] if place else []
        if highest is not None and header.is_native:
            place = search.after_sequence(highest)
            ends += [place.offset] if place else []
        earliest, latest = times_ns
        if earliest is not None:
            place = search.since(earliest)
            starts += [place.offset] if place else []
        if latest is not None:
            place = search.since(latest + 1)
            ends += [place.offset] if place else []
    first, last = min(max(starts), end), max(min(ends), start)
    return (first, last) if first < last else (first, first)


def limit_range(
    path: str | os.PathLike[str], number: int, start: int, end: int, *, records_max: int | None, bytes_max: int | None
) -> tuple[int, int | None]:
    """Return where a range ends if it is limited to n records, or about n bytes, but has one record at least.

    start, end: bounds of records.  Uses the index if there is one; else reads lengths.
    Returns the offset, at most `end`, and with `records_max` also how many records the limited range has, which is
    `records_max` unless there are fewer.
    Raises: NotFoundError, AccessError, CorruptError, VersionError; ValueError if no record starts at `start`.
    """
    with _search(path, number) as (file, search):
        found = end
        if bytes_max is not None and end - start > bytes_max:
            place = search.before(start + bytes_max) if search else None
            found = place.offset if place is not None and start < place.offset < end else start
            if found == start:
                _, found = count_records(file.content, start, start + max(bytes_max, 1), end, file.path)
        if records_max is None:
            return found, None
        first = file.sequence_at(start)
        if first is None or file.header.tail != file.header.published_tail:
            at = skip_records(file.content, start, records_max, found, file.path)
            return at, count_records(file.content, start, at, found, file.path)[0]
        if (found - start) // LENGTH_BYTES > records_max:
            found = min(found, file.offset_of(first + records_max))
        last = file.sequence_at(found)
        assert last is not None
        return found, last - first


@contextmanager
def _search(path: str | os.PathLike[str], number: int) -> Iterator[tuple[FileReader, IndexSearch | None]]:
    with (
        LogDirectory(path) as directory,
        closing(FileReader(directory, number, record_bytes_max=0)) as file,
        opened_index(directory, number) as index,
    ):
        yield file, None if index is None else IndexSearch(index, file.content, file.header, file.path)
