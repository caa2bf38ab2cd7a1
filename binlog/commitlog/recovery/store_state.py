"""What a store says of itself beside its messages: who has it, how it was left, what readers are told.

Telling readers in other processes what there is, and being told.

Whether the process that had a store before ended as it should.

As in RocketMQ the file `abort` is there from the first moment to the last of a clean stop.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from binlog.errors import NotFoundError
from binlog.format.commitlog.names import ABORT_FILE, CHECKPOINT_FILE, LOCK_FILE
from binlog.format.commitlog.store_files import (
    CHECKPOINT_FILE_BYTES,
    DOORBELL_OFFSET,
    NEWS_OFFSET,
    SIDECAR_BYTES,
    SIDECAR_FILE,
    News,
    StoreCheckpoint,
    pack_news,
    pack_sidecar,
    parse_checkpoint,
    parse_sidecar,
)
from binlog.storage.directory import Directory, OpenFile
from binlog.storage.failures import own_errors
from binlog.storage.files import read_at, write_at
from binlog.storage.locking.directory_lock import find_owner
from binlog.storage.waiting.doorbell import Doorbell

_LOOKS_MAX = 100  # a look may meet a write that is half done


class Sidecar:
    """The owner's: publishes news, and wakes those who wait for them."""

    def __init__(self, directory: Directory, news: News) -> None:
        self._path = directory.file_path(SIDECAR_FILE)
        self._directory = directory
        is_there = directory.has(SIDECAR_FILE)
        self._fd = directory.open(SIDECAR_FILE, writable=True) if is_there else directory.create(SIDECAR_FILE)
        found = parse_sidecar(read_at(self._fd, SIDECAR_BYTES, 0, self._path))
        self._bell = (found[1] if found else 0) + 1 & 0xFFFFFFFF
        write_at(self._fd, pack_sidecar(news, doorbell=self._bell), 0, self._path)
        self._doorbell = Doorbell(self._fd, DOORBELL_OFFSET)
        self._doorbell.wake()

    def publish(self, news: News) -> None:
        """Tell readers.  The news first, then the bell, then the waking: so that nobody sleeps over them."""
        write_at(self._fd, pack_news(news), NEWS_OFFSET, self._path)
        self._bell = self._bell + 1 & 0xFFFFFFFF
        write_at(self._fd, self._bell.to_bytes(4, "big"), DOORBELL_OFFSET, self._path)
        self._doorbell.wake()

    def close(self) -> None:
        """Give its descriptor back."""
        self._doorbell.close()
        self._directory.close_file(self._fd)


class SidecarReader:
    """A reader's.  Raises, in making one: NotFoundError where there is none; AccessError."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._path = directory.file_path(SIDECAR_FILE)
        self._file = OpenFile(directory, SIDECAR_FILE, writable=False)
        self._doorbell = Doorbell(self._file.fd, DOORBELL_OFFSET)
        self._seen = 0

    def news(self) -> News | None:
        """What was published last; None where the file is of another kind or version, or from before RocketMQ came."""
        with own_errors(self._path, "asking who had the store last"):
            if os.stat(LOCK_FILE, dir_fd=self._directory.fd).st_size > 0:
                return None
        for _ in range(_LOOKS_MAX):
            found = parse_sidecar(read_at(self._file.fd, SIDECAR_BYTES, 0, self._path))
            if found is not None:
                news, self._seen = found
                return news
        return None

    def wait(self, timeout: float) -> None:
        """Wait until there may be other news than those given last, for `timeout` seconds at most."""
        self._doorbell.wait(self._seen, timeout)

    def close(self) -> None:
        """Give its descriptor back."""
        self._doorbell.close()
        self._file.close()


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


def mark_begun(directory: Directory) -> bool:
    """Leave the marker that a clean stop removes, durably; whether one was left before."""
    is_new = directory.make(ABORT_FILE)
    with OpenFile(directory, ABORT_FILE, writable=True) as fd:
        write_at(fd, f"{os.getpid()}".encode(), 0, directory.file_path(ABORT_FILE))
    directory.sync()
    return not is_new


def mark_ended(directory: Directory) -> None:
    """All that was appended is on the disk, and the queues were told of it: remove the marker, durably."""
    directory.remove(ABORT_FILE)
    directory.sync()
