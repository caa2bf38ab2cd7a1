"""A process is killed while it pages, commits and acknowledges: what it told of is there, and nothing else, once."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import pytest

from binlog.errors import GoneError
from binlog.paging.cursor import PageCursor
from binlog.paging.inspection import check_paging
from tests.support.children import Child
from tests.support.paging import ADDRESS, paging

_TOGETHER = 4  # messages of a transaction


def _work(path: Path, round_number: int, report: int) -> None:
    """Page and acknowledge for ever, and tell of each thing once it was done."""
    with paging(path) as (opened, store):
        store.start_paging()
        cursor = opened.manager.cursor(ADDRESS)
        consumer = threading.Thread(target=_consume, args=(cursor, report), daemon=True)
        consumer.start()
        for number in range(1_000_000):
            name = f"{round_number}.{number}"
            if number % 3:
                store.page(f"{name}.alone".encode())
                os.write(report, f"put {name}.alone\n".encode())
            else:
                with opened.manager.begin() as transaction:
                    for part in range(_TOGETHER):
                        store.page(f"{name}.{part}".encode() + bytes(300), transaction)
                os.write(report, f"commit {name}\n".encode())


def _consume(cursor: PageCursor, report: int) -> None:
    while True:
        run = cursor.read()
        for index, message in enumerate(run.messages if run else ()):
            if hash(message) % 3:
                os.write(report, b"try " + _name(message) + b"\n")
                cursor.ack((run.place if run else 0) + index)
                os.write(report, b"ack " + _name(message) + b"\n")


def _name(message: bytes) -> bytes:
    return message.rstrip(b"\0")


class _Told:
    """What processes told: messages that must be there, those that may be gone, and those that must."""

    def __init__(self) -> None:
        self.there: set[bytes] = set()
        self.tried: set[bytes] = set()
        self.acked: set[bytes] = set()

    def hear(self, line: bytes) -> None:
        what, name = line.split()
        if what == b"put":
            self.there.add(name)
        elif what == b"commit":
            self.there.update(name + b".%d" % part for part in range(_TOGETHER))
        elif what == b"try":
            self.tried.add(name)
        else:
            self.acked.add(name)

    def judge(self, found: list[bytes]) -> None:
        """Compare it with what the next process finds."""
        assert len(found) == len(set(found))
        now = set(found)
        assert not now & self.acked
        assert self.there - self.tried <= now
        unsaid = now - self.there  # done, and not told any more
        (doing,) = {name.rpartition(b".")[0] for name in unsaid} or {b""}
        delivered = {name for name in self.tried if name.rpartition(b".")[0] == doing}
        assert len(unsaid | delivered) in (0, 1, _TOGETHER)  # who follows may ack before the writer tells
        self.there, self.tried = now, set()


@pytest.mark.slow
def test_what_was_told_of_is_there_after_kills_and_once(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    path = tmp_path / "paging"
    told = _Told()
    for round_number in range(8):
        heard, report = os.pipe()
        child = Child(_work, path, round_number, report)
        os.close(report)
        left = chance.randrange(1, 800)
        with os.fdopen(heard, "rb") as lines:
            for line in lines:
                told.hear(line)
                left -= 1
                if left == 0:
                    os.kill(child.pid, signal.SIGKILL)
        with pytest.raises(AssertionError, match="ended with -9"):
            child.join()
        assert check_paging(path) == []
        with paging(path) as (opened, store):
            assert store.problems == []
            cursor = opened.manager.cursor(ADDRESS)
            found = []
            while run := cursor.read():
                found += [(_name(message), run.place + index) for index, message in enumerate(run.messages)]
            told.judge([name for name, _ in found])
            for name, place in found[: len(found) // 2]:
                try:
                    cursor.ack(place)
                except GoneError:
                    raise AssertionError(name) from None
                told.there.discard(name)
                told.acked.add(name)
    assert told.acked
    assert told.there
