"""Consumer groups on the screen of `binlog top`: dead letters, retry, drop, reset, and no permission."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import binlog
from binlog.consumers import ConsumerGroup, read_dead_letters, stat_group
from tests.support.users import OTHER_USER, as_user, folder_of_user, needs_root
from tests.unit.cli.run_command import fill
from tests.unit.cli.top.running import Running, run_top

pytestmark = pytest.mark.slow


def _with_dead_letters(log: Path, *rejected: int) -> None:
    """Make a group that is done with five messages of six, but these are dead letters."""
    fill(log, [b"message <%d> [bold]\x1b[31m" % number for number in range(6)])
    with ConsumerGroup(log, "billing") as group:
        for _ in range(5):
            item = group.get(timeout=10)
            assert item is not None
            if item.sequence in rejected:
                item.reject(error="no such customer [b]\x1b[2J")
            else:
                item.ack()


def _dead(log: Path) -> list[int | None]:
    return [letter.sequence for letter in read_dead_letters(log, "billing")]


def _delivered(log: Path) -> Iterator[int]:
    """Yield the messages that a member gets now, and acknowledge them."""
    with ConsumerGroup(log, "billing") as group:
        while (item := group.get(timeout=0.5)) is not None:
            yield item.sequence
            item.ack()


async def _open_group(top: Running) -> None:
    await top.shows("billing", "no members")
    await top.press("tab", "enter")
    await top.shows("group billing", "escape back  enter open  r retry")


def test_a_dead_letter_is_opened_and_delivered_again_after_a_question(log: Path) -> None:
    _with_dead_letters(log, 1, 3)

    async def work(top: Running) -> None:
        await _open_group(top)
        screen = await top.shows("2 dead letters", "no such customer [b]\\x1b[2J", "message <3>")
        assert screen.index("message <3>") < screen.index("message <1>")
        await top.press("down", "enter")
        await top.shows("message 1", "reason  no such customer", "message <1> [bold]\\x1b[31m")
        await top.press("escape", "r")
        await top.shows("Deliver message 1 to the group billing again?", "counted from 1 again")
        await top.press("n")
        assert stat_group(log, "billing").ready == 0
        await top.press("r")
        await top.shows("Deliver message 1")
        await top.press("y")
        await top.shows("message 1 is delivered again")

    run_top(work, log)
    assert list(_delivered(log)) == [1, 5]
    assert _dead(log) == [1, 3]


def test_a_dead_letter_is_dropped_with_those_of_its_file_after_a_question(log: Path) -> None:
    _with_dead_letters(log, 1, 3)
    with binlog.Writer(log / "groups" / "billing" / "dead") as writer:
        writer.cutover()
    with ConsumerGroup(log, "billing") as group:
        item = group.get(timeout=10)
        assert item is not None
        item.reject(error="too late")
        assert group.get(timeout=0) is None  # writes the dead letter

    async def work(top: Running) -> None:
        await _open_group(top)
        await top.shows("3 dead letters", "too late")
        await top.press("down", "d")
        await top.shows("Remove dead letter 3?", "1 other one is removed too")
        await top.press("n")
        assert _dead(log) == [1, 3, 5]
        await top.press("d")
        await top.shows("Remove dead letter 3?")
        await top.press("y")
        await top.shows("removed 2 dead letters", "1 dead letter")
        assert _dead(log) == [5]
        await top.press("d")
        screen = await top.shows("Remove dead letter 5?", "It cannot be delivered again afterwards.")
        assert "other" not in screen
        await top.press("y")
        await top.shows("removed 1 dead letter", "no dead letters")

    run_top(work, log)
    assert _dead(log) == []


def test_a_group_is_reset_after_a_question_that_names_the_consequence(log: Path) -> None:
    _with_dead_letters(log, 1)

    async def reset(top: Running, place: str, *shown: str) -> None:
        await top.press("x")
        await top.shows("Reset the group billing to which message?")
        await top.paste(place)
        await top.press("enter")
        await top.shows(*shown)

    async def work(top: Running) -> None:
        await _open_group(top)
        await reset(top, "nonsense", "is not 'beginning', 'end', or a sequence")
        await reset(top, "2", "Messages 2 to 4 (3) are delivered again, even if they are done.")
        await top.press("escape")
        assert stat_group(log, "billing").next == 5
        await reset(top, "end", "Message 5 is skipped: no member gets them.")
        await top.press("n")
        await reset(top, "2", "Reset the group billing to message 2?")
        await top.press("y")
        await top.shows("the group continues with message 2")

    run_top(work, log)
    assert list(_delivered(log)) == [2, 3, 4, 5]


def _look_and_try(log: Path, *, refused: bool) -> None:
    async def work(top: Running) -> None:
        await _open_group(top)
        await top.shows("1 dead letter", "message <1>")
        for key, asked in (("r", "Deliver message"), ("d", "Remove dead letter"), ("x", "Reset the group")):
            await top.press(key)
            screen = await top.shows("Permission denied" if refused else asked)
            assert (asked in screen) is not refused
            # A new screen, without the message; its group has the cursor.
            await top.press(*["escape"] * (1 if refused else 2))
            await top.shows("enter open the group")
            await top.press("enter")
            await top.shows("1 dead letter", "message <1>")

    run_top(work, log)


@needs_root
def test_who_may_only_read_the_log_learns_why_a_key_changes_nothing() -> None:
    with folder_of_user(0o755) as folder:
        log = folder / "log"
        _with_dead_letters(log, 1)
        # First as root, which also loads the modules that only root may be able to read.
        _look_and_try(log, refused=False)
        as_user(_look_and_try, log, user=OTHER_USER, refused=True)
    assert not log.exists()
