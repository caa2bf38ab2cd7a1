"""The recorder records each call of processes with known calls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stress.crash.preloaded.preload import Preload, compile_recorder
from stress.crash.preloaded.trace import Event, Kind, TraceError, parse_trace
from tests.support.checkout import ROOT

pytestmark = pytest.mark.slow  # it tests the harness, which few changes touch

START = """
import os, sys
from pathlib import Path
from stress.crash.marks import Recorder, forget_shared_memory
recorder = Recorder()
recorder.start(sys.argv[1])
"""


@pytest.fixture(scope="session")
def preload(tmp_path_factory: pytest.TempPathFactory) -> Preload:
    folder = tmp_path_factory.mktemp("recorder")
    return Preload(compile_recorder(folder), folder, f"test-{os.getpid()}-")


def run(preload: Preload, folder: Path, code: str, *arguments: object, boot: str = "first") -> str:
    """Run code in the folder with the recorder preloaded and return its output."""
    environment = {**preload.environment(boot), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def recorded(preload: Preload, tmp_path: Path, code: str) -> list[Event]:
    folder = tmp_path / "folder"
    folder.mkdir(exist_ok=True)
    run(preload, folder, START + code, tmp_path / "trace")
    return parse_trace((tmp_path / "trace").read_bytes())


def test_each_call_that_writes_is_recorded(preload: Preload, tmp_path: Path) -> None:
    code = """
