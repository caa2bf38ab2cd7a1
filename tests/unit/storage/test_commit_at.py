"""The call that writes and syncs for a leader: the errors if either fails."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binlog.errors import FullError, PoisonedError
from binlog.storage.files import commit_at
from binlog.storage.handle import new_guard
from binlog.storage.native import CommitGroup


def group() -> CommitGroup:
    """A group whose leader has begun to commit, with a sync."""
    made = CommitGroup(new_guard("a test"))
    made.begin(1, True)
    return made


@contextmanager
def opened(path: str | Path, flags: int = os.O_RDWR) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def test_bytes_are_written_at_their_offset(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with opened(path) as fd:
        commit_at(group(), fd, memoryview(b"abc"), 4, str(path))
    assert path.read_bytes() == b"0123abc789"


def test_a_full_disk_does_not_poison() -> None:
    with opened("/dev/full") as fd, pytest.raises(FullError):
        commit_at(group(), fd, b"x", 0, "/dev/full")


def test_a_failed_write_is_reported_as_a_write(tmp_path: Path) -> None:
    (path := tmp_path / "file").touch()
    with opened(path, os.O_RDONLY) as fd, pytest.raises(PoisonedError, match="in a write") as caught:
        commit_at(group(), fd, b"x", 0, str(path))
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EBADF


def test_a_failed_sync_is_reported_as_a_sync() -> None:
    """All writes to /dev/null succeed, and fdatasync(2) returns EINVAL."""
    with opened("/dev/null") as fd, pytest.raises(PoisonedError, match="in a sync") as caught:
        commit_at(group(), fd, b"x", 0, "/dev/null")
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EINVAL
