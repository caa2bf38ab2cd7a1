"""Which files a journal has, oldest first.  Reads, and changes nothing."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from binlog.errors import CorruptError
from binlog.format.journal.compiled import LoadScan, Scan, load_records, scan_records
from binlog.format.journal.file_header import (
    FILE_START_BYTES,
    FileHeader,
    JournalLayout,
    is_cut_header,
    parse_file_header,
)
from binlog.journal.journal_file import JournalFile
from binlog.journal.options import JournalOptions
from binlog.journal.record import Record
from binlog.storage.failures import own_errors
from binlog.storage.files import open_file, read_at


class Listing(NamedTuple):
    """A journal's files.

    layout: what they say; None where there are none.  files: oldest first.  id_max: the largest id that any has, or had
    in its first use.  short: names of files that have not even a header, with the ids of their first uses.
    unfinished: names of those that were being made.
    """

    layout: JournalLayout | None
    files: list[JournalFile]
    id_max: int
    short: dict[str, int]
    unfinished: list[str]


def list_files(folder: str, directory_fd: int, options: JournalOptions) -> Listing:
    """What lies in a folder.

    Raises: CorruptError for a header that is none, two layouts, or two files with one id; VersionError; AccessError;
    ValueError where the files say that the layout is another one.
    """
    names = options.names
    with own_errors(folder, "listing the folder"):
        found = sorted(os.listdir(directory_fd))
    numbers = {name: number for name in found if (number := names.number(name)) is not None}
    files: list[JournalFile] = []
    short: dict[str, int] = {}
    for name, number in numbers.items():
        header, file_bytes = _header(folder, directory_fd, name, options.layout)
        if header is None:
            short[name] = number
        else:
            files.append(JournalFile(folder, directory_fd, name, header, file_bytes))
    files.sort(key=lambda file: file.header.file_id)
    _check_alike(files)
    layout = files[0].header.layout if files else None
    id_max = max((*numbers.values(), *(file.header.file_id for file in files)), default=0)
    return Listing(layout, files, id_max, short, [name for name in found if names.is_unfinished(name)])


def _header(folder: str, directory_fd: int, name: str, layout: JournalLayout | None) -> tuple[FileHeader | None, int]:
    path = os.path.join(folder, name)
    with _opened(directory_fd, name, path) as fd:
        file_bytes = os.fstat(fd).st_size
        start = read_at(fd, FILE_START_BYTES, 0, path)
    if is_cut_header(start):
        return None, file_bytes
    return parse_file_header(start, path, layout), file_bytes


def _check_alike(files: list[JournalFile]) -> None:
    layouts = [file.header.layout for file in files]
    most = max(set(layouts), key=layouts.count, default=None)
    for file in files:
        if file.header.layout is not most:
            text = f"the header is one of the layout {file.header.layout.value!r}, and others are of another"
            raise CorruptError(file.path, 0, "layout", text)
    for one, other_file in itertools.pairwise(files):
        if one.header.file_id == other_file.header.file_id:
            text = f"its id is {one.header.file_id}, and so is that of {one.name}"
            raise CorruptError(other_file.path, 0, "file_id", text)


class ScannedFile(NamedTuple):
    """A file with all that it holds."""

    file: JournalFile
    data: bytes
    scan: Scan


def read_file(file: JournalFile, *, transactions_only: bool = False) -> ScannedFile:
    """All of a file.  Raises: NotFoundError; AccessError."""
    data = read_all(file)
    return ScannedFile(file, data, scan_records(data, file.header, transactions_only=transactions_only))


def read_all(file: JournalFile) -> bytes:
    """All bytes of a file.  Raises: NotFoundError; AccessError."""
    with _opened(file.directory_fd, file.name, file.path) as fd:
        return read_at(fd, file.file_bytes, 0, file.path)


def load_file(file: JournalFile) -> tuple[bytes, LoadScan]:
    """All of a file, and what a load takes of it.  Raises: as `read_file`."""
    data = read_all(file)
    return data, load_records(data, file.header, Record, file.number)


@contextmanager
def _opened(directory_fd: int, name: str, path: str) -> Iterator[int]:
    fd = open_file(directory_fd, name, path, writable=False)
    try:
        yield fd
    finally:
        os.close(fd)
