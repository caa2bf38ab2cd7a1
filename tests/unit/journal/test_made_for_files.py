"""Bodies that are made for the files which come next, too: one append takes two new ones at most, and loses nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.errors import FullError
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import Kind
from binlog.journal.check import check_journal
from binlog.journal.journal_file import JournalFile
from binlog.journal.keeper import Keeper
from binlog.journal.options import Sync
from tests.support.checkout import ROOT
from tests.support.forging import Place, files_used, foreseen, forged, has_forged, head
from tests.support.journals import SMALL, files, header_of, ids, journal, reload


def _for_two_files(path: Path) -> bytes:
    """A body with a record that is sound where it comes next, and one that is in the file behind, which is ready."""
    first = forged(Kind.ADD, foreseen(path), 18)
    ready = files(path)[-1]
    place = Place(ready, header_of(ready), header_of(ready).layout.header_bytes)
    return first + forged(Kind.ADD, place, 18 + len(first))


@pytest.fixture
def _no_file_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless somebody asks for it."""
    monkeypatch.setattr(Keeper, "wake", lambda _: None)


@pytest.mark.usefixtures("_no_file_is_freed")
def test_also_of_a_file_that_is_ready_the_salt_can_be_known(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"there")
        opened.append_add(2, 1, _for_two_files(tmp_path))
        assert not has_forged(tmp_path)
        opened.append_add(3, 1, b"behind")
        assert files_used(tmp_path) == [1, 4]
        assert check_journal(tmp_path) == []
        assert opened.reclaim() == 1  # the one without a record
    loaded = reload(tmp_path)
    assert (ids(loaded), loaded.problems) == ([1, 2, 3], [])


@pytest.mark.usefixtures("_no_file_is_freed")
def test_a_file_that_was_left_without_a_record_is_loaded_and_compacted(tmp_path: Path) -> None:
    path, killed = tmp_path / "journal", tmp_path / "killed"
    with journal(path) as (opened, _):
        opened.append_add(1, 1, b"there")
        opened.append_add(2, 1, _for_two_files(path))
        shutil.copytree(path, killed)
    assert check_journal(killed) == []
    with journal(killed) as (opened, loaded):
        assert (ids(loaded), loaded.problems) == ([1, 2], [])
        opened.compact()
        assert opened.problems() == []
    assert (ids(reload(killed)), check_journal(killed)) == ([1, 2], [])


_ON_A_FULL_DISK = """
import pathlib, resource, sys
from binlog.errors import FullError
from binlog.journal.journal import Journal
from tests.support.journals import SMALL
from tests.unit.journal.test_made_for_files import _for_two_files
path = pathlib.Path(sys.argv[1])
with Journal(path, SMALL) as journal:
    journal.load()
    journal.append_add(1, 1, b"there")
    body = _for_two_files(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))  # so that no file can be made
    for _ in range(2):
        try:
            journal.append_add(2, 1, body)
        except FullError:
            print("full", journal.try_append_update(2, 1, b""))
    journal.append_add(3, 1, b"goes on")
"""


def test_where_no_file_can_be_made_to_go_on_in_nothing_was_appended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _ON_A_FULL_DISK, tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "full False\n" * 2), done.stderr
    assert not has_forged(tmp_path)
    loaded = reload(tmp_path)
    assert (ids(loaded), loaded.problems) == ([1, 3], [])


def _full_of_heads_for_many(first_id: int, size: int) -> bytes:
    """A body of what begins as records of one file after the other, in each more than is remembered; all lead on."""
    heads = bytearray()
    while len(heads) + 4100 * 18 < size:
        header = FileHeader(JournalLayout.NATIVE, first_id + len(heads) // (4100 * 18))
        start = len(heads)
        for at in range(start, start + 4100 * 18, 18):
            heads += head(Kind.ADD, header, size - at - 12)
    return bytes(heads.ljust(size, b"\0"))


@pytest.mark.slow
def test_a_body_full_of_beginnings_for_many_files_takes_two_at_most(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    """It takes no salt to foresee the ids of the files that come."""
    options = replace(SMALL, file_bytes=4 << 20)
    with journal(tmp_path, options) as (opened, _):
        opened.append_add(1, 1, b"there")
        there = len(files(tmp_path))
        body = _full_of_heads_for_many(foreseen(tmp_path).header.file_id, (4 << 20) - 4096)
        before = time.perf_counter()
        opened.append_add(2, 1, body, sync=Sync.LATER)
        figure(f"4 MiB of beginnings for {len(body) // (4100 * 18)} files: {time.perf_counter() - before:.3f} s")
        opened.append_add(3, 1, b"behind")
        assert not has_forged(tmp_path)
        assert len(files(tmp_path)) <= there + 2
        assert check_journal(tmp_path) == []
    loaded = reload(tmp_path, options)
    assert ([record.body for record in loaded.records], loaded.problems) == ([b"there", body, b"behind"], [])


@pytest.mark.parametrize("count", [5, 40])
def test_the_files_of_a_journal_are_a_body_as_any_other(tmp_path: Path, count: int) -> None:
    """Those of another one, with the ids that come next here."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    with journal(theirs) as (opened, _):
        while len(files_used(theirs)) < count:
            opened.append_add(opened.new_id(), 1, bytes(500))
    body = b"".join(file.read_bytes() for file in files(theirs))
    options = replace(SMALL, file_bytes=1 << 18)
    with journal(ours, options) as (opened, _):
        for number in range(3):
            opened.append_add(number, 1, body)
        assert len(files_used(ours)) <= 2
    assert [record.body for record in reload(ours, options).records] == [body] * 3


@pytest.mark.usefixtures("_no_file_is_freed")
def test_where_the_file_that_is_ready_cannot_be_begun_anew_nothing_was_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows which header it has then, so it is left for the next load."""

    def fails(file: JournalFile, header: FileHeader) -> JournalFile:
        file.close()
        raise FullError(f"no space for {header.file_id}", limit=0)

    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"there")
        body = _for_two_files(tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(JournalFile, "renew", fails)
            with pytest.raises(FullError, match="no space"):
                opened.append_add(2, 1, body)
        opened.append_add(3, 1, b"goes on")
        opened.append_add(2, 1, body)
        assert not has_forged(tmp_path)
    loaded = reload(tmp_path)
    assert (ids(loaded), loaded.problems) == ([1, 3, 2], [])
