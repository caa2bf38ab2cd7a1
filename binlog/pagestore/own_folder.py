"""A folder that one object of one process has at a time, for as long as that is open."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import ClassVar, Self

from binlog.errors import ClosedError, StateError
from binlog.storage.files import make_directory, open_directory
from binlog.storage.sole_owner import SoleOwner


class OwnFolder(ABC):
    """It, open.  what: it is called in errors.  lock_name: the file that is locked."""

    what: ClassVar[str]
    lock_name: ClassVar[str]

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """The folder is made where there is none, in one that is there.  Raises: BusyError; AccessError."""
        self.path = os.path.abspath(path)
        self._is_closed = False
        make_directory(self.path)
        with ExitStack() as failing:
            self._directory_fd = open_directory(self.path)
            failing.callback(os.close, self._directory_fd)
            self._ownership = SoleOwner(self.path, self._directory_fd, self.lock_name, self.what)
            failing.callback(self._ownership.release)
            self._begin()
            failing.pop_all()

    @abstractmethod
    def _begin(self) -> None:
        """Put in order what is there."""

    @abstractmethod
    def close(self) -> None:
        """Give it up; a second call does nothing."""

    def _give_up(self) -> None:
        self._ownership.release()
        os.close(self._directory_fd)

    def _check(self) -> None:
        """Raises: StateError in a forked child; ClosedError."""
        if self._ownership.inherited:
            raise StateError(f"the {self.what} {self.path} is the parent process's")
        if self._is_closed:
            raise ClosedError(f"the {self.what} {self.path} is closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
