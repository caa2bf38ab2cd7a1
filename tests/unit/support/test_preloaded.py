"""The kill sweeps' runner, with functions of known calls."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stress.crash.preloaded.injector import Kind
from tests.support.preloaded import calls_so_far, run_preloaded

pytestmark = pytest.mark.slow  # it tests the harness, which few changes touch

_EXCHANGE = [Kind.OPEN, Kind.WRITE, Kind.DATA_SYNC, Kind.READ, Kind.OTHER, Kind.TRUNCATE, Kind.CLOSE]


def _exchange(folder: Path) -> int:
    descriptor = os.open(folder / "file", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.pwrite(descriptor, b"hello", 3)
    os.fdatasync(descriptor)
    calls = calls_so_far()
    os.pread(descriptor, 100, 0)
    os.fchmod(descriptor, 0o640)
    os.ftruncate(descriptor, 4)
    os.close(descriptor)
    return calls


def _fail(_: Path) -> None:
    raise ValueError("told to")


def _exit(_: Path) -> None:
    os._exit(7)


def test_calls_are_returned_in_order_with_the_result(in_memory: Path) -> None:
    run = run_preloaded(_exchange, in_memory)
    assert (run.calls, run.killed, run.result) == (_EXCHANGE, False, 3)
    assert (in_memory / "file").read_bytes() == b"\0\0\0h"


def test_a_sweep_kills_at_each_call_and_none_of_them_is_made(in_memory: Path) -> None:
    path, sizes, kill_at = in_memory / "file", [], 0
    while (run := run_preloaded(_exchange, in_memory, kill_at=kill_at)).killed:
        assert run.calls == _EXCHANGE[: kill_at + 1]
        sizes.append(path.stat().st_size if path.exists() else None)
        path.unlink(missing_ok=True)
        kill_at += 1
    assert run.calls == _EXCHANGE
    assert sizes == [None, 0, 8, 8, 8, 8, 4]


def test_other_kinds_and_other_files_do_not_count(in_memory: Path) -> None:
    assert run_preloaded(_exchange, in_memory, kinds=(Kind.DATA_SYNC,)).calls == [Kind.DATA_SYNC]
    assert run_preloaded(_exchange, in_memory, names_end="another").calls == []


@pytest.mark.parametrize(("function", "told"), [(_fail, "ValueError: told to"), (_exit, "ended with 7")])
def test_a_function_that_fails_is_reported(in_memory: Path, function: object, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        run_preloaded(function, in_memory)  # type: ignore[arg-type]
    assert run_preloaded(_exchange, in_memory).calls == _EXCHANGE
