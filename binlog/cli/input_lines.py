"""Cutting an input into lines, or records that end with NUL, as it comes, waiting for no more than there is."""

from __future__ import annotations

import os
from collections.abc import Iterator

READ_BYTES = 1 << 20


class LineTooLongError(Exception):
    """The next line is longer than the limit; those before it were given."""


def batches(fd: int, *, count_max: int, line_bytes_max: int, end: bytes = b"\n") -> Iterator[list[bytes]]:
    """The input's lines without their newlines, as they come, in lists of `count_max` at most.

    end: the byte that ends a line.

    A list is given as soon as its lines were read.  What follows the last newline is a line, too.
    Raises: LineTooLongError; OSError.
    """
    begun: list[bytes] = []  # the parts of a line that has not ended yet
    begun_bytes = 0
    # No more than a line may have, so that only one begun in an earlier read can be too long.
    while data := os.read(fd, min(READ_BYTES, line_bytes_max)):
        first = data.find(end)
        begun_bytes += len(data) if first < 0 else first
        if begun_bytes > line_bytes_max:
            raise LineTooLongError
        begun.append(data)
        if first < 0:
            continue
        *lines, rest = b"".join(begun).split(end)
        begun, begun_bytes = [rest], len(rest)
        for start in range(0, len(lines), count_max):
            yield lines[start : start + count_max]
    if begun_bytes:
        yield [b"".join(begun)]
