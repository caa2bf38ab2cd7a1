"""Where a new group begins: at a place in the log, at a time, and later after a reset."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from binlog import ConsumerGroup, NotFoundError, Ref, Sequence, Since, Start, Writer
from binlog.log.read.start import StartPosition

GROUP = "billing"


class _Log:
    """A log of two files, and what was true between them.  between: a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with Writer(path) as writer:
            self.refs = [writer.append(b"%d" % number) for number in range(3)]
            writer.cutover()
            self.between = time.time()
            while time.time() <= self.between:
                pass
            self.refs += [writer.append(b"%d" % number) for number in range(3, 6)]


@pytest.fixture
def log(tmp_path: Path) -> _Log:
    return _Log(tmp_path)


_STARTS: list[tuple[Callable[[_Log], StartPosition | str], bytes]] = [
    (lambda _: Start.BEGINNING, b"0"),
    (lambda _: Start.END, b"new"),
    (lambda _: "end", b"new"),
    (lambda _: Sequence(0), b"0"),
    (lambda _: Sequence(4), b"4"),
    (lambda _: Sequence(6), b"new"),
    (lambda log: log.refs[1], b"1"),
    (lambda log: str(log.refs[4]), b"4"),
    (lambda log: Since(log.between), b"3"),
    (lambda log: Since(datetime.fromtimestamp(log.between, UTC)), b"3"),
    (lambda _: Since(timedelta(hours=1)), b"0"),
    (lambda _: Since(time.time() + 3600), b"new"),
]


@pytest.mark.parametrize(
    ("start", "first"),
    _STARTS,
    ids=["beginning", "end", "text", "sequence", "later", "next", "ref", "ref text", "time", "date", "ago", "future"],
)
def test_the_first_message_of_a_group_is_that_at_its_start(
    log: _Log, start: Callable[[_Log], StartPosition | str], first: bytes
) -> None:
    with ConsumerGroup(log.path, GROUP, start=start(log)) as group, Writer(log.path) as writer:
        writer.append(b"new")
        item = group.get(timeout=10)
        assert item is not None
        assert item.data == first
        assert group.stat().floor == item.sequence
    with ConsumerGroup(log.path, GROUP, start="beginning") as group:
        item = group.get(timeout=10)
        assert item is not None
        assert item.data == first, "the start counts only if the group is new"


def test_a_start_that_the_log_does_not_have_is_refused_and_makes_no_group(log: _Log) -> None:
    for start in (Sequence(7), Ref(9, 256)):
        with pytest.raises(ValueError, match=r"7|9"):
            ConsumerGroup(log.path, GROUP, start=start)
    with pytest.raises(NotFoundError):
        ConsumerGroup(log.path, GROUP, create=False)


def test_a_reset_to_a_time_delivers_the_messages_since_then(log: _Log) -> None:
    with ConsumerGroup(log.path, GROUP) as group:
        assert len([item for item in group.consume(timeout=0) if item.ack() is None]) == 6
        assert group.reset(Since(log.between)) == 3
        found = [item.data for item in group.consume(timeout=0) if item.ack() is None]
        assert found == [b"3", b"4", b"5"]
