"""Kill: a writer dies at each call that it makes, and every one of them is tried.  The page cache lives."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Entry, Ref, Writer
from binlog.storage.segment import sweep
from stress.crash.striker import Kind
from tests.support.logs import problems_so_far
from tests.support.preloaded import Run, run_preloaded

SIZES = [5, 0, 300, 900_000, 700_000]  # the last ones lead past the space that was prepared
BEFORE = [b"before 1", b"before 2"]
AFTER = b"after"
_EVERY, _TRIES = 4, 20


def _record(job: int) -> bytes:
    return (b"%d:" % job).ljust(SIZES[job % len(SIZES)], b"x") if job % len(SIZES) != 1 else b"%d:" % job


def _tell(told: Path, refs: list[Ref], job: int) -> None:
    """Note that a call's jobs were acknowledged, this one the first: all in one write, or a death may part them."""
    with told.open("a") as file:
        file.write("".join(f"{ref.number} {ref.offset} {job}\n" for job, ref in enumerate(refs, job)))


def _told(told: Path) -> list[tuple[Ref, int]]:
    lines = (map(int, line.split()) for line in told.read_text().splitlines())
    return [(Ref(number, offset), job) for number, offset, job in lines]


def _append(log: Path, told: Path) -> None:
    with Writer(log) as writer:
        for job in range(3):
            _tell(told, [writer.append(_record(job))], job)


def _append_many(log: Path, told: Path) -> None:
    with Writer(log) as writer:
        for first in (0, 3):
            _tell(told, writer.append_many([_record(job) for job in range(first, first + 3)]), first)


def _grow(log: Path, told: Path) -> None:
    with Writer(log) as writer:
        for job in (3, 4):
            _tell(told, [writer.append(_record(job))], job)


def _cut_over(log: Path, told: Path) -> None:
    with Writer(log) as writer:
        _tell(told, [writer.append(_record(0))], 0)
        writer.cutover()
        _tell(told, [writer.append(_record(2))], 2)


def _lie(log: Path, told: Path) -> None:
    with Writer(log) as writer:
        _tell(told, [Ref(1, 256)], 0)
        writer.append(_record(0))


PLACES = ("on nothing", "on a log", "beside another")
SCENARIOS = {"append": _append, "append-many": _append_many, "grow": _grow, "cut-over": _cut_over}


def _sound(log: Path, told: Path, begun: int, group: int, beside: Writer | None = None) -> None:
    """Hold what must be true after a death: nothing acknowledged is lost, nothing torn is read, the next one goes on.

    beside: a writer that was open all the time, to go on; else a new one does.
    """
    assert problems_so_far(log) == []
    with beside or Writer(log) as writer:
        after = writer.append(AFTER)
    assert binlog.check(log) == []
    with binlog.Reader(log) as reader:
        entries = list(reader)
    assert entries[-1] == Entry(after, AFTER)
    records = [entry.data for entry in entries]
    assert records[:begun] == BEFORE[:begun]
    own = records[begun:-1]
    jobs = [int(record.split(b":")[0]) for record in own]
    assert own == [_record(job) for job in jobs]
    assert len(set(jobs)) == len(jobs)
    acknowledged = _told(told)
    assert {Entry(ref, _record(job)) for ref, job in acknowledged} <= set(entries)
    # What was in hand and not acknowledged is one call's records, and of those all or none.
    assert len(jobs) - len(acknowledged) in (0, group)
    assert jobs[: len(acknowledged)] == [job for _, job in acknowledged]


_Work = Callable[[Path, Path], None]
_Hold = Callable[[Path, Path, Writer | None], None]


