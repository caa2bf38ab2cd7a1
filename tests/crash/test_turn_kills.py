"""Kill: a process dies at each system call of its turns.  Tried again, each turn is there once, and whole."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Batch, Draft, Mode, Writer
from tests.support.acknowledged import Acknowledged
from tests.support.logs import read_all
from tests.support.tracer import trace

pytestmark = pytest.mark.slow

# The records of each turn are like those of any other, and of everybody's: no content tells whose they are.
SAME = b"the same for all"
A_TURN = 3
TURNS = 2
TRIES = 20  # on a machine that is busy a run asks and waits a few times more

Work = Callable[[Path, Acknowledged], None]


def _take_turns(log: Path, _: Acknowledged) -> None:
    with Writer(log) as writer:
        for number in range(TURNS):
            turn = [Batch.from_records([SAME]), Batch.from_records([SAME] * (A_TURN - 1))]
            writer.append_turn(turn, source="s", turn=number)


def _take_drafts(log: Path, _: Acknowledged) -> None:
    """The same turns, each as two files."""
    folder = log / "aside"
    folder.mkdir(exist_ok=True)
    with Writer(log) as writer:
        for number in range(TURNS):
            drafts = []
            for count in (1, A_TURN - 1):
                with Draft(folder / os.urandom(8).hex()) as draft:
                    draft.append(Batch.from_records([SAME] * count))
                    drafts.append(draft.finish())
            writer.append_drafts(drafts, source="s", turn=number)


def _append(log: Path, _: Acknowledged) -> None:
    with Writer(log) as writer:
        writer.append(SAME, mode=Mode.FLUSH)


def _copied(start: Path, log: Path) -> Path:
    shutil.rmtree(log, ignore_errors=True)
    shutil.copytree(start, log)
    return log


def _hold(log: Path, others: int) -> None:
    """Append as often as somebody else does meanwhile, try the turns again, and see that all is there, once."""
    assert binlog.check(log) == []
    for _ in range(others):
        _append(log, Acknowledged())
    with Writer(log):
        pass  # which finishes what was decided
    before = len(read_all(log))
    _take_turns(log, Acknowledged())
    found = read_all(log)
    assert len(found) in (before, before + A_TURN, before + 2 * A_TURN)
    assert set(found) == {SAME}
    assert binlog.check(log) == []
    assert list(log.glob("*.next")) == []


@pytest.mark.parametrize("others", [0, A_TURN])
@pytest.mark.parametrize("work", [_take_turns, _take_drafts])
def test_a_turn_killed_at_each_call_is_there_once(
    in_memory: Path, work: Work, others: int, figure: Callable[[str], None]
) -> None:
    """others: how many such records somebody appends before the turns are tried again; as many as a turn has."""
    log, start = in_memory / "log", in_memory / "start"
    _append(start, Acknowledged())
    calls = _fewest_calls(work, start, log)
    died = 0
    for kill_at in range(calls):
        run = trace(work, _copied(start, log), Acknowledged(), kill_at=kill_at)
        assert run.error is None
        died += run.killed_before is not None
        _hold(log, others)
        assert len(read_all(log)) == 1 + TURNS * A_TURN + others, kill_at
    assert died > 0.9 * calls
    figure(f"turns killed at each call ({work.__name__}), {others} alike appended between: {died} deaths")


def _fewest_calls(work: Work, start: Path, log: Path) -> int:
    """How many calls it makes at least: on a machine that is busy it asks and waits a few times more."""
    gc.collect()
    return min(len(trace(work, _copied(start, log), Acknowledged()).calls) for _ in range(3))


def _kill_first_turn(moment: str, base: Path, start: Path) -> None:
    """Leave what one of these moments of the first turn leaves.

    named: right after its file has its name.  slotted: at the commit's sync, with the slot written.
    """
    for _ in range(TRIES):
        names = trace(_take_turns, _copied(base, start), Acknowledged()).names
        renames = [at for at, name in enumerate(names) if name.startswith("rename")]
        slotted = max(at for at in range(renames[1]) if names[at] == "fdatasync")
        kill_at = renames[0] + 2 if moment == "named" else slotted
        run = trace(_take_turns, _copied(base, start), Acknowledged(), kill_at=kill_at)
        if run.killed_before is not None and [*run.names, run.killed_before.name] == names[: kill_at + 1]:
            return
    pytest.fail(f"{TRIES} pairs of runs, and in none of them were both runs' calls the same")


@pytest.mark.parametrize("moment", ["named", "slotted"])
def test_whoever_settles_a_turn_killed_at_each_call_too_settles_it_once(
    in_memory: Path, moment: str, figure: Callable[[str], None]
) -> None:
    log, start = in_memory / "log", in_memory / "start"
    _append(start, Acknowledged())
    base = in_memory / "base"
    shutil.copytree(start, base)
    _kill_first_turn(moment, base, start)
    there = moment == "slotted"
    calls = _fewest_calls(_append, start, log)
    died = 0
    for second in range(calls):
        run = trace(_append, _copied(start, log), Acknowledged(), kill_at=second)
        died += run.killed_before is not None
        _append(log, Acknowledged())
        found = len(read_all(log)) - 1 - (A_TURN if there else 0)
        assert found in (1, 2), second
        _hold(log, 0)
        assert len(read_all(log)) == 1 + TURNS * A_TURN + found, second
    assert died > 0.9 * calls
    figure(f"a turn killed when {moment}, and whoever settles it: {died} deaths")
