"""A fork while a writer is open: parent and child continue, nothing is corrupt, and no process waits forever."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path

import pytest

import binlog
from tests.support.children import Child
from tests.support.logs import job, jobs_by_writer, read_all


def test_parent_and_children_continue_with_the_same_writer_object(log: Path) -> None:
    with binlog.Writer(log) as writer:
        writer.append(job(0, 0))

        def append(number: int) -> None:
            for sequence in range(200):
                writer.append(job(number, sequence))
                if sequence % 70 == 0:
                    writer.cutover()

        children = [Child(append, number) for number in (1, 2, 3)]
        for sequence in range(1, 200):
            writer.append(job(0, sequence))
        for child in children:
            child.join()
    assert jobs_by_writer(read_all(log)) == {number: list(range(200)) for number in range(4)}


def test_a_fork_in_the_middle_of_another_threads_appends(log: Path) -> None:
    """The child inherits a mutex that is held by a thread that it does not have, and perhaps the file's lock."""
    with binlog.Writer(log) as writer:
        stop = threading.Event()
        appended = []

        def append() -> None:
            while not stop.is_set():
                writer.append(job(0, len(appended)))
                appended.append(None)

        thread = threading.Thread(target=append)
        thread.start()
        for number in range(1, 31):
            Child(writer.append, job(number, 0)).join()
        stop.set()
        thread.join()
    found = jobs_by_writer(read_all(log))
    assert found.pop(0) == list(range(len(appended)))
    assert found == {number: [0] for number in range(1, 31)}


def test_a_surviving_child_does_not_hold_its_dead_parents_lock(log: Path) -> None:
    """The parent forks while it holds the lock, and dies."""
    with binlog.Writer(log) as outside:
        outside.append(job(0, 0))
        stay_read, stay_write = os.pipe()

        def parent() -> None:
            writer = binlog.Writer(log)

            def fork_and_die(file: object, header: object) -> None:
                if os.fork() == 0:
                    os.close(stay_write)
                    os.read(stay_read, 1)
                    os._exit(0)
                os._exit(0)

            writer._open_session().run(fork_and_die)  # type: ignore[arg-type]

        Child(parent).join()
        outside.append(job(0, 1))
        os.close(stay_write)
        os.close(stay_read)
    assert jobs_by_writer(read_all(log)) == {0: [0, 1]}


_CLONE = """
import ctypes, os, signal, sys
import binlog
writer = binlog.Writer(sys.argv[1])
writer.append(b"parent 0")
number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
child = ctypes.PyDLL(None).syscall(number, int(signal.SIGCHLD), 0, 0, 0, 0)
if child == 0:
    print(writer.append(b"child 0"), flush=True)
    os._exit(0)
for index in range(1, 50):
    writer.append(b"parent %d" % index)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_made_without_fork_handlers_finds_out(log: Path) -> None:
    """Make a child with a bare clone(2), as a C library may: no handler runs, and the writer finds out on its first
    call.

    In a program with no other thread: CPython itself does not survive more.
    """
    subprocess.run([sys.executable, "-c", _CLONE, log], check=True, timeout=60)
    records = read_all(log)
    assert sorted(records) == sorted([b"child 0", *(b"parent %d" % index for index in range(50))])


def test_a_reader_continues_in_the_child(log: Path) -> None:
    with binlog.Writer(log) as writer, binlog.Reader(log) as reader:
        writer.append_many([job(0, 0), job(0, 1)])
        next(reader)

        def read() -> None:
            assert [entry.data for entry in islice(reader.tail(timeout=30), 2)] == [job(0, 1), job(0, 2)]

        child = Child(read)
        writer.append(job(0, 2))
        child.join()
        assert [entry.data for entry in reader] == [job(0, 1), job(0, 2)]


def test_closing_in_the_child_does_not_affect_the_parents_writer(log: Path) -> None:
    with binlog.Writer(log) as writer, binlog.Reader(log) as reader:
        writer.append(job(0, 0))
        list(reader)

        def close() -> None:
            reader.close()
            writer.close()

        Child(close).join()
        writer.append(job(0, 1))
        assert [entry.data for entry in reader] == [job(0, 1)]


_REOPEN = """
import ctypes, os, signal, sys
from binlog import Producer
from binlog.journal import Journal
kind, path = sys.argv[1:]
def open_journal():
    journal = Journal(path).__enter__()
    journal.load()
    return journal
reopen = open_journal if kind == "journal" else lambda: Producer(path, "till-7")
opened = reopen()
number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
child = ctypes.PyDLL(None).syscall(number, int(signal.SIGCHLD), 0, 0, 0, 0)
if child == 0:
    signal.pause()
try:
    opened.close()
    reopen().close()
finally:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


@pytest.mark.parametrize("kind", ["journal", "producer"])
def test_a_close_frees_the_lock_before_a_child_has_run(log: Path, kind: str) -> None:
    """A child closes its copies of the descriptors as soon as it runs; this one never does."""
    log.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-c", _REOPEN, kind, log], check=True, timeout=60)
