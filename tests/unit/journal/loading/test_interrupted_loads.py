"""A signal handler raises at each point of `start` or `load`: nothing is left, and the call can be repeated."""

from __future__ import annotations

import gc
import shutil
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binlog.errors import StateError
from binlog.journal.files.journal_files import JournalFile
from binlog.journal.journal import Journal
from binlog.journal.lifecycle import JournalLifecycle
from binlog.journal.loading.loading import Loading
from binlog.journal.options import Sync
from binlog.storage import handle
from binlog.storage.locking.directory_lock import DirectoryLock
from tests.support.descriptors import count_descriptors, descriptors_before
from tests.support.interruptions import Interruption
from tests.support.journals import SMALL, ids, journal, reload
from tests.support.repeated_interrupts import AGAIN_SECONDS, RepeatedInterrupt, repeated_interrupts, swallowed
from tests.support.signals import interrupting, signal_main_thread

_OPTIONS = replace(SMALL, files_min=4)


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    """Use a folder in memory: these tests inject failures at each call, and do not test the disk."""
    return in_memory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A journal with several files, an open transaction, and one more file to create."""
    path = tmp_path / "journal"
    with journal(path) as (opened, _):
        for number in range(20):
            opened.append_add(number, 1, bytes(300), sync=Sync.LATER)
        opened.append_add_tx(100, 100, 1, b"nobody ends it")
    return path


def _started(path: Path) -> Journal:
    opened = Journal(path, _OPTIONS)
    opened.start()
    return opened


def _is_open(opened: Journal) -> bool:
    """Return whether the journal is loaded; if not, it can be."""
    try:
        opened.new_id()
    except StateError:
        return False
    return True


@pytest.mark.slow
def test_an_interrupted_start_leaves_no_owner_after_close(tmp_path: Path) -> None:
    before = descriptors_before()
    for at in range(10_000):
        opened = Journal(tmp_path, _OPTIONS)
        was_interrupted = Interruption(at).run(opened.start)
        opened.close()
        gc.collect()
        assert count_descriptors() == before
        with Journal(tmp_path, _OPTIONS) as other:
            other.load()
        if not was_interrupted:
            break
    assert at > 10


@pytest.mark.slow
@pytest.mark.turn(1)
@swallowed
def test_an_interrupted_load_can_be_retried(folder: Path, tmp_path: Path) -> None:
    expected = ids(reload(shutil.copytree(folder, tmp_path / "copy"), _OPTIONS))
    before, threads = descriptors_before(), threading.active_count()
    for at in range(10_000):
        opened = _started(folder)
        was_interrupted = Interruption(at).run(opened.load)
        if not _is_open(opened):
            assert ids(opened.load()) == expected
        opened.close()
        gc.collect()
        assert (count_descriptors(), threading.active_count()) == (before, threads)
        if not was_interrupted:
            break
    assert at > 10
    assert ids(reload(folder, _OPTIONS)) == expected


@pytest.fixture
def _raises() -> Iterator[None]:
    with interrupting(signal.SIGUSR1):
        yield


@pytest.mark.usefixtures("_raises")
@pytest.mark.parametrize("name", ["loaded", "_scan", "_resume_in", "_remove_leftovers"])
def test_a_load_interrupted_in_any_call_can_be_retried(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plain = getattr(Loading, name)

    def struck(loading: Loading, *arguments: object) -> object:
        signal_main_thread(signal.SIGUSR1)
        return plain(loading, *arguments)

    opened = _started(folder)
    before = descriptors_before()
    with monkeypatch.context() as patch:
        patch.setattr(Loading, name, struck)
        for _ in range(20):
            with pytest.raises(KeyboardInterrupt):
                opened.load()
            assert count_descriptors() == before
    assert ids(opened.load()) == list(range(20))
    opened.append_add(200, 1, b"behind")
    opened.close()
    assert ids(reload(folder, _OPTIONS)) == [*range(20), 200]


@pytest.mark.usefixtures("_raises")
def test_an_interrupted_load_reads_no_further(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C a user does not wait until all of a large journal is read."""
    read: list[JournalFile] = []
    plain = JournalFile.read

    def read_file(file: JournalFile) -> bytes:
        read.append(file)
        if len(read) == 2:
            signal_main_thread(signal.SIGUSR1)
        return plain(file)

    opened = _started(folder)
    with monkeypatch.context() as patch:
        patch.setattr(JournalFile, "read", read_file)
        with pytest.raises(KeyboardInterrupt):
            opened.load()
    assert len(read) == 2
    assert ids(opened.load()) == list(range(20))
    opened.close()


@pytest.fixture
def twice() -> Iterator[RepeatedInterrupt]:
    with repeated_interrupts() as handler:
        yield handler


@pytest.mark.slow
@pytest.mark.turn(0)
@swallowed
def test_a_load_interrupted_twice_can_be_retried(
    folder: Path, twice: RepeatedInterrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one case the second exception comes before any cleanup has begun."""
    plain = JournalLifecycle._roll_back

    def struck(opened: JournalLifecycle, tx_ids: list[int]) -> None:
        plain(opened, tx_ids)
        signal_main_thread(signal.SIGUSR1)

    opened = _started(folder)
    before = descriptors_before()
    for again_seconds in AGAIN_SECONDS:
        with monkeypatch.context() as patch:
            patch.setattr(JournalLifecycle, "_roll_back", struck)
            twice.interrupt(again_seconds, opened.load)
        assert ids(opened.load()) == list(range(20))
        opened.close()
        opened = _started(folder)
        assert count_descriptors() == before
    opened.close()


@pytest.mark.slow
@swallowed
def test_a_start_interrupted_twice_is_undone(
    tmp_path: Path, twice: RepeatedInterrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = handle.DirectoryLock

    def struck(*arguments: Any) -> DirectoryLock:
        signal_main_thread(signal.SIGUSR1)
        return plain(*arguments)

    before = descriptors_before()
    for again_seconds in AGAIN_SECONDS:
        opened = Journal(tmp_path, _OPTIONS)
        with monkeypatch.context() as patch:
            patch.setattr(handle, "DirectoryLock", struck)
            twice.interrupt(again_seconds, opened.start)
        opened.close()
        gc.collect()
        assert count_descriptors() == before
        with Journal(tmp_path, _OPTIONS) as other:
            other.load()
