"""What a store says of itself beside its messages: who has it, how it was left, what readers are told."""

from __future__ import annotations

from dataclasses import dataclass

from binlog.commitlog.sidecar import SidecarReader
from binlog.errors import NotFoundError
from binlog.format.commitlog.checkpoint import CHECKPOINT_FILE_BYTES, StoreCheckpoint, parse_checkpoint
from binlog.format.commitlog.names import ABORT_FILE, CHECKPOINT_FILE, LOCK_FILE
from binlog.format.commitlog.sidecar import News
from binlog.storage.directory import Directory
from binlog.storage.directory_lock import find_owner


@dataclass(frozen=True, slots=True)
class StoreState:
    """A store at one moment.

    owned: a process has it.  owner: a text that names it, where that can be known.
    aborted: the marker is there that a clean stop removes.
    news, checkpoint: None where there are none, or none that can be read.
    """

    owned: bool
    owner: str | None
    aborted: bool
    news: News | None
    checkpoint: StoreCheckpoint | None

    @property
    def clean(self) -> bool:
        """Nobody has it, and whoever had it stopped as they should."""
        return not self.owned and not self.aborted


def look(directory: Directory) -> StoreState:
    """The state of the store in a folder.  Raises: AccessError."""
    owned, owner = find_owner(directory, LOCK_FILE)
    return StoreState(owned, owner, directory.has(ABORT_FILE), _news(directory), read_checkpoint(directory))


def _news(directory: Directory) -> News | None:
    try:
        sidecar = SidecarReader(directory)
    except NotFoundError:
        return None
    return sidecar.news()


def read_checkpoint(directory: Directory) -> StoreCheckpoint | None:
    """What the checkpoint says; None where there is none.  Raises: AccessError."""
    try:
        return parse_checkpoint(directory.read(CHECKPOINT_FILE, CHECKPOINT_FILE_BYTES))
    except NotFoundError:
        return None
