"""Whether the process that had a store before ended as it should.

As in RocketMQ the file `abort` is there from the first moment to the last of a clean stop.
"""

from __future__ import annotations

import os

from binlog.format.commitlog.names import ABORT_FILE
from binlog.storage.directory import Directory, OpenFile
from binlog.storage.files import write_at


def mark_begun(directory: Directory) -> bool:
    """Leave the marker that a clean stop removes, durably; whether one was left before."""
    is_new = directory.make(ABORT_FILE)
    with OpenFile(directory, ABORT_FILE, writable=True) as fd:
        write_at(fd, f"{os.getpid()}".encode(), 0, directory.file_path(ABORT_FILE))
    directory.sync()
    return not is_new


def mark_ended(directory: Directory) -> None:
    """All that was appended is on the disk, and the queues were told of it: remove the marker, durably."""
    directory.remove(ABORT_FILE)
    directory.sync()
