"""The parts of the cluster test that need no cluster: whole machines die, ranges are served, differences are
noticed."""

from __future__ import annotations

import ast
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from stress.cluster import proof
from stress.cluster.machines import Machine
from stress.cluster.web_server import served

# Starts a child in its own process group, as PySpark's daemon is, and prints its id.
_PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
print(child.pid, flush=True)
time.sleep(600)
"""


def is_there(pid: int) -> bool:
    """Return whether it is running; a zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine([sys.executable, "-c", _PARENT], tmp_path / "machine", dict(os.environ), piped=True)


def test_a_machine_dies_with_all_that_it_started(machine: Machine) -> None:
    assert machine.process.stdout is not None
    child = int(machine.process.stdout.readline())
    assert is_there(child)
    assert machine.kill() == 2
    assert not is_there(child)
    assert machine.kill() == 0


def test_children_of_a_dead_process_die_too(machine: Machine) -> None:
    assert machine.process.stdout is not None
    child = int(machine.process.stdout.readline())
    os.kill(machine.process.pid, 9)
    while not machine.ended:
        time.sleep(0.01)
    assert machine.kill() == 1
    assert not is_there(child)


def test_a_machine_reports_its_errors(tmp_path: Path) -> None:
    machine = Machine(["sh", "-c", "seq 1 50; echo no such thing >&2"], tmp_path / "machine", dict(os.environ))
    while not machine.ended:
        time.sleep(0.01)
    assert machine.said().splitlines()[-1] == "no such thing"
    assert len(machine.said().splitlines()) == 15
    machine.kill()


def test_a_machine_has_only_the_variables_that_it_is_given(tmp_path: Path) -> None:
    machine = Machine(["/usr/bin/env"], tmp_path / "machine", {"ONLY": "this"})
    while not machine.ended:
        time.sleep(0.01)
    assert machine.said() == "ONLY=this"
    machine.kill()


@pytest.mark.slow
def test_a_part_of_a_file_is_served(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(100)))
    with served(tmp_path) as url:
        assert url.startswith("http://127.0.0.1:")

        def get(asked: str) -> tuple[int, bytes]:
            request = urllib.request.Request(f"{url}/file", headers={"Range": asked} if asked else {})
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read()

        assert get("") == (200, bytes(range(100)))
        assert get("bytes=10-19") == (206, bytes(range(10, 20)))
        assert get("bytes=90-1000") == (206, bytes(range(90, 100)))
        assert get("bytes=95-") == (206, bytes(range(95, 100)))
        with pytest.raises(urllib.error.HTTPError, match="416"):
            get("bytes=100-200")


def test_a_missing_or_duplicate_record_is_noticed(tmp_path: Path) -> None:
    expected = [b"%d" % number for number in range(10)]
    assert proof._record_differences(expected, expected) == []
    assert "1 missing, 0 duplicated" in proof._record_differences(expected[1:], expected)[0]
    assert "0 missing, 1 duplicated" in proof._record_differences([*expected, b"3"], expected)[0]
    assert "out of order" in proof._record_differences(expected[::-1], expected)[0]
    with Writer(tmp_path) as writer:
        writer.append_many(expected)
    summary = proof._summary(tmp_path)
    assert summary[:2] == [10, 10]
    assert proof._differences(summary, summary) == []
    assert proof._differences([11, *summary[1:]], summary) == ["rows: 11, expected 10"]


def test_files_that_a_job_leaves_are_noticed(tmp_path: Path) -> None:
    with proof._nothing_left(tmp_path) as wrong:
        (tmp_path / ".task-output" / "job" / "0-x").mkdir(parents=True)
    assert wrong == ["task output left: ['0-x', 'job']"]


def test_a_kill_that_came_too_late_is_noticed() -> None:
    killer = proof._Killer(None)  # type: ignore[arg-type]
    assert not killer.strikes({"done": 19, "active": 2, "of": 20, "batches": -1, "lost": 0})
    assert killer.wrong(0) == ["the job was never in the middle, and no worker was killed"]


def test_the_log_has_several_files(tmp_path: Path) -> None:
    proof._append(tmp_path, 0, 4000)
    assert [file.closed for file in binlog.stat(tmp_path).files] == [True, True, False]


def test_the_driver_program_imports_nothing_of_ours() -> None:
    # Except for the code that executors import.
    tree = ast.parse(Path(proof.__file__).with_name("job.py").read_text())
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in modules if name.split(".")[0] in ("binlog", "stress", "tests")]
