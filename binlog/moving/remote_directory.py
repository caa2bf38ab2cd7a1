"""Directories in remote file systems, by their URLs: s3:, gs:, hdfs:, http: and so on.

Facts relied on:

- `pyarrow.fs.FileSystem.from_uri` supports some schemes, and says "Unrecognized filesystem type" of any other.  If the
  HDFS library is missing, the error is a page of text whose first line says so.
- fsspec supports some thirty more, most of them with a package of their own, which an ImportError names if it is
  missing.
- Both raise errors of many types, few of which are OSErrors, and fewer have an errno.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import fs

from binlog.errors import AccessError, BinlogError, NotFoundError

_PIECE_BYTES = 8 << 20

# A small request spends most of its time waiting for the answer.
_CONCURRENCY_MAX = 8

_SECRETS = re.compile(r"://[^/@]*@")

_READING = "reading"

# By PyArrow's names and by those of fsspec.
_OBJECT_STORES = frozenset(("s3", "s3a", "gcs", "gs", "abfs", "abfss", "az", "adl", "oss", "r2"))


class FileSystem(Protocol):
    """The operations that we need of a file system.

    concurrency_max: how many threads may use it at once.
    is_object_store: a file appears when all of it is written, and renaming it copies it.
    """

    concurrency_max: int
    is_object_store: bool

    def drop_cache(self) -> None:
        """Drop cached names and sizes."""

    def names(self) -> list[str]:
        """Return the names of the files in the directory."""

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the files in the directory, by name; none if it does not exist."""

    def make(self) -> None:
        """Make the directory, if the file system has directories."""

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a file, or replace it."""

    def move(self, old: str, new: str) -> None:
        """Rename a file."""

    def remove(self, name: str) -> None:
        """Remove a file."""

    def file_bytes(self, name: str) -> int:
        """Return the size of a file."""

    def read(self, name: str, start: int, end: int) -> bytes:
        """Return a range of bytes; fewer only at the end of the file."""


def redacted(url: str) -> str:
    """Return a URL without credentials and without its query."""
    return _SECRETS.sub("://", url.partition("?")[0])


class RemoteDirectory:
    """A remote directory, whose files can be listed, read and written.

    url: its URL, redacted.  concurrency_max: how many threads may use it at once.
    is_object_store: a file appears when all of it is written.
    Raises: ValueError for an unsupported URL, ImportError if the package for it is missing, AccessError.
    """

    def __init__(self, url: str) -> None:
        self.url = redacted(url)
        with _translated_errors(self.url, "connecting"):
            self._files = _file_system(url)
        self.concurrency_max = self._files.concurrency_max
        self.is_object_store = self._files.is_object_store

    def names(self) -> list[str]:
        """Return the names of its files.  Raises: AccessError, also if the directory does not exist."""
        with _translated_errors(self.url, "listing it"):
            return self._files.names()

    def drop_cache(self) -> None:
        """Drop cached names and sizes."""
        self._files.drop_cache()

    def sizes(self) -> dict[str, int]:
        """Return the sizes of its files, by name; none if the directory does not exist.  Raises: AccessError."""
        with _translated_errors(self.url, "listing it"):
            return self._files.sizes()

    def make(self) -> None:
        """Make the directory, if the file system has directories.  Raises: AccessError."""
        with _translated_errors(self.url, "making it"):
            self._files.make()

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a file, or replace it.  If that fails, a part of it may be left.  Raises: AccessError."""
        with _translated_errors(f"{self.url}/{name}", "writing"):
            self._files.write(name, pieces)

    def move(self, old: str, new: str) -> None:
        """Rename a file.  Raises: NotFoundError, AccessError."""
        with _translated_errors(f"{self.url}/{old}", "renaming"):
            self._files.move(old, new)

    def remove(self, name: str) -> None:
        """Remove a file.  Raises: AccessError, also if it does not exist."""
        with _translated_errors(f"{self.url}/{name}", "removing"):
            self._files.remove(name)

    def open(self, name: str) -> RemoteFile:
        """Open a file.  Raises: NotFoundError, AccessError."""
        return RemoteFile(self._files, name, f"{self.url}/{name}")


