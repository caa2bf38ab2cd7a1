"""Kill: a sealer dies at each of its system calls, and at random moments while processes append and cut over.

Whatever it had done, the next one continues: no size ever has two roots, no later checkpoint is smaller, and every
record is sealed in the end.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import binlog
from binlog import Mode, Writer
from binlog.format.seal.checkpoint import Checkpoint, parse_checkpoint
from binlog.seal import Sealer, SigningKey, begin_seal, parse_anchor, verify
from binlog.seal.folder import SealFolder
from stress.crash.preloaded.injector import Kind
from tests.support.checkout import ROOT
from tests.support.logs import read_all
from tests.support.preloaded import kill_at_each_call
from tests.support.waiting import until

SECRET = bytes(range(32))
KEY = SigningKey("example.org/audit", SECRET)
VKEY = str(KEY.verifier)


def _seal(folder: Path) -> None:
    with Sealer(folder / "log", KEY, anchors=[parse_anchor(f"dir:{folder / 'anchor'}")]) as sealer:
        sealer.seal()
        sealer.anchor()


def _begin(folder: Path) -> None:
    begin_seal(folder / "log", KEY)


def _fill(folder: Path, *, sealed: bool) -> None:
    (folder / "anchor").mkdir(parents=True)
    log = folder / "log"
    with Writer(log, mode=Mode.FLUSH) as writer:
        for number in range(3):
            if number == 1 and sealed:
                writer.sync()
                _begin(folder)
                _seal(folder)
            writer.append_many([b"%d.%d" % (number, place) for place in range(300)])
            if number < 2:
                writer.cutover()


def _heads(folder: Path) -> list[Checkpoint]:
    """Return all checkpoints that are anywhere, those of the anchor first."""
    found = []
    for path in (folder / "anchor").iterdir():
        found += [
            parse_checkpoint(text.split("\n\n")[0] + "\n") for text in path.read_text().split("\n\n\n") if text.strip()
        ]
    with SealFolder(folder / "log") as seal:
        note = seal.checkpoint()
    return found + ([] if note is None else [parse_checkpoint(note.text)])


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.install)])
@pytest.mark.parametrize("sealed", [False, True], ids=["new", "continued"])
def test_a_sealer_killed_at_each_call_is_continued(
    in_memory: Path, figure: Callable[[str], None], sealed: bool, step: int
) -> None:
    start, folder = in_memory / "start", in_memory / "folder"
    _fill(start, sealed=sealed)
    if not sealed:
        _begin(start)
    died, kinds = 0, set()
    for run in kill_at_each_call(_seal, start, folder, step=step):
        before = _heads(folder)
        _seal(folder)
        heads = _heads(folder)
        roots: dict[int, bytes] = {}
        for head in [*before, *heads]:
            assert roots.setdefault(head.size, head.root) == head.root
        assert [head.size for head in heads] == sorted(head.size for head in heads)
        report = verify(folder / "log", VKEY)
        assert (report.findings, report.verified, report.unsealed) == ([], 900, 0)
        died += run.killed
        kinds |= set(run.calls)
    assert died > 15
    assert {Kind.WRITE, Kind.SYNC} <= kinds
    figure(f"a sealer killed at every {step}. call: {died} deaths")


def test_a_seal_that_is_begun_and_killed_at_each_call_can_be_begun_again(in_memory: Path) -> None:
    start, folder = in_memory / "start", in_memory / "folder"
    _fill(start, sealed=False)
    for _ in kill_at_each_call(_begin, start, folder, step=2):
        if not (folder / "log" / "seal" / "beginning").exists():
            _begin(folder)
        _seal(folder)
        assert verify(folder / "log", VKEY).findings == []


def _state(log: Path) -> bytes:
    path = log / "seal" / "state"
    return path.read_bytes() if path.exists() else b""


def _has_changed(log: Path, before: bytes) -> bool:
    return _state(log) != before


_WRITER = """
import sys
import binlog
with binlog.Writer(sys.argv[1], cutover_bytes=1 << 19) as writer:
    number = 0
    while True:
        writer.append(b"%d" % number * 10)
        number += 1
"""


@pytest.mark.parametrize("kills", [15, pytest.param(300, marks=pytest.mark.install)])
def test_sealers_killed_at_random_beside_writers_seal_every_record(
    tmp_path: Path, figure: Callable[[str], None], kills: int
) -> None:
    chance = random.SystemRandom()
    log, key = tmp_path / "log", tmp_path / "key"
    (tmp_path / "anchor").mkdir()
    KEY.save(key)
    Writer(log).close()
    begin_seal(log, KEY)
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, str(log)], cwd=ROOT) for _ in range(3)]
    command = [sys.executable, "-m", "binlog", "seal", "run", str(log), "--key", str(key), "--every", "0.01s"]
    try:
        for _ in range(kills):
            before = _state(log)
            with subprocess.Popen([*command, "--anchor", f"dir:{tmp_path / 'anchor'}"], cwd=ROOT) as sealer:
                try:
                    until(partial(_has_changed, log, before))  # it has begun to work
                    time.sleep(chance.random() * 0.05)
                finally:
                    sealer.kill()
    finally:
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.wait()
    Writer(log).close()
    _seal(tmp_path)
    roots: dict[int, bytes] = {}
    heads = _heads(tmp_path)
    for head in heads:
        assert roots.setdefault(head.size, head.root) == head.root
    assert [head.size for head in heads] == sorted(head.size for head in heads)
    report = verify(log, VKEY)
    assert (report.findings, report.verified) == ([], len(read_all(log)))
    assert binlog.check(log) == []
    figure(f"sealers killed {kills} times beside writers: {report.verified} records, {len(roots)} checkpoints")
