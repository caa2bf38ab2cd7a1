"""The layouts of the checkpoint, of the sidecar, and of buffers in shared memory.

The checkpoint holds the store times up to which the parts of a store were synced, so recovery knows where to start.

The sidecar, `binlog.sidecar`, is unknown to RocketMQ.  In it the owner publishes its state to readers in other
processes; the doorbell wakes them.  Without a sidecar, readers poll.

Messages are appended to a buffer before they are written to the file of the buffer; see transient_pool.py.
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
        Field("log_ms", "i64", "physicMsgTimestamp: store time of the last message synced in the commit log"),
        Field("queues_ms", "i64", "logicsMsgTimestamp: store time of the last message synced in the consume queues"),
        Field("index_ms", "i64", "indexMsgTimestamp: store time of the last message synced in the key index"),
        Field("master_flushed_offset", "i64", "masterFlushedOffset: used by a replica; binlog writes 0"),
        Field("confirmed_offset", "i64", "confirmPhyOffset: end of the confirmed commit log; binlog writes 0"),
        Field(
            "queues_offset",
            "i64",
            "logicsPhysicalOffset, since version 5.5: offset of the last message synced in the consume queues; "
            "binlog writes 0",
        ),
    ),
)

CHECKPOINT_FILE_BYTES = 4096
# As in RocketMQ: store times are taken before the lock, and clocks go back.
_MARGIN_MS = 3000


@dataclass(frozen=True, slots=True)
class StoreCheckpoint:
    """The checkpoint of a store; see STORE_CHECKPOINT."""

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0
    master_flushed_offset: int = 0
    confirmed_offset: int = 0
    queues_offset: int = 0

    @property
    def recovery_ms(self) -> int:
        """Return a store time up to which log and queues were synced: 3 s before the earlier of both, at least 0."""
        return max(min(self.log_ms, self.queues_ms) - _MARGIN_MS, 0)

    def pack(self) -> bytes:
        """Return the contents of the file."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return STORE_CHECKPOINT.pack(values).ljust(CHECKPOINT_FILE_BYTES, b"\0")


def parse_checkpoint(data: bytes) -> StoreCheckpoint:
    """Parse the contents of the file; missing bytes count as zeros."""
    return StoreCheckpoint(**STORE_CHECKPOINT.unpack(data.ljust(STORE_CHECKPOINT.size, b"\0")))


STORE_SIDECAR = Layout(
    "store_sidecar",
    "The sidecar of a store",
    size=40,
    fields=(
        Field("magic", "bytes:8", "`BINLOGCS`", const=b"BINLOGCS"),
        Field("version", "u32", "readers ignore a sidecar of another version", const=1),
        Field("doorbell", "u32", "a futex word, incremented after each change that readers wait for"),
        Field("log_start", "i64", "start of the commit log's first file"),
        Field("readable_end", "i64", "end of the messages that are in the consume queues and the key index"),
        Field("key_slots", "u32", "slots in each file of the key index; 0 if unknown"),
        Field("crc", "u32", "CRC-32C of 16..35"),
    ),
)

SIDECAR_FILE = "binlog.sidecar"
SIDECAR_BYTES = 4096
DOORBELL_OFFSET = STORE_SIDECAR.offset("doorbell")
READER_STATE_OFFSET = STORE_SIDECAR.offset("log_start")
_CRC_OFFSET = STORE_SIDECAR.offset("crc")


class ReaderState(NamedTuple):
    """The state that the owner publishes to readers; see STORE_SIDECAR."""

    log_start: int
    readable_end: int
    key_slots: int = 0


def pack_sidecar(reader_state: ReaderState, *, doorbell: int) -> bytes:
    """Return the contents of the file."""
    fields = {**reader_state._asdict(), "doorbell": doorbell, "crc": 0}
    data = STORE_SIDECAR.pack(fields)
    fields["crc"] = crc32c(data[READER_STATE_OFFSET:_CRC_OFFSET])
    return STORE_SIDECAR.pack(fields).ljust(SIDECAR_BYTES, b"\0")


def pack_reader_state(reader_state: ReaderState) -> bytes:
    """Return the part that changes, without the doorbell; it is written at READER_STATE_OFFSET."""
    return pack_sidecar(reader_state, doorbell=0)[READER_STATE_OFFSET : STORE_SIDECAR.size]


def parse_sidecar(data: bytes) -> tuple[ReaderState, int] | None:
    """Return the state and the doorbell; None for another kind of file, or one that is being written."""
    if len(data) < STORE_SIDECAR.size:
        return None
    found = STORE_SIDECAR.unpack(data)
    known = (STORE_SIDECAR.const("magic"), STORE_SIDECAR.const("version"))
    if (found["magic"], found["version"]) != known or found["crc"] != crc32c(data[READER_STATE_OFFSET:_CRC_OFFSET]):
        return None
    return ReaderState(*(found[name] for name in ReaderState._fields)), found["doorbell"]


_MAGIC = b"BINLOGPB"

POOL_BUFFER = Layout(
    "pool_buffer",
    "The head of a buffer",
    size=24,
    fields=(
        Field("offset", "i64", "start of the file in the commit log; its bytes follow at 4096"),
        Field("file_bytes", "u64", "size of the file"),
        Field("magic", "bytes:8", "`BINLOGPB` while the buffer is in use; any other value while it is free"),
    ),
)

HEAD_BYTES = 4096


def pack_head(*, offset: int, file_bytes: int) -> bytes:
    """Return the head of a buffer in use."""
    return POOL_BUFFER.pack({"offset": offset, "file_bytes": file_bytes, "magic": _MAGIC})


def parse_head(data: bytes, *, file_bytes: int) -> int | None:
    """Return the start of the buffer's file; None if the buffer is free, or belongs to files of another size."""
    head = POOL_BUFFER.unpack(data)
    return head["offset"] if head["magic"] == _MAGIC and head["file_bytes"] == file_bytes else None
