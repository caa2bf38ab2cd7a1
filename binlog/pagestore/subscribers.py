"""Durable subscribers: one file for each, which is always replaced as a whole."""

from __future__ import annotations

import os
from contextlib import ExitStack

from binlog.errors import NotFoundError
from binlog.format.pagestore.other_files import (
    NEW_EXTENSION,
    SUBSCRIBER_EXTENSION,
    DurableSubscriber,
    parse_subscriber,
    subscriber_file_name,
)
from binlog.storage.handle import Handle


class DurableSubscribers(Handle):
    """The durable subscribers in a folder.  One process has it at a time; its threads may share it.

    Every change is durable when its call returns.
    """

    kind = "folder of durable subscribers"
    lock_name = "subscribers.lock"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the folder; create it if it does not exist, in an existing parent.

        Raises: BusyError; AccessError; PoisonedError.
        """
        super().__init__(path)
        self._acquire()

    def _open(self, undoing: ExitStack) -> None:
        for name in self._directory.names():
            if name.endswith(SUBSCRIBER_EXTENSION + NEW_EXTENSION):
                self._directory.remove(name)

    def _end(self) -> None:
        """Do nothing: everything is durable already."""

    def save(self, subscriber: DurableSubscriber) -> None:
        """Save a subscriber; replace the one with the same client and name.

        Raises: FullError; AccessError; ClosedError; PoisonedError.
        """
        self._check_open()
        name, data = subscriber.file_name, subscriber.pack()
        with self._guard:
            self._directory.write_new(name + NEW_EXTENSION, data)
            self._directory.rename(name + NEW_EXTENSION, name)

    def find(self, client_id: str, name: str) -> DurableSubscriber | None:
        """Return a subscriber, or None.  Raises: CorruptError; VersionError; AccessError; ClosedError."""
        self._check_open()
        try:
            return self._read(subscriber_file_name(client_id, name))
        except NotFoundError:
            return None

    def all(self) -> list[DurableSubscriber]:
        """Return all subscribers, sorted by client and name.  Raises: as `find`."""
        self._check_open()
        names = [name for name in self._directory.names() if name.endswith(SUBSCRIBER_EXTENSION)]
        return sorted(map(self._read, names), key=lambda each: (each.client_id, each.name))

    def remove(self, client_id: str, name: str) -> None:
        """Remove a subscriber.  Raises: NotFoundError; AccessError; ClosedError; PoisonedError."""
        self._check_open()
        file_name = subscriber_file_name(client_id, name)
        if file_name not in self._directory.names():
            raise NotFoundError(f"client {client_id!r} has no subscriber {name!r}")
        with self._guard:
            self._directory.remove(file_name)
            self._directory.sync()

    def _read(self, file_name: str) -> DurableSubscriber:
        return parse_subscriber(self._directory.read(file_name), file_name, self._directory.file_path(file_name))
