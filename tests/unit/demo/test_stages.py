"""The demo's stages before Spark, with real processes: a kill, a takeover, a cutover, a stopped follower."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import binlog
from stress.demo import compare, stages
from stress.demo.compare import Ledger
from stress.demo.director import DemoError, Place
from stress.demo.display import Display
from stress.demo.events import file_items, line_items, python_files
from stress.demo.follower import read_journal
from tests.support.checkout import ROOT

pytestmark = pytest.mark.slow


def run(place: Path, items: object, events: int | None, writers: int = 4) -> tuple[Place, Ledger]:
    with Display() as display:
        stages.append_and_follow(Place(place), display, items, events, writers)
    return Place(place), Ledger.load(Place(place).ledger)


def assert_success(place: Place, ledger: Ledger) -> list[str]:
    log = compare.read_log(place.log)
    _, wrong = compare.judge(log, read_journal(place.journal), log, ledger)
    return wrong + [str(problem) for problem in binlog.check(place.log)]


def test_events_from_this_machine(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place, ledger = run(tmp_path, file_items(python_files()), 600)
    assert assert_success(place, ledger) == []
    assert ledger.acknowledged.total() + ledger.found.total() == 600
    assert len(binlog.stat(place.log).files) == 2
    out = capfd.readouterr().out
    for happened in (
        "kill -9 of writer 3",
        "takes over its work",
        "half-way: cut over to file 2",
        "at its stored ref",
    ):
        assert happened in out


def test_given_files(tmp_path: Path) -> None:
    own = [tmp_path / "app.log", tmp_path / "other.log"]
    own[0].write_bytes(b"".join(b"line %d \xff\x1b[31m\n" % number for number in range(300)))
    own[1].write_bytes(b"\n" * 200)
    place, ledger = run(tmp_path, line_items(own), None, writers=6)
    assert assert_success(place, ledger) == []
    assert ledger.acknowledged.total() + ledger.found.total() == 500


def test_too_few_events_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match="10 events are too few for 4 writers"):
        run(tmp_path, ({"line": number} for number in range(10)), None)


def processes_naming(text: str) -> list[str]:
    """Return the command lines of all processes that contain a text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended
        if text in line and f"/{os.getpid()}/" not in str(path):
            found.append(line)
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_every_process(tmp_path: Path, number: signal.Signals) -> None:
    keep = tmp_path / "a name that no other process has"
    command = [sys.executable, "-m", "stress.demo", "--events", "40000", "--keep", str(keep)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "writer" in line and "#" in line:
                break  # the follower has sent a sample, so all processes are working
        assert len(processes_naming(str(keep))) == 6
        demo.send_signal(number)
        _, errors = demo.communicate()
    assert demo.returncode == 130
    assert errors == "demo: interrupted; all processes have been stopped\n"
    assert processes_naming(str(keep)) == []
