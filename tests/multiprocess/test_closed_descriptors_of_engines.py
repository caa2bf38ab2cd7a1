"""If a process has closed all its descriptors, its engines refuse calls and write to no other file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from binlog.commitlog import check_store
from binlog.journal import check_journal
from binlog.pagestore import check_page_store

_START = """
import os, sys, threading, time
import binlog
from binlog.commitlog import Flush, Message, MessageStore, StoreOptions
from binlog.errors import StateError
from binlog.journal import Journal
from binlog.pagestore import PageStore
from binlog.storage.waiting import worker

folder, other = sys.argv[1:]


def waits(frame):
    code = frame.f_code
    return (code.co_filename, code.co_name) in [
        (worker.__file__, name) for name in ("wait", "pause", "_run")
    ]


def others():
    return [frame for ident, frame in sys._current_frames().items() if ident != threading.get_ident()]


def journal():
    opened = Journal(folder)
    opened.start()
    opened.load()
    return opened, lambda: opened.append_add(opened.new_id(), 1, b"record" * 20)


def queue():
    opened = binlog.open_queue(folder)
    return opened, lambda: opened.put(b"message" * 20)


def pagestore():
    opened = PageStore(folder)
    if "q" not in opened.queues:
        opened.create_queue("q")

    def put():
        with opened.transaction() as transaction:
            transaction.put("q", b"message" * 20)

    return opened, put


def commitlog():
    opened = MessageStore(folder, StoreOptions(file_bytes=1 << 16, flush=Flush.SYNC))
    return opened, lambda: opened.append(Message.of("t", b"message" * 20))
"""

_END = """
opened, put = make()
put()
# Wait until all threads are idle: one that has a file open now would later close a descriptor of ours.
deadline = time.monotonic() + 2
while time.monotonic() < deadline and not all(map(waits, others())):
    pass
os.closerange(3, 256)
mine = [os.open(other, os.O_RDWR | os.O_CREAT) for _ in range(80)]
try:
    put()
except StateError as error:
    assert "closed its descriptors" in str(error), error
else:
    raise AssertionError("acknowledged")
opened.close()
for fd in mine:
    assert os.path.samestat(os.fstat(fd), os.stat(other)), fd
assert os.stat(other).st_size == 0
# Opened again, the engine works, and has everything that was acknowledged.
opened, put = make()
put()
opened.close()
for fd in mine:
    assert os.path.samestat(os.fstat(fd), os.stat(other)), fd
assert os.stat(other).st_size == 0
os._exit(0)
"""

_CHECKS = {"journal": check_journal, "pagestore": check_page_store, "commitlog": check_store}


@pytest.mark.parametrize("engine", ["journal", "queue", "pagestore", "commitlog"])
def test_nothing_is_acknowledged_or_written_to_another_file(tmp_path: Path, engine: str) -> None:
    command = [
        sys.executable,
        "-c",
        f"{_START}\nmake = {engine}\n{_END}",
        str(tmp_path / "of"),
        str(tmp_path / "other"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    if engine in _CHECKS:
        assert list(_CHECKS[engine](tmp_path / "of")) == []
