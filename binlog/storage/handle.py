"""The base class of objects that own a directory: opening, closing, and the guard of their changes.

- A handle opens whole or not at all.
- An exception of a signal handler in the middle of a change poisons the handle (native/shared/guard.c).
- An exception in the middle of `close` leaves the handle closed for all calls but `close`, which then finishes.
- Files that are still open are closed when the object is freed.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import ClassVar, Self

from binlog.errors import BinlogError, ClosedError, PoisonedError, StateError
from binlog.storage.directory import Directory
from binlog.storage.locking.directory_lock import DirectoryLock
from binlog.storage.native import Guard

_HARMLESS = (BinlogError, ValueError, TypeError)


def new_guard(name: str) -> Guard:
    """Return a guard.  name: of the guarded object, for errors: "the journal PATH".

    A `change` that ends with a BinlogError, ValueError or TypeError does not poison the guard, because a call that
    raises them has changed nothing.  The exception is PoisonedError.
    """
    return Guard(name, PoisonedError, StateError, _HARMLESS)


def run_all(*steps: Callable[[], None]) -> None:
    """Run all of these, even if some raise, and then raise the first exception.

    The others may be consequences: if Ctrl-C interrupts a step, it poisons the guard, and later steps raise
    PoisonedError.
    """
    failure: BaseException | None = None
    for step in steps:
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - it is raised after the other steps
            failure = failure or error
    if failure is not None:
        raise failure


class Closing(ABC):
    """An object that is closed at the end of a `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Close the object.  A second call does nothing, or finishes a first one that an exception ended."""

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
    """An object that owns a directory, and is used by threads.

    kind: names the object in errors.  lock_name: of the lock file in the directory.
    """

    kind: ClassVar[str]
    lock_name: ClassVar[str]

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)
        self._guard = new_guard(f"the {self.kind} {self.path}")
        self._life = new_guard(f"the {self.kind} {self.path}")  # held while the handle opens or closes
        self._is_closed = self._is_ended = False
        self._directory: Directory
        self._lock: DirectoryLock | None = None

    def _acquire(self) -> None:
        """Lock the directory and open the files in it, all or nothing.

        The directory is made if it does not exist; its parent must exist.
        Raises: BusyError; AccessError; FullError; PoisonedError; and the errors of `_open`.
        """
        directory, undoing = Directory(self.path, make=True), ExitStack()
        # In one statement, so that an exception leaves both unset or both set.
        self._lock, self._directory = DirectoryLock(directory, self.lock_name, self.kind), directory
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
        """Open the files in the directory.

        If this raises, the callbacks of `undoing` run, and then the directory closes the files that it opened.
        """

    @abstractmethod
    def _end(self) -> None:
        """Make everything durable and stop all work.  It may be called again after an exception ended it."""

    def _close_parts(self) -> None:
        """Close everything that the directory does not close.  It may be called again."""

    def close(self) -> None:
        """Make everything durable and close the handle; a second call does nothing.

        Raises: PoisonedError and others if that fails; the handle is closed then too.  StateError in a signal handler
        that interrupted a call of this thread; then it is not closed.
        """
        if self._lock is None or self._lock.is_forked:
            self._is_closed = True
            return
        self._check_not_reentered()
        failure = None
        with self._life:
            self._is_closed = True
            if not self._is_ended and not self._lock.inherited:
                for step in (self._end, self._close_parts):
                    try:
                        step()
                    except StateError:
                        raise  # a call in this thread or another one still needs the files
                    except BinlogError as error:
                        failure = failure or error
            self._is_ended = True
            self._guard.bind(-1, 0, 0)  # the descriptor is closed next, and later calls must raise ClosedError
            self._lock.release()
            self._directory.close()
        if failure is not None:
            raise failure

    def _check_open(self) -> None:
        """Raise StateError in a forked child, in which the guard may be held forever; ClosedError if closed."""
        if not self._guard.is_ours:
            raise StateError(
                f"the {self.kind} {self.path} belongs to the parent process, or the program closed its descriptors"
            )
        if self._is_closed:
            raise ClosedError(f"the {self.kind} {self.path} is closed")

    def _check_not_reentered(self) -> None:
        """Raise StateError in a signal handler or a `__del__` that interrupted a call of this thread."""
        if self._guard.held:
            raise StateError(f"this thread is within a call of the {self.kind} {self.path}")