class RemoteFile:
    """A remote file to read from.

    url: its URL, redacted.  file_bytes: its size.
    """

    def __init__(self, files: FileSystem, name: str, url: str) -> None:
        self.url = url
        self._files = files
        self._name = name
        with _translated_errors(url, _READING):
            self.file_bytes = files.file_bytes(name)

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield a range of bytes in pieces of 8 MiB, each with its offset; fewer bytes if the file ends earlier.

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
    """A file system of PyArrow, which caches nothing."""

    concurrency_max = _CONCURRENCY_MAX

    def drop_cache(self) -> None:
        pass

    def __init__(self, files: Any, path: str) -> None:
        self._files = files
        self._path = path
        self.is_object_store = files.type_name in _OBJECT_STORES

    def sizes(self) -> dict[str, int]:
        found = self._files.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        return {info.base_name: info.size for info in found if info.type == fs.FileType.File}

    def make(self) -> None:
        self._files.create_dir(self._path, recursive=True)

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        with self._files.open_output_stream(f"{self._path}/{name}") as file:
            for piece in pieces:
                file.write(piece)

    def move(self, old: str, new: str) -> None:
        self._files.move(f"{self._path}/{old}", f"{self._path}/{new}")

    def remove(self, name: str) -> None:
        self._files.delete_file(f"{self._path}/{name}")

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
    """A file system of fsspec, used without PyArrow's wrapper, which checks each file twice and reads 5 MiB ahead."""

    def __init__(self, files: Any, path: str) -> None:
        self._files = files
        self._path = path
        # The others may share one connection, on which concurrent answers get mixed up (seen with its ftp).
        self.concurrency_max = _CONCURRENCY_MAX if files.async_impl else 1
        protocols = (files.protocol,) if isinstance(files.protocol, str) else files.protocol
        self.is_object_store = not _OBJECT_STORES.isdisjoint(protocols)

    def drop_cache(self) -> None:
        # fsspec caches listings for the life of the process.
        self._files.invalidate_cache()

    def names(self) -> list[str]:
        self.drop_cache()
        found = [str(name).rstrip("/") for name in self._files.ls(self._path, detail=False)]
        if found == [self._path]:
            raise NotADirectoryError(f"{self._path} is not a directory")
        return [name.rpartition("/")[2] for name in found]

    def sizes(self) -> dict[str, int]:
        self.drop_cache()
        try:
            found = self._files.ls(self._path, detail=True)
        except FileNotFoundError:
            return {}
        files = [each for each in found if each["type"] == "file"]
        return {str(each["name"]).rpartition("/")[2]: int(each["size"]) for each in files}

    def make(self) -> None:
        if not self.is_object_store:
            self._files.makedirs(self._path, exist_ok=True)

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        with self._files.open(self._of(name), "wb") as file:
            for piece in pieces:
                file.write(piece)

    def move(self, old: str, new: str) -> None:
        self._files.mv(self._of(old), self._of(new))

    def remove(self, name: str) -> None:
        self._files.rm_file(self._of(name))

    def file_bytes(self, name: str) -> int:
        size = self._files.size(self._of(name))
        if size is None:
            raise OSError("the server did not report its size")
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
        text = f"binlog: pyarrow does not support {redacted(url)!r}"
        raise ImportError(f"{text}; fsspec may support it, but is not installed") from error
    try:
        files, path = url_to_fs(url)
    except ValueError as error:
        raise ValueError(
            f"binlog: {redacted(url)!r}: neither pyarrow nor fsspec supports it ({_first_line(error)})"
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
            raise NotFoundError(f"{path} does not exist") from error
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
