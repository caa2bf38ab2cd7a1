"""What a process does that is killed at each of its calls: functions of a log's path and a ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from binlog import Mode, Writer
from stress.crash.drafting import ASIDE
from stress.crash.judge import PREPARE_BYTES
from stress.crash.ledger import Own

Scenario = Callable[[Path, Own], None]

_LARGE_BYTES = 3000  # two of them lead beyond the space that was prepared
_HUGE_BYTES = 150_000  # more than a ring or the leader's buffer takes


def _open(log: Path) -> Writer:
    return Writer(log, prepare_bytes=PREPARE_BYTES)


def only_open(log: Path, own: Own) -> None:
    """Open and close: joining the segment and leaving it; recovery, where a process was killed before."""
    with _open(log) as writer:
        own.append(writer)


def append(log: Path, own: Own) -> None:
    """Records one by one, each synced."""
    with _open(log) as writer:
        for _ in range(3):
            own.append(writer)


def flush(log: Path, own: Own) -> None:
    """Records that are not synced, and a sync at the end."""
    with _open(log) as writer:
        for _ in range(3):
            own.append(writer, Mode.FLUSH)
        own.append_many(writer, 2, Mode.FLUSH)
        own.sync(writer)
        own.append(writer, Mode.FLUSH)


def stage(log: Path, own: Own) -> None:
    """Records in shared memory, then one that is synced, then a sync."""
    with _open(log) as writer:
        for _ in range(3):
            own.append(writer, Mode.STAGE)
        own.append(writer)
        own.append(writer, Mode.STAGE)
        own.append(writer, Mode.STAGE)
        own.sync(writer)
        own.append(writer, Mode.STAGE)


def append_many(log: Path, own: Own) -> None:
    """Several records in a call."""
    with _open(log) as writer:
        for count in (3, 2):
            own.append_many(writer, count)


def grow(log: Path, own: Own) -> None:
    """Beyond the space that was prepared, and with a record that is written from where it lies."""
    with _open(log) as writer:
        for _ in range(3):
            own.append(writer, size=_LARGE_BYTES)
        own.append(writer, size=_HUGE_BYTES)
        own.append_many(writer, 3, size=_LARGE_BYTES)


def cutover(log: Path, own: Own) -> None:
    """Closing a file, with records of every kind around it."""
    with _open(log) as writer:
        own.append(writer)
        own.append(writer, Mode.FLUSH)
        own.append(writer, Mode.STAGE)
        writer.cutover()
        own.append(writer)


def turns(log: Path, own: Own) -> None:
    """Turns of a source, with a record of nobody's between them."""
    with _open(log) as writer:
        own.append_turn(writer, 3)
        own.append(writer)
        own.append_turn(writer, 2)


def drafts(log: Path, own: Own) -> None:
    """Turns of a source that become files of the log, two each, with a record of nobody's behind each."""
    with _open(log) as writer:
        for counts in ((1, 2), (1, 1)):
            own.append_drafts(writer, log / ASIDE, counts)
            own.append(writer)


def drafts_again(log: Path, own: Own, other: Own, *, first_other: bool) -> None:
    """After a death in `drafts`: another process takes its turn again, and turns of its own.

    first_other: whether it appends, and cuts over, before it takes that one again.
    """
    with _open(log) as writer:
        if first_other:
            other.append(writer)
            writer.cutover()
        own.append_drafts_again(writer, log / ASIDE)
        other.append_drafts(writer, log / ASIDE, (2, 1))
        other.append(writer)


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (only_open, append, flush, stage, append_many, grow, cutover, turns, drafts)
}
