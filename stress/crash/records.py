"""Records that tell which they are, and whether they are whole."""

from __future__ import annotations

from contextlib import suppress

Identity = tuple[int, int]
"""Which record: whose, and as which of its own."""


def record_bytes(writer: int, index: int, size: int = 0) -> bytes:
    """The `index`-th record of a writer, of about 30 to 400 bytes, or of `size`: no other is like it."""
    head = b"%d:%d:" % (writer, index)
    size = size or 30 + (index * 2654435761 >> 7) % 370
    return head + (head * (size // len(head) + 1))[:size]


def identity_of(data: bytes) -> Identity | None:
    """Which record it is, None if it is none, or not as it was made."""
    with suppress(ValueError):
        writer, index = map(int, data[:24].split(b":", 2)[:2])
        head = b"%d:%d:" % (writer, index)
        if data == record_bytes(writer, index, len(data) - len(head)):
            return writer, index
    return None
