"""The folder of an address: whose pages it has, and which."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

from binlog.errors import BinlogError, CorruptError, NotFoundError, PoisonedError, StateError, VersionError
from binlog.format.paging.address_file import (
    ADDRESS_FILE_BYTES_MAX,
    AddressFile,
    check_address,
    parse_address_file,
)
from binlog.format.paging.names import (
    ACKS_END,
    ADDRESS_FILE,
    FAILED_FILE,
    NEW_END,
    PAGE_END,
    is_folder_name,
    new_folder_name,
    page_number,
)
from binlog.format.paging.page_file import PageLayout
from binlog.format.problem import Problem, problem_of
from binlog.storage.failures import own_errors
from binlog.storage.files import (
    create_file,
    make_subfolder,
    open_directory,
    open_file,
    read_at,
    remove_file,
    sync,
    sync_directory,
    write_at,
)
from binlog.storage.native import Guard

# Syncs a file, given its descriptor and path.
Commit = Callable[[int, str], None]

_COPIED_BYTES = 1 << 20


class AddressFolder:
    """A folder with the pages of one address.  layout: of the pages that are made in it.

    guard: of all that the paging changes.  change: a block that changes something, and poisons the guard if that is
    left half done.
    """

    def __init__(self, path: str, file: AddressFile, guard: Guard, directory_fd: int | None = None) -> None:
        """directory_fd: where it is open already, and is the folder's from now on.  Raises: AccessError."""
        self.path = path
        self.address = file.address
        self.layout = file.layout
        self.guard = guard
        self.change = guard.change()
        self._syncing = threading.Lock()
        self._syncing_threads: set[int] = set()
        self._is_marked = False
        self.directory_fd = open_directory(path) if directory_fd is None else directory_fd

    def ids(self, end: str) -> list[int]:
        """The ids of the pages that have files whose names end so, the lowest first.  Raises: AccessError."""
        with own_errors(self.path, "listing the folder"):
            names = os.listdir(self.directory_fd)
        return sorted(number for name in names if (number := page_number(name, end)) is not None)

    def sync(self) -> None:
        """Have its names be durable.  Raises: PoisonedError, and then nothing in it is any more."""
        with self._syncing:
            self.check()
            try:
                with self.change:
                    sync_directory(self.directory_fd, self.path)
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
        self._mark()

    def _mark(self) -> None:
        """Have the next process write anew what is in memory alone, perhaps.

        That it is told by a file's name, which is not synced: where a power cut takes that, it takes what is in memory
        too.
        """
        if not self._is_marked:
            with suppress(BinlogError):
                os.close(create_file(self.directory_fd, FAILED_FILE, self.path))
            self._is_marked = True

    @property
    def has_failed(self) -> bool:
        """Whether something had failed, of this process or of one before it."""
        return os.access(FAILED_FILE, os.F_OK, dir_fd=self.directory_fd)

    def recovered(self) -> None:
        """All was written anew, and is durable.  Raises: AccessError."""
        remove_file(self.directory_fd, FAILED_FILE, os.path.join(self.path, FAILED_FILE))

    def write_anew(self, name: str) -> None:
        """Have a file's bytes be on the disk, of which a sync may have failed.

        fsync(2): what it did not write is taken for written, and only a write has it be written again.
        Raises: AccessError; FullError; PoisonedError.
        """
        path = os.path.join(self.path, name)
        fd = open_file(self.directory_fd, name, path, writable=True)
        try:
            place = 0
            while data := read_at(fd, _COPIED_BYTES, place, path):
                write_at(fd, data, place, path)
                place += len(data)
            self.sync_file(fd, path)
        finally:
            os.close(fd)

    def check(self) -> None:
        """Raises: PoisonedError if something failed, or was left half done, which may hide that a sync failed.

        StateError as `refuse_reentry`.
        """
        self.refuse_reentry()
        try:
            self.guard.check()
        except PoisonedError:
            self._mark()
            raise

    def set_aside(self, name: str, aside: str, path: str) -> None:
        """Give a file another name, under which nobody looks for it.  Raises: FullError; AccessError."""
        fd = self.directory_fd
        with own_errors(path, "setting it aside"):
            taken = set(os.listdir(fd))
            # The ids begin anew when an address had no pages for a while, and what is kept must stay.
            names = (aside, *(f"{aside}.{number}" for number in range(1, len(taken) + 2)))
            free = next(each for each in names if each not in taken)
            with suppress(FileNotFoundError):
                os.rename(name, free, src_dir_fd=fd, dst_dir_fd=fd)

    def close(self) -> None:
        """Close its descriptor."""
        fd, self.directory_fd = self.directory_fd, -1
        if fd >= 0:
            os.close(fd)


def make_folder(root: str, root_fd: int, address: str, layout: PageLayout, guard: Guard) -> AddressFolder:
    """A folder for an address that has none, durably.  Raises: ValueError; FullError; AccessError; PoisonedError.

    It has another name until the address is in it: a folder without one would be nobody's.  After a PoisonedError it
    may be there.
    """
    check_address(address)
    file = AddressFile(address, layout)
    name = new_folder_name()
    path = os.path.join(root, name)
    make_subfolder(path + NEW_END)
    directory_fd = -1
    try:
        directory_fd = open_directory(path + NEW_END)
        _write_address(directory_fd, file, path)
        with own_errors(path, "naming the folder"):
            os.rename(name + NEW_END, name, src_dir_fd=root_fd, dst_dir_fd=root_fd)
    except BaseException:
        if directory_fd >= 0:
            os.close(directory_fd)
        shutil.rmtree(path + NEW_END, ignore_errors=True)
        raise
    try:
        sync_directory(root_fd, root)
    except BaseException:
        os.close(directory_fd)
        raise
    return AddressFolder(path, file, guard, directory_fd)


def _write_address(directory_fd: int, file: AddressFile, path: str) -> None:
    fd = create_file(directory_fd, ADDRESS_FILE, path)
    try:
        write_at(fd, file.pack(), 0, path)
        sync(fd, path)
    finally:
        os.close(fd)
    sync_directory(directory_fd, path)


def find_folders(root: str, problems: list[Problem]) -> Iterator[tuple[str, AddressFile]]:
    """Each folder of an address, with its path; of those that are nobody's it is told why.  Raises: AccessError."""
    with own_errors(root, "listing the folder"):
        names = sorted(os.listdir(root))
    seen: dict[str, str] = {}
    for name in names:
        path = os.path.join(root, name)
        if not is_folder_name(name) or not os.path.isdir(path) or os.path.islink(path):
            continue
        where = os.path.join(path, ADDRESS_FILE)
        try:
            file = _read_address(path, where)
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
            yield path, file


def sweep_folders(root: str) -> None:
    """Remove folders that were being made when the process died; nothing was ever in them.  Raises: AccessError."""
    with own_errors(root, "removing unfinished folders"):
        for name in os.listdir(root):
            if name.endswith(NEW_END) and is_folder_name(name.removesuffix(NEW_END)):
                shutil.rmtree(os.path.join(root, name))


def last_known_id(folder: AddressFolder) -> int:
    """The highest id that any file in the folder has, also of acknowledgements; 0 for none."""
    return max((*folder.ids(PAGE_END), *folder.ids(ACKS_END)), default=0)


def _read_address(path: str, where: str) -> AddressFile | None:
    directory_fd = open_directory(path)
    try:
        fd = open_file(directory_fd, ADDRESS_FILE, where, writable=False)
        try:
            return parse_address_file(read_at(fd, ADDRESS_FILE_BYTES_MAX, 0, where), where)
        finally:
            os.close(fd)
    finally:
        os.close(directory_fd)
