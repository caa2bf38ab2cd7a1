from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog.errors import BusyError
from binlog.storage.descriptors import Descriptor
from binlog.storage.locking.locks import holder, lock, unlock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    return path


def _descriptor(path: Path) -> Descriptor:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        return Descriptor(folder, path.name, str(path))
    finally:
        os.close(folder)


@pytest.fixture
def held(path: Path) -> Iterator[int]:
    """The lock, held by another open file of this process."""
    fd = os.open(path, os.O_RDWR)
    lock(fd, str(path))
    yield fd
    os.close(fd)


def test_another_open_file_of_the_same_process_is_excluded(path: Path, held: int) -> None:
    fd = os.open(path, os.O_RDWR)
    with pytest.raises(BusyError) as caught:
        lock(fd, str(path), timeout=0.01)
    assert caught.value.holder == f"process {os.getpid()}"
    unlock(held)
    lock(fd, str(path), timeout=0.01)
    os.close(fd)


def test_closing_another_descriptor_of_the_file_does_not_drop_the_lock(path: Path, held: int) -> None:
    """A classic lock is freed then, so that a reader in the writer's process would end the exclusion."""
    os.close(os.open(path, os.O_RDWR))
    fd = os.open(path, os.O_RDWR)
    with pytest.raises(BusyError):
        lock(fd, str(path), timeout=0)
    os.close(fd)


def test_a_classic_lock_of_another_process_excludes_us_and_is_named(path: Path) -> None:
    script = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX)"
    script += "; print('locked', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        fd = os.open(path, os.O_RDWR)
        with pytest.raises(BusyError) as caught:
            lock(fd, str(path), timeout=0.01)
        assert caught.value.holder == f"process {other.pid}"
        other.communicate(b"\n")
        lock(fd, str(path), timeout=1)
        os.close(fd)


def test_our_lock_excludes_a_classic_lock_of_another_process(path: Path, held: int) -> None:
    script = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, check=False)
    assert b"BlockingIOError" in done.stderr


def test_a_free_lock_has_no_holder(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    assert holder(fd) is None
    os.close(fd)


def test_a_signal_handler_runs_while_waiting_for_the_lock(path: Path, held: int) -> None:
    """Its exception ends the wait, so that Ctrl-C works."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    fd = os.open(path, os.O_RDWR)
    stop = threading.Event()

    def send() -> None:
        while not stop.wait(0.01):
            os.kill(os.getpid(), signal.SIGUSR1)

    sender = threading.Thread(target=send)
    try:
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            lock(fd, str(path))
    finally:
        # Another signal may still come while this thread waits for the sender.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        stop.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)
        os.close(fd)


def test_a_forked_child_closes_the_descriptor_and_does_not_keep_the_lock(path: Path) -> None:
    descriptor = _descriptor(path)
    lock(descriptor.fd, str(path))
    done_read, done_write = os.pipe()
    stay_read, stay_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(stay_write)
        try:
            os.fstat(descriptor.fd)
            answer = b"open"
        except OSError:
            answer = b"closed" if descriptor.inherited else b"lost"
        os.write(done_write, answer)
        os.read(stay_read, 1)
        os._exit(0)
    os.close(stay_read)
    assert os.read(done_read, 10) == b"closed"
    # The child still lives, and would keep an inherited lock.
    descriptor.close()
    fd = os.open(path, os.O_RDWR)
    lock(fd, str(path), timeout=0)
    for end in (fd, stay_write, done_read, done_write):
        os.close(end)
    os.waitpid(child, 0)


def test_a_second_close_closes_no_other_file(path: Path) -> None:
    descriptor = _descriptor(path)
    number = descriptor.fd
    descriptor.close()
    other = os.open(path, os.O_RDWR)
    os.dup2(other, number)
    descriptor.close()
    assert fcntl.fcntl(number, fcntl.F_GETFD) == 0
    os.close(number)
    if other != number:
        os.close(other)
