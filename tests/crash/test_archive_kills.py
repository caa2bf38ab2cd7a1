"""Kill: a process that archives dies at each system call that it makes.  Nothing is lost, and the next one finishes."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Entry, Mode, Reader, Writer
from tests.support.archives import small_frames
from tests.support.tracer import trace

FILES = 2
DONE = ["00000001.dat.zst", "00000001.idx", "00000002.dat.zst", "00000002.idx", "00000003.dat", "00000003.idx"]


@pytest.fixture(autouse=True)
def _ready(monkeypatch: pytest.MonkeyPatch) -> None:
    small_frames(monkeypatch)
    gc.collect()  # what other tests left is not closed or removed in the midst of what is watched here


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
    assert [each.problem for each in binlog.archive(log)] in ([], [None], [None] * FILES)


def _names(log: Path) -> list[str]:
    return sorted(path.name for path in log.iterdir() if not path.name.startswith("."))


def _whole(log: Path, expected: list[Entry]) -> None:
    """Hold what must be true whatever died."""
    assert binlog.check(log) == []
    assert _entries(log) == expected
    assert [file.number for file in binlog.stat(log).files] == list(range(1, FILES + 2))


@pytest.mark.slow
@pytest.mark.parametrize("index", [True, False])
def test_an_archive_killed_at_each_call_loses_nothing(
    in_memory: Path, index: bool, figure: Callable[[str], None]
) -> None:
    start, log = in_memory / "start", in_memory / "log"
    expected = _fill(start)
    if not index:
        (start / "00000001.idx").unlink()
    shutil.copytree(start, in_memory / "first")
    _archive(in_memory / "first")  # what it needs is imported from here on
    gc.collect()
    kills, seen = 0, set()
    while True:
        shutil.copytree(start, log)
        run = trace(_archive, log, kill_at=kills)
        assert run.error is None
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
        shutil.rmtree(log)
        if not run.killed:
            break
        kills += 1
    # Every step was among the moments struck: a file, a file and its archive, an archive; for each of the two.
    both = {(("00000001.dat" in names), ("00000001.dat.zst" in names)) for names in seen}
    assert both == {(True, False), (True, True), (False, True)}
    assert {"fcntl", "fdatasync", "fsync", "unlinkat"} <= set(run.names)
    figure(f"kill sweep of archive: {kills} kills, {len(run.calls)} calls")


def test_a_file_goes_only_after_its_archive_is_durable(in_memory: Path) -> None:
    """Power: data before its name, and the name before the file's is taken away."""
    log = in_memory / "log"
    _fill(log)
    run = trace(_archive, log)
    assert run.error is None
    steps = [name for name in run.names if name in ("fdatasync", "fsync", "unlinkat") or name.startswith("rename")]
    # First its index; the last one looks for a draft, which is an archive by then.
    a_file = ["fdatasync", "fdatasync", "rename", "fsync", "unlinkat", "fsync", "unlinkat"]
    assert [name if not name.startswith("rename") else "rename" for name in steps] == a_file * FILES


def test_the_archive_is_read_back_before_the_file_goes(in_memory: Path) -> None:
    log = in_memory / "log"
    _fill(log)
    names = trace(_archive, log).names
    synced = [at for at, name in enumerate(names) if name == "fdatasync"][1]
    renamed = next(at for at, name in enumerate(names) if name.startswith("rename"))
    assert "fadvise64" in names[synced:renamed]
    assert names[synced:renamed].count("pread64") > 5


def test_the_sweep_finds_a_file_removed_before_its_archive_is_there(in_memory: Path) -> None:
    """The canary."""
    log = in_memory / "log"
    expected = _fill(log)
    (log / "00000001.dat").unlink()
    with pytest.raises(AssertionError):
        _whole(log, expected)
