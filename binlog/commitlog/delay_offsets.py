"""Which message of each delay level goes on next, in the file in which RocketMQ's ScheduleMessageService keeps it."""

from __future__ import annotations

import json
import os
import re

from binlog.errors import NotFoundError
from binlog.format.commitlog.names import CONFIG_FOLDER, DELAY_OFFSETS_FILE
from binlog.storage.files import (
    content_bytes,
    create_file,
    make_subfolder,
    open_directory,
    open_file,
    read_at,
    remove_file,
    rename_file,
    sync,
    sync_parent,
    write_at,
)

_TABLE = "offsetTable"
_DRAFT = DELAY_OFFSETS_FILE + ".tmp"
# RocketMQ writes numbers as names without quotes.
_BARE_NAME = re.compile(r"([{,]\s*)(\d+)(\s*:)")


class DelayOffsets:
    """The file of the store in `path`.  Its folder is made where it is missing."""

    def __init__(self, path: str) -> None:
        folder = os.path.join(path, CONFIG_FOLDER)
        make_subfolder(folder)
        self._path = os.path.join(folder, DELAY_OFFSETS_FILE)
        self._directory_fd = open_directory(folder)
        try:
            sync_parent(self._directory_fd, folder)
        except BaseException:
            self.close()
            raise

    def read(self) -> dict[int, int]:
        """By level.  Of a level that is not there, or where the file is none of ours, nothing is known."""
        try:
            fd = open_file(self._directory_fd, DELAY_OFFSETS_FILE, self._path, writable=False)
        except NotFoundError:
            return {}
        try:
            text = read_at(fd, content_bytes(fd), 0, self._path).decode("utf-8", "replace")
        finally:
            os.close(fd)
        try:
            table = json.loads(_BARE_NAME.sub(r'\1"\2"\3', text))[_TABLE]
            return {int(level): int(offset) for level, offset in table.items()}
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return {}

    def write(self, offsets: dict[int, int]) -> None:
        """Durable on return.  Raises: AccessError, FullError, PoisonedError."""
        remove_file(self._directory_fd, _DRAFT, self._path)
        fd = create_file(self._directory_fd, _DRAFT, self._path)
        try:
            write_at(fd, json.dumps({_TABLE: offsets}).encode(), 0, self._path)
            sync(fd, self._path)
        finally:
            os.close(fd)
        rename_file(self._directory_fd, _DRAFT, DELAY_OFFSETS_FILE, self._path)

    def close(self) -> None:
        """Give its descriptor back."""
        fd, self._directory_fd = self._directory_fd, -1
        if fd >= 0:
            os.close(fd)
