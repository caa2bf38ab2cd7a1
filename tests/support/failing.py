"""Calls of this process that fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from binlog.compose import OpenedPaging
from binlog.errors import PoisonedError
from binlog.journal import appender
from binlog.paging.options import PagingOptions
from binlog.paging.store import PagingStore
from binlog.queue import queue as shared_sync
from binlog.storage.directory import Directory
from binlog.storage.files import sync as sync_file
from binlog.storage.files import write_at
from binlog.storage.native import CommitGroup
from tests.support.paging import SMALL, paging


@contextmanager
def syncs_that_fail(monkeypatch: pytest.MonkeyPatch, part: str) -> Iterator[None]:
    """Make syncs fail for files with that part in their names, even if link(2) gave them another name later."""
    sync = os.fdatasync

    def fails(fd: int) -> None:
        if part in os.path.basename(os.readlink(f"/proc/self/fd/{fd}")):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(fd)

    def in_two_calls(group: CommitGroup, fd: int, data: bytes, offset: int, path: str) -> None:
        write_at(fd, data, offset, path)
        sync_file(fd, path)
        group.finish()

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", fails)
        for module in (appender, shared_sync):
            patched.setattr(module, "commit_at", in_two_calls)
        yield


@contextmanager
def paging_that_fails(path: Path, options: PagingOptions = SMALL) -> Iterator[tuple[OpenedPaging, PagingStore]]:
    """Open paging as `paging` does, and expect that closing reports the failure."""
    with ExitStack() as opening:
        yield opening.enter_context(paging(path, options))
        ending = opening.pop_all()
    with pytest.raises(PoisonedError):
        ending.close()


def raising(error: BaseException) -> Callable[..., Any]:
    """Return a function that raises an error, to replace one that fails."""

    def raises(*_: object, **__: object) -> Any:
        raise error

    return raises


class FailingCalls:
    """Makes one of the named calls of `os`, or one that opens a file, fail with an errno, and counts the calls.

    at: how many calls succeed before it.  is_one: whether the present call counts.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        names: Iterable[str],
        at: int,
        number: int,
        is_one: Callable[[], bool] = lambda: True,
    ) -> None:
        self.count = 0
        self._at = at
        self._number = number
        self._is_one = is_one
        for name in names:
            monkeypatch.setattr(os, name, self._failing(getattr(os, name)))
        plain = Directory._open_at

        def open_at(*arguments: Any) -> int:
            return -number if self._is_due() else plain(*arguments)

        monkeypatch.setattr(Directory, "_open_at", open_at)

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*arguments: Any, **named: Any) -> Any:
            if self._is_due():
                raise OSError(self._number, os.strerror(self._number))
            return call(*arguments, **named)

        return failing

    def _is_due(self) -> bool:
        if not self._is_one():
            return False
        self.count += 1
        return self.count == self._at + 1
