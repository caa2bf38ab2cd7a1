"""Messages of one queue as columns, without a Python object for any of them, by the compiled code."""

from __future__ import annotations

from array import array
from collections.abc import Collection
from typing import Any

from binlog.storage.native import message_columns, pick_messages

__all__ = ["COLUMNS", "columns_of", "pick_messages"]

# In the order of `enum column` in native/columns.c.
COLUMNS = (
    "queue_offset",
    "offset",
    "born_time",
    "store_time",
    "prepared_offset",
    "flag",
    "system_flag",
    "reconsume_count",
    "message_bytes",
    "body",
    "born_host",
    "store_host",
    "message_id",
    "properties",
)


def columns_of(
    data: bytes,
    units: memoryview,
    indexes: array[int],
    topic: str,
    queue_id: int,
    *,
    tag: str | None,
    wanted: Collection[str],
) -> tuple[int, dict[str, Any]] | int:
    """How many messages there are, and the columns wanted; or the number of the first that is not what its unit says.

    data: what `pick_messages` picked.  units: those of the messages.  indexes: their queue offsets, 64 bits each.
    tag: only messages that have it; None for all.
    """
    bits = sum(1 << number for number, name in enumerate(COLUMNS) if name in wanted)
    found = message_columns(data, units, indexes, topic, queue_id, tag, bits)
    if isinstance(found, int):
        return found
    count, made = found
    return count, {name: column for name, column in zip(COLUMNS, made, strict=True) if column is not None}
