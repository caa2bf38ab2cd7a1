"""Daemons that close all their descriptors, ours too, and continue to use their handles."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import binlog
from binlog.format.log_header import HEADER_BYTES, parse_log_header
from tests.support.logs import read_all

_START = """
import fcntl, gc, os, sys, threading
import binlog
from binlog import Background, Mode, Reader, Writer
from binlog.log.append import background

one, two, other = sys.argv[1:4]
mode = Mode[sys.argv[4]]


def others_wait():
    frames = [frame for ident, frame in sys._current_frames().items() if ident != threading.get_ident()]
    # A thread that was started a moment ago has no frame yet.
    return len(frames) == len(background._running) and all(frame.f_code.co_name == "_wait" for frame in frames)


def close_all(kind):
    # A thread of ours that lists a folder at this moment has a descriptor of its own for it, which nothing can save.
    while not others_wait():
        pass
    if kind == "twice forked":
        if os.fork():
            os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
        os.setsid()
        if os.fork():
            os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
    os.closerange(3, 256)


def use_all_numbers():
    '''Take every number that was ours for a file of the program's own.'''
    return [os.open(other, os.O_RDWR | os.O_CREAT) for _ in range(40)]


def still_open(mine):
    for fd in mine:
        assert os.path.samestat(os.fstat(fd), os.stat(other)), fd
"""

KINDS = pytest.mark.parametrize("kind", ["twice forked", "in place"])
MODES = pytest.mark.parametrize("mode", [mode.name for mode in binlog.Mode])


def _run(tmp_path: Path, code: str, *, mode: str = "SYNC") -> None:
    arguments = [str(tmp_path / name) for name in ("one", "two", "other")] + [mode]
    done = subprocess.run(
        [sys.executable, "-c", _START + code, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


@KINDS
@MODES
def test_no_record_is_appended_to_another_log(tmp_path: Path, kind: str, mode: str) -> None:
    """A durable, acknowledged record of one log was written to another log."""
    code = f"""
first = Writer(one, mode=mode)
first.append(b"1")
first.sync()
close_all({kind!r})
second = Writer(two, mode=mode)
for number in range(20):
    first.append(b"of one")
    second.append(b"of two")
first.cutover()
first.append(b"of one")
first.close()
second.close()
os._exit(0)
"""
    _run(tmp_path, code, mode=mode)
    assert read_all(tmp_path / "one") == [b"1"] + [b"of one"] * 21
    assert read_all(tmp_path / "two") == [b"of two"] * 20
    assert binlog.check(tmp_path / "one") == []
    assert binlog.check(tmp_path / "two") == []


@KINDS
@MODES
def test_the_programs_own_files_are_neither_written_nor_closed(tmp_path: Path, kind: str, mode: str) -> None:
    code = f"""
handles = [Writer(one, mode=mode), Reader(one), Writer(two, mode=mode, cutover_seconds=1e6), Reader(two)]
handles[0].append(b"1")
handles[2].append(b"1")
close_all({kind!r})
mine = use_all_numbers()
fcntl.lockf(mine[0], fcntl.LOCK_EX)
handles[0].append(b"2")
handles[2].append(b"2")
assert [entry.data for entry in handles[1]] or mode is Mode.STAGE
still_open(mine)
for handle in handles:
    handle.close()
del handles, handle
gc.collect()
still_open(mine)
os._exit(0)
"""
    _run(tmp_path, code, mode=mode)
    assert (tmp_path / "other").read_bytes() == b""
    assert read_all(tmp_path / "one") == [b"1", b"2"]
    assert read_all(tmp_path / "two") == [b"1", b"2"]


def test_close_syncs_what_was_flushed_before(tmp_path: Path) -> None:
    code = """
writer = Writer(one, mode=Mode.FLUSH, background=Background(flush_seconds=3600, sync_seconds=3600))
writer.append(b"1")
close_all("in place")
mine = use_all_numbers()
writer.close()
still_open(mine)
os._exit(0)
"""
    _run(tmp_path, code)
    header = parse_log_header((tmp_path / "one" / "00000001.dat").read_bytes()[:HEADER_BYTES], path="")
    assert header.confirmed_end == header.tail > HEADER_BYTES


@KINDS
def test_handles_that_are_only_closed_close_nothing_else(tmp_path: Path, kind: str) -> None:
    code = f"""
