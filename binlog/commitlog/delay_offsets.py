"""Which message of each delay level goes on next, in the file in which RocketMQ's ScheduleMessageService keeps it."""

from __future__ import annotations

import json
import os
import re

from binlog.format.commitlog.names import CONFIG_FOLDER, DELAY_OFFSETS_FILE
from binlog.storage.directory import Directory

_TABLE = "offsetTable"
_FILE = os.path.join(CONFIG_FOLDER, DELAY_OFFSETS_FILE)
_DRAFT = _FILE + ".tmp"
# RocketMQ writes numbers as names without quotes.
_BARE_NAME = re.compile(r"([{,]\s*)(\d+)(\s*:)")


class DelayOffsets:
    """The file of the store in a directory.  Its folder is made where it is missing."""

    def __init__(self, directory: Directory) -> None:
        directory.make_folder(CONFIG_FOLDER)
        self._directory = directory

    def read(self) -> dict[int, int]:
        """By level.  Of a level that is not there, or where the file is none of ours, nothing is known."""
        try:
            text = self._directory.read(_FILE).decode("utf-8", "replace")
            table = json.loads(_BARE_NAME.sub(r'\1"\2"\3', text))[_TABLE]
            return {int(level): int(offset) for level, offset in table.items()}
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return {}

    def write(self, offsets: dict[int, int]) -> None:
        """Durable on return.  Raises: AccessError, FullError, PoisonedError."""
        self._directory.write_new(_DRAFT, json.dumps({_TABLE: offsets}).encode())
        self._directory.rename(_DRAFT, _FILE)
