"""Read the closed files of logs in remote file systems.

The driver reads headers and, to split large files, parts of their indexes.  A task copies its part of a file to this
machine and reads the copy as a local file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from binlog import FileStat, Reader, Ref, Since, TimedBatch, split_range
from binlog.errors import GoneError, NotFoundError, StateError
from binlog.moving.remote_directory import RemoteDirectory, redacted
from binlog.spark.columns import Damage
from binlog.spark.log.positions import Position, earliest, latest, resolve
from binlog.spark.log.snapshot import FileRange, fault_between
from binlog.spark.remote.file_copy import AROUND_BYTES, FileCopy, log_file_name

_LOG_NAME = re.compile(r"([0-9]{8})\.dat(\.zst)?", re.ASCII)

# How much to search around a split point for the end of a record; the second try allows larger records.
_AROUND_CUT_BYTES = (AROUND_BYTES, 16 * AROUND_BYTES)


def remote_files(url: str, *, open_too: bool) -> tuple[FileStat, ...]:
    """Return the closed files of a remote log.

    open_too: whether an open file, which cannot be read, is an error; otherwise it is skipped.
    Raises: ValueError, ImportError, AccessError, CorruptError, VersionError; StateError for an open file.
    """
    directory = RemoteDirectory(url)
    with ThreadPoolExecutor(directory.concurrency_max) as pool:
        numbers = _numbers(directory.names())
        files = [file for file in pool.map(partial(_stat, directory), numbers) if file is not None]
    following = [file.number for file in files if not file.closed]
    if following and open_too:
        text = (
            f"{directory.url}: file {following[0]} is open, and a remote file system does not say where its data ends"
        )
        raise StateError(f"{text}: close it (binlog cutover), or skip it with includeOpenFile=false")
    closed = tuple(file for file in files if file.closed)
    fault = fault_between(closed)
    if fault is not None:
        raise fault
    return closed


def _numbers(names: Iterable[str]) -> list[int]:
    return sorted({int(match[1]) for name in names if (match := _LOG_NAME.fullmatch(name))})


def _stat(directory: RemoteDirectory, number: int) -> FileStat | None:
    try:
        with FileCopy(directory, number) as copy:
            name = log_file_name(number, archived=copy.archived)
            return copy.stat._replace(path=f"{directory.url}/{name}")
    except NotFoundError:
        return None  # retention removed it since the listing


def resolve_remote(position: Position, url: str, files: Sequence[FileStat], *, fail_on_data_loss: bool) -> Ref:
    """Return the ref of a position.  files: at least one.  Raises: as `resolve`."""
    if isinstance(position, Mapping):
        if url not in position:
            names = ", ".join(map(redacted, position))
            raise ValueError(f"binlog: there are positions for {names}, but none for {redacted(url)}")
        position = position[url]
    if isinstance(position, Since):
        return _place_since(position, url, files)
    if not isinstance(position, Ref) or position < earliest(files):
        # These positions need no reads.
        return resolve(position, redacted(url), files, fail_on_data_loss=fail_on_data_loss)
    if position.number not in [file.number for file in files]:
        following = Ref(files[-1].next_number, files[-1].first_offset)
        if position != following:
            text = f"{position} is not in a closed file; they end at {latest(files)}"
            raise ValueError(f"binlog: {redacted(url)}: {text}")
        return latest(files)
    with FileCopy(RemoteDirectory(url), position.number) as copy:
        try:
            return copy.query(partial(_next_ref, position), position.offset)
        except ValueError as error:
            raise ValueError(f"binlog: {redacted(url)}: {error}") from error


def _place_since(position: Since, url: str, files: Sequence[FileStat]) -> Ref:
    """Find the position in the first file that is not known to be entirely older."""
    for file in files:
        with FileCopy(RemoteDirectory(url), file.number) as copy:
            # The index's last entry is proved by the file's last bytes.
            if copy.query(partial(_next_ref, position), file.tail).offset < file.tail:
                copy.fetch_all()
                return copy.query(partial(_next_ref, position), file.tail)
    return latest(files)


def _next_ref(position: Ref | Since, path: str) -> Ref:
    with Reader(path, position) as reader:
        return reader.next_ref


def split_remote(url: str, number: int, start: int, end: int, *, bytes_max: int) -> list[tuple[int, int]]:
    """Split a range as `binlog.split_range` does, but never an archive, because each task would copy all of it.

    Raises: NotFoundError, AccessError, CorruptError, VersionError.
    """
    bounds = [start]
    with FileCopy(RemoteDirectory(url), number) as copy, copy.renamed_errors():
        while not copy.archived and bounds[-1] + bytes_max < end:
            place = bounds[-1] + bytes_max
            for around in _AROUND_CUT_BYTES:
                copy.fetch(place, place, around=around)
                cut = split_range(copy.path, number, bounds[-1], end, bytes_max=bytes_max)[0][1]
                if cut < end:
                    break
            else:
                break
            bounds.append(cut)
    return list(zip(bounds, [*bounds[1:], end], strict=True))


def read_remote(
    part: FileRange, read: Callable[[FileRange], Iterator[TimedBatch | Damage]]
) -> Iterator[TimedBatch | Damage]:
    """Yield every record of a range.  read: reads it from a local directory.

    Raises: as `read`; AccessError; FullError if there is no space for a copy.
    """
    try:
        yield from _read_copied(part, read)
    except NotFoundError as error:
        raise GoneError(f"{redacted(part.path)}: file {part.number} was removed since the read was planned") from error


def _read_copied(
    part: FileRange, read: Callable[[FileRange], Iterator[TimedBatch | Damage]]
) -> Iterator[TimedBatch | Damage]:
    with FileCopy(RemoteDirectory(part.path), part.number) as copy, copy.renamed_errors():
        here = replace(part, path=copy.path)
        copy.fetch(part.start, part.end)
        for found in read(here):
            if isinstance(found, Damage) and found.error.offset < part.start and not copy.has_all_before(part.end):
                break  # the read reached a hole, before it read anything else
            yield _renamed(found, copy)
        else:
            return
        copy.fetch_all(part.end + AROUND_BYTES)
        for found in read(here):
            yield _renamed(found, copy)


def _renamed(found: TimedBatch | Damage, copy: FileCopy) -> TimedBatch | Damage:
    return found._replace(error=copy.renamed(found.error)) if isinstance(found, Damage) else found