writer = Writer(one)
writer.append(b"1")
writer.cutover()
reader = Reader(one)
next(reader)
external = binlog.ExternalFileWriter(two)
close_all({kind!r})
mine = use_all_numbers()
reader.close()
external.close()
writer.close()
del reader, external, writer
gc.collect()
still_open(mine)
os._exit(0)
"""
    _run(tmp_path, code)
    assert (tmp_path / "other").read_bytes() == b""


@KINDS
def test_a_reader_resumes_where_it_was(tmp_path: Path, kind: str) -> None:
    """It reported damage that did not exist."""
    code = f"""
import random
writer = Writer(one)
records = [b"%d" % number * 50 for number in range(20_000)]
for start in range(0, 20_000, 1000):
    writer.append_many(records[start : start + 1000])
with Writer(two) as another:
    another.append_many([b"x" * 300] * 20_000)
reader = Reader(one)
found = [next(reader).data for _ in range(5000)]
caught_up = Reader(one)
assert sum(1 for _ in caught_up) == 20_000
close_all({kind!r})
mine = [os.open(two + "/00000001.dat", os.O_RDONLY) for _ in range(40)]
found += [entry.data for entry in reader]
assert found == records
assert caught_up.wait(0) is False
writer.append(b"more")
assert caught_up.wait(10)
assert next(caught_up).data == b"more" == next(reader).data
position = reader.next_ref
writer.cutover()
writer.append(b"next")
assert next(reader).data == b"next" == next(caught_up).data
os._exit(0)
"""
    _run(tmp_path, code)


@KINDS
def test_a_writer_whose_directory_was_removed_meanwhile_gets_an_error(tmp_path: Path, kind: str) -> None:
    code = f"""
from binlog.errors import GoneError
writer = Writer(one)
writer.append(b"1")
close_all({kind!r})
os.rename(one, two)
os.mkdir(one)
mine = use_all_numbers()
try:
    writer.append(b"2")
except GoneError as error:
    assert one in str(error), error
else:
    raise AssertionError("appended")
still_open(mine)
os._exit(0)
"""
    _run(tmp_path, code)
    assert list((tmp_path / "one").iterdir()) == []
    assert read_all(tmp_path / "two") == [b"1"]


def test_one_closed_descriptor_is_opened_again(tmp_path: Path) -> None:
    """The program closes any of our descriptors by its number, and opens a file of its own with that number."""
    code = """
names = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2 and
         os.path.exists(f"/proc/self/fd/{fd}")}
writer = Writer(one)
writer.append(b"0")
reader = Reader(one)
count = 0
ours = [fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}") and fd not in names
        and one in os.readlink(f"/proc/self/fd/{fd}")]
assert ours
for fd in ours:
    mine = os.open(other, os.O_RDWR | os.O_CREAT)
    os.dup2(mine, fd)
    writer.append(b"1")
    writer.cutover()
    writer.append(b"2")
    count = sum(1 for _ in reader) + count
    assert os.path.samestat(os.fstat(fd), os.stat(other)), fd
assert count == 1 + 2 * len(ours), count
writer.close()
reader.close()
os._exit(0)
"""
    _run(tmp_path, code)
    assert (tmp_path / "other").read_bytes() == b""
    assert binlog.check(tmp_path / "one") == []


@pytest.mark.parametrize("grows", [True, False])
@pytest.mark.parametrize("waits", [True, False])
def test_a_reader_returns_no_record_of_a_copy_of_its_log(tmp_path: Path, grows: bool, waits: bool) -> None:
    """A copy has the log's header, so only device and inode show the file of a descriptor."""
    code = f"""
import shutil, time
writer = Writer(one)
writer.append(b"both")
shutil.copytree(one, two)
reader = Reader(one)
assert [entry.data for entry in reader] == [b"both"]
if {waits}:
    assert not reader.wait(0.01)
[fd] = [fd for fd in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{{fd}}")
        and os.path.samestat(os.fstat(fd), os.stat(one + "/00000001.dat")) and fd == reader._cursor._place.file.content]
file = os.open(two + "/00000001.dat", os.O_RDONLY)
writer.append(b"ours")
if {grows}:
    Writer(two).append(b"its")
os.dup2(file, fd)
found, deadline = [], time.monotonic() + 10
while not found and time.monotonic() < deadline:
    if {waits}:
        reader.wait(0.1)
    found = [entry.data for entry in reader]
assert found == [b"ours"], found
os._exit(0)
"""
    _run(tmp_path, code)
