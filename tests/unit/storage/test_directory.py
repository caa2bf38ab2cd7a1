"""A directory closes the files that it opened and no others, also after forks and after the program closed some."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from binlog.storage.directory import Directory


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode())
    return str(tmp_path)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_a_forked_child_goes_on_with_its_own_copy(folder: str) -> None:
    with Directory(folder) as directory:
        first, fd = directory.fd, directory.open("a")
        child = os.fork()
        if child == 0:
            good = directory.read("b") == b"b" and os.pread(fd, 1, 0) == b"a"
            directory.close_file(fd)
            good = good and not _is_open(fd)
            directory.close()
            os._exit(0 if good and not _is_open(first) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert directory.read("a") == b"a"
        assert os.pread(fd, 1, 0) == b"a"
    assert not _is_open(fd)


def test_a_reused_descriptor_number_belongs_to_its_new_file(folder: str) -> None:
    with Directory(folder) as directory:
        lost = directory.open("a")
        os.close(lost)
        fd = directory.open("b")
        assert fd == lost, "the lowest number that is free"
        directory.close_file(fd)
        assert not _is_open(fd)
        other = os.open(os.path.join(folder, "a"), os.O_RDONLY)
        assert other == lost
    assert _is_open(other), "the directory did not open it"
    os.close(other)
