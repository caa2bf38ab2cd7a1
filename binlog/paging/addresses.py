"""The folder of one address, with its pages."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

from binlog.errors import BinlogError, CorruptError, NotFoundError, PoisonedError, StateError, VersionError
from binlog.format.paging.names import (
    ACKS_EXTENSION,
    ADDRESS_FILE,
    ADDRESS_FILE_BYTES_MAX,
    FAILED_FILE,
    NEW_EXTENSION,
    PAGE_EXTENSION,
    AddressFile,
    check_address,
    is_folder_name,
    new_folder_name,
    page_number,
    parse_address_file,
)
from binlog.format.paging.page_file import PageLayout
from binlog.format.problem import Problem, problem_of
from binlog.storage.directory import Directory, OpenFile
from binlog.storage.failures import own_errors
from binlog.storage.files import content_bytes, make_subfolder, sync, write_again
from binlog.storage.native import Guard, Monitor

# Syncs a file, given its descriptor and path.
Commit = Callable[[int, str], None]


class AddressFolder:
    """A folder with the pages of one address.

    layout: the layout of new pages.  directory: the folder, and the files that are open in it; closing it closes them.
    guard: the guard of the whole paging.  change: a block that changes something; if an exception breaks it off, it
    poisons the guard.
    """

    def __init__(self, directory: Directory, file: AddressFile, guard: Guard) -> None:
        self.directory = directory
        self.path = directory.path
        self.address = file.address
        self.layout = file.layout
        self.guard = guard
        self.change = guard.change()
        self._syncing = Monitor()
        self._syncing_threads: set[int] = set()
        self._is_marked = False

    def ids(self, extension: str) -> list[int]:
        """Return the ids of the pages that have a file with this extension, in ascending order.

        Raises: AccessError.
        """
        return sorted(n for name in self.directory.names() if (n := page_number(name, extension)) is not None)

    def sync(self) -> None:
        """Make the names in the folder durable.

        Raises: PoisonedError; after that nothing in the folder becomes durable.
        """
        with self._syncing:
            self.check()
            try:
                with self.change:
                    self.directory.sync()
            except PoisonedError as error:
                self._fail(error)
                raise

    def sync_file(self, fd: int, path: str, commit: Commit | None = None) -> None:
        """Sync a file of the folder.  No other thread may sync the same file at the same time.

        commit: syncs the file, in one call, so that no exception can hide whether the sync was made.
        Raises: PoisonedError; after that nothing in the folder becomes durable.
        """
        # fsync(2): the kernel reports a failure once.  A second sync would report success.
        self.check()
        thread = threading.get_ident()
        try:
            self._syncing_threads.add(thread)
            if commit is not None:
                commit(fd, path)
            else:
                with self.change:
                    sync(fd, path)
        except PoisonedError as error:
            self._fail(error)
            raise
        finally:
            self._syncing_threads.discard(thread)

    def check_not_reentered(self) -> None:
        """Raise StateError if a signal handler has interrupted a sync of this thread, which would wait for itself."""
        if threading.get_ident() in self._syncing_threads:
            raise StateError(f"this thread is within a sync of {self.path}")

    def _fail(self, error: PoisonedError) -> None:
        self.guard.fail(error)
        self._mark_failed()

    def _mark_failed(self) -> None:
        """Create the file that makes the next process rewrite everything that may exist only in memory.

        Its name is not synced: a power cut that removes the name also removes everything that is only in memory.
        """
        if not self._is_marked:
            with suppress(BinlogError):
                self.directory.make(FAILED_FILE)
            self._is_marked = True

    @property
    def has_failed(self) -> bool:
        """Whether a write or sync has failed in this folder, in this process or in an earlier one."""
        return self.directory.has(FAILED_FILE)

    def clear_failure(self) -> None:
        """Record that everything was rewritten and is durable.  Raises: AccessError."""
        self.directory.remove(FAILED_FILE)

    def rewrite(self, name: str) -> None:
        """Write the bytes of a file again, and sync it, because an earlier sync may have failed.

        Raises: AccessError; FullError; PoisonedError.
        """
        path = self.directory.file_path(name)
        with OpenFile(self.directory, name, writable=True) as fd:
            write_again(fd, content_bytes(fd), path)
            self.sync_file(fd, path)

    def check(self) -> None:
        """Raise PoisonedError if something failed or was broken off, which may hide that a sync failed.

        Raises StateError as `check_not_reentered` does.
        """
        self.check_not_reentered()
        try:
            self.guard.check()
        except PoisonedError:
            self._mark_failed()
            raise

    def quarantine(self, name: str, new_name: str, path: str) -> None:
        """Rename a damaged file, so that it is kept but no longer used.  Raises: FullError; AccessError."""
        fd, taken = self.directory.fd, set(self.directory.names())
        with own_errors(path, "moving a damaged file to quarantine"):
            # If an address had no pages for a while, its ids start again at 1.  Files in quarantine must not be
            # overwritten.
            names = (new_name, *(f"{new_name}.{number}" for number in range(1, len(taken) + 2)))
            free = next(each for each in names if each not in taken)
            with suppress(FileNotFoundError):
                os.rename(name, free, src_dir_fd=fd, dst_dir_fd=fd)


def make_folder(root: Directory, address: str, layout: PageLayout, guard: Guard) -> AddressFolder:
    """Create the folder of a new address, durably.

    Until the address is in it, the folder has a temporary name, because a folder without an address belongs to none.
    After a PoisonedError the folder may exist.
    Raises: ValueError; FullError; AccessError; PoisonedError.
    """
    check_address(address)
    file = AddressFile(address, layout)
    name = new_folder_name()
    new = root.file_path(name + NEW_EXTENSION)
    try:
        make_subfolder(root.fd, name + NEW_EXTENSION, new)
        root.write_new(os.path.join(name + NEW_EXTENSION, ADDRESS_FILE), file.pack())
        root.sync(name + NEW_EXTENSION)
        root.rename(name + NEW_EXTENSION, name)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    return AddressFolder(Directory(root.file_path(name), parent=root), file, guard)


def find_folders(root: Directory, problems: list[Problem]) -> Iterator[tuple[Directory, AddressFile]]:
    """Yield the folder of each address, and add a problem for each folder that has no address.  Raises: AccessError."""
    seen: dict[str, str] = {}
    for name in sorted(root.names()):
        path = root.file_path(name)
        if not is_folder_name(name) or not os.path.isdir(path) or os.path.islink(path):
            continue
        directory, where = Directory(path, parent=root), os.path.join(path, ADDRESS_FILE)
        try:
            file = parse_address_file(directory.read(ADDRESS_FILE, ADDRESS_FILE_BYTES_MAX), where)
        except (CorruptError, VersionError, NotFoundError) as error:
            # Only if the file is damaged or missing.  If it cannot be read now, a second folder would be made for its
            # address.
            problems.append(problem_of(error, where))
            continue
        if file is None:
            problems.append(
                Problem(where, 0, "address", "it names no address, so the pages in its folder are not used")
            )
        elif file.address in seen:
            problems.append(Problem(where, 0, "address", f"{seen[file.address]} has the same address"))
        else:
            seen[file.address] = path
            yield directory, file


def remove_unfinished_folders(root: Directory) -> None:
    """Remove folders that a process was creating when it died.  They have never had pages.  Raises: AccessError."""
    for name in root.names():
        if name.endswith(NEW_EXTENSION) and is_folder_name(name.removesuffix(NEW_EXTENSION)):
            with own_errors(root.path, "removing unfinished folders"):
                shutil.rmtree(name, dir_fd=root.fd)


def last_known_id(folder: AddressFolder) -> int:
    """Return the highest id of any page or file of acknowledgements in the folder, or 0."""
    return max((*folder.ids(PAGE_EXTENSION), *folder.ids(ACKS_EXTENSION)), default=0)
