"""Options of a journal."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from binlog.format.journal.file_header import ALIGNMENT_MAX, JournalLayout
from binlog.format.journal.names import JournalNames
from binlog.format.values import coerce_options

FILE_BYTES_MIN = 1024


class Sync(enum.Enum):
    """When a call returns.

    WAIT: when its record, and all records before it, are durable.
    FUTURE: at once, with a future that is done at that time.
    LATER: at once.  If the process dies, records of the last few milliseconds are lost; in a power cut, more.
    """

    WAIT = "wait"
    FUTURE = "future"
    LATER = "later"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalOptions:
    """How a journal uses its files.  The defaults are those of JBoss Messaging and its successors.

    file_bytes: size of a new file.  files_min: the journal never has fewer files.
    pool_files: dead files are kept for reuse while the journal has fewer files than this; None: always.
    prefix, extension: of the names of files.
    layout: of a new journal, native by default.  The layout of an existing one is read from its files; name it if its
    records fit several layouts of JBoss Messaging's.
    alignment: in JBoss Messaging's layouts, each write begins at a multiple of this many bytes; at most half of a file.
    buffer_bytes, flush_seconds: a worker writes records that no caller waits for once there are this many bytes of
    them, or after this time.  At four times buffer_bytes an append waits for the write.
    compact_files_min, compact_ratio: the journal compacts once this many files have records, and less than this part of
    their bytes is live; 0 files: never.
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
        """Convert a layout, sizes and times given as words.  Raises: TypeError, ValueError."""
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
            raise ValueError(f"invalid options of a journal: {', '.join(bad)}")

    @property
    def names(self) -> JournalNames:
        """The names of its files."""
        return JournalNames(self.prefix, self.extension)
