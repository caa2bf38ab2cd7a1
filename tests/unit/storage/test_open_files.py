"""Descriptors that are closed when others need them, and opened again."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from binlog.errors import AccessError, GoneError
from binlog.storage.files import open_directory, open_file, read_at
from binlog.storage.open_files import PooledFile, pooled_directory

_OTHERS = 200


def _file(path: Path) -> PooledFile:
    def open_() -> int:
        fd = open_directory(str(path.parent))
        try:
            return open_file(fd, path.name, str(path), writable=True)
        finally:
            os.close(fd)

    return PooledFile(str(path), open_)


def _others(folder: Path) -> list[PooledFile]:
    """Use so many others that none that is not in use stays open."""
    found = []
    folder.mkdir(exist_ok=True)
    for number in range(_OTHERS):
        path = folder / f"other {number}"
        path.write_bytes(b"%d" % number)
        found.append(_file(path))
    return found


def _open_count() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_few_of_many_files_are_open_and_each_is_read(tmp_path: Path) -> None:
    before = _open_count()
    files = _others(tmp_path)
    assert _open_count() - before <= 128
    for number, file in enumerate(files):
        with file as fd:
            assert read_at(fd, 9, 0, file.path) == b"%d" % number
    for file in files:
        file.close()
    assert _open_count() <= before


def test_a_descriptor_in_use_stays_open(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    file = _file(tmp_path / "mine")
    with file as fd:
        for other in _others(tmp_path):
            other.close()
        file.close()  # takes effect when nobody uses it any more
        assert read_at(fd, 9, 0, "") == b"mine"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_file_that_is_kept_can_lose_its_name(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    file = _file(tmp_path / "mine")
    file.keep()
    (tmp_path / "mine").unlink()
    others = _others(tmp_path)
    with file as fd:
        assert read_at(fd, 9, 0, "") == b"mine"
    for each in (file, *others):
        each.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_path_that_leads_elsewhere_by_now_is_told(tmp_path: Path, *, replaced: bool) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "mine").write_bytes(b"mine")
    file, directory = _file(folder / "mine"), pooled_directory(str(folder))
    others = _others(tmp_path)
    folder.rename(tmp_path / "moved")
    if replaced:
        folder.mkdir()
        (folder / "mine").write_bytes(b"theirs")
    for each in (file, directory):
        with pytest.raises((GoneError, AccessError)), each:
            pass
    for each in others:
        each.close()


@pytest.mark.slow
def test_threads_share_one_descriptor(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    file = _file(tmp_path / "mine")
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for number in range(300):
                with file as fd:
                    assert read_at(fd, 9, 0, "") == b"mine"
                if number % 50 == 0:
                    for other in _others(tmp_path / str(threading.get_ident())):
                        other.close()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file.close()
    assert failures == []
