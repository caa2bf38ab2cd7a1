"""Containers that share a log's directory, with a common /dev/shm and without one.

Each process is in a container of its own: process ids, IPC objects and mounts that no other container sees.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import binlog
from binlog import Mode, Writer
from binlog.consumers import stat_group
from tests.support.checkout import ROOT
from tests.support.group_workers import Worker
from tests.support.logs import job, jobs_by_writer, read_all
from tests.support.namespaces import container

pytestmark = [pytest.mark.root, pytest.mark.slow]

_WRITERS, _COUNT = 4, 200
_APPENDED = [b"0", b"1", b"2", b"3", b"4"]

# After its first record, it waits until all writers have started.
_WRITER = """
import os, sys
import binlog
from tests.support.logs import job
log, number, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with binlog.Writer(log, cutover_bytes=20000) as writer:
    writer.append(job(number, 0))
    print("started", os.getpid(), flush=True)
    sys.stdin.readline()
    for sequence in range(1, count):
        writer.append(job(number, sequence))
    print(writer.stat().led_records, *os.listdir("/dev/shm"), flush=True)
    sys.stdin.readline()
"""

# Appends, and waits to be killed.  In Mode.STAGE only a flush after ten minutes would write the records to the file.
_VICTIM = """
import sys
import binlog
background = binlog.Background(flush_seconds=600, sync_seconds=600)
writer = binlog.Writer(sys.argv[1], mode=binlog.Mode[sys.argv[2]], background=background)
for number in range(5):
    writer.append(b"%d" % number)
print("appended", flush=True)
sys.stdin.readline()
"""

_APPEND = "import sys, binlog; binlog.Writer(sys.argv[1]).append(b'after')"

_FOLLOWER = """
import os, sys, time
import binlog
try:
    open(os.path.join(sys.argv[1], "file"), "w")
except OSError as error:
    print(error.strerror, flush=True)
