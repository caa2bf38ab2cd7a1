"""Directories of file systems that are not this machine's, by their URLs: s3:, gs:, hdfs:, http: and so on.

Facts relied on:

- `pyarrow.fs.FileSystem.from_uri` knows some schemes, and says "Unrecognized filesystem type" of any other; an HDFS
  without its library is told in a page of text, of which the first line says it.
- fsspec knows some thirty more, most of them by a package of its own, which an ImportError names where it is missing.
- Both, and what is below them, raise what they like: few of these errors are OSErrors, and fewer have an errno.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import fs

from binlog.errors import AccessError, BinlogError, NotFoundError

_PIECE_BYTES = 8 << 20

# Most of the time that a small request takes is spent waiting for its answer.
_CONCURRENCY_MAX = 8

_SECRETS = re.compile(r"://[^/@]*@")

_READING = "reading"


class FileSystem(Protocol):
    """What is asked of a file system.  at_once: how many threads may ask it at the same time."""

    concurrency_max: int

    def drop_cache(self) -> None:
        """Forget what was seen of it."""

    def names(self) -> list[str]:
        """Of the files in the directory."""

    def file_bytes(self, name: str) -> int:
        """The size of a file."""

    def read(self, name: str, start: int, end: int) -> bytes:
        """The bytes from one offset to another; fewer only where the file ends."""


def redacted(url: str) -> str:
    """A URL without what is nobody's business: keys in it, and what follows a question mark."""
    return _SECRETS.sub("://", url.partition("?")[0])


class RemoteDirectory:
    """A directory to be listed, and its files to be read.

    url: its own, as it is shown.  at_once: how many threads may use it at the same time.
    Raises: ValueError for a URL that nobody knows, ImportError where the package is missing that knows it, AccessError.
    """

    def __init__(self, url: str) -> None:
        self.url = redacted(url)
        with _translated_errors(self.url, "connecting"):
            self._files = _file_system(url)
        self.concurrency_max = self._files.concurrency_max

    def names(self) -> list[str]:
        """Of the files in it.  Raises: AccessError, where it is not there as well."""
        with _translated_errors(self.url, "listing it"):
            return self._files.names()

    def drop_cache(self) -> None:
        """Ask for names and sizes anew from here on."""
        self._files.drop_cache()

    def open(self, name: str) -> RemoteFile:
        """One of its files.  Raises: NotFoundError where it is not there, AccessError."""
        return RemoteFile(self._files, name, f"{self.url}/{name}")


class RemoteFile:
    """A file to read from.

    url: its own.  file_bytes: its size.
    """

    def __init__(self, files: FileSystem, name: str, url: str) -> None:
        self.url = url
        self._files = files
        self._name = name
        with _translated_errors(url, _READING):
            self.file_bytes = files.file_bytes(name)

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """The bytes from one offset to another, in pieces of 8 MiB, each with its offset; fewer where the file ends.

        Raises: NotFoundError, AccessError.
        """
        while start < min(end, self.file_bytes):
            with _translated_errors(self.url, _READING):
                data = self._files.read(self._name, start, min(start + _PIECE_BYTES, end, self.file_bytes))
            if not data:
                return
            yield start, data
            start += len(data)


class _Arrow:
    """A file system of PyArrow's, which keeps nothing of what it saw."""

    concurrency_max = _CONCURRENCY_MAX

    def drop_cache(self) -> None:
        pass

    def __init__(self, files: Any, path: str) -> None:
        self._files = files
        self._path = path

    def names(self) -> list[str]:
        found = self._files.get_file_info(fs.FileSelector(self._path))
        return [info.base_name for info in found if info.type == fs.FileType.File]

    def file_bytes(self, name: str) -> int:
        with self._files.open_input_file(f"{self._path}/{name}") as file:
            return int(file.size())

    def read(self, name: str, start: int, end: int) -> bytes:
        with self._files.open_input_file(f"{self._path}/{name}") as file:
            return bytes(file.read_at(end - start, start))


class _Fsspec:
    """One of fsspec's, asked without PyArrow, by whose way each file is looked at twice and read ahead by 5 MiB."""

    def __init__(self, files: Any, path: str) -> None:
        self._files = files
        self._path = path
        # The others may have one connection, on which answers go to whoever asks first (seen of its ftp).
        self.concurrency_max = _CONCURRENCY_MAX if files.async_impl else 1

    def drop_cache(self) -> None:
        # It keeps what it once saw, for as long as the process lives.
        self._files.invalidate_cache()

    def names(self) -> list[str]:
        self.drop_cache()
        found = [str(name).rstrip("/") for name in self._files.ls(self._path, detail=False)]
        if found == [self._path]:
            raise NotADirectoryError(f"{self._path} is not a directory")
        return [name.rpartition("/")[2] for name in found]

    def file_bytes(self, name: str) -> int:
        size = self._files.size(self._of(name))
        if size is None:
            raise OSError("its size is not told")
        return int(size)

    def read(self, name: str, start: int, end: int) -> bytes:
        return bytes(self._files.cat_file(self._of(name), start=start, end=end))

    def _of(self, name: str) -> str:
        return f"{self._path}/{name}" if self._path else name


def _file_system(url: str) -> FileSystem:
    if "::" not in url:
        try:
            files, path = fs.FileSystem.from_uri(url)
        except (pa.ArrowInvalid, NotImplementedError) as error:
            if "Unrecognized filesystem" not in str(error) and not isinstance(error, NotImplementedError):
                raise ValueError(f"binlog: {redacted(url)!r}: {_first_line(error)}") from error
        else:
            return _Arrow(files, path.rstrip("/"))
    return _by_fsspec(url)


def _by_fsspec(url: str) -> FileSystem:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        text = f"binlog: {redacted(url)!r} is of a kind that pyarrow does not know"
        raise ImportError(f"{text}; the package fsspec may, and is not installed") from error
    try:
        files, path = url_to_fs(url)
    except ValueError as error:
        raise ValueError(
            f"binlog: {redacted(url)!r}: neither pyarrow nor fsspec knows it ({_first_line(error)})"
        ) from error
    except ImportError as error:
        raise ImportError(f"binlog: {redacted(url)!r}: {_first_line(error)}") from error
    return _Fsspec(files, path.rstrip("/"))


@contextmanager
def _translated_errors(path: str, doing: str) -> Iterator[None]:
    try:
        yield
    except (BinlogError, ImportError):
        raise
    except FileNotFoundError as error:
        if doing == _READING:
            raise NotFoundError(f"{path} is not there") from error
        raise AccessError(f"{path}: No such file or directory", errno=errno.ENOENT, path=path) from error
    except ValueError as error:
        if str(error).startswith("binlog: "):
            raise
        raise AccessError(f"{path}: {doing}: {_first_line(error)}", errno=errno.EINVAL, path=path) from error
    except Exception as error:
        number = getattr(error, "errno", None) or errno.EIO
        raise AccessError(f"{path}: {doing}: {_first_line(error)}", errno=number, path=path) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
