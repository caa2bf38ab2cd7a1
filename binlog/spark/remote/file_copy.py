"""A sparse local copy of a file in a remote log, which holds only the parts that are read.

The copy has the file's header and index, and then the parts asked for.  The rest is a hole, which reads as zeros, and
zeros are a chain of empty records.  So the first record is overwritten with an invalid length until it is asked for.
A reader that uses the index never reaches a hole, because an index entry is valid only if the bytes around it match
their CRCs.  A reader that does not use the index starts at the first record and meets damage at once; then everything
before the position is copied, and the read is retried.  An archive is copied as a whole, except for its header: its
seek table is at its end, and it is small.

Facts relied on (docs/format.md): a range of an index has at most 64 KiB, unless a single record is larger; two ranges
prove a position; the header of a closed file alone gives its end, unless another program wrote to the file or a commit
is pending in it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Self, TypeVar, cast

import binlog
from binlog import FileStat
from binlog.errors import AccessError, BinlogError, CorruptError, FullError, GoneError, NotFoundError, VersionError
from binlog.moving.remote_directory import RemoteDirectory, RemoteFile

AROUND_BYTES = 4 << 16
"""How much is copied around a position: two ranges, and the same again."""

_HEADER_BYTES = 4096
_TRIES = 2
_NO_LENGTH = b"\xff" * 4

_Found = TypeVar("_Found")
_Error = TypeVar("_Error", bound=Exception)


def log_file_name(number: int, *, archived: bool) -> str:
    """Return `00000001.dat`, or `00000001.dat.zst` for an archive."""
    return f"{number:08d}.dat.zst" if archived else f"{number:08d}.dat"


def _open_either(directory: RemoteDirectory, number: int) -> tuple[RemoteFile, bool]:
    """Open a file, or the archive that replaced it, and return whether it is an archive."""
    try:
        return directory.open(log_file_name(number, archived=False)), False
    except NotFoundError:
        return directory.open(log_file_name(number, archived=True)), True


class FileCopy:
    """A copy of a remote log's file, in a temporary directory of its own.

    path: that directory, which `close` removes.  stat: from the file's header.  archived: whether it is an archive.
    Raises: NotFoundError, AccessError, CorruptError, VersionError; GoneError if the file is truncated meanwhile;
    FullError if there is no space for the copy.
    """

    def __init__(self, directory: RemoteDirectory, number: int) -> None:
        self._remote = directory
        self._number = number
        self._file: RemoteFile | None = None
        self._copied_to = 0  # everything before this offset has been copied
        self._indexed = False
        self._fd = -1
        self.archived = False
        with self._space_errors():
            self.path = tempfile.mkdtemp(prefix="binlog-remote-")
        try:
            self.stat = self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> FileStat:
        """Open the file or its archive, also if it is being archived at this moment."""
        for _ in range(_TRIES):
            try:
                return self._open_once()
            except NotFoundError:
                self._remote.drop_cache()
        return self._open_once()

    def _open_once(self) -> FileStat:
        self._discard()
        self._file, self.archived = _open_either(self._remote, self._number)
        with self._space_errors():
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            name = log_file_name(self._number, archived=self.archived)
            self._fd = os.open(os.path.join(self.path, name), flags, 0o600)
            os.truncate(self._fd, self._size)
        return self._stat()

    def _discard(self) -> None:
        """Remove the copy's files."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        for path in Path(self.path).iterdir():
            path.unlink()
        self._copied_to, self._indexed = 0, False

    def _retry_as_archive(self, copy: Callable[[], None]) -> None:
        """Copy; if the file was archived after its header was copied, copy the archive instead."""
        try:
            copy()
        except NotFoundError:
            self._remote.drop_cache()
            self.stat = self._open()
            copy()

    def _stat(self) -> FileStat:
        self._copy(0, _HEADER_BYTES)
        found = None
        try:
            found = self._read_stat()
        except CorruptError:
            if self._whole:
                raise
        if found is None or (found.closed and not self._end_is_certain(found)):
            self._fetch_all(None)
            return self._read_stat()
        if not self._whole and not self.archived:
            self._write(_NO_LENGTH, found.first_offset)
            self._copied_to = 0
        return found

    def _read_stat(self) -> FileStat:
        with self.renamed_errors():
            [found] = binlog.stat(self.path).files
        return found

    def _end_is_certain(self, found: FileStat) -> bool:
        """Return whether the header alone gives the end of the file."""
        own = found.record_count is not None and found.tail == found.durable_end == self._size
        return own or found.uuid is None or self.archived

    @property
    def _size(self) -> int:
        assert self._file is not None
        return self._file.file_bytes

    @property
    def _whole(self) -> bool:
        return self._copied_to >= self._size

    def fetch(self, start: int, end: int, *, around: int = AROUND_BYTES) -> None:
        """Copy a range of bytes, its surroundings, and the index."""
        self._retry_as_archive(partial(self._fetch, start, end, around))

    def _fetch(self, start: int, end: int, around: int) -> None:
        if not self._indexed:
            self._fetch_index()
        if self.archived:
            self._fetch_all(None)
        elif start - around <= max(self._copied_to, _HEADER_BYTES):
            self._fetch_all(end + around)
        else:
            self._copy(start - around, end + around)

    def fetch_all(self, end: int | None = None) -> None:
        """Copy everything before an offset; by default, or for an archive, the whole file."""
        self._retry_as_archive(partial(self._fetch_all, end))

    def _fetch_all(self, end: int | None) -> None:
        end = self._size if end is None or self.archived else min(end, self._size)
        if end > self._copied_to:
            # Include the header, because the first record is copied with it.
            self._copy(self._copied_to, end)
            self._copied_to = end

    def has_all_before(self, end: int) -> bool:
        """Return whether everything before an offset has been copied, or the whole file."""
        return self._whole or (self._copied_to >= end and not self.archived)

    def query(self, question: Callable[[str], _Found], place: int) -> _Found:
        """Return what `question` finds in the log in `path` around an offset; if necessary, copy everything before it.

        Raises: whatever `question` raises.
        """
        self.fetch(place, place)
        with self.renamed_errors():
            try:
                return question(self.path)
            except CorruptError:
                if self.has_all_before(place):
                    raise
            self.fetch_all(place + AROUND_BYTES)
            return question(self.path)

    def _fetch_index(self) -> None:
        self._indexed = True
        try:
            index = self._remote.open(f"{self._number:08d}.idx")
            data = b"".join(piece for _, piece in index.pieces(0, index.file_bytes))
        except (NotFoundError, AccessError):
            return  # a log can be read without an index
        with self._space_errors():
            Path(self.path, f"{self._number:08d}.idx").write_bytes(data)

    def _copy(self, start: int, end: int) -> None:
        assert self._file is not None
        end = min(end, self._size)
        at = start
        for offset, data in self._file.pieces(start, end):
            self._write(data, offset)
            at = offset + len(data)
        if at < end:
            # A hole would read as zeros, and so as empty records.
            raise GoneError(f"{self._file.url} now ends at {at}; it had {self._size} bytes when it was opened")
        if self._copied_to == start:
            self._copied_to = max(self._copied_to, end)

    def _write(self, data: bytes, offset: int) -> None:
        with self._space_errors():
            view = memoryview(data)
            while view:
                done = os.pwrite(self._fd, view, offset)
                view, offset = view[done:], offset + done

    @contextmanager
    def _space_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            text = f"{self._remote.url}: cannot write a copy of file {self._number}: {error}"
            raise FullError(text) from error

    @contextmanager
    def renamed_errors(self) -> Iterator[None]:
        """Make errors raised in the block name the remote log instead of the copy."""
        try:
            yield
        except (BinlogError, ValueError) as error:
            raise self.renamed(error) from error

    def renamed(self, error: _Error) -> _Error:
        """Return the same error, with the remote log's URL instead of the copy's path."""
        text = str(error).replace(self.path, self._remote.url)
        found: Exception = error
        if isinstance(error, CorruptError):
            path = error.path.replace(self.path, self._remote.url)
            found = CorruptError(path, error.offset, error.rule, error.text.replace(self.path, self._remote.url))
        elif isinstance(error, VersionError):
            found = VersionError(text, found=error.found, known=error.known)
        elif type(error) in (GoneError, NotFoundError, ValueError):
            found = type(error)(text)
        return cast("_Error", found)

    def close(self) -> None:
        """Remove the copy."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        if self.path:
            shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
