"""One call that writes and syncs what a leader commits: what is raised if either fails."""

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
    """One whose leader has begun to commit, with a sync."""
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


def test_what_is_written_lies_where_it_should(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with opened(path) as fd:
        commit_at(group(), fd, memoryview(b"abc"), 4, str(path))
    assert path.read_bytes() == b"0123abc789"


def test_where_there_is_no_space_nothing_is_poisoned() -> None:
    with opened("/dev/full") as fd, pytest.raises(FullError):
        commit_at(group(), fd, b"x", 0, "/dev/full")


def test_a_write_that_fails_is_told_as_a_write(tmp_path: Path) -> None:
    (path := tmp_path / "file").touch()
    with opened(path, os.O_RDONLY) as fd, pytest.raises(PoisonedError, match="in a write") as told:
        commit_at(group(), fd, b"x", 0, str(path))
    assert isinstance(told.value.__cause__, OSError)
    assert told.value.__cause__.errno == errno.EBADF


def test_a_sync_that_fails_is_told_as_a_sync() -> None:
    """fdatasync(2): EINVAL for a file that has none, whose writes all succeed."""
    with opened("/dev/null") as fd, pytest.raises(PoisonedError, match="in a sync") as told:
        commit_at(group(), fd, b"x", 0, "/dev/null")
    assert isinstance(told.value.__cause__, OSError)
    assert told.value.__cause__.errno == errno.EINVAL