def _sweep(
    folder: Path, start: Path, work: _Work, hold: _Hold, *, beside: bool = False, first: int = 0, step: int = 1
) -> Run:
    """Kill at each call of `work`, each time on a fresh copy of `start`; a whole run, each call of which was struck.

    first, step: at every `step`-th call only, from the first-th on.
    A writer of another test that looks for the shared memory of the dead may be in the way of ours, which then makes
    more calls.  Such a run is looked at as well, and its kill is tried again.
    """
    log = folder / "log"

    def run_once(kill_at: int | None = None) -> Run:
        if start.exists():
            shutil.copytree(start, log)
        told = folder / "told"
        told.write_text("")
        other = Writer(log) if beside else None
        run = run_preloaded(work, log, told, kill_at=kill_at)
        hold(log, told, other)
        shutil.rmtree(log)
        sweep()  # a container has room for the shared memory of two hundred dead
        return run

    while (whole := run_once()).calls != run_once().calls:
        pass
    for kill_at in range(first, len(whole.calls), step):
        struck = whole.calls[: kill_at + 1]
        assert any(run_once(kill_at).calls == struck for _ in range(_TRIES)), f"no kill at call {kill_at}: {struck}"
    return whole


def _start(folder: Path, empty: bool) -> Path:
    start = folder / "start"
    if not empty:
        with Writer(start) as writer:
            writer.append_many(BEFORE)
    return start


@pytest.mark.slow
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_writer_killed_at_each_call_loses_nothing(
    in_memory: Path, scenario: str, where: str, figure: Callable[[str], None]
) -> None:
    empty = where == "on nothing"
    start = _start(in_memory, empty)
    group = 3 if scenario == "append-many" else 1

    def hold(log: Path, told: Path, other: Writer | None) -> None:
        _sound(log, told, 0 if empty else len(BEFORE), group, other)

    run = _sweep(in_memory, start, SCENARIOS[scenario], hold, beside=where == "beside another")
    assert {Kind.LOCK, Kind.FUTEX, Kind.WRITE, Kind.DATA_SYNC} <= set(run.calls)
    figure(f"kill sweep of {scenario} {where}: a kill at each of {len(run.calls)} calls")


def _only_open(log: Path, told: Path) -> None:
    with Writer(log):
        pass


def _state(log: Path) -> dict[str, bytes]:
    """What a death left behind: with the process gone, the files are all there is.  Random names and times equal."""
    state = {}
    for path in sorted(log.iterdir()):
        data = bytearray(path.read_bytes())
        index = path.suffix == ".idx"
        times = [part for at in range(48, len(data), 40) for part in ((at, at + 8), (at + 20, at + 24))]
        for start, stop in [(16, 32), *times] if index else ((56, 64), (104, 120), (124, 128), (132, 192)):
            data[start:stop] = bytes(stop - start)
        state[re.sub("[0-9a-f]{16}", "random", path.name)] = bytes(data)
    return state


@pytest.mark.slow
def test_a_writer_killed_while_it_finishes_what_a_killed_one_left_loses_nothing(
    in_memory: Path, figure: Callable[[str], None]
) -> None:
    """Each distinct state that a cutover's death leaves, times every fourth call of the next writer's opening.

    From one state to the next it begins a call later.  `make crash` has the rest.
    """
    start = _start(in_memory, empty=False)
    states: list[dict[str, bytes]] = []
    kill_at = pairs = 0
    while True:
        left, first = in_memory / "left", in_memory / "told first"
        first.write_text("")
        shutil.copytree(start, left)
        run = run_preloaded(_cut_over, left, first, kill_at=kill_at)
        if _state(left) not in states:
            states.append(_state(left))

            def hold(log: Path, _: object, __: object, first: Path = first) -> None:
                _sound(log, first, len(BEFORE), 1)

            whole = _sweep(in_memory, left, _only_open, hold, first=len(states) % _EVERY, step=_EVERY)
            pairs += len(whole.calls[len(states) % _EVERY :: _EVERY])
        shutil.rmtree(left)
        if not run.killed:
            break
        kill_at += 1
    assert len(states) > 10
    figure(
        f"kills of a cutover: {kill_at}, leaving {len(states)} states; kills of the writer that opens those: {pairs}"
    )


@pytest.mark.slow
def test_the_sweep_finds_a_lie(in_memory: Path) -> None:
    """The canary: a writer that acknowledges before it appends is found out."""

    def hold(log: Path, told: Path, _: object) -> None:
        _sound(log, told, 0, 1)

    with pytest.raises(AssertionError):
        _sweep(in_memory, in_memory / "nothing", _lie, hold)
