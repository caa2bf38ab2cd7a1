"""Target: the directory or object store that files are shipped to.

A file gets its name after it was read back and found equal.  In an object store it has its name before that, but a file
counts only once its receipt exists, which is written last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from binlog.errors import BinlogError, CorruptError, NotFoundError
from binlog.format.checksums import crc32c
from binlog.moving.exporting.unfinished_file import unfinished_file, write_at
from binlog.storage.failures import own_errors

if TYPE_CHECKING:
    from binlog.moving.remote_directory import RemoteDirectory

PIECE_BYTES = 4 << 20

Pieces = Callable[[], Iterator[bytes]]
"""Reads a file from its beginning."""


class Checksum(NamedTuple):
    """The size of a file, and the CRC-32C of its bytes."""

    bytes: int
    crc: int


class Target(Protocol):
    """A place to ship files to.  url: its name for messages."""

    url: str

    def sizes(self) -> dict[str, int]:
        """Return the sizes of its files, by name."""

    def checksum(self, name: str) -> Checksum:
        """Return the checksum of a file, by reading it.  Raises: NotFoundError."""

    def read(self, name: str) -> bytes:
        """Return the bytes of a small file.  Raises: NotFoundError."""

    def place(self, name: str, pieces: Pieces) -> Checksum:
        """Copy a file, read it back, and give it its name; return its checksum.

        Raises: CorruptError if the bytes that were read back are others.
        """


def target_of(url: str | os.PathLike[str]) -> Target:
    """Return the target of a path, or of a URL.  Raises: ValueError, ImportError, AccessError."""
    text = os.fspath(url)
    is_file_url = text.startswith("file:")
    if is_file_url or "://" not in text:
        path = unquote(urlsplit(text).path) if is_file_url else text
        if not path:
            raise ValueError("the URL of the target is empty")
        return LocalTarget(path)
    from binlog.moving.remote_directory import RemoteDirectory

    return RemoteTarget(RemoteDirectory(text))


class _Summing:
    """Passes pieces on, and computes their checksum."""

    def __init__(self) -> None:
        self.checksum = Checksum(0, 0)

    def passed(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.checksum = Checksum(self.checksum.bytes + len(piece), crc32c(piece, self.checksum.crc))
            yield piece

    def sum(self, pieces: Iterator[bytes]) -> Checksum:
        for _ in self.passed(pieces):
            pass
        return self.checksum


def read_pieces(fd: int, path: str) -> Iterator[bytes]:
    """Read a file in pieces, from its beginning."""
    at = 0
    with own_errors(path, "reading"):
        while data := os.pread(fd, PIECE_BYTES, at):
            yield data
            at += len(data)


def checksum_of(pieces: Iterator[bytes]) -> Checksum:
    """Return the checksum of all pieces."""
    return _Summing().sum(pieces)


class LocalTarget:
    """A directory of this machine, which is made if it does not exist."""

    def __init__(self, path: str) -> None:
        self.url = path

    def sizes(self) -> dict[str, int]:
        with own_errors(self.url, "listing the directory"), suppress(FileNotFoundError), os.scandir(self.url) as found:
            return {each.name: each.stat(follow_symlinks=False).st_size for each in found}
        return {}

    def checksum(self, name: str) -> Checksum:
        fd, path = self._open(name)
        try:
            return checksum_of(read_pieces(fd, path))
        finally:
            os.close(fd)

    def read(self, name: str) -> bytes:
        fd, path = self._open(name)
        try:
            return b"".join(read_pieces(fd, path))
        finally:
            os.close(fd)

    def place(self, name: str, pieces: Pieces) -> Checksum:
        with own_errors(self.url, "making the directory"):
            _make_folder(os.path.abspath(self.url))
        path = os.path.join(self.url, name)
        summing = _Summing()
        with unfinished_file(path) as (fd, partial):
            with own_errors(partial, "writing"):
                for piece in summing.passed(pieces()):
                    write_at(fd, piece, summing.checksum.bytes - len(piece))
                os.fsync(fd)
                # So that the bytes are read from the disk.
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            _compare(summing.checksum, checksum_of(read_pieces(fd, partial)), path)
        return summing.checksum

    def _open(self, name: str) -> tuple[int, str]:
        path = os.path.join(self.url, name)
        with own_errors(path, "opening the file"):
            try:
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), path
            except FileNotFoundError as error:
                raise NotFoundError(f"{path} does not exist") from error


def _make_folder(path: str) -> None:
    """Make a directory and those above it, durably."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    _make_folder(above)
    with suppress(FileExistsError):
        os.mkdir(path, 0o750)
    fd = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class RemoteTarget:
    """A directory or a prefix that a URL names."""

    def __init__(self, directory: RemoteDirectory) -> None:
        self.url = directory.url
        self._directory = directory
        self._made = False

    def sizes(self) -> dict[str, int]:
        return self._directory.sizes()

    def checksum(self, name: str) -> Checksum:
        return checksum_of(self._pieces(name))

    def read(self, name: str) -> bytes:
        return b"".join(self._pieces(name))

    def place(self, name: str, pieces: Pieces) -> Checksum:
        if not self._made:
            self._directory.make()
            self._made = True
        written = name if self._directory.is_object_store else f".{name}.partial"
        summing = _Summing()
        try:
            self._directory.write(written, summing.passed(pieces()))
            self._directory.drop_cache()
            _compare(summing.checksum, self.checksum(written), f"{self.url}/{written}")
            if written != name:
                self._directory.move(written, name)
        except BaseException:
            # PyArrow completes a file also if an exception ends its writing.
            with suppress(BinlogError):
                self._directory.remove(written)
            raise
        return summing.checksum

    def _pieces(self, name: str) -> Iterator[bytes]:
        file = self._directory.open(name)
        return (data for _, data in file.pieces(0, file.file_bytes))


def _compare(written: Checksum, found: Checksum, path: str) -> None:
    if written != found:
        text = (
            f"the copy has {found.bytes} bytes and the CRC {found.crc:08x}, not {written.bytes} and {written.crc:08x}"
        )
        raise CorruptError(path, 0, "copy", text)
