"""Position: the file that keeps the position of `binlog tail --position`.

Invariants
- The file always holds a whole ref; after a power cut, the old one or the new one.  It is written under another name,
  synced, and renamed.
- It never runs ahead of the records that were printed.
"""

from __future__ import annotations

import contextlib
import os

import binlog
from binlog.cli.exits import CommandError, ExitCode, system_text


class Position:
    """A position file of this process: read once at the start, then updated."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._stored = self._load()

    @property
    def start(self) -> binlog.Ref | None:
        """The position that an earlier run stored, or None."""
        return self._stored

    def store(self, ref: binlog.Ref) -> None:
        """Store the ref durably if it has changed.  Raises: CommandError."""
        if ref == self._stored:
            return
        try:
            _replace(self.path, f"{ref}\n".encode())
        except OSError as error:
            raise CommandError(f"{self.path}: cannot store the position: {error.strerror}", ExitCode.FAILED) from error
        self._stored = ref

    def _load(self) -> binlog.Ref | None:
        from binlog.watching import read_position  # most commands have no position

        try:
            return read_position(self.path)
        except OSError as error:
            raise CommandError(system_text(error), ExitCode.CANNOT_OPEN) from error
        except ValueError as error:
            raise CommandError(f"{self.path}: {error}", ExitCode.USAGE) from error


def _replace(path: str, data: bytes) -> None:
    folder, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.new")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        try:
            os.write(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
