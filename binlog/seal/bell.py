"""Bells: wake a sealer before its second is over, and the callers that wait for its checkpoint.

They are two doorbells (binlog/storage/waiting/doorbell.py) in a file of the seal's folder.  A caller without the
permission to write to the file cannot wake the sealer, and waits until its next round.
"""

from __future__ import annotations

import os

from binlog.errors import NotFoundError
from binlog.storage.descriptors import Descriptor
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors
from binlog.storage.waiting.doorbell import Doorbell

_NAME = "bells"
_WORD_BYTES = 4
_BYTES = 4096


class Bell:
    """One of the bells: `requests` wakes the sealer, `answers` the callers that wait.

    make: make the file if it does not exist.
    Raises: NotFoundError; AccessError.
    """

    def __init__(self, directory: Directory, which: str, *, make: bool = False) -> None:
        path = directory.file_path(_NAME)
        if make and directory.make(_NAME):
            with directory.opened(_NAME, writable=True) as fd, own_errors(path, "making the bells"):
                os.ftruncate(fd, _BYTES)
        if not directory.has(_NAME):
            raise NotFoundError(f"{path}: no sealer has run yet")
        self._path = path
        self._offset = ("requests", "answers").index(which) * _WORD_BYTES
        self._file = Descriptor(directory.fd, _NAME, path)
        self._doorbell = Doorbell(self._file.fd, self._offset)

    def value(self) -> int:
        """Return the word that `wait` compares."""
        return self._doorbell.value()

    def wait(self, seen: int, seconds: float) -> None:
        """Wait until the bell is rung after `seen` was its value, for some seconds at most; it may return early."""
        self._doorbell.wait(seen, seconds)

    def ring(self) -> None:
        """Wake all that wait.  Raises: AccessError."""
        value = (self.value() + 1) & 0xFFFFFFFF
        with own_errors(self._path, "ringing a bell"):
            os.pwrite(self._file.fd, value.to_bytes(_WORD_BYTES, "big"), self._offset)
        self._doorbell.wake()

    def close(self) -> None:
        """Close the file."""
        self._doorbell.close()
        self._file.close()
