"""Records that identify themselves, and show whether they are whole."""

from __future__ import annotations

from contextlib import suppress

Identity = tuple[int, int]
"""A record: its writer, and its index among the writer's records."""


def record_bytes(writer: int, index: int, size: int = 0) -> bytes:
    """Return a writer's `index`-th record, unlike any other, of about 30 to 400 bytes, or of `size`."""
    head = b"%d:%d:" % (writer, index)
    size = size or 30 + (index * 2654435761 >> 7) % 370
    return head + (head * (size // len(head) + 1))[:size]


def identity_of(data: bytes) -> Identity | None:
    """Return the identity of a record, None if it is not one, or was changed."""
    with suppress(ValueError):
        writer, index = map(int, data[:24].split(b":", 2)[:2])
        head = b"%d:%d:" % (writer, index)
        if data == record_bytes(writer, index, len(data) - len(head)):
            return writer, index
    return None
