"""The folder of an address: whose pages it has, and which."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from binlog.errors import BinlogError
from binlog.format.paging.address_file import (
    ADDRESS_FILE_BYTES_MAX,
    AddressFile,
    check_address,
    parse_address_file,
)
from binlog.format.paging.names import (
    ACKS_END,
    ADDRESS_FILE,
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
    make_directory,
    open_directory,
    open_file,
    read_at,
    sync,
    sync_directory,
    write_at,
)


class AddressFolder:
    """A folder with the pages of one address.  layout: of the pages that are made in it."""

    def __init__(self, path: str, file: AddressFile) -> None:
        """Raises: AccessError."""
        self.path = path
        self.address = file.address
        self.layout = file.layout
        self.directory_fd = open_directory(path)

    def ids(self, end: str) -> list[int]:
        """The ids of the pages that have files whose names end so, the lowest first.  Raises: AccessError."""
        with own_errors(self.path, "listing the folder"):
            names = os.listdir(self.directory_fd)
        return sorted(number for name in names if (number := page_number(name, end)) is not None)

    def sync(self) -> None:
        """Have its names be durable.  Raises: PoisonedError."""
        sync_directory(self.directory_fd, self.path)

    def close(self) -> None:
        """Close its descriptor."""
        fd, self.directory_fd = self.directory_fd, -1
        if fd >= 0:
            os.close(fd)


def make_folder(root: str, root_fd: int, address: str, layout: PageLayout) -> AddressFolder:
    """A folder for an address that has none, durably.  Raises: ValueError; FullError; AccessError; PoisonedError.

    It has another name until the address is in it: a folder without one would be nobody's.
    """
    check_address(address)
    file = AddressFile(address, layout)
    name = new_folder_name()
    path = os.path.join(root, name)
    make_directory(path + NEW_END)
    directory_fd = open_directory(path + NEW_END)
    try:
        fd = create_file(directory_fd, ADDRESS_FILE, path, mode=None)
        try:
            write_at(fd, file.pack(), 0, path)
            sync(fd, path)
        finally:
            os.close(fd)
        sync_directory(directory_fd, path)
    finally:
        os.close(directory_fd)
    with own_errors(path, "naming the folder"):
        os.rename(name + NEW_END, name, src_dir_fd=root_fd, dst_dir_fd=root_fd)
    sync_directory(root_fd, root)
    return AddressFolder(path, file)


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
        except BinlogError as error:
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
