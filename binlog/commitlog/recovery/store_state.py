"""The state files of a store: the sidecar for readers, the checkpoint, and the abort marker.

The owner publishes the readable range of the log in the sidecar.  As in RocketMQ, the file `abort` exists from the
opening of a store until the end of a clean stop, so the next owner knows whether the store crashed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from binlog.errors import NotFoundError
from binlog.format.commitlog.names import ABORT_FILE, CHECKPOINT_FILE, LOCK_FILE
from binlog.format.commitlog.store_files import (
    CHECKPOINT_FILE_BYTES,
    DOORBELL_OFFSET,
    READER_STATE_OFFSET,
    SIDECAR_BYTES,
    SIDECAR_FILE,
    ReaderState,
    StoreCheckpoint,
    pack_reader_state,
    pack_sidecar,
    parse_checkpoint,
    parse_sidecar,
)
from binlog.storage.directory import Directory, OpenFile
from binlog.storage.failures import own_errors
from binlog.storage.files import read_at, write_at
from binlog.storage.locking.directory_lock import find_owner
from binlog.storage.waiting.doorbell import Doorbell

_ATTEMPTS_MAX = 100  # a read may see a write that is half done


class Sidecar:
    """The sidecar as its owner writes it: publishes the reader state, and wakes waiting readers."""

    def __init__(self, directory: Directory, reader_state: ReaderState) -> None:
        self._path = directory.file_path(SIDECAR_FILE)
        self._directory = directory
        is_there = directory.has(SIDECAR_FILE)
        self._fd = directory.open(SIDECAR_FILE, writable=True) if is_there else directory.create(SIDECAR_FILE)
        found = parse_sidecar(read_at(self._fd, SIDECAR_BYTES, 0, self._path))
        self._doorbell_value = (found[1] if found else 0) + 1 & 0xFFFFFFFF
        write_at(self._fd, pack_sidecar(reader_state, doorbell=self._doorbell_value), 0, self._path)
        self._doorbell = Doorbell(self._fd, DOORBELL_OFFSET)
        self._doorbell.wake()

    def publish(self, reader_state: ReaderState) -> None:
        """Publish the state: the fields first, then the doorbell, then the wake-up, so that no reader misses it."""
        write_at(self._fd, pack_reader_state(reader_state), READER_STATE_OFFSET, self._path)
        self._doorbell_value = self._doorbell_value + 1 & 0xFFFFFFFF
        write_at(self._fd, self._doorbell_value.to_bytes(4, "big"), DOORBELL_OFFSET, self._path)
        self._doorbell.wake()

    def close(self) -> None:
        """Close the descriptor."""
        self._doorbell.close()
        self._directory.close_file(self._fd)


class SidecarReader:
    """The sidecar as a reader sees it.  The constructor raises NotFoundError if there is none; AccessError."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._path = directory.file_path(SIDECAR_FILE)
        self._file = OpenFile(directory, SIDECAR_FILE, writable=False)
        self._doorbell = Doorbell(self._file.fd, DOORBELL_OFFSET)
        self._seen = 0

    def reader_state(self) -> ReaderState | None:
        """Return the last published state; None if the file has another kind or version, or RocketMQ wrote later."""
        with own_errors(self._path, "reading the last owner of the store"):
            if os.stat(LOCK_FILE, dir_fd=self._directory.fd).st_size > 0:
                return None
        for _ in range(_ATTEMPTS_MAX):
            found = parse_sidecar(read_at(self._file.fd, SIDECAR_BYTES, 0, self._path))
            if found is not None:
                reader_state, self._seen = found
                return reader_state
        return None

    def wait(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for a state other than the last one returned."""
        self._doorbell.wait(self._seen, timeout)

    def close(self) -> None:
        """Close the descriptors."""
        self._doorbell.close()
        self._file.close()


@dataclass(frozen=True, slots=True)
class StoreState:
    """The state of a store at one moment.

    owned: a process has the store open for writing.  owner: a text that names it, if that can be known.
    aborted: the abort marker exists, which a clean stop removes.
    reader_state, checkpoint: None if the file is missing or cannot be read.
    """

    owned: bool
    owner: str | None
    aborted: bool
    reader_state: ReaderState | None
    checkpoint: StoreCheckpoint | None

    @property
    def clean(self) -> bool:
        """Return whether no process has the store, and its last owner stopped cleanly."""
        return not self.owned and not self.aborted


def read_state(directory: Directory) -> StoreState:
    """Return the state of the store in a folder.  Raises: AccessError."""
    owned, owner = find_owner(directory, LOCK_FILE)
    return StoreState(owned, owner, directory.has(ABORT_FILE), _reader_state(directory), read_checkpoint(directory))


def _reader_state(directory: Directory) -> ReaderState | None:
    try:
        sidecar = SidecarReader(directory)
    except NotFoundError:
        return None
    return sidecar.reader_state()


def read_checkpoint(directory: Directory) -> StoreCheckpoint | None:
    """Return the checkpoint; None if there is none.  Raises: AccessError."""
    try:
        return parse_checkpoint(directory.read(CHECKPOINT_FILE, CHECKPOINT_FILE_BYTES))
    except NotFoundError:
        return None


def create_abort_marker(directory: Directory) -> bool:
    """Create the abort marker durably; return whether it existed already."""
    is_new = directory.make(ABORT_FILE)
    with OpenFile(directory, ABORT_FILE, writable=True) as fd:
        write_at(fd, f"{os.getpid()}".encode(), 0, directory.file_path(ABORT_FILE))
    directory.sync()
    return not is_new


def remove_abort_marker(directory: Directory) -> None:
    """Remove the abort marker durably: all messages are on the disk and dispatched."""
    directory.remove(ABORT_FILE)
    directory.sync()
