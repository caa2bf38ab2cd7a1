"""A load that fails leaves nothing open, and can be retried; so can a close that a signal handler interrupts."""

from __future__ import annotations

import errno
import shutil
import signal
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.errors import BinlogError, ClosedError, CorruptError, StateError
from binlog.journal.compaction.maintenance import MaintenanceThread
from binlog.journal.journal import Journal
from binlog.journal.options import Sync
from tests.support.descriptors import count_descriptors, descriptors_before
from tests.support.failing import FailingCalls
from tests.support.journals import SMALL, files, flip, ids, journal, records_in, reload
from tests.support.signals import interrupting, signal_main_thread

_CALLS = ("fdatasync", "fsync", "open", "link", "rename", "unlink", "listdir", "stat", "pread")
# A load that also creates files.
_OPTIONS = replace(SMALL, files_min=6)


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    """Use a folder in memory: these tests inject failures at each call, and do not test the disk."""
    return in_memory


def _left_behind(path: Path) -> None:
    """Make a journal whose process died in the middle of various work."""
    with journal(path) as (opened, _):
        for number in range(30):
            opened.append_add(number, 1, bytes(200), sync=Sync.LATER)
            if number % 3:
                opened.append_delete(number, sync=Sync.LATER)
        opened.append_add_tx(100, 100, 1, b"nobody ends it")
        opened.append_add_tx(101, 101, 1, b"prepared")
        opened.prepare(101)
    used = [file for file in files(path) if records_in(file)]
    flip(used[-1], records_in(used[-1])[-1][2] + 5, 0xFF)  # after its last record
    (path / "journal-50.jnl.tmp").write_bytes(b"half")
    (path / "journal-51.jnl").write_bytes(b"")
    (path / "journal-52.jnl").write_bytes(b"BI")


def _threads() -> list[str]:
    """Return the running threads, except those of completed steps, which may still be ending."""
    return [thread.name for thread in threading.enumerate() if thread.name != "binlog step"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EMFILE])
def test_a_load_that_fails_in_any_call_can_be_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    _left_behind(tmp_path / "before")
    shutil.copytree(tmp_path / "before", tmp_path / "sound")
    expected = reload(tmp_path / "sound", _OPTIONS)
    assert (len(expected.records), len(expected.prepared), len(expected.failed)) == (10, 1, 1)
    failed = 0
    for at in range(1000):
        path = tmp_path / "at"
        shutil.copytree(tmp_path / "before", path)
        with Journal(path, _OPTIONS) as opened:
            before, threads = descriptors_before(), _threads()
            loaded = None
            with monkeypatch.context() as patch, suppress(BinlogError):
                failing = FailingCalls(patch, _CALLS, at, number)
                loaded = opened.load()
            if loaded is None:
                failed += 1
                assert (count_descriptors(), _threads()) == (before, threads), at
                with pytest.raises(StateError):
                    opened.new_id()
                loaded = opened.load()
            assert (loaded.records, loaded.prepared) == (expected.records, expected.prepared), at
            # Reported by the load that rolls them back, which may have failed later.
            assert loaded.failed in (expected.failed, []), at
            opened.append_add(200, 1, b"behind")
        assert ids(reload(path, _OPTIONS)) == [*ids(expected), 200]
        shutil.rmtree(path)
        if failing.count <= at:
            break
    assert failed > 20


def test_a_damaged_header_is_reported_by_each_load_and_leaves_no_descriptor(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"")
    flip(files(tmp_path)[0], 20)
    name = next(tmp_path.glob("journal-1.jnl"))
    with Journal(tmp_path, SMALL) as again:
        before = descriptors_before()
        for _ in range(2):
            with pytest.raises(CorruptError):
                again.load()
            assert count_descriptors() == before
        flip(name, 20)
        assert ids(again.load()) == [1]


def test_an_interrupted_close_is_completed_by_the_next_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = descriptors_before()
    opened = Journal(tmp_path, SMALL)
    opened.start()
    opened.load()
    opened.append_add(1, 1, b"", sync=Sync.LATER)
    with monkeypatch.context() as patch, interrupting(signal.SIGUSR1):
        plain = MaintenanceThread.stop

        def struck(thread: MaintenanceThread) -> None:
            signal_main_thread(signal.SIGUSR1)
            plain(thread)

        patch.setattr(MaintenanceThread, "stop", struck)
        with pytest.raises(KeyboardInterrupt):
            opened.close()
    with pytest.raises(ClosedError):
        opened.append_add(2, 1, b"")
    opened.close()
    assert count_descriptors() == before
    assert ids(reload(tmp_path)) == [1]
