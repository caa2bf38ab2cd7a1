"""Waiting for the seal: `wait` returns once a checkpoint covers a record.

A program that calls it before it acts knows that the record of the act is protected.

Two bells wake a sealer before its next round, and the callers that wait for its checkpoint.  They are doorbells
(binlog/storage/waiting/doorbell.py) in a file of the seal's folder.  A caller without the permission to write to the
file cannot wake the sealer, and sleeps until the sealer rings after its next round.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, closing, suppress
from datetime import timedelta

from binlog.errors import AccessError, NotFoundError, TimedOutError
from binlog.format.record import Ref
from binlog.format.seal.note import Note
from binlog.format.values import duration_of
from binlog.seal.folder import SealFolder
from binlog.seal.proving import leaf_index
from binlog.seal.sealing.anchoring import read_anchored
from binlog.storage.descriptors import Descriptor
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors
from binlog.storage.files import truncate
from binlog.storage.waiting.doorbell import Doorbell

_NAME = "bells"
_WORD_BYTES = 4
_BYTES = 4096
# If no sealer has run yet, so that there are no bells.
_POLL_SECONDS = 0.02
# With one; a sealer may have died between its checkpoint and the bell.
_BELL_SECONDS = 1.0


class Bell:
    """One of the bells: `requests` wakes the sealer, `answers` the callers that wait.

    make: make the file if it does not exist.  writable: it can be rung; otherwise read permission is enough.
    Raises: NotFoundError; AccessError.
    """

    def __init__(self, directory: Directory, which: str, *, make: bool = False, writable: bool = True) -> None:
        path = directory.file_path(_NAME)
        if make and directory.make(_NAME):
            with directory.opened(_NAME, writable=True) as fd:
                truncate(fd, _BYTES, path)
        if not directory.has(_NAME):
            raise NotFoundError(f"{path}: no sealer has run yet")
        self._path = path
        self._offset = ("requests", "answers").index(which) * _WORD_BYTES
        self._file = Descriptor(directory.fd, _NAME, path, writable=writable)
        self._doorbell = Doorbell(self._file.fd, self._offset)

    def value(self) -> int:
        """Return the word that `wait` compares.  Raises: AccessError."""
        with own_errors(self._path, "reading a bell"):
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


def wait(
    path: str | os.PathLike[str],
    ref: Ref | str,
    *,
    anchored: int = 0,
    timeout: float | timedelta | str | None = None,
) -> Note:
    """Wait until a signed checkpoint covers a record, and return one that does.

    anchored: also wait until this many anchors have a checkpoint that covers it.  timeout: None waits forever.
    Wakes the sealer, if this process may write to the seal's folder; otherwise it waits until the sealer's next round.
    Raises: TimedOutError if the time is up: the record is in the log, and will be sealed once a sealer runs;
    NotFoundError if the log has no seal; SealError if a file of it is malformed; AccessError.
    """
    ref = Ref.parse(ref) if isinstance(ref, str) else ref
    deadline = None if timeout is None else time.monotonic() + duration_of(timeout, "timeout")
    with SealFolder(path) as folder, ExitStack() as opened:
        answers: Bell | None = None
        with suppress(NotFoundError):
            answers = Bell(folder.directory, "answers", writable=False)
            opened.callback(answers.close)
            _wake_sealer(folder)
        leaf: int | None = None
        while True:
            seen = 0 if answers is None else answers.value()
            note = _covering(folder, ref)
            if note is not None:
                if not anchored:
                    return note
                leaf = leaf_index(path, folder, ref) if leaf is None else leaf
                if sum(each.size > leaf for each in read_anchored(folder).values()) >= anchored:
                    return note
            most = _POLL_SECONDS if answers is None else _BELL_SECONDS
            left = most if deadline is None else min(deadline - time.monotonic(), most)
            if left <= 0:
                raise TimedOutError(f"{os.fspath(path)}: {ref} was not sealed in time")
            if answers is None:
                time.sleep(left)
            else:
                answers.wait(seen, left)


def _wake_sealer(folder: SealFolder) -> None:
    """Ring for the sealer, if this process may."""
    with suppress(AccessError), closing(Bell(folder.directory, "requests")) as requests:
        requests.ring()


def _covering(folder: SealFolder, ref: Ref) -> Note | None:
    """Return the latest checkpoint, if it covers the record."""
    try:
        state = folder.state()
    except NotFoundError:
        return None
    return state.note if state.next_ref > ref else None
