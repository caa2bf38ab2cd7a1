"""A second user of the machine, for tests that run as root."""

from __future__ import annotations

import codecs
import os
import pkgutil
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import binlog.doctor
import binlog.log
import binlog.storage
from tests.support.children import Child

USER, GROUP, OTHER_GROUP = 54_321, 54_322, 54_323
OTHER_USER = USER + 1

needs_root = pytest.mark.root


@contextmanager
def folder_of_user(mode: int = 0o755) -> Iterator[Path]:
    """Create a folder of USER and GROUP that USER can reach, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="binlog-users-"))
    try:
        os.chown(path, USER, GROUP)
        path.chmod(mode)
        yield path
    finally:
        shutil.rmtree(path)


def as_user(work: Callable[..., object], *arguments: object, **named: Any) -> None:
    """Call `work` as a user, in a child, and fail as the child does."""
    start_as_user(work, *arguments, **named).join()


def start_as_user(
    work: Callable[..., object],
    *arguments: object,
    user: int = USER,
    group: int = GROUP,
    groups: tuple[int, ...] = (),
    **named: object,
) -> Child:
    """Start the same, without waiting for the child to end."""

    def become() -> None:
        # Only root may be able to read Python's modules, and ours, some of which are loaded on first use.
        codecs.lookup("ascii")
        for package in (binlog.doctor, binlog.log, binlog.storage):
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                import_module(module.name)
        for name in binlog.__all__:
            getattr(binlog, name)
        os.setgroups(groups)
        os.setgid(group)
        os.setuid(user)
        work(*arguments, **named)

    return Child(become)


def as_ordinary_user(work: Callable[[Path], object]) -> None:
    """Call `work` with a new folder, as a user whom permissions bind: this one, or USER in a child if this is root."""
    if os.geteuid() == 0:
        with folder_of_user() as path:
            as_user(work, path)
        return
    with tempfile.TemporaryDirectory(prefix="binlog-users-") as folder:
        work(Path(folder))


def access(path: Path) -> tuple[int, int, int]:
    """Return owner, group and mode of a file."""
    status = path.lstat()
    return status.st_uid, status.st_gid, status.st_mode & 0o7777
