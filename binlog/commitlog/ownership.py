"""That one process has a store, and whether the one before it ended as it should.

As in RocketMQ the file `lock` is locked, by a lock of the kernel that goes with its holder, and the file `abort` is
there from the first moment to the last of a clean stop.  RocketMQ writes the word `lock` into the first one when it
opens a store; ours leave it empty.
"""

from __future__ import annotations

import errno
import os

from binlog.errors import BusyError
from binlog.format.commitlog.names import ABORT_FILE, LOCK_FILE
from binlog.storage.descriptor import Descriptor
from binlog.storage.failures import own_errors
from binlog.storage.files import create_file, remove_file, sync_directory, write_at
from binlog.storage.locks import lock


class Ownership:
    """The store in `path`, for this process alone.

    crashed: whether the process that had it before ended in another way than by `release(clean=True)`; see `begin`.
    """

    def __init__(self, path: str, directory_fd: int) -> None:
        """Lock the store, and change nothing that was there.

        Raises: BusyError, with the process that has it where that can be known; AccessError.
        """
        self.crashed = False
        self._path = path
        self._directory_fd = directory_fd
        where = os.path.join(path, LOCK_FILE)
        self._make(LOCK_FILE)
        self._lock = Descriptor(directory_fd, LOCK_FILE, where)
        try:
            lock(self._lock.fd, where, timeout=0)
        except BusyError as error:
            self._lock.close()
            raise BusyError(
                f"the store {path} belongs to {error.holder or 'another process'}", holder=error.holder
            ) from None
        except BaseException:
            self._lock.close()
            raise

    def begin(self) -> None:
        """Leave the marker that a clean stop removes, durably."""
        path = self._path
        with own_errors(path, "taking the store"):
            os.ftruncate(self._lock.fd, 0)  # RocketMQ writes into it: so readers know who had the store last
        self.crashed = not self._make(ABORT_FILE)
        fd = Descriptor(self._directory_fd, ABORT_FILE, os.path.join(path, ABORT_FILE))
        try:
            write_at(fd.fd, f"{os.getpid()}".encode(), 0, path)
        finally:
            fd.close()
        sync_directory(self._directory_fd, path)

    def _make(self, name: str) -> bool:
        """Make the file where there is none; whether it was made."""
        path = os.path.join(self._path, name)
        try:
            os.close(create_file(self._directory_fd, name, path))
        except OSError as error:  # ours are OSErrors too
            if error.errno != errno.EEXIST:
                raise
            return False
        return True

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child, and the store its parent's; or this process closed all its descriptors."""
        return self._lock.inherited or not self._lock.intact

    def release(self, *, clean: bool) -> None:
        """Give the store up.  clean: all that was appended is on the disk, and the queues were told of it."""
        try:
            if clean and not self.inherited:
                with own_errors(self._path, "ending cleanly"):
                    remove_file(self._directory_fd, ABORT_FILE, self._path)
                sync_directory(self._directory_fd, self._path)
        finally:
            self._lock.close()
