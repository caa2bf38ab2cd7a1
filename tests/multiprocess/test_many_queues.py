"""Commit logs with more queues than a process can have open files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from binlog.commitlog.indexes.consume_queue import ConsumeQueue
from binlog.storage.file_pool import FilePool
from tests.support.checkout import ROOT

_QUEUES = 600
_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
from pathlib import Path
from binlog.commitlog import *
from binlog.storage.file_pool import FilePool
path, count = Path(sys.argv[1]), int(sys.argv[2])
options = StoreOptions(file_bytes=1 << 22)
"""
_APPEND = """
with MessageStore(path, options) as store:
    for number in range(count):
        store.append(Message.of(f"topic-{number}", b"%d" % number, keys=[f"k{number}"]))
with MessageStore(path, options) as store:
    for number in range(count):
        assert store.append(Message.of(f"topic-{number}", b"more")).queue_offsets == [1]
        assert [message.body for message in store.pull(f"topic-{number}", 0, 0, 1)] == [b"%d" % number]
"""
_READ = """
with StoreReader(path) as reader:
    assert len(reader.queues()) == count
    for _ in range(2):
        for number in range(count):
            assert [message.body for message in reader.pull(f"topic-{number}", 0, 0, 9)[0]] == [b"%d" % number, b"more"]
assert check_store(path) == []
assert len(stat_store(path).queues) == count
"""


def _run(code: str, path: Path) -> None:
    command = [sys.executable, "-c", _LIMITED + code, str(path), str(_QUEUES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_many_queues_need_few_descriptors(tmp_path: Path) -> None:
    _run(_APPEND, tmp_path)
    _run(_READ, tmp_path)
    disk_bytes = sum(512 * file.stat().st_blocks for file in (tmp_path / "consumequeue").rglob("0*"))
    assert disk_bytes < _QUEUES * (128 << 10)


def test_a_queue_with_few_units_takes_little_disk_space(tmp_path: Path) -> None:
    queue = ConsumeQueue(FilePool.of(tmp_path), "")
    queue.put(0, bytes(19) + b"\1")
    (file,) = (tmp_path / name for name in os.listdir(tmp_path))
    assert file.stat().st_size == 6_000_000
    assert file.stat().st_blocks * 512 <= 128 << 10
    queue.files.truncate(0)
    assert file.stat().st_blocks * 512 <= 128 << 10
    queue.close()
