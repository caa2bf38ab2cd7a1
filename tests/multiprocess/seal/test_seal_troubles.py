"""A poisoned log, a full disk, or a folder `seal` without write permission: appends are as without a seal, and the
sealer says so and resumes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from binlog.errors import FullError, PoisonedError
from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.seal import Sealer, SigningKey, begin_seal, stat_seal, verify
from stress.crash.preloaded.injector import NOTHING, Action, Injection, Kind, arm
from tests.support.checkout import ROOT
from tests.support.logs import read_all
from tests.support.namespaces import on_a_small_disk
from tests.support.preloaded import run_preloaded
from tests.support.users import as_ordinary_user
from tests.support.waiting import until

KEY = SigningKey("example.org/audit", bytes(range(32)))  # the preloaded process has it too


@contextmanager
def _sealing(log: Path) -> Iterator[list[str]]:
    """Run a sealer in a thread for a block, and yield its messages."""
    said: list[str] = []
    raised: list[BaseException] = []
    stop = threading.Event()

    def run() -> None:
        try:
            with Sealer(log, KEY) as sealer:
                sealer.run(stop, 0.01, said.append)
        except BaseException as error:  # noqa: BLE001 - it fails the test below
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield said
    finally:
        stop.set()
        thread.join()
    assert raised == []


def _is_sealed(log: Path, count: int) -> bool:
    return stat_seal(log).size >= count


def _check(log: Path) -> None:
    """Check that all records are sealed, as they are."""
    report = verify(log, str(KEY.verifier))
    assert (report.findings, report.verified, report.unsealed) == ([], len(read_all(log)), 0)
    assert binlog.check(log) == []


def _fill(writer: Writer) -> int:
    """Append until the disk is full; return the number of successful appends."""
    for count in range(100):
        try:
            writer.append(bytes(100_000))
        except FullError:
            return count
    raise AssertionError("the disk is never full")


def _seal_on_a_full_disk(disk: Path) -> None:
    log, filler, key = disk / "log", disk / "filler", disk / "key"
    KEY.save(key)
    with Writer(log) as writer:
        writer.append(b"before")
        begin_seal(log, KEY)
        command = [sys.executable, "-m", "binlog", "seal", "run", str(log), "--key", str(key), "--every", "0.01s"]
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as sealer:
            try:
                assert sealer.stderr is not None
                until(lambda: _is_sealed(log, 1))
                filler.write_bytes(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
                writer.append(b"in the space that the log has")
                assert "No space left on device" in sealer.stderr.readline()
                appended = _fill(writer)
                filler.unlink()
                writer.append(b"after")
                until(lambda: _is_sealed(log, 2 + appended + 1))
            finally:
                sealer.terminate()
            said = sealer.stderr.read()
        assert sealer.returncode == 0, said
    _check(log)


def test_on_a_full_disk_the_sealer_says_so_and_resumes(tmp_path: Path) -> None:
    on_a_small_disk(tmp_path, lambda: _seal_on_a_full_disk(tmp_path), size="8m")


def _seal_without_permission(folder: Path) -> None:
    log = folder / "log"
    with Writer(log) as writer:
        writer.append(b"before")
        begin_seal(log, KEY)
        with _sealing(log) as said:
            until(lambda: _is_sealed(log, 1))
            (log / "seal").chmod(0o500)
            writer.append(b"meanwhile")
            until(lambda: len(said) > 0)
            assert "Permission denied" in said[0]
            writer.append(b"later")
            assert stat_seal(log).size == 1
            (log / "seal").chmod(0o700)
            until(lambda: _is_sealed(log, 3))
    _check(log)


def test_without_write_permission_the_sealer_says_so_and_resumes() -> None:
    as_ordinary_user(_seal_without_permission)


def _seal_a_poisoned_log(log: Path) -> list[str]:
    writer = Writer(log)
    writer.append(b"before")
    begin_seal(log, KEY)
    with _sealing(log) as said:
        until(lambda: _is_sealed(log, 1))
        failing = Injection(Action.FAIL, kinds=(Kind.DATA_SYNC, Kind.SYNC), count=-1, error=errno.EIO, names_end=".dat")
        arm(failing, str(log))
        with pytest.raises(PoisonedError):
            writer.append(b"failed")
        with pytest.raises(PoisonedError):
            writer.append(b"refused")
        arm(NOTHING, str(log))
        writer.close()
        with Writer(log) as writer:
            writer.append(b"after")
            until(lambda: _is_sealed(log, len(read_all(log))))
    return said


def test_the_sealer_of_a_poisoned_log_continues_once_it_is_opened_again(in_memory: Path) -> None:
    log = in_memory / "log"
    assert run_preloaded(_seal_a_poisoned_log, log).result == []
    found = read_all(log)
    assert (found[0], found[-1]) == (b"before", b"after")
    _check(log)


def _seal_with_failing_syncs(log: Path) -> tuple[int, int]:
    with Writer(log) as writer, Sealer(log, KEY) as sealer:
        writer.append_many([b"more"] * 300)
        arm(Injection(Action.FAIL, kinds=(Kind.DATA_SYNC, Kind.SYNC), count=-1, error=errno.EIO), str(log / "seal"))
        with pytest.raises(PoisonedError):
            sealer.seal()
        writer.append(b"after")
        before = stat_seal(log).size
        arm(NOTHING, str(log))
        return before, parse_checkpoint(sealer.seal().text).size


def test_a_sealer_whose_sync_fails_signs_nothing_and_tries_again(in_memory: Path) -> None:
    log = in_memory / "log"
    with Writer(log) as writer:
        writer.append(b"before")
    begin_seal(log, KEY)
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    assert run_preloaded(_seal_with_failing_syncs, log).result == (1, 302)
    _check(log)
