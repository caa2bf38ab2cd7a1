"""As much of a file of a remote log as is asked for, in a sparse file here, for all that reads by system calls.

What is copied of a file is its header and its index, and then what is asked for.  The rest is a hole.  A hole reads
as zeros, and zeros are a chain of empty records: so the first record is overwritten with a length that no record has,
until it is asked for itself.  What reads the file by its index never comes to a hole, for a place in an index is
believed only where the bytes around it have their CRCs; what does not begins at the first record, and meets damage at
once.  Then all that comes before the place is copied, and it is tried again.  An archive is copied as a whole, but for
its header: where in it a place lies, only its end tells, and it is small.

Facts relied on (docs/format.md): a range of an index has 64 KiB at most, but for a record that alone is larger; two
ranges prove a place; a closed file's header alone tells where it ends, unless another program wrote to the file or a
commit is pending in it.
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
from binlog.spark.remote.remote import RemoteDirectory, RemoteFile

AROUND_BYTES = 4 << 16
"""What is copied around a place: two ranges, and as much again."""

_HEADER_BYTES = 4096
_TRIES = 2
_NO_LENGTH = b"\xff" * 4

_Found = TypeVar("_Found")
_Error = TypeVar("_Error", bound=Exception)


def log_file_name(number: int, *, archived: bool) -> str:
    """`00000001.dat`, or `00000001.dat.zst` of an archive."""
    return f"{number:08d}.dat.zst" if archived else f"{number:08d}.dat"


def _open_either(directory: RemoteDirectory, number: int) -> tuple[RemoteFile, bool]:
    """A file, or the archive in its place, and whether it is one."""
    try:
        return directory.open(log_file_name(number, archived=False)), False
    except NotFoundError:
        return directory.open(log_file_name(number, archived=True)), True


class FileCopy:
    """A file of a remote log, in a temporary directory of its own.

    path: that directory, which `close` removes.  stat: what the file's header says.  archived: it is an archive.
    Raises: NotFoundError, AccessError, CorruptError, VersionError; GoneError where the file is cut meanwhile; FullError
    where there is no space for the copy.
    """

    def __init__(self, directory: RemoteDirectory, number: int) -> None:
        self._remote = directory
        self._number = number
        self._file: RemoteFile | None = None
        self._copied_to = 0  # all before is there
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
        """Begin with the file that is there, or the archive in its place; also while it becomes one."""
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
        """Remove what was copied."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        for path in Path(self.path).iterdir():
            path.unlink()
        self._copied_to, self._indexed = 0, False

    def _retry_as_archive(self, copy: Callable[[], None]) -> None:
        """Copy, and where the file has become an archive since its header was copied, of that."""
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
        """Whether nothing but the header is needed to know where the file ends."""
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
        """Copy the bytes from one offset to another, what lies around them, and the index."""
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
        """Copy all before an offset; all there is, unless told, and of an archive."""
        self._retry_as_archive(partial(self._fetch_all, end))

    def _fetch_all(self, end: int | None) -> None:
        end = self._size if end is None or self.archived else min(end, self._size)
        if end > self._copied_to:
            # The header once more, for with it comes the first record.
            self._copy(self._copied_to, end)
            self._copied_to = end

    def has_all_before(self, end: int) -> bool:
        """Whether all before an offset is there, or all there is."""
        return self._whole or (self._copied_to >= end and not self.archived)

    def query(self, question: Callable[[str], _Found], place: int) -> _Found:
        """What a function says of the log in `path`, which reads what lies around a place, or all that comes before.

        Raises: what it raises.
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
            return  # a log is read without one too
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
            # What is not there would read as zeros, and so as empty records.
            raise GoneError(f"{self._file.url} has ended at {at}, and had {self._size} bytes before")
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
            text = f"{self._remote.url}: there is no place for a copy of file {self._number}: {error}"
            raise FullError(text) from error

    @contextmanager
    def renamed_errors(self) -> Iterator[None]:
        """Errors that are raised within name the remote log in place of the copy."""
        try:
            yield
        except (BinlogError, ValueError) as error:
            raise self.renamed(error) from error

    def renamed(self, error: _Error) -> _Error:
        """The same error, of the remote log."""
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
