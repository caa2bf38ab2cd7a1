"""Inspecting a page store while another process uses it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from binlog.errors import BusyError
from binlog.format.pagestore.log import LogStart
from binlog.pagestore import PageStore, check_page_store, inspection, read_queue, stat_page_store
from binlog.pagestore.recovery import read_map
from binlog.storage.directory import Directory

_COUNT = 40
_LOOKS = 15

# Each transaction moves messages between the two queues.  Filling the log takes longer than an inspection: if the log
# had only 64 KiB, most inspections would end with BusyError.
_OWNER = """
import os, sys
from binlog import Mode
from binlog.pagestore import PageStore, PageStoreOptions
with PageStore(sys.argv[1], PageStoreOptions(cache_pages=16, log_bytes=1 << 19, mode=Mode.FLUSH)) as store:
    number = 0
    while os.path.exists(sys.argv[2]):
        one, other = ("a", "b") if number % 50 < 25 else ("b", "a")
        with store.transaction() as transaction:
            for _ in range(3):
                if (message := transaction.get(one)) is not None:
                    transaction.put(other, message.body)
        number += 1
        if number == 1:
            print("begun", flush=True)
print(number)
"""


def test_a_reader_sees_the_store_at_one_moment(tmp_path: Path) -> None:
    path, going_on = tmp_path / "store", tmp_path / "go-on"
    bodies = [b"%03d" % number * 500 for number in range(_COUNT)]
    with PageStore(path) as store:
        store.create_queue("a")
        store.create_queue("b")
        with store.transaction() as transaction:
            for body in bodies:
                transaction.put("a", body)
    going_on.touch()
    with subprocess.Popen([sys.executable, "-c", _OWNER, path, going_on], stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "begun\n"  # starting takes longer than the rest if the machine is busy
            seen = 0
            while seen < _LOOKS:
                assert owner.poll() is None
                with suppress(BusyError):
                    assert check_page_store(path) == []
                    stat = stat_page_store(path)
                    assert sum(queue.message_count for queue in stat.queues) == _COUNT
                    for queue in ("a", "b"):
                        assert {message.body for message in read_queue(path, queue)} <= set(bodies)
                    seen += 1
        finally:
            going_on.unlink()
            moved, _ = owner.communicate()
    assert owner.returncode == 0
    assert int(moved) > 10
    assert sorted(message.body for queue in ("a", "b") for message in read_queue(path, queue)) == bodies


def test_a_store_that_changes_too_fast_is_not_reported_as_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every time the header is read, two more generations begin before the map is read."""
    with PageStore(tmp_path) as store:

        def read_late(directory: Directory, start: LogStart) -> bytes:
            store.checkpoint()
            store.checkpoint()
            return read_map(directory, start)

        with monkeypatch.context() as patched:
            patched.setattr(inspection, "read_map", read_late)
            patched.setattr(inspection, "_TRIES", 8)
            with pytest.raises(BusyError):
                check_page_store(tmp_path)
        assert check_page_store(tmp_path) == []
