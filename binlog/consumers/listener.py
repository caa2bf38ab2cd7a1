"""The listener: the one idle member that waits for new messages and for due times, so that no other has to.

It has a lock on a file, which the kernel frees when its process dies.  The others try the lock each time they wait.
"""

from __future__ import annotations

from binlog.storage.descriptors import Descriptor
from binlog.storage.directory import Directory
from binlog.storage.locking.locks import try_lock, unlock

_NAME = "listener"


class Listener:
    """The lock of the listener, in a group's open directory."""

    def __init__(self, directory: Directory) -> None:
        if not directory.has(_NAME):
            directory.make(_NAME)
        self._file = Descriptor(directory.fd, _NAME, directory.file_path(_NAME))
        self.is_ours = False

    def take(self, seat: int) -> bool:
        """Become the listener, if no other member is; return whether this member is."""
        self.is_ours = self.is_ours or try_lock(self._file.fd)
        return self.is_ours

    def give_up(self) -> None:
        """Let another member become the listener."""
        if self.is_ours:
            unlock(self._file.fd)
            self.is_ours = False

    def close(self) -> None:
        """Close the file, which frees the lock."""
        self._file.close()
