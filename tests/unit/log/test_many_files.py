"""Operations on a whole log take time in proportion to its files, and list its directory a fixed number of times."""

from __future__ import annotations

import resource
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import binlog
from tests.support.children import Child

_Look = Callable[[Path], object]

_LOOKS: dict[str, _Look] = {
    "check": binlog.check,
    "check, of one file": lambda log: binlog.check(log, number=5),
    "prune": lambda log: binlog.prune(log, keep_bytes=0),
    "prune, of damaged ones too": lambda log: binlog.prune(log, keep_bytes=0, damaged=True),
    "prune, told only": lambda log: binlog.prune(log, keep_bytes=0, dry_run=True),
    "stat": binlog.stat,
    "file_sizes": binlog.file_sizes,
    "repair": lambda log: binlog.repair(log, dry_run=True),
    "archive": lambda log: binlog.archive(log, dry_run=True),
    "a reader from the end": lambda log: binlog.Reader(log, binlog.Start.END).close(),
    "a writer": lambda log: binlog.Writer(log).close(),
}


def _make(log: Path, files: int) -> Path:
    with binlog.Writer(log, prepare_bytes=4096) as writer:
        for _ in range(files - 1):
            writer.append(b"x")
            writer.cutover()
    return log


def _calls(look: _Look, log: Path) -> Counter[str]:
    """Return the calls to the interpreter's module of system calls, and to ours, by name."""
    found: Counter[str] = Counter()

    def see(_: FrameType, event: str, called: object) -> None:
        if event == "c_call" and getattr(called, "__module__", None) in ("posix", "binlog._native"):
            found[getattr(called, "__name__", "")] += 1

    sys.setprofile(see)
    try:
        look(log)
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("look", _LOOKS.values(), ids=_LOOKS)
def test_three_times_as_many_files_take_three_times_as_many_calls(tmp_path: Path, look: _Look) -> None:
    logs = [_make(tmp_path / str(files), files) for files in (10, 30)]
    for log in logs:  # so that it has imported everything it needs
        look(shutil.copytree(log, tmp_path / f"{log.name}-before"))
    few, many = (_calls(look, log) for log in logs)
    assert 1 <= few["listdir"] == many["listdir"]
    assert many.total() <= 3 * few.total() + 10


def test_a_file_with_the_highest_number_does_not_cause_a_search_for_all_others(tmp_path: Path) -> None:
    log = _make(tmp_path / "log", 3)
    shutil.copy(log / "00000003.dat", log / "99999999.dat")

    def look() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))  # trying all numbers in between would take more
        assert list(binlog.file_sizes(log)) == [1, 2, 3, 99999999]
        assert [problem.rule for problem in binlog.check(log)]

    Child(look).join()
