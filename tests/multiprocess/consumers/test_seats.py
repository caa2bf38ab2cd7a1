"""A group has 256 seats."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binlog import BusyError, ConsumerGroup, Writer
from tests.support.commanded_workers import CommandedWorker

GROUP = "billing"
_WHOLE = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


@contextmanager
def _taken(members: Path, count: int) -> Iterator[None]:
    """Take seats as their members do: each FIFO is open for writing, and locked."""
    members.mkdir(exist_ok=True)
    fds = []
    try:
        for number in range(count):
            path = members / f"{number:02x}"
            os.mkfifo(path)
            fds.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
            fcntl.fcntl(fds[-1], fcntl.F_OFD_SETLK, _WHOLE)
        yield
    finally:
        for fd in fds:
            os.close(fd)


def test_the_257th_member_is_refused_until_another_one_leaves(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.append_many([b"0", b"1"])
    members = tmp_path / "groups" / GROUP / "members"
    with (
        ConsumerGroup(tmp_path, GROUP) as last,
        CommandedWorker(tmp_path, GROUP) as other,
        _taken(members, 255),
    ):
        item = last.get(timeout=10)
        assert item is not None
        assert last.stat().members[0].seat == 255
        item.ack()
        answer = other.do("get", 10)
        assert answer["error"] == "BusyError"
        assert "256 seats" in answer["text"]
        with ConsumerGroup(tmp_path, GROUP) as group, pytest.raises(BusyError, match="256 seats"):
            group.get(timeout=10)
        last.close()
        assert other.do("get", 10) == [1, 1]
