"""The directory of a group: opened, made, and removed after the group was deleted.

A group is deleted once its log says so.  Then its directory gets a name that no group can have, so that another group
may have the old name, and is removed.  If a process dies in between, the next process that creates a group of that name
finishes the deletion, and so does `finish_deletions`.

A member that uses the group meanwhile may fail in any way, because files of the group are missing.  Its caller gets a
GoneError instead, and closing says nothing.

A directory is renamed only under the lock of `groups`, by a process that has read in it that its group is deleted.  So
a new group that got the name in the meantime stays.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from binlog.consumers.retention import GROUPS, group_names
from binlog.consumers.state.clock import GroupClock
from binlog.consumers.state.group_log import GroupLog
from binlog.consumers.state.state_reader import StateReader
from binlog.errors import AccessError, BinlogError, GoneError, NotFoundError
from binlog.log.directory import LogDirectory
from binlog.storage.descriptors import Descriptor
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors
from binlog.storage.files import list_folder
from binlog.storage.locking.locks import lock, unlock

_LOCK = ".lock"
_DELETED = ".deleted-"


def open_or_create(path: str, name: str, clock: GroupClock) -> tuple[Directory, GroupLog]:
    """Open the directory and the log of a group; make them if they do not exist, or if the group was deleted.

    The caller closes both, and sets up the group if its state is not created.
    Raises: NotFoundError if the directory of the log does not exist; as a Writer and a StateReader.
    """
    while True:
        with ExitStack() as undoing:
            log = undoing.enter_context(Directory(path))
            groups = undoing.enter_context(log.subfolder(GROUPS))
            try:
                opened = _open(groups.subfolder(name), clock)
            except (GoneError, NotFoundError):
                continue  # another process removes a group of this name
        if not opened[1].state.is_deleted:
            if not opened[1].state.is_created:
                _remove_leftovers(path)
            return opened
        close_opened(*opened)
        finish_deletion(path, name)


def open_existing(path: str, name: str, clock: GroupClock) -> tuple[Directory, GroupLog]:
    """Open the directory and the log of a group.  The caller closes both.

    Raises: NotFoundError if there is no such group; as a Writer and a StateReader.
    """
    text = f"{path} has no consumer group {name!r}"
    if name not in group_names(path):
        raise NotFoundError(text)
    try:
        folder = Directory(os.path.join(path, GROUPS, name))
        with LogDirectory(folder.path) as files:
            if not files.listed():  # a Writer would make the first one
                raise NotFoundError(text)
        opened = _open(folder, clock)
    except (GoneError, NotFoundError):
        raise NotFoundError(text) from None
    state = opened[1].state
    if state.is_deleted or not state.is_created:
        close_opened(*opened)
        raise NotFoundError(text)
    return opened


def _open(folder: Directory, clock: GroupClock) -> tuple[Directory, GroupLog]:
    """Raises: GoneError if the directory was renamed meanwhile; the log may be of another one then."""
    with ExitStack() as undoing:
        undoing.enter_context(folder)
        with gone_if_deleted(folder):
            group_log = GroupLog.open(folder.path, clock)
        undoing.callback(group_log.close)
        folder.check()
        undoing.pop_all()
    return folder, group_log


@contextmanager
def gone_if_deleted(folder: Directory) -> Iterator[None]:
    """Raise GoneError in place of an error in a block if the group was deleted."""
    try:
        yield
    except BinlogError as error:
        check_folder(folder, error)
        raise


def check_folder(folder: Directory, error: BinlogError) -> None:
    """Raise GoneError in place of an error if the group was deleted."""
    try:
        folder.check()
    except GoneError:
        raise GoneError(f"{folder.path}: the group was deleted") from error


@contextmanager
def quiet_if_deleted(folder: Directory) -> Iterator[None]:
    """End a block without an error if the group was deleted: there is nothing left to close properly."""
    with suppress(GoneError), gone_if_deleted(folder):
        yield


def close_opened(folder: Directory, group_log: GroupLog) -> None:
    """Close the directory and the log of a group."""
    with folder, quiet_if_deleted(folder):
        group_log.close()


def finish_deletion(path: str, name: str) -> None:
    """Remove the directory of a group, if the group was deleted.  Durable on return.

    Blocks: while another process removes a group of the same log.  Raises: AccessError; as a StateReader.
    """
    with _locked(path) as groups:
        if groups is not None:
            _remove_renamed(groups)
            _rename_deleted(groups, name)
            _remove_renamed(groups)


def finish_deletions(path: str, names: Iterable[str] | None = None) -> None:
    """Remove the directories of the deleted groups of a log, unless this process may not.

    names: of those that may be deleted; None for all groups.  Raises: as a StateReader.
    """
    with suppress(AccessError):
        for name in group_names(path) if names is None else names:
            if _deleted_uuid(os.path.join(path, GROUPS, name)) is not None:
                finish_deletion(path, name)
    _remove_leftovers(path)


@contextmanager
def _locked(path: str) -> Iterator[Directory | None]:
    """Hold the lock of the groups of a log for a block; gives None if it has none."""
    try:
        groups = Directory(os.path.join(path, GROUPS))
    except NotFoundError:
        yield None
        return
    with groups:
        groups.make(_LOCK)
        file = Descriptor(groups.fd, _LOCK, groups.file_path(_LOCK))
        try:
            lock(file.fd, groups.file_path(_LOCK))
            yield groups
        finally:
            unlock(file.fd)
            file.close()


def _deleted_uuid(folder: str) -> str | None:
    """Return the UUID of a group's log if it says that the group was deleted, otherwise None."""
    try:
        reader = StateReader.open(folder)
    except (NotFoundError, GoneError):
        return None  # it has no log, or another process has just removed it
    reader.close()
    return reader.uuid.hex() if reader.state.is_deleted else None


def _rename_deleted(groups: Directory, name: str) -> None:
    uuid = _deleted_uuid(groups.file_path(name))
    if uuid is not None:
        groups.rename(name, _DELETED + uuid)


def _remove_leftovers(path: str) -> None:
    """Remove directories that were renamed by processes that died then, unless this process may not."""
    if any(name.startswith(_DELETED) for name in list_folder(os.path.join(path, GROUPS))):
        with suppress(AccessError), _locked(path) as groups:
            if groups is not None:
                _remove_renamed(groups)


def _remove_renamed(groups: Directory) -> None:
    import shutil  # few groups are deleted

    for name in groups.names():
        if name.startswith(_DELETED):
            with own_errors(groups.file_path(name), "removing a deleted group"):
                try:
                    shutil.rmtree(name, dir_fd=groups.fd)
                except OSError as error:
                    # A member may have made or removed a file in the meantime; the next process removes the rest.
                    if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                        raise
