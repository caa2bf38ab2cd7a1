"""A fork while a writer is open: both sides go on, nothing is corrupt, nobody waits for ever."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import binlog
from tests.support.logs import job, jobs_by_writer, read_all


def _fork(work: object) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()  # type: ignore[operator]
            status = 0
        finally:
            os._exit(status)
    return child


def _join(child: int) -> None:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_parent_and_children_go_on_with_the_same_writer_object(log: Path) -> None:
    with binlog.Writer(log) as writer:
        writer.append(job(0, 0))

        def append(number: int) -> None:
            for sequence in range(200):
                writer.append(job(number, sequence))
                if sequence % 70 == 0:
                    writer.cutover()

        children = [_fork(lambda number=number: append(number)) for number in (1, 2, 3)]
        for sequence in range(1, 200):
            writer.append(job(0, sequence))
        for child in children:
            _join(child)
    assert jobs_by_writer(read_all(log)) == {number: list(range(200)) for number in range(4)}


def test_a_fork_in_the_middle_of_another_threads_appends(log: Path) -> None:
    """The child inherits a mutex that is held by a thread it does not have, and perhaps the file's lock."""
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
            _join(_fork(lambda number=number: writer.append(job(number, 0))))
        stop.set()
        thread.join()
    found = jobs_by_writer(read_all(log))
    assert found.pop(0) == list(range(len(appended)))
    assert found == {number: [0] for number in range(1, 31)}


def test_a_child_that_lives_on_does_not_keep_its_dead_parents_lock(log: Path) -> None:
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

            writer._run(fork_and_die)  # type: ignore[arg-type]

        _join(_fork(parent))
        outside.append(job(0, 1))
        os.close(stay_write)
        os.close(stay_read)
    assert jobs_by_writer(read_all(log)) == {0: [0, 1]}


def test_a_reader_goes_on_in_the_child(log: Path) -> None:
    with binlog.Writer(log) as writer, binlog.Reader(log) as reader:
        writer.append_many([job(0, 0), job(0, 1)])
        next(reader)

        def read() -> None:
            assert reader.wait(30)
            assert [entry.data for entry in reader] == [job(0, 1)]
            assert reader.wait(30)
            assert next(reader).data == job(0, 2)

        ready_read, ready_write = os.pipe()
        child = _fork(read)
        writer.append(job(0, 2))
        _join(child)
        os.close(ready_read)
        os.close(ready_write)
        assert [entry.data for entry in reader] == [job(0, 1), job(0, 2)]


def test_closing_in_the_child_leaves_the_parents_writer_alone(log: Path) -> None:
    with binlog.Writer(log) as writer, binlog.Reader(log) as reader:
        writer.append(job(0, 0))
        list(reader)

        def close() -> None:
            reader.close()
            writer.close()

        _join(_fork(close))
        writer.append(job(0, 1))
        assert [entry.data for entry in reader] == [job(0, 1)]
