"""That one process has a journal, and in it one object.

A lock of `fcntl` is a process's own: it would let the same process in twice, and go with the first descriptor of the
file that any part of it closes.  So the process keeps a list of what it has.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager

from binlog.errors import BusyError
from binlog.format.journal.names import LOCK_FILE
from binlog.storage.native import fork_generation
from binlog.storage.ownership import only_owner

_mutex = threading.Lock()
_owned: set[tuple[int, int, int]] = set()


class Ownership:
    """The journal in a folder, for this object alone.

    inherited: whether this is a forked child, and the journal its parent's.
    """

    def __init__(self, path: str, directory_fd: int) -> None:
        """Raises: BusyError; AccessError."""
        status = os.fstat(directory_fd)
        self._generation = fork_generation()
        self._key = (self._generation, status.st_dev, status.st_ino)
        with _mutex:
            if self._key in _owned:
                raise BusyError(f"the journal {path} belongs to this process already", holder=f"process {os.getpid()}")
            _owned.add(self._key)
        self._lock: AbstractContextManager[None] = only_owner(os.path.join(path, LOCK_FILE), "has the journal")
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
