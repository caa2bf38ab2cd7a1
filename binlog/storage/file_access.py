"""The owner, group and mode of new files, copied from the files beside them.

Facts relied on:
- open(2): the umask takes bits away from a new file's mode, and a directory may give the file its own group.
- chown(2): only root gives a file away; an owner may give a file to a group that the process is in.  chown(2) may clear
  bits of the mode, so it comes before chmod(2).
- chmod(2): sets the mode regardless of the umask.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from itertools import islice
from typing import NamedTuple

from binlog.errors import AccessError
from binlog.storage.failures import own_errors

FILE_MODE = 0o640
DIRECTORY_MODE = 0o750

# Directories with many files are common, and those whose files differ are rare: the newest of a few files is enough.
_SAMPLE_COUNT = 16

_READ_WRITE = 0o6


class FileAccess(NamedTuple):
    """The owner, group and mode for a new file.

    required: False if owner and group are those of the directory, which the process may be unable to set.
    """

    owner: int
    group: int
    mode: int
    required: bool


def access_like(status: os.stat_result, permissions: int | None = None) -> FileAccess:
    """Return the access of a file.  permissions: the mode to use instead of the file's."""
    mode = stat.S_IMODE(status.st_mode) & 0o777 if permissions is None else permissions
    return FileAccess(status.st_uid, status.st_gid, mode, required=True)


def access_of_directory(directory_fd: int, permissions: int | None = None) -> FileAccess:
    """Return the access for the first file in a directory: the directory's owner and group, and 0640."""
    status = os.fstat(directory_fd)
    mode = FILE_MODE if permissions is None else permissions
    return FileAccess(status.st_uid, status.st_gid, mode, required=False)


def access_beside(directory_fd: int, permissions: int | None = None) -> FileAccess:
    """Return the access of the newest file in a directory, or of the directory if it has no file.

    In a directory with many files only a few are compared.
    """
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory_fd)
    try:
        return access_of_newest(fd, permissions)
    finally:
        os.close(fd)


def access_of_newest(directory_fd: int, permissions: int | None = None) -> FileAccess:
    """Return as `access_beside`.  No other thread may list the directory by this descriptor meanwhile."""
    newest: os.stat_result | None = None
    with os.scandir(directory_fd) as entries:
        files = (entry for entry in entries if entry.is_file(follow_symlinks=False))
        for entry in islice(files, _SAMPLE_COUNT):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if newest is None or status.st_ctime_ns > newest.st_ctime_ns:
                newest = status
    return access_of_directory(directory_fd, permissions) if newest is None else access_like(newest, permissions)


def check_can_give(directory_fd: int, access: FileAccess, path: str) -> None:
    """Raise AccessError if this process cannot give a new file in the directory to the owner and group.

    Call it before making the file, because a file that other users of the directory cannot open would stop them.
    """
    if not access.required or os.geteuid() == 0:
        return
    if access.owner != os.geteuid() and not _open_to_owner(access.mode):
        raise _refusal(access, path)
    if _needs_group(access) and access.group not in (os.getegid(), *os.getgroups()):
        directory = os.fstat(directory_fd)
        if not (directory.st_mode & stat.S_ISGID and directory.st_gid == access.group):
            raise _refusal(access, path)


def give_access(fd: int, access: FileAccess, path: str) -> None:
    """Set the owner, group and mode of a file, regardless of the umask.  Raises: AccessError."""
    with own_errors(path, "setting owner, group and mode"):
        status = os.fstat(fd)
        owner = access.owner if os.geteuid() == 0 else status.st_uid
        if (status.st_uid, status.st_gid) != (owner, access.group):
            try:
                os.fchown(fd, owner, access.group)
            except PermissionError:
                if access.required and (owner != status.st_uid or _needs_group(access)):
                    raise _refusal(access, path) from None
        if stat.S_IMODE(os.fstat(fd).st_mode) != access.mode:
            os.fchmod(fd, access.mode)


def give_directory_access(fd: int, parent: os.stat_result, path: str, *, inner: bool) -> None:
    """Set the owner, group and mode of a new directory as `files.make_directory` documents.

    inner: as `files.make_subfolder` documents.
    """
    own = os.fstat(fd)
    group = parent.st_gid if inner or os.geteuid() == 0 else own.st_gid
    mode = stat.S_IMODE(parent.st_mode) if inner else DIRECTORY_MODE | own.st_mode & stat.S_ISGID
    give_access(fd, FileAccess(parent.st_uid, group, mode, required=False), path)


def _open_to_owner(mode: int) -> bool:
    """Return whether a former owner, now a member of the group or one of the others, keeps its permissions."""
    owner = mode >> 6 & _READ_WRITE
    return owner & ~(mode >> 3) == 0 or owner & ~mode == 0


def _needs_group(access: FileAccess) -> bool:
    """Return whether the mode gives the group more permissions than all others."""
    return access.mode >> 3 & ~access.mode & 0o7 != 0


def _refusal(access: FileAccess, path: str) -> AccessError:
    user, group = user_name(access.owner), _group_name(access.group)
    text = (
        f"{path} was not made: the files beside it belong to {user}:{group} with mode {access.mode:04o}, and "
        f"{user_name(os.geteuid())} cannot make one like them; run this as {user}, or as root"
    )
    return AccessError(text, errno=errno.EPERM, path=path, run_as=user)


def user_name(uid: int) -> str:
    """Return the name of a user, or the number in the form that `sudo -u` accepts."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"#{gid}"
