"""`python -m stress.crash --replay`: what it leaves there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.waiting import until

pytestmark = pytest.mark.slow


def test_a_replay_that_is_ended_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "part.json").write_text(json.dumps({"part": "group-kill", "case": {}}))
    command = [sys.executable, "-m", "stress.crash", "--replay", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as replay:
        until(lambda: len(_processes(tmp_path)) > 3)
        storm = [process for process, parent in _processes(tmp_path).items() if parent != replay.pid]
        for process in storm:
            os.kill(process, signal.SIGSTOP)  # it does not notice that its files are removed
        replay.send_signal(signal.SIGTERM)
    left = _processes(tmp_path)
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert not left


def _processes(folder: Path) -> dict[int, int]:
    """Return the living processes of a replay, and the parent of each."""
    command = f"stress.crash.replay\0{folder}\0".encode()
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
            if command in (process / "cmdline").read_bytes() and state not in "ZX":
                found[int(process.name)] = int(parent)
    return found
