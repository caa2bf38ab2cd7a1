"""The sidecar of a store: what its owner tells readers in other processes, and the bell that wakes them.

It is a file of ours, which RocketMQ does not know: `binlog.sidecar` in the store's folder.  Without it a store is read
all the same, but nobody is woken.
"""

from __future__ import annotations

from typing import NamedTuple

from binlog.format.crc import crc32c
from binlog.format.layout import Field, Layout

STORE_SIDECAR = Layout(
    "store_sidecar",
    "The sidecar of a store",
    size=40,
    fields=(
        Field("magic", "bytes:8", "`BINLOGCS`", const=b"BINLOGCS"),
        Field("version", "u32", "a reader takes a sidecar of another version for none", const=1),
        Field("doorbell", "u32", "a futex word, raised after each change that readers wait for"),
        Field("log_start", "i64", "where the commit log's first file starts"),
        Field("readable_end", "i64", "queues and key index have been told of all messages before"),
        Field("key_slots", "u32", "how many slots each file of the key index has; 0 where that is not told"),
        Field("crc", "u32", "CRC-32C of 16..35"),
    ),
)

SIDECAR_FILE = "binlog.sidecar"
SIDECAR_BYTES = 4096
DOORBELL_OFFSET = STORE_SIDECAR.offset("doorbell")
NEWS_OFFSET = STORE_SIDECAR.offset("log_start")
_CRC_OFFSET = STORE_SIDECAR.offset("crc")


class News(NamedTuple):
    """What readers are told: see the table."""

    log_start: int
    readable_end: int
    key_slots: int = 0


def pack_sidecar(news: News, *, doorbell: int) -> bytes:
    """The whole file."""
    fields = {**news._asdict(), "doorbell": doorbell, "crc": 0}
    data = STORE_SIDECAR.pack(fields)
    fields["crc"] = crc32c(data[NEWS_OFFSET:_CRC_OFFSET])
    return STORE_SIDECAR.pack(fields).ljust(SIDECAR_BYTES, b"\0")


def pack_news(news: News) -> bytes:
    """The part that changes, but for the bell: to be written at NEWS_OFFSET."""
    return pack_sidecar(news, doorbell=0)[NEWS_OFFSET : STORE_SIDECAR.size]


def parse_sidecar(data: bytes) -> tuple[News, int] | None:
    """The news and the bell; None for a file of another kind, or one that is being written."""
    if len(data) < STORE_SIDECAR.size:
        return None
    found = STORE_SIDECAR.unpack(data)
    known = (STORE_SIDECAR.const("magic"), STORE_SIDECAR.const("version"))
    if (found["magic"], found["version"]) != known or found["crc"] != crc32c(data[NEWS_OFFSET:_CRC_OFFSET]):
        return None
    return News(*(found[name] for name in News._fields)), found["doorbell"]
