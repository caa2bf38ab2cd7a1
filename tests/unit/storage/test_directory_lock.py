"""A directory has one owner, whatever is done to its name, to its lock file, or to copies of it."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binlog.errors import AccessError, BusyError
from binlog.storage.directory import Directory
from binlog.storage.locking.directory_lock import DirectoryLock

LOCK = "thing.lock"
_OTHER = """
import sys
from binlog.errors import BusyError
from binlog.storage.directory import Directory
from binlog.storage.locking.directory_lock import DirectoryLock
try:
    DirectoryLock(Directory(sys.argv[1]), "thing.lock", "thing")
except BusyError as error:
    print("busy", error.holder)
else:
    print("taken")
"""


@contextmanager
def owner(path: Path) -> Iterator[DirectoryLock]:
    """The directory, owned for the block."""
    with Directory(str(path)) as directory:
        own = DirectoryLock(directory, LOCK, "thing")
        try:
            yield own
        finally:
            own.release()


def other(path: Path) -> str:
    """What another process says that wants it."""
    done = subprocess.run([sys.executable, "-c", _OTHER, path], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


@pytest.mark.slow
def test_one_has_it_and_after_its_release_the_next(tmp_path: Path) -> None:
    with owner(tmp_path):
        with pytest.raises(BusyError) as caught, owner(tmp_path):
            pass
        assert caught.value.holder == f"process {os.getpid()}"
        assert other(tmp_path) == f"busy process {os.getpid()}"
    assert other(tmp_path) == "taken"
    with owner(tmp_path) as own:
        own.release()
        own.release()
        assert other(tmp_path) == "taken"


@pytest.mark.slow
@pytest.mark.parametrize("what", ["removed", "exchanged", "moved"])
def test_what_is_done_to_names_lets_nobody_else_in(tmp_path: Path, what: str) -> None:
    path = tmp_path / "thing"
    path.mkdir()
    with owner(path):
        now = path
        if what == "removed":
            (path / LOCK).unlink()
        elif what == "exchanged":
            shutil.copy(path / LOCK, path / "copy")
            os.rename(path / "copy", path / LOCK)
        else:
            now = path.rename(tmp_path / "moved")
            path.mkdir()
        assert other(now).startswith("busy")
        with pytest.raises(BusyError), owner(now):
            pass
        if what == "moved":
            assert other(path) == "taken"  # a directory of its own


@pytest.mark.slow
def test_a_copy_is_a_directory_of_its_own_and_one_of_hard_links_is_not(tmp_path: Path) -> None:
    path = tmp_path / "thing"
    path.mkdir()
    with owner(path):
        links = shutil.copytree(path, tmp_path / "links", copy_function=os.link)
        assert other(links).startswith("busy")
        with pytest.raises(BusyError), owner(links):
            pass
        # This reads the lock file and closes it, and the classic lock is gone: that of the directory is not.
        copy = shutil.copytree(path, tmp_path / "copy")
        assert other(copy) == "taken"
        assert other(path).startswith("busy")


def test_a_path_that_leads_elsewhere_by_now_is_refused_and_nothing_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "thing"
    path.mkdir()
    with Directory(str(path)) as directory:
        path.rename(tmp_path / "moved")
        path.mkdir()
        (tmp_path / "moved" / LOCK).touch()
        with pytest.raises(AccessError, match="moved"):
            DirectoryLock(directory, LOCK, "thing")
        with owner(tmp_path / "moved"), owner(path):
            pass


def test_an_object_that_nobody_has_any_more_has_given_it_up(tmp_path: Path) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.own = self
            self.lock = DirectoryLock(Directory(str(tmp_path)), LOCK, "thing")

    gc.disable()
    try:
        Cycle()
        with owner(tmp_path):
            assert other(tmp_path).startswith("busy")
    finally:
        gc.enable()


@pytest.mark.slow
def test_a_forked_child_neither_has_it_nor_keeps_it(tmp_path: Path) -> None:
    said, say = os.pipe()
    wait, end = os.pipe()
    with owner(tmp_path) as own:
        pid = os.fork()
        if pid == 0:
            os.close(end)
            own.release()
            os.write(say, b"inherited" if own.inherited else b"own")
            os.read(wait, 1)  # lives until the parent closes its end
            os._exit(0)
        assert os.read(said, 9) == b"inherited"
        assert other(tmp_path) == f"busy process {os.getpid()}"
    assert other(tmp_path) == "taken"
    os.close(end)
    os.waitpid(pid, 0)
    for fd in (said, say, wait):
        os.close(fd)
