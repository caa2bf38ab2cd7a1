"""How a writer is opened."""

from __future__ import annotations

from dataclasses import dataclass, field

from binlog.format.values import settle
from binlog.log.limits import Limits
from binlog.log.writable_file import PREPARE_BYTES_FIRST
from binlog.storage.files import FileSystem
from binlog.storage.group_commit import Mode


@dataclass(frozen=True, kw_only=True)
class Background:
    """When a writer's background thread works, for records that no caller waits for.

    flush_seconds: a staged record is put into the file so much later at most.
    sync_seconds: what is in the file is synced so much later at most.
    """

    flush_seconds: float = 0.2
    sync_seconds: float = 0.5

    def __post_init__(self) -> None:
        settle(self)
        for name in ("flush_seconds", "sync_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is more than 0, not {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class WriterOptions:
    """See Writer."""

    mode: Mode = Mode.SYNC
    strict: bool = False
    background: Background = field(default_factory=Background)
    record_bytes_max: int = 64 << 20
    prepare_bytes: int = 64 << 20
    cutover_bytes: int | None = None
    cutover_seconds: float | None = None
    lock_timeout: float | None = None
    permissions: int | None = None
    file_system: FileSystem = FileSystem.LOCAL

    @property
    def limited(self) -> bool:
        """Whether the open file is to be closed by itself."""
        return self.cutover_bytes is not None or self.cutover_seconds is not None

    def limits(self) -> Limits | None:
        """What closes the open file by itself, if anything does."""
        if not self.limited:
            return None
        return Limits(file_bytes=self.cutover_bytes, seconds=self.cutover_seconds)

    @property
    def file_bytes_first(self) -> int:
        """Space that a new file gets before it has a name."""
        return min(PREPARE_BYTES_FIRST, self.prepare_bytes)
