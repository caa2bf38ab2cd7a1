"""A load makes durable what another process may have left unsynced."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.errors import PoisonedError
from binlog.journal.compaction import compactor as compaction
from binlog.journal.files import journal_files as files_module
from binlog.journal.files.journal_files import JournalFile
from binlog.journal.journal import Journal
from binlog.storage.directory import Directory
from tests.support.descriptors import count_descriptors, descriptors_before
from tests.support.failing import raising
from tests.support.journals import SMALL, files, header_of, ids, journal, reload


class Spy:
    """Record the calls that make data durable, and renames, in their order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str]] = []
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._noted(name, getattr(os, name)))
        rename = os.rename

        def renamed(old: str, new: str, **given: int) -> None:
            self.calls.append(("rename", new))
            rename(old, new, **given)

        monkeypatch.setattr(os, "rename", renamed)

    def _noted(self, name: str, call: Callable[[int], None]) -> Callable[[int], None]:
        def noted(fd: int) -> None:
            self.calls.append((name, Path(os.readlink(f"/proc/self/fd/{fd}")).name))
            call(fd)

        return noted


def test_headers_of_free_files_and_names_are_made_durable_by_a_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "journal"
    with journal(folder, replace(SMALL, files_min=4)) as (opened, _):
        opened.append_add(1, 1, b"")
    spy = Spy(monkeypatch)
    reload(folder, replace(SMALL, files_min=4))
    assert {name for call, name in spy.calls if call == "fdatasync"} >= {file.name for file in files(folder)}
    assert ("fsync", "journal") in spy.calls


def test_the_name_of_a_control_file_is_durable_before_a_load_rolls_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "journal"
    with monkeypatch.context() as patched:
        patched.setattr(compaction, "rename_all", raising(PoisonedError("the process ends here")))
        opened = Journal(folder, SMALL)
        opened.start()
        opened.load()
        for number in range(60):
            opened.append_add(number, 1, bytes(100))
        for number in range(1, 60):
            opened.append_delete(number)
        with pytest.raises(PoisonedError):
            opened.compact()
        with suppress(PoisonedError):
            opened.close()
    spy = Spy(monkeypatch)
    assert ids(reload(folder)) == [0]
    renames = [at for at, (call, name) in enumerate(spy.calls) if call == "rename" and name.endswith(".jnl")]
    assert renames
    assert ("fsync", "journal") in spy.calls[max(0, renames[0] - 2) : renames[0]]


def _fill(opened: Journal, count: int) -> None:
    for number in range(2, count):
        opened.append_add(number, 1, bytes(100))


def test_a_file_that_cannot_be_renewed_is_not_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with journal(tmp_path):
        pass
    with Directory(str(tmp_path)) as directory:
        file = JournalFile(directory, files(tmp_path)[0].name, header_of(files(tmp_path)[0]), 2048)
        before = descriptors_before()
        monkeypatch.setattr(os, "fdatasync", raising(OSError(errno.EIO, "a fault")))
        with pytest.raises(PoisonedError):
            file.renew(file.header)
        assert count_descriptors() == before


def test_nothing_is_appended_after_a_failed_sync_of_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Journal(tmp_path, SMALL)
    opened.start()
    opened.load()
    opened.append_add(1, 1, b"")
    plain = files_module.sync

    def failing(fd: int, path: str) -> None:
        monkeypatch.setattr(files_module, "sync", plain)
        raise PoisonedError("a fault")

    with opened._files_guard:  # the maintenance thread creates none meanwhile
        ahead, opened._files.ahead = opened._files.ahead, None
        assert ahead is not None
        ahead.close()
        free, opened._files.free = opened._files.free, type(opened._files.free)()
        assert not free
        monkeypatch.setattr(opened._maintenance, "wake", lambda: None)
    monkeypatch.setattr(files_module, "sync", failing)
    with pytest.raises(PoisonedError):
        _fill(opened, 100)
    with pytest.raises(PoisonedError):
        opened.append_add(1000, 1, b"")
    with pytest.raises(PoisonedError):
        opened.close()
    assert 1000 not in ids(reload(tmp_path))
