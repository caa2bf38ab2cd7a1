"""The store's checkpoint: up to which store times its parts were synced, so that recovery knows where to begin."""

from __future__ import annotations

from dataclasses import dataclass

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
