"""What a store says of itself beside its messages: who has it, how it was left, what readers are told."""

from __future__ import annotations

import os
from dataclasses import dataclass

from binlog.commitlog.sidecar import SidecarReader
from binlog.errors import NotFoundError
from binlog.format.commitlog.checkpoint import CHECKPOINT_FILE_BYTES, StoreCheckpoint, parse_checkpoint
from binlog.format.commitlog.names import ABORT_FILE, CHECKPOINT_FILE, LOCK_FILE
from binlog.format.commitlog.sidecar import News
from binlog.storage.failures import own_errors
from binlog.storage.files import open_file, read_at
from binlog.storage.locks import holder, is_locked


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


def look(directory_fd: int, path: str) -> StoreState:
    """The state of the store in a folder.  Raises: AccessError."""
    owned, owner = _owner(directory_fd, path)
    with own_errors(path, "looking for the abort marker"):
        aborted = os.path.lexists(os.path.join(path, ABORT_FILE))
    checkpoint = os.path.join(path, CHECKPOINT_FILE)
    return StoreState(owned, owner, aborted, _news(directory_fd, path), read_checkpoint(directory_fd, checkpoint))


def _owner(directory_fd: int, path: str) -> tuple[bool, str | None]:
    try:
        fd = open_file(directory_fd, LOCK_FILE, os.path.join(path, LOCK_FILE), writable=False)
    except NotFoundError:
        return False, None
    try:
        return (True, holder(fd)) if is_locked(fd) else (False, None)
    finally:
        os.close(fd)


def _news(directory_fd: int, path: str) -> News | None:
    try:
        sidecar = SidecarReader(directory_fd, path)
    except NotFoundError:
        return None
    try:
        return sidecar.news()
    finally:
        sidecar.close()


def read_checkpoint(directory_fd: int, path: str) -> StoreCheckpoint | None:
    """What the checkpoint says, whose path that is; None where there is none.  Raises: AccessError."""
    try:
        fd = open_file(directory_fd, CHECKPOINT_FILE, path, writable=False)
    except NotFoundError:
        return None
    try:
        return parse_checkpoint(read_at(fd, CHECKPOINT_FILE_BYTES, 0, path))
    finally:
        os.close(fd)
