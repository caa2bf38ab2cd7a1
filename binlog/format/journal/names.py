"""Names of journal files, in the scheme of JBoss Messaging: `prefix-number.extension`.

The number is the id of the file's first use; the name stays when the file is reused.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LOCK_FILE = "journal.lock"
CONTROL_FILE = "journal-rename-control.ctr"
QUARANTINE_FOLDER = "quarantine"
# Suffixes of a file that is being created, and of one that a compaction writes.
NEW_END = ".tmp"
COMPACTED_END = ".cmp"


class JournalNames(NamedTuple):
    """The names of the files of one journal."""

    prefix: str = "journal"
    extension: str = "jnl"

    def file(self, number: int) -> str:
        """Return the name of a file from the id of its first use."""
        return f"{self.prefix}-{number}.{self.extension}"

    def number(self, name: str) -> int | None:
        """Return the number in a name, or None if no file of this journal has such a name."""
        match = re.fullmatch(rf"{re.escape(self.prefix)}-(\d{{1,19}})\.{re.escape(self.extension)}", name, re.ASCII)
        return int(match[1]) if match else None

    def is_unfinished(self, name: str) -> bool:
        """Whether a file of this name was being created, or written by a compaction."""
        return name.endswith((NEW_END, COMPACTED_END)) and self.number(name[: -len(NEW_END)]) is not None
