"""The injector affects the chosen calls of processes with known calls, and the model of a lossy disk acts as the
kernel.
"""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from stress.crash.disk_model.lossy_disk import LossyDisk
from stress.crash.preloaded.preload import Preload, compile_recorder
from stress.crash.preloaded.trace import Event, Kind
from tests.support.checkout import ROOT

pytestmark = pytest.mark.slow  # it tests the harness, which few changes touch

PAGE = 4096

START = """
import errno, fcntl, os, struct, sys
from stress.crash.preloaded.injector import Action, Kind, Injection, Slots, arm, disarm
slots = Slots(1)
def armed(action, first=0, count=1, error=0, kinds=tuple(Kind)):
    arm(Injection(action, first, kinds, count, error), os.getcwd(), slots[0])
fd = os.open("a", os.O_RDWR | os.O_CREAT)
"""


@pytest.fixture(scope="module")
def preload(tmp_path_factory: pytest.TempPathFactory) -> Preload:
    folder = tmp_path_factory.mktemp("injector")
    return Preload(compile_recorder(folder), folder, f"test-{os.getpid()}-")


def run(preload: Preload, folder: Path, code: str) -> tuple[int, str]:
    environment = {**preload.environment("first"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", START + code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(("action", "there"), [("KILL_BEFORE", b"one"), ("KILL_AFTER", b"onetwo")])
def test_a_process_is_killed_at_the_call(preload: Preload, tmp_path: Path, action: str, there: bytes) -> None:
    code = f"""
armed(Action.{action}, first=1)
os.pwrite(fd, b"one", 0)
os.pwrite(fd, b"two", 3)
os.pwrite(fd, b"three", 6)
"""
    assert run(preload, tmp_path, code) == (-9, "")
    assert (tmp_path / "a").read_bytes() == there


@pytest.mark.parametrize(
    ("action", "there"), [("KILL_BEFORE", b"one"), ("KILL_WITHIN", b"onetw"), ("KILL_AFTER", b"onetwos")]
)
def test_a_process_is_killed_within_a_store(preload: Preload, tmp_path: Path, action: str, there: bytes) -> None:
    code = f"""
from binlog.storage.mapping import FileMapping
os.ftruncate(fd, 100)
write = FileMapping(fd, 100, "a").write
armed(Action.{action}, first=1, kinds=(Kind.WRITE, Kind.STORE))
write(b"one", 0)
write(b"twos", 3)
write(b"three", 7)
"""
    assert run(preload, tmp_path, code) == (-9, "")
    assert (tmp_path / "a").read_bytes().rstrip(bytes(1)) == there


@pytest.mark.parametrize(
    ("offset", "size", "there"),
    [(0, 4096, 4096), (100, 200, 200), (4000, 200, 96), (0, 8192, 4096), (0, 20_000, 8192), (4000, 20_000, 8288)],
)
def test_a_process_is_killed_within_a_write_at_the_end_of_a_page(
    preload: Preload, tmp_path: Path, offset: int, size: int, there: int
) -> None:
    code = f"""
armed(Action.KILL_WITHIN, kinds=(Kind.WRITE,))
os.pwrite(fd, b"1" * {size}, {offset})
os.pwrite(fd, b"2", 0)
"""
    assert run(preload, tmp_path, code) == (-9, "")
    assert (tmp_path / "a").read_bytes() == bytes(offset) + b"1" * there


def test_calls_fail_as_often_as_asked(preload: Preload, tmp_path: Path) -> None:
    code = """
armed(Action.FAIL, first=1, count=2, error=errno.ENOSPC, kinds=(Kind.WRITE,))
for text in (b"1", b"2", b"3", b"4"):
    os.fdatasync(fd)
    try:
        os.pwrite(fd, text, int(text))
    except OSError as error:
        print(text, error.errno == errno.ENOSPC)
print(slots[0].calls, slots[0].hits)
"""
    assert run(preload, tmp_path, code) == (0, "b'2' True\nb'3' True\n4 2\n")


def test_a_short_write_is_short_indeed(preload: Preload, tmp_path: Path) -> None:
    code = 'armed(Action.SHORT)\nprint(os.pwrite(fd, b"12345678", 0))'
    assert run(preload, tmp_path, code) == (0, "4\n")
    assert (tmp_path / "a").read_bytes() == b"1234"


def test_other_files_and_later_calls_are_not_affected(preload: Preload, tmp_path: Path) -> None:
    code = """
armed(Action.FAIL, count=-1, error=errno.EIO)
elsewhere = os.memfd_create("elsewhere")
os.pwrite(elsewhere, b"x", 0)
disarm()
os.pwrite(fd, b"x", 0)
print("done")
"""
    assert run(preload, tmp_path, code) == (0, "done\n")


def test_a_child_is_not_armed(preload: Preload, tmp_path: Path) -> None:
    code = """
armed(Action.KILL_BEFORE, kinds=(Kind.DATA_SYNC,))
child = os.fork()
os.fdatasync(fd) if child == 0 else print(os.waitpid(child, 0)[1], flush=True)
os._exit(0)
"""
    assert run(preload, tmp_path, code) == (0, "0\n")


def test_a_lock_is_shown_while_it_is_held(preload: Preload, tmp_path: Path) -> None:
    code = """
armed(Action.NOTHING, count=-1)
def lock(kind, length=0):
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("@hhqqi4x", kind, 0, 0, length, 0))
    return slots[0].locked
print(lock(fcntl.F_WRLCK, 1), lock(fcntl.F_WRLCK), lock(fcntl.F_UNLCK), lock(fcntl.F_WRLCK))
os.close(fd)
print(slots[0].locked)
"""
    assert run(preload, tmp_path, code) == (0, "0 1 0 1\n0\n")


def _event(kind: Kind, offset: int = 0, data: bytes = b"") -> Event:
    return Event(kind, 1, 1, 2, 7, 0, "", 0, "", offset, data, (0,) * 8)


def _image(*events: Event) -> bytes:
    disk = LossyDisk()
    disk.take([_event(Kind.CREATE), *events])
    return disk.image(7, random.Random(0))


def test_a_sync_after_one_that_failed_brings_nothing_back() -> None:
    write, again = _event(Kind.WRITE, 0, b"new"), _event(Kind.SYNC)
    assert _image(write, again) == b"new"
    assert _image(write, _event(Kind.SYNC_FAILED), again) == bytes(3)


def test_a_block_that_is_changed_again_is_written_as_a_whole() -> None:
    first, failed = _event(Kind.WRITE, 0, b"new"), _event(Kind.SYNC_FAILED)
    assert _image(first, failed, _event(Kind.WRITE, 5, b"x"), _event(Kind.SYNC)) == b"new\0\0x"
    other = _image(first, failed, _event(Kind.WRITE, 1024, b"x"), _event(Kind.SYNC))
    assert other == bytes(1024) + b"x"


def test_a_store_through_a_mapping_writes_its_whole_page() -> None:
    first, failed = _event(Kind.WRITE, 0, b"new"), _event(Kind.SYNC_FAILED)
    stored = _image(first, failed, _event(Kind.STORE, 1024, b"x"), _event(Kind.SYNC))
    assert stored == b"new" + bytes(1021) + b"x"
    other = _image(first, failed, _event(Kind.STORE, PAGE, b"x"), _event(Kind.SYNC))
    assert other == bytes(PAGE) + b"x"


def test_a_call_before_which_a_process_was_killed_has_done_nothing() -> None:
    """The disk model once had its bytes, which no process could read, and a power cut revealed them beside later
    ones."""
    written = _event(Kind.WRITE, 0, b"was written")
    dead = dataclasses.replace(written, data=b"was not", died=True)
    assert _image(written, dead, _event(Kind.SYNC)) == b"was written"
