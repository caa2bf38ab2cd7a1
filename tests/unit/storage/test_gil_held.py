"""The short calls that keep the interpreter's lock: they return the errno of a failed write."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog.storage.native import write_delivery, write_gil_held


@pytest.mark.parametrize(
    "write",
    [lambda fd: write_gil_held(fd, b"data", 0), lambda fd: write_delivery(fd, bytes(8), 0, 1)],
    ids=["write_gil_held", "write_delivery"],
)
def test_a_failed_write_returns_its_errno(tmp_path: Path, write: Callable[[int], int]) -> None:
    (tmp_path / "file").touch()
    for path, flags, expected in (
        (tmp_path / "file", os.O_RDWR, 0),
        ("/dev/full", os.O_RDWR, errno.ENOSPC),
        (tmp_path / "file", os.O_RDONLY, errno.EBADF),
    ):
        fd = os.open(path, flags | os.O_CLOEXEC)
        try:
            assert write(fd) == expected
        finally:
            os.close(fd)
