"""How a journal is kept."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from binlog.format.journal.file_header import ALIGNMENT_MAX, JournalLayout
from binlog.format.journal.names import JournalNames
from binlog.format.values import coerce_options

FILE_BYTES_MIN = 1024


class Sync(enum.Enum):
    """When a call returns.

    WAIT: once its record, and all before, are on the disk.  FUTURE: at once, with a future that is done then.
    LATER: at once; a process that dies loses what it appended in the last few milliseconds, a power cut more.
    """

    WAIT = "wait"
    FUTURE = "future"
    LATER = "later"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalOptions:
    """How a journal is kept; what JBoss Messaging and its heirs do unless told.

    file_bytes: of a new file.  files_min: there are always so many.  pool_files: dead files are kept for reuse while
    there are fewer files than that; None for all.
    prefix, extension: of the files' names.  layout: of a new journal ours, of an old one what its files say; the oldest
    one is only read, and must be named.  alignment: in JBoss Messaging's layouts, what is written together begins at a
    multiple of so many bytes, of which two fit in a file.
    flush_seconds: a thread of the journal writes what nobody waits for after so long, or once it has buffer_bytes; at
    four times as much an append waits for the write.
    compact_files_min, compact_ratio: files are compacted from so many on, where less than that part of them is alive;
    0 files for never.
    """

    file_bytes: int = 10 << 20
    files_min: int = 2
    pool_files: int | None = None
    prefix: str = "journal"
    extension: str = "jnl"
    layout: JournalLayout | None = None
    alignment: int = 1
    buffer_bytes: int = 490 << 10
    flush_seconds: float = 1 / 300
    compact_files_min: int = 10
    compact_ratio: float = 0.30

    def __post_init__(self) -> None:
        """Take words for a layout, sizes and times too.  Raises: TypeError, ValueError."""
        coerce_options(self, layout=JournalLayout)
        wrong = {
            "file_bytes": self.file_bytes < FILE_BYTES_MIN or self.file_bytes >= 1 << 31,
            "alignment": not 1 <= self.alignment <= min(ALIGNMENT_MAX, self.file_bytes // 2)
            or bool(self.file_bytes % self.alignment),
            "files_min": self.files_min < 2,
            "pool_files": self.pool_files is not None and self.pool_files < 0,
            "prefix": not self.prefix or "/" in self.prefix or self.prefix.startswith("."),
            "extension": not self.extension or "/" in self.extension,
            "buffer_bytes": self.buffer_bytes < 1,
            "flush_seconds": not 0 < self.flush_seconds < 3600,
            "compact_files_min": self.compact_files_min < 0,
            "compact_ratio": not 0 <= self.compact_ratio <= 1,
        }
        if bad := [f"{name}={getattr(self, name)!r}" for name, is_bad in wrong.items() if is_bad]:
            raise ValueError(f"no journal can be kept so: {', '.join(bad)}")

    @property
    def names(self) -> JournalNames:
        """How its files are named."""
        return JournalNames(self.prefix, self.extension)
