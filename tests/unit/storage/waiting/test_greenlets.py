"""Under gevent and eventlet nothing hangs, and a wait blocks only its own greenlet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.turns import in_turn

_PATCHED = {
    "gevent": "from gevent import monkey; monkey.patch_all(); from gevent import sleep, spawn",
    "eventlet": "import eventlet; eventlet.monkey_patch(); from eventlet import sleep, spawn",
}

_PROGRAMS = {
    "a reader that waits": """
with binlog.Writer(path) as writer, binlog.Reader(path) as reader:
    def follow():
        for entry in reader.tail():
            found.append(entry.data)
    spawn(follow)
    for record in (b"1", b"2"):
        sleep(0.05)
        ticks.clear()
        writer.append(record)
        while record not in found:
            tick()
    before = len(ticks)
    while len(ticks) < before + 10:
        tick()
""",
    "readers that are closed, or whose greenlets are killed, while they wait": """
fds = lambda: len(os.listdir("/proc/self/fd"))
with binlog.Writer(path) as writer:
    with binlog.Reader(path) as reader:
        spawn(lambda: found.append(reader.wait(30)))
        tick()
        writer.append(b"first")
        while found != [True]:
            tick()
    found.clear()
    for _ in range(100):
        tick()  # gevent's os.close closes later
    before = fds()
    readers = [binlog.Reader(path, binlog.Start.END) for _ in range(4)]
    def follow(reader):
        for entry in reader.tail():
            found.append(entry.data)
        found.append(b"ended")
    killed, *others = [spawn(follow, reader) for reader in readers]
    for _ in range(5):
        tick()
    killed.kill()
    for _ in range(5):
        tick()
    readers[1].close()
    while found != [b"ended"]:
        tick()
    writer.append(b"1")
    while found != [b"ended", b"1", b"1"]:
        tick()
    for reader in readers:
        reader.close()
    while found != [b"ended", b"1", b"1", b"ended", b"ended"]:
        tick()
    while fds() > before:
        tick()
""",
    "a reader that waits without polling": """
with binlog.Writer(path) as writer, binlog.Reader(path) as reader:
    spawn(lambda: found.extend(entry.data for entry in reader.tail()))
    calls = []
    ready = type(reader._cursor).ready
    type(reader._cursor).ready = lambda cursor: calls.append(None) or ready(cursor)
    for _ in range(300):
        tick()
    assert len(calls) < 30, len(calls)
    writer.append(b"1")
    while found != [b"1"]:
        tick()
""",
    "a reader of a directory without a log": """
os.mkdir(path)
with binlog.Reader(path) as reader:
    spawn(lambda: found.extend(entry.data for entry in reader.tail()))
    for _ in range(5):
        tick()
    with binlog.Writer(path) as writer:
        writer.append(b"1")
        while not found:
            tick()
""",
    "writers that share a log": """
def append(writer):
    for _ in range(20):
        writer.append(b"x")
        sleep(0)
    found.append(writer)
with binlog.Writer(path) as one, binlog.Writer(path, mode=binlog.Mode.FLUSH) as other:
    for writer in (one, one, other, other):
        spawn(append, writer)
    while len(found) < 4:
        tick()
    while binlog.stat(path).files[-1].durable_end != binlog.stat(path).files[-1].tail:
        tick()
""",
    "a page store": """
from binlog.pagestore import PageStore
def put(store, name):
    store.create_queue(name)
    with store.transaction() as transaction:
        transaction.put(name, b"x")
    found.append(name)
with PageStore(path) as store:
    for name in ("a", "b"):
        spawn(put, store, name)
    while len(found) < 2:
        tick()
""",
    "a queue": """
with binlog.open_queue(path) as queue:
    queue.put(b"x")
    assert queue.get().body == b"x"
""",
    "a queue that is waited for": """
with binlog.open_queue(path) as queue:
    spawn(lambda: found.append(queue.get(timeout=60).body))
    for _ in range(20):
        tick()
    queue.put(b"x")
    while found != [b"x"]:
        tick()
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("program", in_turn(_PROGRAMS.values()), ids=_PROGRAMS)
@pytest.mark.parametrize("library", _PATCHED)
def test_nothing_hangs(tmp_path: Path, library: str, program: str) -> None:
    code = f"""
{_PATCHED[library]}
import os, sys
import binlog
path, found, ticks = sys.argv[1], [], []
def tick():
    ticks.append(None)
    sleep(0.001)
{program}
"""
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
