"""Telling readers in other processes what there is, and being told."""

from __future__ import annotations

import os

from binlog.format.commitlog.names import LOCK_FILE
from binlog.format.commitlog.sidecar import (
    DOORBELL_OFFSET,
    NEWS_OFFSET,
    SIDECAR_BYTES,
    SIDECAR_FILE,
    News,
    pack_news,
    pack_sidecar,
    parse_sidecar,
)
from binlog.storage.directory import Directory, OpenFile
from binlog.storage.doorbell import Doorbell
from binlog.storage.failures import own_errors
from binlog.storage.files import read_at, write_at

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
