"""That one process has a folder of paging, and in it one manager.

A lock of `fcntl` is a process's own and would let the same process in twice, so that keeps a list of what it has.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager

from binlog.errors import BusyError
from binlog.format.paging.names import LOCK_FILE
from binlog.storage.native import fork_generation
from binlog.storage.ownership import only_owner

_mutex = threading.Lock()
_owned: set[tuple[int, int, int]] = set()


class Ownership:
    """The paging in a folder, for this object alone.

    inherited: whether this is a forked child, and the paging its parent's.
    """

    def __init__(self, path: str, directory_fd: int) -> None:
        """Raises: BusyError; AccessError."""
        status = os.fstat(directory_fd)
        self._generation = fork_generation()
        self._key = (self._generation, status.st_dev, status.st_ino)
        with _mutex:
            if self._key in _owned:
                raise BusyError(f"the paging {path} belongs to this process already", holder=f"process {os.getpid()}")
            _owned.add(self._key)
        self._lock: AbstractContextManager[None] = only_owner(os.path.join(path, LOCK_FILE), "has the paging")
        try:
            self._lock.__enter__()
        except BaseException:
            self._forget()
            raise

    @property
    def inherited(self) -> bool:
        """See above."""
        return fork_generation() != self._generation

    def release(self) -> None:
        """Give it up."""
        if self.inherited:
            return
        try:
            self._lock.__exit__(None, None, None)
        finally:
            self._forget()

    def _forget(self) -> None:
        with _mutex:
            _owned.discard(self._key)
