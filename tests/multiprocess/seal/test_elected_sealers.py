"""Writers with a sealer: one of their processes seals, and another takes over when it dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from binlog import Writer
from binlog.errors import SealError
from binlog.seal import ElectedSealer, Sealer, SigningKey, begin_seal, stat_seal, verify, wait
from tests.support.checkout import ROOT
from tests.support.logs import read_all
from tests.support.waiting import until

KEY = SigningKey("example.org/audit", bytes(range(32)))
VKEY = str(KEY.verifier)

_WRITER = """
import sys, time
from binlog import Writer
from binlog.seal import ElectedSealer

sealer = ElectedSealer(sys.argv[2], every=0.1)
with Writer(sys.argv[1], sealer=sealer) as writer:
    was = None
    while True:
        writer.append(b"%s" % sys.argv[3].encode())
        if sealer.is_sealing != was:
            was = sealer.is_sealing
            print("seals" if was else "does not seal", flush=True)
        time.sleep(0.005)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with a seal, and its key in the file `key` beside it."""
    log = tmp_path / "log"
    Writer(log).close()
    begin_seal(log, KEY)
    KEY.save(tmp_path / "key")
    return log


def _start(log: Path, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WRITER, str(log), str(log.parent / "key"), name]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def _until_sealed(log: Path, size: int) -> None:
    until(lambda: stat_seal(log).size > size)


@pytest.mark.slow
def test_one_of_the_writers_seals_and_another_takes_over(log: Path) -> None:
    writers = {}
    for name in ("first", "second", "third"):
        writers[name] = _start(log, name)
        stdout = writers[name].stdout
        assert stdout is not None
        if name == "first":
            _until_sealed(log, 0)
    for name in ("first", "second"):
        writers[name].send_signal(signal.SIGKILL)
        writers[name].wait()
        before = stat_seal(log).size
        _until_sealed(log, before + 5)
    writers["third"].send_signal(signal.SIGKILL)
    writers["third"].wait()
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    assert verify(log, VKEY).findings == []
    assert stat_seal(log).size == len(read_all(log))
    said = {name: process.communicate()[0].split("\n") for name, process in writers.items()}
    assert said["first"][-2] == said["third"][-2] == "seals"
    assert "does not seal" in said["second"] + said["third"]


def test_a_writer_that_closes_seals_its_last_records(log: Path) -> None:
    sealer = ElectedSealer(KEY, every=60)
    with Writer(log, sealer=sealer, mode="flush") as writer:
        until(lambda: sealer.is_sealing)
        writer.append_many([b"one", b"two"])
        wait(log, writer.append(b"three", mode="sync"), timeout=20)
        writer.append(b"last")
    assert stat_seal(log).size == 4
    assert verify(log, VKEY).findings == []


def test_a_forked_child_leaves_the_sealer_to_its_parent(log: Path) -> None:
    sealer = ElectedSealer(KEY, every=0.1)
    with Writer(log, sealer=sealer) as writer:
        until(lambda: sealer.is_sealing)
        child = os.fork()
        if child == 0:
            writer.append(b"of the child")
            writer.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        ref = writer.append(b"of the parent")
        wait(log, ref, timeout=20)
    assert stat_seal(log).size == 2
    assert verify(log, VKEY).findings == []


def test_a_log_that_differs_from_its_seal_is_appended_to_and_not_sealed(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"one")
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    path = log / "00000001.dat"
    path.write_bytes(path.read_bytes().replace(b"one", b"two"))
    path.with_suffix(".idx").unlink()
    messages: list[str] = []
    elected = ElectedSealer(KEY, every=0.05, on_failure=messages.append)
    with Writer(log, sealer=elected) as writer:
        until(lambda: bool(messages))
        writer.append(b"three")
    assert isinstance(elected.error, SealError)
    assert "differs from its seal" in messages[0]
    assert read_all(log) == [b"two", b"three"]


def test_a_log_without_a_seal_is_appended_to(tmp_path: Path) -> None:
    messages: list[str] = []
    with Writer(tmp_path, sealer=ElectedSealer(KEY, on_failure=messages.append)) as writer:
        until(lambda: bool(messages))
        writer.append(b"one")
    assert "has no seal" in messages[0]
    assert not (tmp_path / "seal").exists()
