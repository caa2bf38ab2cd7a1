"""The sealer is another user than the writers: it may only read the log, and they may not write to its folder."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from binlog.errors import AccessError
from binlog.seal import Sealer, SigningKey, begin_seal, stat_seal, verify, wait
from binlog.seal.permissions import separation_warnings
from tests.support.checkout import ROOT
from tests.support.users import (
    GROUP,
    OTHER_GROUP,
    OTHER_USER,
    USER,
    as_ordinary_user,
    as_user,
    folder_of_user,
    needs_root,
    start_as_user,
)
from tests.support.waiting import until

KEY = SigningKey.generate("example.org/audit")


def _seal_until(log: Path, size: int) -> None:
    """Run a sealer until that many records are sealed."""
    stop = threading.Event()
    with Sealer(log, KEY) as sealer:
        thread = threading.Thread(target=sealer.run, args=(stop, 0.01))
        thread.start()
        until(lambda: stat_seal(log).size == size)
        stop.set()
        thread.join()


def _seal_what_may_only_be_read(folder: Path) -> None:
    log = folder / "log"
    with Writer(log) as writer:
        writer.append_many([b"one", b"two"])
        writer.cutover()
        writer.append(b"three")
    begin_seal(log, KEY)
    for path in log.glob("0*"):
        path.chmod(0o400)
    log.chmod(0o500)
    try:
        with pytest.raises(AccessError):
            Writer(log)
        _seal_until(log, 3)
        report = verify(log, str(KEY.verifier))
        assert (report.findings, report.verified) == ([], 3)
    finally:
        log.chmod(0o700)


def test_a_sealer_needs_no_more_than_to_read_the_log() -> None:
    as_ordinary_user(_seal_what_may_only_be_read)


@pytest.fixture
def log() -> Iterator[Path]:
    """A log of USER, whose group may read it, with a folder `seal` of OTHER_USER, whose group may read that."""
    with folder_of_user(0o750) as path:
        as_user(_append, path, 300)
        (path / "seal").mkdir(0o750)
        os.chown(path / "seal", OTHER_USER, GROUP)
        yield path


def _append(log: Path, count: int) -> None:
    with Writer(log) as writer:
        for number in range(count):
            writer.append(b"record %d" % number)


def _append_and_wait(log: Path) -> None:
    """Append, and wait for the seal, without the permission to wake the sealer."""
    with Writer(log) as writer:
        ref = writer.append(b"in time")
        wait(log, ref, timeout=60)
        writer.cutover()
        writer.append(b"in the next file")


def _meddle(log: Path) -> None:
    """Try each way to another seal."""
    seal = log / "seal"
    for call in (
        lambda: (seal / "checkpoint").write_bytes(b""),
        lambda: (seal / "hashes" / "0.00000000").write_bytes(b""),
        (seal / "state").unlink,
        (seal / "new").touch,
        (seal / "hashes" / "new").touch,
    ):
        with pytest.raises(PermissionError):
            call()
    with pytest.raises(AccessError):
        Sealer(log, KEY)


def _try_to_append(log: Path) -> None:
    with pytest.raises(AccessError):
        Writer(log)


@needs_root
def test_a_sealer_of_another_user_seals_beside_the_writers(log: Path) -> None:
    as_user(begin_seal, log, KEY, user=OTHER_USER)
    as_user(_try_to_append, log, user=OTHER_USER)
    sealer = start_as_user(_seal_until, log, 302, user=OTHER_USER)
    as_user(_append_and_wait, log)
    sealer.join()
    as_user(_meddle, log)
    assert {path.stat().st_uid for path in [log / "seal", *(log / "seal").rglob("*")]} == {OTHER_USER}
    report = verify(log, str(KEY.verifier))
    assert (report.findings, report.verified, report.unsealed) == ([], 302, 0)
    assert binlog.check(log) == []


def _init(log: Path, key: Path) -> list[str]:
    command = [sys.executable, "-m", "binlog", "seal", "init", str(log), "--name", "example.org/a", "--key", str(key)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("example.org/a+")
    return done.stderr.splitlines()


def test_init_warns_if_the_writers_may_write_to_the_seal_or_read_the_key(tmp_path: Path) -> None:
    Writer(tmp_path / "log").close()
    seal, key = _init(tmp_path / "log", tmp_path / "key")
    assert f"appends to the log, and may write to {tmp_path / 'log' / 'seal'}; a user of its own" in seal
    assert f"appends to the log, and may read or write the key {tmp_path / 'key'}; a user of its own" in key
    assert seal.startswith("binlog: warning: ")


@needs_root
def test_init_warns_of_no_more_than_the_writers_may(log: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    assert _init(log, key) == []  # root has the key, and the folder is of another user
    seal = log / "seal"
    assert {path.stat().st_uid for path in [seal, *seal.rglob("*")]} == {OTHER_USER}
    for owner, group, mode, warns in (
        (OTHER_USER, GROUP, 0o770, True),  # the user's group, as far as the file tells
        (OTHER_USER, OTHER_GROUP, 0o770, False),
        (OTHER_USER, OTHER_GROUP, 0o757, True),
        (USER, GROUP, 0o500, True),  # an owner may change the mode
        (OTHER_USER, GROUP, 0o755, False),
    ):
        os.chown(seal, owner, group)
        seal.chmod(mode)
        assert [str(seal) in each for each in separation_warnings(log, key)] == [True] * warns
