"""Permissions: whether the writers of a log are kept away from its seal and from the key.

The writers are known by the log's newest file: its owner, and its group if the group may write to it.
"""

from __future__ import annotations

import os
import pwd
import stat
from typing import NamedTuple

import binlog
from binlog.seal.folder import seal_path
from binlog.storage.failures import own_errors
from binlog.storage.file_access import user_name


class _Writers(NamedTuple):
    """The users of the writers of a log.  groups: those by which they may have permissions."""

    user: int
    groups: frozenset[int]

    def may(self, permission: int, path: str) -> bool:
        """Return whether they have a permission, or can give it to themselves.  permission: a bit for other users."""
        with own_errors(path, "reading its permissions"):
            status = os.stat(path)
        if self.user in (0, status.st_uid):
            return True
        group = permission << 3 if status.st_gid in self.groups else 0
        return bool(status.st_mode & (permission | group))


def separation_warnings(path: str | os.PathLike[str], key_path: str | os.PathLike[str] | None) -> list[str]:
    """Return a text for each permission of the log's writers that lets them make another seal.

    path: of the log, which has a seal.  key_path: of the file with the secret key; None if it is kept elsewhere.
    Raises: NotFoundError; AccessError.
    """
    writers, seal = _writers(path), os.path.abspath(seal_path(path))
    key = None if key_path is None else os.path.abspath(key_path)
    name = user_name(writers.user)
    found = []
    if writers.may(stat.S_IWOTH, seal):
        found.append(f"{name} appends to the log, and may write to {seal}")
    if key is not None and (writers.may(stat.S_IROTH, key) or writers.may(stat.S_IWOTH, key)):
        found.append(f"{name} appends to the log, and may read or write the key {key}")
    return found


def _writers(path: str | os.PathLike[str]) -> _Writers:
    newest = binlog.stat(path).files[-1].path
    with own_errors(newest, "reading its permissions"):
        status = os.stat(newest)
    groups = {status.st_gid} if status.st_mode & stat.S_IWGRP else set()
    try:
        user = pwd.getpwuid(status.st_uid)
        groups.update(os.getgrouplist(user.pw_name, user.pw_gid))
    except KeyError:
        groups.add(status.st_gid)  # the machine does not know the user
    return _Writers(status.st_uid, frozenset(groups))
