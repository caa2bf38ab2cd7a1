"""What the bytes of a log file are read from: a file of its own, or its archive."""

from __future__ import annotations

from typing import Protocol

from binlog.errors import CorruptError


class Unpacked(Protocol):
    """The bytes of a log file that are not in a file of their own; see archive_content.py."""

    @property
    def file_bytes(self) -> int:
        """How many there are."""

    def read(self, size: int, offset: int) -> bytes:
        """As `files.read_at`."""

    def frame_start(self, offset: int) -> int:
        """Where the part starts that holds an offset, of those that are had as a whole or not at all."""

    def frame_end(self, offset: int) -> int:
        """Where that part ends: at a record's end."""


Content = int | Unpacked
"""A descriptor of the log file, or what its archive holds."""


class LostFrameError(CorruptError):
    """A frame of an archive is damaged: the log file's bytes from `offset` to before `end` are lost, and no others."""

    def __init__(self, path: str, start: int, end: int, text: str) -> None:
        super().__init__(path, start, "frame", text)
        self.end = end
