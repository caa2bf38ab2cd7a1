"""The folder of an address: whose pages it has, and which."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

from binlog.errors import BinlogError, CorruptError, NotFoundError, PoisonedError, StateError, VersionError
from binlog.format.paging.names import (
    ACKS_END,
    ADDRESS_FILE,
    ADDRESS_FILE_BYTES_MAX,
    FAILED_FILE,
    NEW_END,
    PAGE_END,
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
from binlog.storage.files import make_subfolder, read_at, sync, write_at
from binlog.storage.native import Guard, Monitor

# Syncs a file, given its descriptor and path.
Commit = Callable[[int, str], None]

_COPIED_BYTES = 1 << 20


class AddressFolder:
    """A folder with the pages of one address.  layout: of the pages that are made in it.

    directory: it, and the files that are open in it, which are closed with it.
    guard: of all that the paging changes.  change: a block that changes something, and poisons the guard if that is
    left half done.
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

    def ids(self, end: str) -> list[int]:
        """The ids of the pages that have files whose names end so, the lowest first.  Raises: AccessError."""
        return sorted(n for name in self.directory.names() if (n := page_number(name, end)) is not None)

    def sync(self) -> None:
        """Have its names be durable.  Raises: PoisonedError, and then nothing in it is any more."""
        with self._syncing:
            self.check()
            try:
                with self.change:
                    self.directory.sync()
            except PoisonedError as error:
                self._fail(error)
                raise

    def sync_file(self, fd: int, path: str, commit: Commit | None = None) -> None:
        """Have a file in it be on the disk; no other thread syncs the file meanwhile.

        commit: does it, in one call, so that no exception can hide whether it was done.
        Raises: PoisonedError, and then nothing in the folder is made durable any more.
        """
        # fsync(2): the kernel tells of a failure once; a second sync would say that all is well.
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

    def refuse_reentry(self) -> None:
        """Raises: StateError in a signal handler that broke into a sync of this thread: it would wait for itself."""
        if threading.get_ident() in self._syncing_threads:
            raise StateError(f"this thread is within a sync of {self.path}")

    def _fail(self, error: PoisonedError) -> None:
        self.guard.fail(error)
        self._mark_failed()

    def _mark_failed(self) -> None:
        """Have the next process write anew what is in memory alone, perhaps.

        That it is told by a file's name, which is not synced: where a power cut takes that, it takes what is in memory
        too.
        """
        if not self._is_marked:
            with suppress(BinlogError):
                self.directory.make(FAILED_FILE)
            self._is_marked = True

    @property
    def has_failed(self) -> bool:
        """Whether something had failed, of this process or of one before it."""
        return self.directory.has(FAILED_FILE)

    def clear_failure(self) -> None:
        """All was written anew, and is durable.  Raises: AccessError."""
        self.directory.remove(FAILED_FILE)

    def rewrite(self, name: str) -> None:
        """Have a file's bytes be on the disk, of which a sync may have failed.

        fsync(2): what it did not write is taken for written, and only a write has it be written again.
        Raises: AccessError; FullError; PoisonedError.
        """
        path, offset = self.directory.file_path(name), 0
        with OpenFile(self.directory, name, writable=True) as fd:
            while data := read_at(fd, _COPIED_BYTES, offset, path):
                write_at(fd, data, offset, path)
                offset += len(data)
            self.sync_file(fd, path)

    def check(self) -> None:
        """Raises: PoisonedError if something failed, or was left half done, which may hide that a sync failed.

        StateError as `refuse_reentry`.
        """
        self.refuse_reentry()
        try:
            self.guard.check()
        except PoisonedError:
            self._mark_failed()
            raise

    def quarantine(self, name: str, new_name: str, path: str) -> None:
        """Give a file another name, under which nobody looks for it.  Raises: FullError; AccessError."""
        fd, taken = self.directory.fd, set(self.directory.names())
        with own_errors(path, "setting it aside"):
            # The ids begin anew when an address had no pages for a while, and what is kept must stay.
            names = (new_name, *(f"{new_name}.{number}" for number in range(1, len(taken) + 2)))
            free = next(each for each in names if each not in taken)
            with suppress(FileNotFoundError):
                os.rename(name, free, src_dir_fd=fd, dst_dir_fd=fd)


def make_folder(root: Directory, address: str, layout: PageLayout, guard: Guard) -> AddressFolder:
    """A folder for an address that has none, durably.  Raises: ValueError; FullError; AccessError; PoisonedError.

    It has another name until the address is in it: a folder without one would be nobody's.  After a PoisonedError it
    may be there.
    """
    check_address(address)
    file = AddressFile(address, layout)
    name = new_folder_name()
    new = root.file_path(name + NEW_END)
    try:
        make_subfolder(root.fd, name + NEW_END, new)
        root.write_new(os.path.join(name + NEW_END, ADDRESS_FILE), file.pack())
        root.sync(name + NEW_END)
        root.rename(name + NEW_END, name)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    return AddressFolder(Directory(root.file_path(name), parent=root), file, guard)


def find_folders(root: Directory, problems: list[Problem]) -> Iterator[tuple[Directory, AddressFile]]:
    """Each folder of an address; of those that are nobody's it is told why.  Raises: AccessError."""
    seen: dict[str, str] = {}
    for name in sorted(root.names()):
        path = root.file_path(name)
        if not is_folder_name(name) or not os.path.isdir(path) or os.path.islink(path):
            continue
        directory, where = Directory(path, parent=root), os.path.join(path, ADDRESS_FILE)
        try:
            file = parse_address_file(directory.read(ADDRESS_FILE, ADDRESS_FILE_BYTES_MAX), where)
        except (CorruptError, VersionError, NotFoundError) as error:
            # Not where it could not be read, for now: another folder would be made for its address.
            problems.append(problem_of(error, where))
            continue
        if file is None:
            problems.append(Problem(where, 0, "address", "it names no address, so nobody uses what is in its folder"))
        elif file.address in seen:
            problems.append(Problem(where, 0, "address", f"{seen[file.address]} is of the same address"))
        else:
            seen[file.address] = path
            yield directory, file


def remove_unfinished_folders(root: Directory) -> None:
    """Remove folders that were being made when the process died; nothing was ever in them.  Raises: AccessError."""
    for name in root.names():
        if name.endswith(NEW_END) and is_folder_name(name.removesuffix(NEW_END)):
            with own_errors(root.path, "removing unfinished folders"):
                shutil.rmtree(name, dir_fd=root.fd)


def last_known_id(folder: AddressFolder) -> int:
    """The highest id that any file in the folder has, also of acknowledgements; 0 for none."""
    return max((*folder.ids(PAGE_END), *folder.ids(ACKS_END)), default=0)
