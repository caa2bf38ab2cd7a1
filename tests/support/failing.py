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
from binlog.paging.store import PagingStore
from tests.support.paging import paging


@contextmanager
def syncs_that_fail(monkeypatch: pytest.MonkeyPatch, part: str) -> Iterator[None]:
    """Those of files in whose names that is, also where they had their name before a link(2) gave them another one."""
    sync = os.fdatasync

    def fails(fd: int) -> None:
        if part in os.path.basename(os.readlink(f"/proc/self/fd/{fd}")):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", fails)
        yield


@contextmanager
def paging_that_fails(path: Path) -> Iterator[tuple[Paging, PagingStore]]:
    """As `paging`, and who ends it is told that something of it had failed."""
    with ExitStack() as opening:
        yield opening.enter_context(paging(path))
        ending = opening.pop_all()
    with pytest.raises(PoisonedError):
        ending.close()
