"""The names of a journal's files: `prefix-number.extension`, as JBoss Messaging gives them.

The number is the id of the file's first use; later uses leave the name as it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LOCK_FILE = "journal.lock"
CONTROL_FILE = "journal-rename-control.ctr"
QUARANTINE_FOLDER = "quarantine"
# Of a file that is being made, and of one that a compaction writes.
NEW_END = ".tmp"
COMPACTED_END = ".cmp"


class JournalNames(NamedTuple):
    """How the files of one journal are named."""

    prefix: str = "journal"
    extension: str = "jnl"

    def file(self, number: int) -> str:
        """The name of a file whose first use has this id."""
        return f"{self.prefix}-{number}.{self.extension}"

    def number(self, name: str) -> int | None:
        """The number in a name; None for what is no file of this journal."""
        found = re.fullmatch(rf"{re.escape(self.prefix)}-(\d{{1,19}})\.{re.escape(self.extension)}", name, re.ASCII)
        return int(found[1]) if found else None

    def is_unfinished(self, name: str) -> bool:
        """Whether it is of a file of this journal that was being made, or compacted, when its process ended."""
        return name.endswith((NEW_END, COMPACTED_END)) and self.number(name[: -len(NEW_END)]) is not None
