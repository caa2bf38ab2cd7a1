"""FilePool: descriptors are closed when others are needed, and opened again."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from binlog.errors import GoneError
from binlog.storage.file_pool import FilePool, PooledFile
from binlog.storage.files import read_at
from tests.support.descriptors import count_descriptors, descriptors_before

_OTHERS = 200


def _others(files: FilePool) -> list[PooledFile]:
    """Use enough other files that no unused file stays open."""
    found = []
    for number in range(_OTHERS):
        name = f"other {number}"
        Path(files.directory.file_path(name)).write_bytes(b"%d" % number)
        found.append(PooledFile(files, name))
    return found


def _read(file: PooledFile) -> bytes:
    opened = file.open()
    return read_at(opened.fd, 9, 0, file.path)


def test_few_of_many_files_are_open_and_each_is_read(tmp_path: Path) -> None:
    files = FilePool.of(tmp_path)
    before = descriptors_before()
    others = _others(files)
    assert count_descriptors() - before <= 128
    assert [_read(file) for file in others] == [b"%d" % number for number in range(_OTHERS)]
    for file in others:
        file.close()
    assert count_descriptors() == before


def test_a_descriptor_in_use_stays_open(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    files = FilePool.of(tmp_path)
    before = descriptors_before()
    file = PooledFile(files, "mine")
    in_use = file.open()
    for other in _others(files):
        other.close()
    file.close()
    assert read_at(in_use.fd, 9, 0, "") == b"mine"
    del in_use
    assert count_descriptors() == before


@pytest.mark.parametrize("replaced", [False, True])
def test_a_moved_folder_is_reported(tmp_path: Path, *, replaced: bool) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "mine").write_bytes(b"mine")
    files = FilePool.of(folder)
    file = PooledFile(files, "mine")
    folder.rename(tmp_path / "moved")
    if replaced:
        folder.mkdir()
        (folder / "mine").write_bytes(b"theirs")
    for check in (file.check, files.directory.check):
        with pytest.raises(GoneError):
            check()
    assert _read(file) == b"mine"


@pytest.mark.parametrize("replaced", [False, True])
def test_a_replaced_file_is_reported_when_it_is_opened_again(tmp_path: Path, *, replaced: bool) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    files = FilePool.of(tmp_path)
    file = PooledFile(files, "mine")
    (tmp_path / "mine").rename(tmp_path / "moved")
    if replaced:
        (tmp_path / "mine").write_bytes(b"theirs")
    file.close()
    with pytest.raises(GoneError):
        file.open()


@pytest.mark.slow
def test_threads_share_one_descriptor(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    files = FilePool.of(tmp_path)
    file = PooledFile(files, "mine")
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for number in range(300):
                assert _read(file) == b"mine"
                if number % 50 == 0:
                    _others(files)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(os.listdir("/proc/self/fd")) < 200
