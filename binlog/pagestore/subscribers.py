"""Durable subscribers: a file for each, which is replaced whole."""

from __future__ import annotations

import os

from binlog.errors import NotFoundError
from binlog.format.pagestore.names import NEW_END
from binlog.format.pagestore.subscriber import (
    SUBSCRIBER_END,
    DurableSubscriber,
    parse_subscriber,
    subscriber_file_name,
)
from binlog.pagestore.own_folder import OwnFolder
from binlog.storage.files import (
    content_bytes,
    create_file,
    list_folder,
    open_file,
    read_at,
    remove_file,
    rename_file,
    sync,
    sync_directory,
    sync_parent,
    write_at,
)
from binlog.storage.undisturbed import Undisturbed


class DurableSubscribers(OwnFolder):
    """Those in a folder, for this process, whose threads may share it.  All that it does is durable when it returns."""

    what = "folder of durable subscribers"
    lock_name = "subscribers.lock"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """The folder is made where there is none, in one that is there.

        Raises: BusyError; AccessError; PoisonedError.
        """
        super().__init__(path)
        self._steps = Undisturbed("binlog subscribers step")

    def _begin(self) -> None:
        sync_parent(self._directory_fd, self.path)
        for name in list_folder(self.path):
            if name.endswith(SUBSCRIBER_END + NEW_END):
                remove_file(self._directory_fd, name, os.path.join(self.path, name))

    def save(self, subscriber: DurableSubscriber) -> None:
        """Have a subscriber, in place of the one with the same client and name.

        Raises: FullError; AccessError; ClosedError; PoisonedError.
        """
        self._check()
        data = subscriber.pack()
        self._steps.do(lambda: self._replace(subscriber.file_name, data))

    def _replace(self, name: str, data: bytes) -> None:
        path = os.path.join(self.path, name)
        remove_file(self._directory_fd, name + NEW_END, path)
        fd = create_file(self._directory_fd, name + NEW_END, path)
        try:
            write_at(fd, data, 0, path)
            sync(fd, path)
        finally:
            os.close(fd)
        rename_file(self._directory_fd, name + NEW_END, name, path)

    def find(self, client_id: str, name: str) -> DurableSubscriber | None:
        """A subscriber, if there is one.  Raises: CorruptError; VersionError; AccessError; ClosedError."""
        self._check()
        try:
            return self._read(subscriber_file_name(client_id, name))
        except NotFoundError:
            return None

    def all(self) -> list[DurableSubscriber]:
        """All of them, by client and name.  Raises: as `find`."""
        self._check()
        names = [name for name in list_folder(self.path) if name.endswith(SUBSCRIBER_END)]
        return sorted(map(self._read, names), key=lambda each: (each.client_id, each.name))

    def remove(self, client_id: str, name: str) -> None:
        """Have it no more.  Raises: NotFoundError; AccessError; ClosedError; PoisonedError."""
        self._check()
        file_name = subscriber_file_name(client_id, name)
        if file_name not in list_folder(self.path):
            raise NotFoundError(f"there is no subscriber {name!r} of {client_id!r}")
        path = os.path.join(self.path, file_name)
        self._steps.do(lambda: self._remove(file_name, path))

    def _remove(self, file_name: str, path: str) -> None:
        remove_file(self._directory_fd, file_name, path)
        sync_directory(self._directory_fd, path)

    def _read(self, file_name: str) -> DurableSubscriber:
        path = os.path.join(self.path, file_name)
        fd = open_file(self._directory_fd, file_name, path, writable=False)
        try:
            return parse_subscriber(read_at(fd, content_bytes(fd), 0, path), file_name, path)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Give the folder up; a second call does nothing."""
        if not self._is_closed and not self._ownership.inherited:
            self._is_closed = True
            self._give_up()
            self._steps.stop()
