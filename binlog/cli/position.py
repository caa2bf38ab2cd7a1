"""A follower's position, kept in a file: the ref of the next record, as a line of text.

Invariants
- The file holds a whole ref at any time, and after a power cut the old or the new one: it is written under another
  name, synced, and renamed.
- It never runs ahead of what was printed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

import binlog
from binlog.cli.exits import CommandError, ExitCode, system_text

_BYTES_MAX = 64


def read_position(path: str) -> binlog.Ref | None:
    """The ref in the file, or None where there is no file.  Raises: OSError; ValueError for anything else in it."""
    try:
        # A FIFO in its place, which anyone may make who may write to the directory, must not hang the reader.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        data = os.read(fd, _BYTES_MAX)
    finally:
        os.close(fd)
    return binlog.Ref.parse(data.decode("utf-8", "backslashreplace").strip())


class Position:
    """A position file to start from and to keep up to date."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._stored = self._load()

    @property
    def start(self) -> binlog.Ref | None:
        """Where an earlier run came to, or None for a first one."""
        return self._stored

    def store(self, ref: binlog.Ref) -> None:
        """Keep the ref, durably, where it is not the one kept.  Raises: CommandError."""
        if ref == self._stored:
            return
        try:
            _replace(self.path, f"{ref}\n".encode())
        except OSError as error:
            raise CommandError(
                f"{self.path}: the position cannot be kept: {error.strerror}", ExitCode.FAILED
            ) from error
        self._stored = ref

    def _load(self) -> binlog.Ref | None:
        try:
            return read_position(self.path)
        except OSError as error:
            raise CommandError(system_text(error), ExitCode.CANNOT_OPEN) from error
        except ValueError as error:
            raise CommandError(f"{self.path}: {error}", ExitCode.USAGE) from error


def _replace(path: str, data: bytes) -> None:
    folder, name = os.path.split(os.path.abspath(path))
    draft = os.path.join(folder, f".{name}.{os.getpid()}.new")
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        try:
            os.write(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
