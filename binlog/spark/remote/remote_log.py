"""Reading logs that lie in remote file systems: closed files only, which never change.

The driver reads headers, and of large files as much of the index as it takes to divide them; a task copies the part of
a file that it reads to this machine, and reads it as if it had always been here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from binlog import FileStat, Reader, Ref, Since, TimedBatch, split_range
from binlog.errors import GoneError, NotFoundError, StateError
from binlog.spark.columns import Damage
from binlog.spark.log.positions import Position, earliest, latest, resolve
from binlog.spark.log.snapshot import FileRange, fault_between
from binlog.spark.remote.file_copy import AROUND_BYTES, FileCopy, log_file_name
from binlog.spark.remote.remote import RemoteDirectory, shown

_LOG_NAME = re.compile(r"([0-9]{8})\.dat(\.zst)?", re.ASCII)

# What is looked through around the place for a cut: the more, the larger the records can be between which to cut.
_AROUND_CUT_BYTES = (AROUND_BYTES, 16 * AROUND_BYTES)


def remote_files(url: str, *, open_too: bool) -> tuple[FileStat, ...]:
    """The closed files of a remote log.

    open_too: whether one that is open is an error, for it cannot be read; else it is left out.
    Raises: ValueError, ImportError, AccessError, CorruptError, VersionError; StateError for an open file.
    """
    directory = RemoteDirectory(url)
    with ThreadPoolExecutor(directory.at_once) as pool:
        numbers = _numbers(directory.names())
        files = [file for file in pool.map(partial(_stat, directory), numbers) if file is not None]
    following = [file.number for file in files if not file.closed]
    if following and open_too:
        text = (
            f"{directory.url}: file {following[0]} is open, and a remote file system cannot tell how far it is written"
        )
        raise StateError(f"{text}: close it (binlog cutover), or leave it out with includeOpenFile=false")
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
            return replace(copy.stat, path=f"{directory.url}/{name}")
    except NotFoundError:
        return None  # retention removed it since the listing


def resolve_remote(position: Position, url: str, files: Sequence[FileStat], *, fail_on_data_loss: bool) -> Ref:
    """The ref that a position means.  files: one at least.  Raises: as `resolve`."""
    if isinstance(position, Mapping):
        if url not in position:
            names = ", ".join(map(shown, position))
            raise ValueError(f"binlog: there is a position for {names}, and none for {shown(url)}")
        position = position[url]
    if isinstance(position, Since):
        return _place_since(position, url, files)
    if not isinstance(position, Ref) or position < earliest(files):
        # Nothing has to be read for it.
        return resolve(position, shown(url), files, fail_on_data_loss=fail_on_data_loss)
    if position.number not in [file.number for file in files]:
        following = Ref(files[-1].next_number, files[-1].first_offset)
        if position != following:
            raise ValueError(f"binlog: {shown(url)}: {position} is in no closed file; they end at {latest(files)}")
        return latest(files)
    with FileCopy(RemoteDirectory(url), position.number) as copy:
        try:
            return copy.ask(partial(_next_ref, position), position.offset)
        except ValueError as error:
            raise ValueError(f"binlog: {shown(url)}: {error}") from error


def _place_since(position: Since, url: str, files: Sequence[FileStat]) -> Ref:
    """In the first file that is not known to be older as a whole."""
    for file in files:
        with FileCopy(RemoteDirectory(url), file.number) as copy:
            # By the index's last entry, which the file's last bytes prove.
            if copy.ask(partial(_next_ref, position), file.tail).offset < file.tail:
                copy.bring_all()
                return copy.ask(partial(_next_ref, position), file.tail)
    return latest(files)


def _next_ref(position: Ref | Since, path: str) -> Ref:
    with Reader(path, position) as reader:
        return reader.next_ref


def split_remote(url: str, number: int, start: int, end: int, *, bytes_max: int) -> list[tuple[int, int]]:
    """As `binlog.split_range`; an archive is not divided, for each task would copy all of it.

    Raises: NotFoundError, AccessError, CorruptError, VersionError.
    """
    bounds = [start]
    with FileCopy(RemoteDirectory(url), number) as copy, copy.named():
        while not copy.archived and bounds[-1] + bytes_max < end:
            place = bounds[-1] + bytes_max
            for around in _AROUND_CUT_BYTES:
                copy.bring(place, place, around=around)
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
    """Every record of a range.  read: reads it where it lies in a directory of this machine.

    Raises: as it; AccessError, FullError where there is no place for a copy.
    """
    try:
        yield from _read_copied(part, read)
    except NotFoundError as error:
        raise GoneError(f"{shown(part.path)}: file {part.number} was removed since the read was planned") from error


def _read_copied(
    part: FileRange, read: Callable[[FileRange], Iterator[TimedBatch | Damage]]
) -> Iterator[TimedBatch | Damage]:
    with FileCopy(RemoteDirectory(part.path), part.number) as copy, copy.named():
        here = replace(part, path=copy.path)
        copy.bring(part.start, part.end)
        for found in read(here):
            if isinstance(found, Damage) and found.error.offset < part.start and not copy.holds(part.end):
                break  # it came to what was not copied, and that is before all else
            yield _renamed(found, copy)
        else:
            return
        copy.bring_all(part.end + AROUND_BYTES)
        for found in read(here):
            yield _renamed(found, copy)


def _renamed(found: TimedBatch | Damage, copy: FileCopy) -> TimedBatch | Damage:
    return found._replace(error=copy.renamed(found.error)) if isinstance(found, Damage) else found