fd = os.open("a", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
os.pwrite(fd, b"at five", 5)
os.write(fd, b"at nought")
os.write(fd, b"at nine")
os.writev(fd, [b"at ", b"sixteen"])
os.pwritev(fd, [b"at ", b"two"], 2)
os.posix_fallocate(fd, 0, 100)
os.ftruncate(fd, 50)
os.fdatasync(fd)
os.fsync(fd)
end = os.open("a", os.O_WRONLY | os.O_APPEND)
os.write(end, b"at fifty")
"""
    events = recorded(preload, tmp_path, code)
    inode = (tmp_path / "folder" / "a").stat().st_ino
    assert {event.inode for event in events} == {inode}
    assert [(event.kind, event.offset, event.data) for event in events] == [
        (Kind.CREATE, 0, b""),
        (Kind.WRITE, 5, b"at five"),
        (Kind.WRITE, 0, b"at nought"),
        (Kind.WRITE, 9, b"at nine"),
        (Kind.WRITE, 16, b"at sixteen"),
        (Kind.WRITE, 2, b"at two"),
        (Kind.ALLOCATE, 100, b""),
        (Kind.TRUNCATE, 50, b""),
        (Kind.SYNC, 0, b""),
        (Kind.SYNC, 0, b""),
        (Kind.WRITE, 50, b"at fifty"),
    ]


def test_each_call_that_changes_a_directory_is_recorded(preload: Preload, tmp_path: Path) -> None:
    code = """
os.mkdir("within")
os.close(os.open("within/a", os.O_RDWR | os.O_CREAT, 0o600))
os.close(os.open("within/a", os.O_RDWR | os.O_CREAT, 0o600))
directory = os.open("within", os.O_RDONLY)
os.link("a", "b", src_dir_fd=directory, dst_dir_fd=directory)
os.link("within/b", "within/c")
os.rename("within/c", "within/d")
os.unlink("b", dir_fd=directory)
os.unlink("within/a")
os.fsync(directory)
print(os.stat("within/d").st_ino)
"""
    events = recorded(preload, tmp_path, code)
    above, within = (tmp_path / "folder").stat().st_ino, (tmp_path / "folder" / "within").stat().st_ino
    inode = (tmp_path / "folder" / "within" / "d").stat().st_ino
    assert [(event.kind, event.directory, event.name, event.inode) for event in events] == [
        (Kind.MAKE_DIRECTORY, above, "within", within),
        (Kind.CREATE, within, "a", inode),
        (Kind.LINK, within, "b", inode),
        (Kind.LINK, within, "c", inode),
        (Kind.RENAME, within, "d", inode),
        (Kind.UNLINK, within, "b", 0),
        (Kind.UNLINK, within, "a", 0),
        (Kind.SYNC, 0, "", within),
    ]
    assert (events[4].other_directory, events[4].other_name) == (within, "c")


def test_a_call_that_fails_is_not_recorded(preload: Preload, tmp_path: Path) -> None:
    code = """
for call in (lambda: os.unlink("nothing"), lambda: os.link("nothing", "b"), lambda: os.mkdir("/proc/x"),
             lambda: os.open("no/where", os.O_CREAT | os.O_RDWR), lambda: os.pwrite(0, b"x", -1)):
    try:
        call()
    except OSError:
        pass
    else:
        raise AssertionError
"""
    assert recorded(preload, tmp_path, code) == []


MAPPED = """
from binlog.storage.files import allocate
from binlog.storage.mapping import FileMapping, erase
fd = os.open("a", os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(fd, 9000)
mapping = FileMapping(fd, 9000, "a")
"""


def test_each_store_to_a_mapped_file_is_recorded(preload: Preload, tmp_path: Path) -> None:
    """The extension's C calls the same function as Python."""
    code = (
        MAPPED
        + """
from binlog.commitlog.indexes.key_index import KeyIndex, KeyIndexSize
from binlog.storage.directory import Directory
mapping.write(b"across two pages", 4090)
mapping.close()
mapping = FileMapping(fd, 9000, "a")
mapping.write(b"again", 3)
erase(fd, 8990, 9100, "a")
KeyIndex(Directory("index", make=True), "", KeyIndexSize(3, 5)).put(memoryview(b"1" * 24).cast("q"))
"""
    )
    events = recorded(preload, tmp_path, code)
    inode = (tmp_path / "folder" / "a").stat().st_ino
    own = [(event.kind, event.offset, event.data) for event in events if event.inode == inode]
    assert own[2:] == [
        (Kind.STORE, 4090, b"across two pages"),
        (Kind.STORE, 3, b"again"),
        (Kind.WRITE, 8990, bytes(10)),
    ]
    (index,) = (tmp_path / "folder" / "index").iterdir()
    stores = [event for event in events if event.kind is Kind.STORE and event.inode == index.stat().st_ino]
    assert [len(event.data) for event in stores] == [20, 4, 40]
    data = bytearray(index.stat().st_size)
    for event in stores:
        data[event.offset : event.offset + len(event.data)] = event.data
    assert index.read_bytes() == data


def test_a_store_to_a_file_that_was_mapped_before_ends_the_process(preload: Preload, tmp_path: Path) -> None:
    code = START.replace("recorder.start(sys.argv[1])", "") + MAPPED + "recorder.start('trace')\nmapping.write(b'x', 0)"
    environment = {**preload.environment("first"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -6
    assert "mapped before the recording" in done.stderr


def test_threads_that_wait_when_their_process_is_killed_leave_a_whole_trace(preload: Preload, tmp_path: Path) -> None:
    code = (
        MAPPED
        + """
import threading
from stress.crash.preloaded.injector import Action, Injection, Kind as Call, arm
def store(count):
    for at in range(count):
        mapping.write(b"x", at)
for first in range(20):
    if os.fork() == 0:
        mapping = FileMapping(fd, 9000, "a")
        arm(Injection(Action.KILL_BEFORE, 100 + first, (Call.STORE,)), "/nothing")
        threads = [threading.Thread(target=store, args=(200,)) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        os._exit(0)
    assert os.wait()[1] == 9
"""
    )
    events = recorded(preload, tmp_path, code)
    died = [event for event in events if event.died]
    assert len(died) == 20
    assert {event.kind for event in died} == {Kind.STORE}


def test_the_calls_of_children_are_in_the_same_trace_with_one_clock(preload: Preload, tmp_path: Path) -> None:
    code = """
fd = os.open("a", os.O_RDWR | os.O_CREAT, 0o600)
for child in range(4):
    if os.fork() == 0:
        for index in range(50):
            os.pwrite(fd, b"%d %d" % (child, index), child)
            recorder.mark((1, child, index))
        os._exit(0)
for child in range(4):
    assert os.wait()[1] == 0
os.fsync(fd)
"""
    events = recorded(preload, tmp_path, code)
    assert [events[0].kind, events[-1].kind] == [Kind.CREATE, Kind.SYNC]
    assert len({event.process for event in events}) == 5
    ticks = [tick for event in events for tick in {event.start, event.end}]
    assert len(set(ticks)) == len(ticks)
    for child in range(4):
        own = [event for event in events if event.data.startswith(b"%d " % child) or event.mark[:2] == (1, child)]
        said = [event.data.decode() or f"{child} {event.mark[2]}" for event in own]
        assert said == [f"{child} {index}" for index in range(50) for _ in range(2)]


def test_a_process_that_dies_in_the_middle_leaves_a_trace(preload: Preload, tmp_path: Path) -> None:
    code = """
if os.fork() == 0:
    fd = os.open("a", os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(fd, b"x", 0)
    os.kill(os.getpid(), 9)
os.wait()
"""
    assert [event.kind for event in recorded(preload, tmp_path, code)] == [Kind.CREATE, Kind.WRITE]


def test_a_trace_that_is_too_small_is_refused(preload: Preload, tmp_path: Path) -> None:
    code = """
fd = os.open("a", os.O_RDWR | os.O_CREAT, 0o600)
for _ in range(40):
    os.pwrite(fd, bytes(1 << 20), 0)
"""
    with pytest.raises(TraceError, match="has room for"):
        recorded(preload, tmp_path, code)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("os.close(os.open('a', os.O_WRONLY | os.O_TRUNC))", "open with O_TRUNC"),
        ("ctypes.CDLL(None).fallocate(os.open('a', os.O_RDWR), 3, 0, 10)", "fallocate with this mode"),
        ("os.truncate('a', 3)", "truncation of a file by its name"),
        ("os.pwritev(os.open('a', os.O_RDWR), [b'x'], 0, os.RWF_DSYNC)", "with flags"),
        ("ctypes.CDLL(None).renameat2(-100, b'a', -100, b'b', 2)", "an exchange of two names"),
    ],
)
def test_a_call_that_is_not_modelled_ends_the_process(preload: Preload, tmp_path: Path, call: str, what: str) -> None:
    code = f"import ctypes\n{START}{call}\n"
    for name in ("a", "b"):
        (tmp_path / name).touch()
    environment = {**preload.environment("first"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, str(tmp_path / "trace")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -6
    assert what in done.stderr


def test_a_process_may_belong_to_another_boot(preload: Preload, tmp_path: Path) -> None:
    code = "from binlog.storage.boot import boot_id; print(boot_id().hex())"
    first, again, second = (run(preload, tmp_path, code, boot=boot) for boot in ("first", "first", "second"))
    own = Path("/proc/sys/kernel/random/boot_id").read_text().replace("-", "")
    assert first == again
    assert len({first, second, own}) == 3


def test_shared_memory_is_found_and_forgotten(preload: Preload, tmp_path: Path) -> None:
    code = """
import posix_ipc
posix_ipc.SharedMemory("/rings", posix_ipc.O_CREX, size=4096).close_fd()
print([name for name in os.listdir("/dev/shm") if name.startswith(sys.argv[2])])
posix_ipc.SharedMemory("/rings").close_fd()
print(forget_shared_memory())
print([name for name in os.listdir("/dev/shm") if name.startswith(sys.argv[2])])
"""
    said = run(preload, tmp_path, START + code, tmp_path / "trace", preload.memory).splitlines()
    assert said == [f"['{preload.memory}rings']", "1", "[]"]
    events = parse_trace((tmp_path / "trace").read_bytes())
    assert {event.kind for event in events} >= {Kind.MEMORY, Kind.TRUNCATE}
    assert len({event.inode for event in events}) == 1


def test_a_sync_after_a_visible_change_begins_after_the_end_of_the_change(preload: Preload, tmp_path: Path) -> None:
    code = """
directory = os.open(".", os.O_RDONLY)
names = [f"{index}" for index in range(300)]
child = os.fork()
for name in names:
    if child:
        os.mkdir(name)
        while os.path.exists(name):
            os.sched_yield()
    else:
        while not os.path.exists(name):
            os.sched_yield()
        os.fsync(directory)
        os.rmdir(name)
if child:
    assert os.wait()[1] == 0
else:
    os._exit(0)
"""
    events = recorded(preload, tmp_path, code)
    made = [event for event in events if event.kind is Kind.MAKE_DIRECTORY]
    syncs = [event for event in events if event.kind is Kind.SYNC]
    assert len(made) == len(syncs) == 300
    assert all(one.end < sync.start for one, sync in zip(made, syncs, strict=True))
