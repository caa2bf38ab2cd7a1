"""Directories of file systems that are not this machine's, by their URLs: s3:, gs:, hdfs:, http: and so on.

Facts relied on:

- `pyarrow.fs.FileSystem.from_uri` knows some schemes, and says "Unrecognized filesystem type" of any other; an HDFS
  without its library is told in a page of text, of which the first line says it.
- fsspec knows some thirty more, most of them by a package of its own, which an ImportError names where it is missing.
- Both, and what is below them, raise what they like: few of these errors are OSErrors, and fewer have an errno.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import fs

from binlog.errors import AccessError, BinlogError, NotFoundError

_PIECE_BYTES = 8 << 20


class RemoteDirectory:
    """A directory to be listed, and its files to be read.

    Raises: ValueError for a URL that nobody knows, ImportError where the package is missing that knows it, AccessError.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, self._path = _file_system(url)

    def names(self) -> list[str]:
        """Of the files in it.  Raises: AccessError, where it is not there as well."""
        with _own_errors(self.url, "listing it"):
            found = self._files.get_file_info(fs.FileSelector(self._path))
        return [info.base_name for info in found if info.type == fs.FileType.File]

    def open(self, name: str) -> RemoteFile:
        """One of its files.  Raises: NotFoundError where it is not there, AccessError."""
        return RemoteFile(self._files, f"{self._path}/{name}" if self._path else name, f"{self.url}/{name}")


class RemoteFile:
    """A file open for reading.

    url: its own.  file_bytes: its size.
    """

    def __init__(self, files: Any, path: str, url: str) -> None:
        self.url = url
        with _own_errors(url, "opening it"):
            self._file = files.open_input_file(path)
            self.file_bytes = int(self._file.size())

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """The bytes from one offset to another, in pieces of 8 MiB, each with its offset; fewer where the file ends.

        Raises: AccessError.
        """
        while start < end:
            with _own_errors(self.url, "reading"):
                data = self._file.read_at(min(_PIECE_BYTES, end - start), start)
            if not data:
                return
            yield start, data
            start += len(data)

    def close(self) -> None:
        """Give it back."""
        self._file.close()


def _file_system(url: str) -> tuple[Any, str]:
    with _own_errors(url, "connecting"):
        try:
            files, path = _by_fsspec(url) if "::" in url else fs.FileSystem.from_uri(url)
        except (pa.ArrowInvalid, NotImplementedError) as error:
            if "Unrecognized filesystem" not in str(error) and not isinstance(error, NotImplementedError):
                raise ValueError(f"binlog: {url!r}: {_first_line(error)}") from error
            files, path = _by_fsspec(url)
    return files, path.rstrip("/")


def _by_fsspec(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError(
            f"binlog: {url!r} is of a kind that pyarrow does not know; the package fsspec may, and is not installed"
        ) from error
    try:
        files, path = url_to_fs(url)
    except ValueError as error:
        raise ValueError(f"binlog: {url!r}: neither pyarrow nor fsspec knows it ({_first_line(error)})") from error
    except ImportError as error:
        raise ImportError(f"binlog: {url!r}: {_first_line(error)}") from error
    return fs.PyFileSystem(fs.FSSpecHandler(files)), path


@contextmanager
def _own_errors(path: str, doing: str) -> Iterator[None]:
    try:
        yield
    except (BinlogError, ImportError):
        raise
    except FileNotFoundError as error:
        if doing == "opening it":
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
