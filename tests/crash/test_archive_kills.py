"""Kill: a process that archives dies at each of its system calls.  Nothing is lost, and the next one finishes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Entry, Mode, Reader, Writer
from stress.crash.preloaded.injector import Kind
from tests.support.archives import small_frames
from tests.support.preloaded import kill_at_each_call, run_preloaded
from tests.support.turns import in_turn

FILES = 2
DONE = ["00000001.dat.zst", "00000001.idx", "00000002.dat.zst", "00000002.idx", "00000003.dat", "00000003.idx"]


def _fill(log: Path) -> list[Entry]:
    with Writer(log) as writer:
        for number in range(FILES):
            for group in range(20):
                writer.append_many([b"%d %d" % (number, group) * 30] * 5, mode=Mode.SYNC if group % 2 else Mode.FLUSH)
            writer.cutover()
        writer.append(b"open")
    return _entries(log)


def _entries(log: Path) -> list[Entry]:
    with Reader(log) as reader:
        return list(reader)


def _archive(log: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        small_frames(patched)
        _archive_all(log)


def _archive_all(log: Path) -> None:
    assert [each.problem for each in binlog.archive(log)] in ([], [None], [None] * FILES)


def _names(log: Path) -> list[str]:
    return sorted(path.name for path in log.iterdir() if not path.name.startswith("."))


def _whole(log: Path, expected: list[Entry]) -> None:
    """Check the log after any death."""
    assert binlog.check(log) == []
    assert _entries(log) == expected
    assert [file.number for file in binlog.stat(log).files] == list(range(1, FILES + 2))


@pytest.mark.slow
@pytest.mark.parametrize("index", in_turn([True, False]))
def test_an_archive_killed_at_each_call_loses_nothing(
    in_memory: Path, index: bool, figure: Callable[[str], None]
) -> None:
    start, log = in_memory / "start", in_memory / "log"
    expected = _fill(start)
    if not index:
        (start / "00000001.idx").unlink()
    kills, seen = 0, set()
    for run in kill_at_each_call(_archive, start, log, step=2):
        left = _names(log)
        seen.add(tuple(left))
        if index:
            _whole(log, expected)
        assert _entries(log) == expected
        with Writer(log) as writer:
            writer.append(b"after")
        _archive(log)
        assert _names(log) == DONE
        assert not list(log.glob(".*.new"))
        assert [entry.data for entry in _entries(log)] == [*(entry.data for entry in expected), b"after"]
        assert binlog.check(log) == []
        kills += run.killed
    # Each step was interrupted: a file, a file and its archive, an archive; for each of the two.
    both = {(("00000001.dat" in names), ("00000001.dat.zst" in names)) for names in seen}
    assert both == {(True, False), (True, True), (False, True)}
    assert {Kind.LOCK, Kind.DATA_SYNC, Kind.SYNC, Kind.UNLINK} <= set(run.calls)
    figure(f"kill sweep of archive: {kills} kills, {len(run.calls)} calls")


def test_a_file_is_removed_only_after_its_archive_is_durable(in_memory: Path) -> None:
    """Power: data is durable before its name, and the name before the log file is removed."""
    log = in_memory / "log"
    _fill(log)
    calls = run_preloaded(_archive, log, kinds=(Kind.DATA_SYNC, Kind.SYNC, Kind.LINK, Kind.UNLINK)).calls
    # The index comes first; the last removal is that of the unfinished archive, which has its name by then.
    a_file = [Kind.DATA_SYNC, Kind.DATA_SYNC, Kind.LINK, Kind.SYNC, Kind.UNLINK, Kind.SYNC, Kind.UNLINK]
    assert calls == a_file * FILES


def test_the_archive_is_read_back_before_the_file_is_removed(in_memory: Path) -> None:
    log = in_memory / "log"
    _fill(log)
    calls = run_preloaded(_archive, log).calls
    synced = [at for at, call in enumerate(calls) if call is Kind.DATA_SYNC][1]
    between = calls[synced : calls.index(Kind.LINK)]
    assert Kind.OTHER in between  # the kernel is asked to drop its cached pages
    assert between.count(Kind.READ) > 5


def test_the_sweep_finds_a_file_removed_before_its_archive_exists(in_memory: Path) -> None:
    """A canary for the checks."""
    log = in_memory / "log"
    expected = _fill(log)
    (log / "00000001.dat").unlink()
    with pytest.raises(AssertionError):
        _whole(log, expected)
