"""Dividing a log among many readers, and leaving out what none of them needs, by the index alone.

Nothing is ever left out that might be asked for: where the index does not prove a place, the part stays as it was.
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
from binlog.log.recovery.record_walk import skip, walk
from binlog.storage.files import Content

Bounds = tuple[int | None, int | None]
"""The lowest and the highest that is asked for; None for any."""

_ANY: Bounds = (None, None)


def split(path: str | os.PathLike[str], number: int, start: int, end: int, *, bytes_max: int) -> list[tuple[int, int]]:
    """A part of a file in pieces of about `bytes_max` bytes, cut where the index proves that a record starts.

    An archive is cut where its frames start, so that none is decompressed for two pieces.

    start, end: bounds of records.  A piece is larger where the index does not tell, or a record is.
    Raises: NotFoundError, AccessError, CorruptError, VersionError.
    """
    bounds = [start]
    with _search(path, number) as (file, search):
        while bounds[-1] + bytes_max < end:
            try:
                bound = _bound(file.content, search, bounds[-1], bytes_max)
            except CorruptError:
                break  # who reads it is told
            if bound is None or bound >= end:
                break
            bounds.append(bound)
    return list(zip(bounds, [*bounds[1:], end], strict=True))


def _bound(content: Content, search: IndexSearch | None, start: int, bytes_max: int) -> int | None:
    """Where a piece that begins at `start` is to end; None where nothing tells."""
    if not isinstance(content, int):
        at = content.frame_start(start + bytes_max)
        return at if at > start else content.frame_end(start)
    if search is None:
        return None
    place = search.before(start + bytes_max)
    if place is None or place.offset <= start:
        place = search.after(start)
    return None if place is None else place.offset


def narrow(
    path: str | os.PathLike[str],
    number: int,
    start: int,
    end: int,
    *,
    offsets: Bounds = _ANY,
    sequences: Bounds = _ANY,
    times_ns: Bounds = _ANY,
) -> tuple[int, int]:
    """The part of a part of a file in which records at these offsets, and so numbered and dated, lie, and maybe others.

    Equal bounds: none do.  Records whose time is not known count as having none that is asked for.
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


def forward(
    path: str | os.PathLike[str], number: int, start: int, end: int, *, records_max: int | None, bytes_max: int | None
) -> tuple[int, int | None]:
    """Where one is in a file after so many records, or about so many bytes, from `start` on, and one record at least.

    start, end: bounds of records; never beyond the end.  By the index, where there is one; else lengths are read.
    Returns the offset, and with `records_max` how many records lie before it.
    Raises: NotFoundError, AccessError, CorruptError, VersionError; ValueError where start is no bound of records.
    """
    with _search(path, number) as (file, search):
        found = end
        if bytes_max is not None and end - start > bytes_max:
            place = search.before(start + bytes_max) if search else None
            found = place.offset if place is not None and start < place.offset < end else start
            if found == start:
                _, found = walk(file.content, start, start + max(bytes_max, 1), end, file.path)
        if records_max is None:
            return found, None
        first = file.sequence_at(start)
        if first is None or file.header.tail != file.header.published_tail:
            at = skip(file.content, start, records_max, found, file.path)
            return at, walk(file.content, start, at, found, file.path)[0]
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
