"""Files that join a log together: all of them are in it from the moment that the file before them is closed.

Each is complete and synced before it has its name, and all have their names before that file is closed.  So whoever
lists the directory meanwhile must not take them for the log's.  A marker beside them says behind which file they lie.
Invariants:

- The marker is there, durably, before any of them has its name, and until that file's close is durable.
- That file's header has Flag.ONCE, durably, before that, and whoever finds it under the lock settles what there is
  before anything else (`WritableFile.settle`).  Where the header names the next file, durably, it is decided that they
  join, and the file is closed; where it does not, they are removed, and then the marker.
- They are seen once the file is closed, which is after it was decided: what was seen no power cut takes back.
- A file in hand may be one that was to join, and was removed since its name was listed.  So after a log file was opened
  by its name, the marker is asked, and then whether the name still leads to it: it was removed before the marker.
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
    damaged_file_name,
    index_file_number,
    log_file_name,
    log_file_number,
)
from binlog.storage.file_access import FileAccess
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
_TAIL = LOG_HEADER.offset("tail")
_OWN_TAIL = LOG_HEADER.offset("own_tail")


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
    try:
        os.stat(JOINING_FILE, dir_fd=directory_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None  # as nearly always, and sooner than by trying to open it
    except OSError:
        pass  # what is wrong is told by opening it
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


def write_joining(directory_fd: int, path: str, joining: Joining, access: FileAccess) -> None:
    """Set the marker, durably.  access: of the log's files, for all who read those ask for it.

    Raises: FullError; PoisonedError.
    """
    draft = os.path.join(path, _DRAFT)
    remove_file(directory_fd, _DRAFT, draft)
    fd = create_file(directory_fd, _DRAFT, draft, access)
    try:
        write_at(fd, json.dumps(asdict(joining)).encode(), 0, draft)
        sync(fd, draft)
    finally:
        os.close(fd)
    rename_file(directory_fd, _DRAFT, JOINING_FILE, os.path.join(path, JOINING_FILE))


def remove_joining(directory_fd: int, path: str) -> None:
    """Take the marker away.  Not durable: should it be there again, it still says what is so."""
    remove_file(directory_fd, JOINING_FILE, os.path.join(path, JOINING_FILE))


def open_before(directory_fd: int, path: str) -> int | None:
    """The open file behind which others lie that are not in the log yet, or never will be; None where there is none."""
    joining = read_joining(directory_fd, path)
    if joining is None or not _is_open(directory_fd, path, joining.after):
        return None
    return joining.after


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


def settle_joining(directory_fd: int, path: str, number: int, next_number: int) -> bool:
    """Whether it is decided that files join behind an open one, whose lock is held; where it is not, they are removed.

    number, next_number: of that file, as its header had them when whoever named them died, or failed.
    Durable on return.  Raises: AccessError, PoisonedError, CorruptError.
    """
    joining = read_joining(directory_fd, path)
    if joining is None or joining.after != number:
        return False
    if next_number == number + 1:
        return True
    # The marker goes behind them all: at any moment it says of all that are left what they are.
    for name in list_names(directory_fd, path):
        log_number = log_file_number(name)
        if log_number is not None and log_number in joining.numbers:
            _remove_or_keep(directory_fd, path, name, log_number)
        elif index_file_number(name) in joining.numbers:
            remove_file(directory_fd, name, os.path.join(path, name))
    sync_directory(directory_fd, path)
    remove_joining(directory_fd, path)
    sync_directory(directory_fd, path)
    return False


def _remove_or_keep(directory_fd: int, path: str, name: str, number: int) -> None:
    """Remove a file that was never in the log; where another program has appended to it, set it aside as a whole."""
    at = os.path.join(path, name)
    fd = open_file(directory_fd, name, at, writable=False)
    try:
        tail, own_tail = (int.from_bytes(read_at(fd, 8, offset, at), "big") for offset in (_TAIL, _OWN_TAIL))
    finally:
        os.close(fd)
    if tail > own_tail:
        rename_file(directory_fd, name, damaged_file_name(number, 0, tail), at)
    else:
        remove_file(directory_fd, name, at)


def remove_left_joining(directory_fd: int, path: str, number: int) -> None:
    """Remove a marker that was left behind of an earlier file than `number`.  The open file's lock is held."""
    joining = read_joining(directory_fd, path)
    if joining is not None and joining.after < number:
        remove_joining(directory_fd, path)
