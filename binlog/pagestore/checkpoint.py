"""A checkpoint: all pages come to the disk, and the log begins anew.

In this order, and each of it is on the disk before the next is begun:
1. the log, with all that was appended;
2. the pages that changed;
3. the map of free pages for the next generation, in the one of the two files that the present one does not need;
4. the header of the log, in one sector, with the next generation and its salt.
Until the last step recovery finds the present generation, whole; from then on it finds the next one, empty.
"""

from __future__ import annotations

import os
import time

from binlog.format.pagestore.free_map import FreeMap
from binlog.format.pagestore.log import SALT_BYTES, LogStart
from binlog.format.pagestore.names import LOG_FILE, map_name
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors
from binlog.storage.files import sync, write_at


def next_start(page_bytes: int, generation: int) -> LogStart:
    """The header of a generation that nobody has begun yet."""
    return LogStart(page_bytes, generation, os.urandom(SALT_BYTES), time.time_ns())


def begin_generation(directory: Directory, log_fd: int, start: LogStart, states: bytes) -> None:
    """The last two steps of a checkpoint.  Raises: FullError; AccessError; PoisonedError."""
    name = map_name(start.generation)
    path = directory.file_path(name)
    with directory.opened(name, writable=True) as fd:
        data = FreeMap(start.page_bytes, start.generation, start.salt, states).pack()
        write_at(fd, data, 0, path)
        with own_errors(path, "cutting off what lies behind a map"):
            os.ftruncate(fd, len(data))
        sync(fd, path)
    path = directory.file_path(LOG_FILE)
    write_at(log_fd, start.pack(), 0, path)
    sync(log_fd, path)
