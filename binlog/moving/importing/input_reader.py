"""InputReader: the lines of a file or a pipe, and the place in it with a hash of everything before."""

from __future__ import annotations

import hashlib
import os
import select
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

LINE_BYTES_MAX = 64 << 20
"""The most bytes of a line, of a value, and of a record that is made of them."""

_READ_BYTES = 1 << 20


class InputError(ValueError):
    """The input is not of its form.  line_number: where, from 1 on."""

    def __init__(self, line_number: int, text: str) -> None:
        super().__init__(f"line {line_number}: {text}")
        self.line_number = line_number


class Hash(Protocol):
    """A hash of bytes, as of `hashlib`."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Add bytes."""

    def copy(self) -> Hash:
        """Return a copy, to which other bytes can be added."""

    def hexdigest(self) -> str:
        """Return the hash of the bytes so far, in hexadecimal."""


class Mark(NamedTuple):
    """A place in a file: its offset, and the SHA-256 of all bytes before it, in hexadecimal."""

    offset: int
    digest: str


@dataclass(frozen=True)
class Prefix:
    """The beginning of a file, up to a place.  line_count: of its newlines."""

    offset: int = 0
    hashed: Hash = field(default_factory=hashlib.sha256)
    line_count: int = 0

    @property
    def mark(self) -> Mark:
        """The place at its end."""
        return Mark(self.offset, self.hashed.hexdigest())


def prefixes(fd: int, offsets: set[int]) -> list[Prefix]:
    """Return the prefixes of a file that end at these offsets, those that it is long enough for.

    Reads the file up to the last of them.
    """
    found: list[Prefix] = []
    at, hashed, line_count = 0, hashlib.sha256(), 0
    for offset in sorted(offsets):
        while at < offset:
            data = os.pread(fd, min(_READ_BYTES, offset - at), at)
            if not data:
                return found
            hashed.update(data)
            line_count += data.count(b"\n")
            at += len(data)
        found.append(Prefix(offset, hashed.copy(), line_count))
    return found


class InputReader:
    """Hands out the lines of a file or a pipe, and runs of bytes between them.

    A form calls `accept` when everything handed out so far is in the records that it has made.  That is the place in
    the file, so a line that is not of the form, or is not complete, stays after it.

    prefix: the part of a file that is skipped.
    whole: whether the input ends for good, so that a last line without its newline is a line; otherwise it is left.
    before_wait: for a pipe, called before a read that would block, as if the other end has paused; None for a file.
    line_number: of the line handed out last.
    """

    def __init__(
        self, fd: int, prefix: Prefix | None = None, *, whole: bool, before_wait: Callable[[], None] | None = None
    ) -> None:
        prefix = prefix or Prefix()
        self.whole = whole
        self.line_number = prefix.line_count
        self._fd = fd
        self._before_wait = before_wait
        self._start = prefix.offset  # of the data in the input
        self._data = b""
        self._at = 0  # of the next byte in the data
        self._accepted = 0
        self._hashed_to = 0
        self._hash = prefix.hashed.copy()

    @property
    def end(self) -> int:
        """The offset up to which the input was read."""
        return self._start + len(self._data)

    @property
    def left_bytes(self) -> int:
        """The bytes that were read, and not accepted."""
        return len(self._data) - self._accepted

    def accept(self, record: bytes = b"") -> None:
        """Move the place to the next byte to hand out.

        record: the one that was made of the bytes before.  Raises: InputError for more than 64 MiB.
        """
        _check_size(len(record), self.line_number)
        self._accepted = self._at

    def mark(self) -> Mark:
        """Return the place."""
        self._hash_accepted()
        return Mark(self._start + self._accepted, self._hash.hexdigest())

    def line(self) -> bytes:
        """Return the next line with its newline; nothing at the end of the input.

        Raises: InputError for a line of more than 64 MiB; OSError.
        """
        searched = self._at
        while (end := self._data.find(b"\n", searched)) < 0:
            pending = len(self._data) - self._at
            _check_size(pending, self.line_number + 1)
            if not self._fill():
                return self._hand_out(len(self._data)) if pending and self.whole else b""
            searched = self._at + pending
        _check_size(end - self._at, self.line_number + 1)
        return self._hand_out(end + 1)

    def read(self, size: int) -> bytes:
        """Return this many bytes, which may contain newlines; fewer at the end of the input.  Raises: OSError."""
        while len(self._data) - self._at < size and self._fill():
            pass
        data = self._data[self._at : self._at + size]
        self.line_number += data.count(b"\n")
        self._at += len(data)
        return data

    def _hand_out(self, end: int) -> bytes:
        line = self._data[self._at : end]
        self._at = end
        self.line_number += 1
        return line

    def _fill(self) -> bool:
        """Read more bytes; return whether there are any."""
        if self._before_wait is not None and not _is_ready(self._fd):
            self._before_wait()
        self._hash_accepted()
        kept = self._data[self._accepted :]
        # As many again, because the bytes that are kept are copied with each read.
        size = max(_READ_BYTES, len(kept))
        new = os.read(self._fd, size) if self._before_wait is not None else os.pread(self._fd, size, self.end)
        self._start += self._accepted
        self._at -= self._accepted
        self._data, self._accepted, self._hashed_to = kept + new, 0, 0
        return bool(new)

    def _hash_accepted(self) -> None:
        self._hash.update(memoryview(self._data)[self._hashed_to : self._accepted])
        self._hashed_to = self._accepted


def _check_size(size: int, line_number: int) -> None:
    if size > LINE_BYTES_MAX:
        raise InputError(line_number, f"it is longer than {LINE_BYTES_MAX} bytes")


def _is_ready(fd: int) -> bool:
    """Return whether a read would not block."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
