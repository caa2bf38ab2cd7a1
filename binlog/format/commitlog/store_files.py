"""The store's checkpoint: up to which store times its parts were synced, so that recovery knows where to begin.

The sidecar of a store: what its owner tells readers in other processes, and the bell that wakes them.

It is a file of ours, which RocketMQ does not know: `binlog.sidecar` in the store's folder.  Without it a store is read
all the same, but nobody is woken.

The head of a buffer in shared memory, to which a file's messages are appended before they are written to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from binlog.format.checksums import crc32c
from binlog.format.layout import Field, Layout

STORE_CHECKPOINT = Layout(
    "store_checkpoint",
    "The checkpoint of a store",
    size=48,
    fields=(
        Field("log_ms", "i64", "physicMsgTimestamp: the store time of the last message synced in the commit log"),
        Field("queues_ms", "i64", "logicsMsgTimestamp: of the last one synced in the consume queues"),
        Field("index_ms", "i64", "indexMsgTimestamp: of the last one synced in the key index"),
        Field("master_flushed_offset", "i64", "masterFlushedOffset: of a replica; 0"),
        Field("confirmed_offset", "i64", "confirmPhyOffset: up to where the commit log is confirmed"),
        Field(
            "queues_offset", "i64", "logicsPhysicalOffset, since version 5.5: where the last one of `queues_ms` lies; 0"
        ),
    ),
)

CHECKPOINT_FILE_BYTES = 4096
# Store times are taken before the lock is, and clocks go back: RocketMQ begins so much earlier.
_MARGIN_MS = 3000


@dataclass(frozen=True, slots=True)
class StoreCheckpoint:
    """See the table."""

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0
    master_flushed_offset: int = 0
    confirmed_offset: int = 0
    queues_offset: int = 0

    @property
    def recovery_ms(self) -> int:
        """A store time before which log and queues were synced: 3 s before the earlier one, 0 at least."""
        return max(min(self.log_ms, self.queues_ms) - _MARGIN_MS, 0)

    def pack(self) -> bytes:
        """The whole file."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return STORE_CHECKPOINT.pack(values).ljust(CHECKPOINT_FILE_BYTES, b"\0")


def parse_checkpoint(data: bytes) -> StoreCheckpoint:
    """What a file says, of which what is missing is zeros."""
    return StoreCheckpoint(**STORE_CHECKPOINT.unpack(data.ljust(STORE_CHECKPOINT.size, b"\0")))


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


_MAGIC = b"BINLOGPB"

POOL_BUFFER = Layout(
    "pool_buffer",
    "The head of a buffer",
    size=24,
    fields=(
        Field("offset", "i64", "where in the commit log the file starts whose bytes follow, at 4096"),
        Field("file_bytes", "u64", "how many there may be"),
        Field("magic", "bytes:8", "`BINLOGPB` while it is in use; anything else otherwise"),
    ),
)

HEAD_BYTES = 4096


def pack_head(*, offset: int, file_bytes: int) -> bytes:
    """The head of a buffer in use."""
    return POOL_BUFFER.pack({"offset": offset, "file_bytes": file_bytes, "magic": _MAGIC})


def parse_head(data: bytes, *, file_bytes: int) -> int | None:
    """Where the file starts whose bytes the buffer has; None where it is not in use, or is of another store's files."""
    head = POOL_BUFFER.unpack(data)
    return head["offset"] if head["magic"] == _MAGIC and head["file_bytes"] == file_bytes else None
