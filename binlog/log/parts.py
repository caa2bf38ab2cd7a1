"""Dividing a log among many readers, and leaving out what none of them needs, by the index alone.

Nothing is ever left out that might be asked for: where the index does not prove a place, the part stays as it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from binlog.log.chain import skip, walk
from binlog.log.directory import LogDirectory
from binlog.log.file_reader import FileReader
from binlog.log.index import IndexSearch, open_index

Bounds = tuple[int | None, int | None]
"""The lowest and the highest that is asked for; None for any."""

_ANY: Bounds = (None, None)


def split(path: str | os.PathLike[str], number: int, start: int, end: int, *, bytes_max: int) -> list[tuple[int, int]]:
    """A part of a file in pieces of about `bytes_max` bytes, cut where the index proves that a record starts.

    start, end: bounds of records.  A piece is larger where the index does not tell, or a record is.
    Raises: NotFoundError, AccessError, CorruptError, VersionError.
    """
    bounds = [start]
    with _search(path, number) as (_, search):
        for target in range(start + bytes_max, end, bytes_max):
            place = search.before(target) if search else None
            if place is not None and bounds[-1] < place.offset < end:
                bounds.append(place.offset)
    return list(zip(bounds, [*bounds[1:], end], strict=True))


def narrow(
    path: str | os.PathLike[str],
    number: int,
    start: int,
    end: int,
    *,
    sequences: Bounds = _ANY,
    times_ns: Bounds = _ANY,
) -> tuple[int, int]:
    """The part of a part of a file in which records with these sequence numbers and times lie, and maybe others.

    Equal bounds: none do.  Records whose time is not known count as having none that is asked for.
    Raises: NotFoundError, AccessError, CorruptError, VersionError.
    """
    starts, ends = [start], [end]
    with _search(path, number) as (file, search):
        header = file.header
        lowest, highest = sequences
        if header.ours and header.tail == header.own_tail:
            if highest is not None and highest < header.first_sequence:
                return start, start
            if lowest is not None and lowest >= header.first_sequence + header.record_count:
                return start, start
        if search is None:
            return start, end
        if lowest is not None and header.ours:
            place = search.before_sequence(lowest)
            starts += [place.offset] if place else []
        if highest is not None and header.ours:
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
) -> int:
    """Where one is in a file after so many records, or about so many bytes, from `start` on, and one record at least.

    start, end: bounds of records; never beyond the end.  By the index, where there is one; else lengths are read.
    Raises: NotFoundError, AccessError, CorruptError, VersionError.
    """
    with _search(path, number) as (file, search):
        found = end
        if bytes_max is not None and end - start > bytes_max:
            place = search.before(start + bytes_max) if search else None
            found = place.offset if place is not None and start < place.offset < end else start
            if found == start:
                _, found = walk(file.fd, start, start + max(bytes_max, 1), end, file.path)
        if records_max is not None and (end - start) // 4 > records_max:
            found = min(found, _after(file, start, records_max, end))
        return found


def _after(file: FileReader, start: int, records: int, end: int) -> int:
    sequence = file.sequence_at(start) if file.header.ours else None
    if sequence is None:
        return skip(file.fd, start, records, end, file.path)
    return min(file.offset_of(sequence + records), end)


@contextmanager
def _search(path: str | os.PathLike[str], number: int) -> Iterator[tuple[FileReader, IndexSearch | None]]:
    directory = LogDirectory(path)
    try:
        file = FileReader(directory, number, record_bytes_max=0)
        try:
            index = open_index(directory.fd, number, file.path)
            try:
                yield file, None if index is None else IndexSearch(index, file.fd, file.header, file.path)
            finally:
                if index is not None:
                    index.close()
        finally:
            file.close()
    finally:
        directory.close()
