"""A directory has one owner, even if it, its lock file or a copy of it is renamed, removed or replaced."""

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
    """Own the directory for the block."""
    with Directory(str(path)) as directory:
        own = DirectoryLock(directory, LOCK, "thing")
        try:
            yield own
        finally:
            own.release()


def other(path: Path) -> str:
    """The output of another process that tries to lock it."""
    done = subprocess.run([sys.executable, "-c", _OTHER, path], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


@pytest.mark.slow
def test_one_owner_at_a_time(tmp_path: Path) -> None:
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
def test_changes_of_names_do_not_admit_a_second_owner(tmp_path: Path, what: str) -> None:
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
            assert other(path) == "taken"  # it is another directory


@pytest.mark.slow
def test_a_copy_has_its_own_lock_and_a_copy_by_hard_links_has_not(tmp_path: Path) -> None:
    path = tmp_path / "thing"
    path.mkdir()
    with owner(path):
        links = shutil.copytree(path, tmp_path / "links", copy_function=os.link)
        assert other(links).startswith("busy")
        with pytest.raises(BusyError), owner(links):
            pass
        # Copying opens and closes the lock file, which frees the classic lock; the lock on the directory stays.
        copy = shutil.copytree(path, tmp_path / "copy")
        assert other(copy) == "taken"
        assert other(path).startswith("busy")


def test_a_moved_directory_is_refused_and_no_lock_is_kept(tmp_path: Path) -> None:
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


@pytest.mark.slow
def test_a_freed_object_has_freed_its_lock(tmp_path: Path) -> None:
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
def test_a_forked_child_does_not_inherit_the_lock(tmp_path: Path) -> None:
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
