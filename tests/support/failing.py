"""Calls of this process that fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from binlog.compose import Paging
from binlog.errors import PoisonedError
from binlog.journal import appender
from binlog.paging import shared_sync
from binlog.paging.options import PagingOptions
from binlog.paging.store import PagingStore
from binlog.storage.files import sync as sync_file
from binlog.storage.files import write_at
from binlog.storage.native import CommitGroup
from tests.support.paging import SMALL, paging


@contextmanager
def syncs_that_fail(monkeypatch: pytest.MonkeyPatch, part: str) -> Iterator[None]:
    """Those of files in whose names that is, also where they had their name before a link(2) gave them another one."""
    sync = os.fdatasync

    def fails(fd: int) -> None:
        if part in os.path.basename(os.readlink(f"/proc/self/fd/{fd}")):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(fd)

    def in_two_calls(group: CommitGroup, fd: int, data: bytes, offset: int, path: str) -> None:
        write_at(fd, data, offset, path)
        sync_file(fd, path)
        group.reach()

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", fails)
        for module in (appender, shared_sync):
            patched.setattr(module, "commit_at", in_two_calls)
        yield


@contextmanager
def paging_that_fails(path: Path, options: PagingOptions = SMALL) -> Iterator[tuple[Paging, PagingStore]]:
    """As `paging`, and who ends it is told that something of it had failed."""
    with ExitStack() as opening:
        yield opening.enter_context(paging(path, options))
        ending = opening.pop_all()
    with pytest.raises(PoisonedError):
        ending.close()
