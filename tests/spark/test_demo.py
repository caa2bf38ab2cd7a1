"""The demo, end to end, with few events."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import binlog
from tests.support.checkout import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def demo(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "stress.demo", *arguments]


@pytest.mark.turn(2)
def test_the_demo_keeps_its_promises(tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    command = demo("--events", "400", "--keep", str(keep))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for sentence in (
        "4 writers append 400 events",
        "kill -9 of writer 3",
        "takes over its work, and searches the log",
        "half-way: cut over to file 2",
        "the follower resumes at its stored ref",
        "4 workers share 2,000 messages",
        "Nothing was lost, and nothing was done twice.",
        "Per writer:",
        "Largest files:",
        "The three are equal, as multisets of (writer, sequence, hash).",
        "Every acknowledged record is in the log exactly once.",
        "the demo has passed: everything is as promised",
    ):
        assert sentence in done.stdout
    assert done.stderr == ""
    assert_same_bytes(keep)
    assert_a_lost_line_is_noticed(keep)


def assert_same_bytes(keep: Path) -> None:
    """Compare log and Parquet files without the demo's own code."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(keep / "extract.parquet", columns=["number", "offset", "sequence", "data"])
    extracted = Counter(tuple(row.values()) for row in table.to_pylist())
    with binlog.Reader(keep / "log") as reader:
        log = Counter((*entry.ref, sequence, entry.data) for sequence, entry in enumerate(reader))
    assert log.total() == 400
    assert extracted == log
    assert binlog.check(keep / "log") == []


def assert_a_lost_line_is_noticed(keep: Path) -> None:
    lines = (keep / "followed.txt").read_text().splitlines(keepends=True)
    (keep / "followed.txt").write_text("".join(lines[:200] + lines[201:]))
    names = {"log": "log", "journal": "followed.txt", "parquet": "extract.parquet", "ledger": "ledger.txt"}
    command = [sys.executable, "-m", "stress.demo.compare"]
    command += [word for option, name in names.items() for word in (f"--{option}", str(keep / name))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "It is NOT the same" in done.stdout


@pytest.mark.install
def test_an_interrupt_while_spark_works_ends_everything(tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    command = demo("--events", "400", "--keep", str(keep))
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "extract: writing the log to Parquet" in line:
                break
        [group] = {
            group_of(pid) for pid in processes() if str(keep) in command_line(pid) and "extract" in command_line(pid)
        }
        assert any("java" in command_line(pid) for pid in processes() if group_of(pid) == group)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert errors == "demo: interrupted; all processes have been stopped\n"
    # A dead process is listed, without a command line, until its new parent waits for it.
    assert [command_line(pid) for pid in processes() if group_of(pid) == group and command_line(pid)] == []


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""  # it has ended


def group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
