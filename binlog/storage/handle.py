"""The life of what one object of one process has open in a directory, and its threads share.

It is opened whole or not at all.  An exception of a signal handler in the middle of a change poisons it (`Guard`); in
the middle of `close` it leaves it closed for all calls but `close`, which then does the rest.  What is open is closed
with the object at the latest.

The guard of what a process has open, with our errors: see native/shared/guard.c.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import ClassVar, Self

from binlog.errors import BinlogError, ClosedError, PoisonedError, StateError
from binlog.storage.directory import Directory
from binlog.storage.locking.directory_lock import DirectoryLock
from binlog.storage.native import Guard

_HARMLESS = (BinlogError, ValueError, TypeError)


def new_guard(what: str) -> Guard:
    """Make the guard of something, which errors name like this: "the journal PATH".

    A `change` may end with one of our own errors, ValueError or TypeError: a call that raises them has changed nothing,
    unless it is a PoisonedError.
    """
    return Guard(what, PoisonedError, StateError, _HARMLESS)


class Closing(ABC):
    """What is closed at the end of a block."""

    @abstractmethod
    def close(self) -> None:
        """End; a second call does nothing, or what one left that an exception ended."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except BinlogError:
            if error is None:
                raise


class Handle(Closing):
    """It.  what: its name in errors.  lock_name: the file in the directory that is locked."""

    what: ClassVar[str]
    lock_name: ClassVar[str]

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)
        self._guard = new_guard(f"the {self.what} {self.path}")
        self._life = new_guard(f"the {self.what} {self.path}")  # held while it is opened, or closed
        self._is_closed = self._is_ended = False
        self._directory: Directory
        self._lock: DirectoryLock | None = None

    def _acquire(self) -> None:
        """Make the directory this process's, and open what is in it, all or nothing.

        The directory is made if it is not there, in one that is.
        Raises: BusyError; AccessError; FullError; PoisonedError; and what `_open` raises.
        """
        directory, undoing = Directory(self.path, make=True), ExitStack()
        # Both at once, so that there is none or both.
        self._lock, self._directory = DirectoryLock(directory, self.lock_name, self.what), directory
        self._lock.bind(self._guard)
        try:
            self._open(undoing)
        except BaseException:
            undoing.close()
            lock, self._lock = self._lock, None
            lock.release()
            directory.close()
            raise

    @abstractmethod
    def _open(self, undoing: ExitStack) -> None:
        """Open what is in the directory.

        If this raises, what is opened through the directory is closed, and before that all of `undoing` is done.
        """

    @abstractmethod
    def _end(self) -> None:
        """Make all durable, and stop what still works; it may be called again after an exception broke it off."""

    def _let_go(self) -> None:
        """Close what the directory does not close, and nothing uses any more; it may be called again."""

    def close(self) -> None:
        """Have all be durable, and end; a second call does nothing.

        Raises: PoisonedError and others if that fails, and it is closed then too; StateError in a signal handler that
        broke into a call of this thread.
        """
        if self._lock is None or self._lock.is_forked:
            self._is_closed = True
            return
        self._refuse_reentry()
        failure = None
        with self._life:
            self._is_closed = True
            if not self._is_ended and not self._lock.inherited:
                for step in (self._end, self._let_go):
                    try:
                        step()
                    except StateError:
                        raise  # what goes on in this thread, or in another one, needs what is open
                    except BinlogError as error:
                        failure = failure or error
            self._is_ended = True
            self._guard.bind(-1, 0, 0)  # its descriptor is closed next, and later calls must raise ClosedError
            self._lock.release()
            self._directory.close()
        if failure is not None:
            raise failure

    def _refuse(self) -> None:
        """Raises: StateError in a forked child, where the guard may be held for ever; ClosedError."""
        if not self._guard.is_ours:
            raise StateError(f"the {self.what} {self.path} is the parent process's, or its descriptors were closed")
        if self._is_closed:
            raise ClosedError(f"the {self.what} {self.path} is closed")

    def _refuse_reentry(self) -> None:
        """Raises: StateError in a signal handler, or a __del__, in the middle of a call of this thread."""
        if self._guard.held:
            raise StateError(f"this thread is within a call of the {self.what} {self.path}")
