"""A message in a swap file, as SwiftMQ lays it out: how long it is, how often it was delivered, and it."""

from __future__ import annotations

import re
from urllib.parse import quote

from binlog.format.layout import Field, Layout

SWAP_END = ".swap"
_NAME_BYTES_MAX = 200

SWAP_RECORD = Layout(
    "swap_record",
    "What comes before a message in a swap file",
    size=8,
    fields=(
        Field("message_bytes", "u32", "of the message, which follows"),
        Field("delivery_count", "i32", "so often it was given, and came back"),
    ),
)


def swap_name(queue: str, number: int) -> str:
    """The name of a queue's swap file: `orders-7.swap`; what no file name has of the queue's is as in a URL.

    Of a name that is too long the first part stands for it, which several queues may have: their numbers differ.
    """
    return f"{quote(queue, safe=' ,;=@$&+!()')[:_NAME_BYTES_MAX].lstrip('.') or '_'}-{number}{SWAP_END}"


def is_swap_name(name: str) -> bool:
    """Whether it is one of a swap file."""
    return re.fullmatch(r".+-\d+\.swap", name, re.ASCII | re.DOTALL) is not None