with binlog.Reader(sys.argv[1]) as reader:
    for entry in reader.tail():
        print(time.monotonic_ns(), entry.data.decode(), flush=True)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    with Writer(path) as writer:
        writer.append(job(99, 0))
    return path


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs that containers may have as their /dev/shm."""
    folder = tmp_path / "memory"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "none", folder], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace may be made here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def _append_after_a_kill(log: Path, tmp_path: Path, mode: Mode, memory: Path | None = None) -> list[bytes]:
    """Kill a container after it has appended; append in another one, and return the records."""
    one, two = tmp_path / "one", tmp_path / "two"
    command = [*container(log, one, memory=memory), sys.executable, "-c", _VICTIM, str(one), mode.name]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "appended\n"
        victim.kill()
        assert victim.stdout.read() == ""  # no process of the container has it open any more
    subprocess.run([*container(log, two, memory=memory), sys.executable, "-c", _APPEND, two], cwd=ROOT, check=True)
    assert binlog.check(log) == []
    return read_all(log)[1:]


def _append_together(log: Path, tmp_path: Path, memory: Path | None) -> list[list[str]]:
    """Append in each container at the same time; return the last line of each writer."""
    writers = []
    for number in range(_WRITERS):
        place = tmp_path / str(number)
        command = [*container(log, place, memory=memory), sys.executable, "-c", _WRITER, place, number, _COUNT]
        words = [str(word) for word in command]
        writers.append(subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    ends = []
    for each in writers:
        assert each.stdout is not None
        assert each.stdout.readline() == "started 1\n"  # the process id is the same in all containers
    for each in writers:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    for each in writers:
        assert each.stdout is not None
        ends.append(each.stdout.readline().split())
    for each in writers:
        each.communicate("\n")
        assert each.returncode == 0
    expected = {99: [0], **{number: list(range(_COUNT)) for number in range(_WRITERS)}}
    assert jobs_by_writer(read_all(log)) == expected
    assert len(binlog.stat(log).files) > 1
    assert binlog.check(log) == []
    return ends


def test_containers_without_a_common_shared_memory_lose_no_record(log: Path, tmp_path: Path) -> None:
    ends = _append_together(log, tmp_path, None)
    # Each of them commits its own records, and has a staging area of its own.
    assert [int(led) for led, *_ in ends] == [_COUNT] * _WRITERS
    assert [len(names) for _, *names in ends] == [1] * _WRITERS


def test_containers_with_a_common_shared_memory_have_one_staging_area(
    log: Path, tmp_path: Path, memory: Path, figure: Callable[[str], None]
) -> None:
    ends = _append_together(log, tmp_path, memory)
    assert len({tuple(names) for _, *names in ends}) == 1
    assert len(ends[0]) == 2
    assert sum(int(led) for led, *_ in ends) == _COUNT * _WRITERS
    figure(f"records led by each of {_WRITERS} containers with one /dev/shm: {[int(led) for led, *_ in ends]}")


@pytest.mark.parametrize("mode", [Mode.SYNC, Mode.FLUSH])
def test_a_killed_container_loses_no_record_without_a_common_shared_memory(
    log: Path, tmp_path: Path, mode: Mode
) -> None:
    assert _append_after_a_kill(log, tmp_path, mode) == [*_APPENDED, b"after"]


def test_staged_records_of_a_killed_container_are_lost_without_a_common_shared_memory(
    log: Path, tmp_path: Path
) -> None:
    found = _append_after_a_kill(log, tmp_path, Mode.STAGE)  # a writer flushes its first record, before it has a ring
    assert found == [*_APPENDED[: len(found) - 1], b"after"]
    assert len(found) <= 2


def test_staged_records_of_a_killed_container_are_kept_with_a_common_shared_memory(
    log: Path, tmp_path: Path, memory: Path
) -> None:
    assert _append_after_a_kill(log, tmp_path, Mode.STAGE, memory) == [*_APPENDED, b"after"]


@pytest.mark.parametrize("has_memory", [False, True], ids=["own memory", "one memory"])
def test_a_container_with_a_read_only_mount_follows_the_log(
    log: Path, tmp_path: Path, memory: Path, figure: Callable[[str], None], has_memory: bool
) -> None:
    place = tmp_path / "reader"
    command = [
        *container(log, place, memory=memory if has_memory else None, is_read_only=True),
        sys.executable,
        "-c",
        _FOLLOWER,
        str(place),
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as follower, Writer(log) as writer:
        assert follower.stdout is not None
        try:
            assert follower.stdout.readline() == "Read-only file system\n"
            follower.stdout.readline()
            waits = []
            for number in range(20):
                writer.append(b"%d" % number)
                appended_ns = time.monotonic_ns()
                got_ns, data = follower.stdout.readline().split()
                assert data == str(number)
                waits.append(int(got_ns) - appended_ns)
            writer.cutover()
            writer.append(b"after the cutover")
            assert follower.stdout.readline().endswith("after the cutover\n")
        finally:
            follower.kill()
    figure(f"append to a follower in another container: {sorted(waits)[10] / 1e6:.2f} ms (median)")


@pytest.mark.parametrize("has_memory", [False, True], ids=["own memory", "one memory"])
def test_another_container_gets_the_message_of_a_killed_one(
    log: Path, tmp_path: Path, memory: Path, has_memory: bool
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    prefixes = [container(log, place, memory=memory if has_memory else None) for place in (one, two)]
    with Worker(one, "billing", hangs_at=job(99, 0).decode(), prefix=prefixes[0]) as victim:
        victim.until("got", "0")
        with Worker(two, "billing", prefix=prefixes[1]) as other:
            victim.kill()
            assert other.until("got")[1:3] == ["0", "2"]
            other.until("acked", "0")


def test_a_command_with_the_process_id_1_ignores_sigterm_and_a_worker_ends(log: Path, tmp_path: Path) -> None:
    def started(name: str, *words: str) -> subprocess.Popen[str]:
        command = [*container(log, tmp_path / name), sys.executable, "-m", "binlog", *words]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def first_process(of: subprocess.Popen[str]) -> int:
        return int(Path(f"/proc/{of.pid}/task/{of.pid}/children").read_text())

    subprocess.run([sys.executable, "-m", "binlog", "group", "create", log, "billing"], cwd=ROOT, check=True)
    words = ["group", "work", str(tmp_path / "worker"), "billing", "--", "cat"]
    with started("tail", "tail", "-f", str(tmp_path / "tail")) as tail, started("worker", *words) as worker:
        assert tail.stdout is not None
        assert worker.stdout is not None
        assert tail.stdout.readline() == job(99, 0).decode() + "\n"
        os.kill(first_process(tail), signal.SIGTERM)
        with Writer(log) as writer:
            writer.append(b"after the signal")
        assert tail.stdout.readline() == "after the signal\n"
        tail.kill()
        assert worker.stdout.read(len(job(99, 0))) == job(99, 0).decode()
        os.kill(first_process(worker), signal.SIGTERM)
        assert worker.wait() == 128 + signal.SIGTERM
    stat = stat_group(log, "billing")
    assert (stat.in_hand, list(stat.members)) == (0, [])


def test_a_container_with_other_users_is_refused(log: Path, tmp_path: Path) -> None:
    """Numbers of users count, not their names; a log belongs to its first writer's."""
    os.chmod(tmp_path, 0o755)
    log.chmod(0o755)
    prefix = container(log, tmp_path / "one")
    command = [*prefix, "setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
    command += [sys.executable, "-m", "binlog", "append", str(tmp_path / "one")]
    done = subprocess.run(command, cwd=ROOT, input="x\n", capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "ermission" in done.stderr
