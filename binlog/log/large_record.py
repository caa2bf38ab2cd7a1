"""The refusal of a record that is larger than a reader is willing to hold in memory."""

from __future__ import annotations

from binlog.errors import FullError


def too_large(number: int, offset: int, size: int, limit: int) -> FullError:
    """The error, for a record of `size` bytes at `number:offset`."""
    return FullError(f"{number}:{offset} is a record of {size} bytes; the limit is {limit}", limit=limit, size=size)
