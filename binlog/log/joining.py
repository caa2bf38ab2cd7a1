"""Files that join a log together: all of them are in it from the moment that the file before them is closed.

Each is complete and synced before it has its name, and all have their names before that file is closed.  So whoever
lists the directory meanwhile must not take them for the log's.  A marker beside them says behind which file they lie.
Invariants:

- The marker is there, durably, before any of them has its name, and until the close is durable.
- They are in the log where the file that it names is closed.  While that one is open they are nobody's, and its header
  has Flag.ONCE: whoever finds that under the lock removes them before anything else (`WritableFile.settle`).
- The marker is written and removed by whoever holds the lock of the open file.  One that was left behind by a process
  that died after the close says nothing new, and goes with the next cutover.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from binlog.errors import CorruptError, NotFoundError
from binlog.format.log_header import LOG_HEADER, Status
from binlog.format.names import (
    JOINING_FILE,
    NUMBER_MAX,
    index_file_number,
    log_file_name,
    log_file_number,
)
from binlog.storage.files import (
    create_file,
    list_names,
    open_file,
    read_at,
    remove_file,
    rename_file,
    sync,
    sync_directory,
    write_at,
)

_BYTES_MAX = 1 << 10
_DRAFT = f"{JOINING_FILE}.new"
_STATUS = LOG_HEADER.offset("status")


@dataclass(frozen=True, slots=True)
class Joining:
    """The files behind file `after`, up to `last`."""

    after: int
    last: int

    @property
    def numbers(self) -> range:
        """Theirs."""
        return range(self.after + 1, self.last + 1)


def read_joining(directory_fd: int, path: str) -> Joining | None:
    """What the marker says, None where there is none.  path: the directory's.  Raises: CorruptError, AccessError."""
    name = os.path.join(path, JOINING_FILE)
    try:
        fd = open_file(directory_fd, JOINING_FILE, name, writable=False)
    except NotFoundError:
        return None
    try:
        found = Joining(**json.loads(read_at(fd, _BYTES_MAX, 0, name)))
        if not (type(found.after) is type(found.last) is int and 0 < found.after < found.last <= NUMBER_MAX):
            raise ValueError(f"files {found.after!r} to {found.last!r}")
    except (ValueError, TypeError) as error:
        raise CorruptError(name, 0, "joining", f"it names no files ({error})") from error
    finally:
        os.close(fd)
    return found


def write_joining(directory_fd: int, path: str, joining: Joining) -> None:
    """Set the marker, durably.  Raises: FullError; PoisonedError."""
    draft = os.path.join(path, _DRAFT)
    remove_file(directory_fd, _DRAFT, draft)
    fd = create_file(directory_fd, _DRAFT, draft, mode=None)
    try:
        write_at(fd, json.dumps(asdict(joining)).encode(), 0, draft)
        sync(fd, draft)
    finally:
        os.close(fd)
    rename_file(directory_fd, _DRAFT, JOINING_FILE, os.path.join(path, JOINING_FILE))


def remove_joining(directory_fd: int, path: str) -> None:
    """Take the marker away.  Not durable: should it be there again, it still says what is so."""
    remove_file(directory_fd, JOINING_FILE, os.path.join(path, JOINING_FILE))


def joined(directory_fd: int, path: str, numbers: list[int]) -> list[int]:
    """Of the numbers of a listing those of files that are in the log.

    The listing must be older than this call: then a marker that is gone was removed because its files are in the log.
    """
    joining = read_joining(directory_fd, path)
    if joining is None or not numbers or numbers[-1] <= joining.after:
        return numbers
    if _is_open(directory_fd, path, joining.after):
        return [number for number in numbers if number <= joining.after]
    return numbers


def _is_open(directory_fd: int, path: str, number: int) -> bool:
    """Whether the file is open; not so where it is an archive, or was removed."""
    name = log_file_name(number)
    try:
        fd = open_file(directory_fd, name, os.path.join(path, name), writable=False)
    except NotFoundError:
        return False
    try:
        # What else its header says is looked at by whoever opens it.
        return read_at(fd, 2, _STATUS, path) == Status.OPEN.to_bytes(2, "big")
    finally:
        os.close(fd)


def remove_unjoined(directory_fd: int, path: str, number: int) -> None:
    """Remove the files that were to join behind an open one, whose lock is held and whose header has Flag.ONCE.

    They were never in the log: whoever gave them their names died, or failed, before it closed that file.
    Durable on return.  Raises: AccessError, PoisonedError, CorruptError.
    """
    joining = read_joining(directory_fd, path)
    if joining is None or joining.after != number:
        return
    # The marker goes behind them all: at any moment it says of all that are left what they are.
    for name in list_names(directory_fd, path):
        each = log_file_number(name) or index_file_number(name)
        if each in joining.numbers:
            remove_file(directory_fd, name, os.path.join(path, name))
    sync_directory(directory_fd, path)
    remove_joining(directory_fd, path)
    sync_directory(directory_fd, path)


def remove_left_joining(directory_fd: int, path: str, number: int) -> None:
    """Remove a marker that was left behind of an earlier file than the open one, `number`, whose lock is held."""
    joining = read_joining(directory_fd, path)
    if joining is not None and joining.after < number:
        remove_joining(directory_fd, path)
