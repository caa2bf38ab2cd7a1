"""What a query's filters say of its records, so that what none of them can pass is neither read nor sent."""

from __future__ import annotations

from typing import ClassVar

from binlog.journal import FileSurvey
from binlog.spark.filters import ANY, Filters
from binlog.spark.journal.names import NAMES

NUMBERS = ("id", "transaction", "offset")


class WantedRecords(Filters):
    """Which records are wanted of a journal."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("file", "file_id", *NUMBERS, *NAMES)

    def asks(self, column: str) -> bool:
        """Whether a filter says anything of a column."""
        return self.of(column) != ANY

    def named(self, column: str) -> bytes:
        """For each byte of a column that has names, 1 where a record with it may be wanted, and 0 elsewhere.

        As `bytes.translate` takes it.
        """
        asks = self.asks(column)
        return bytes(not asks or (name is not None and self.allow(column, name)) for name in NAMES[column])

    def anything_of(self, file: FileSurvey) -> bool:
        """Whether any record of a file may be wanted."""
        return (
            self.allow("file", file.part.name)
            and self.allow("file_id", file.part.header.file_id)
            and self._overlaps("id", file.record_ids)
            and self._overlaps("transaction", file.tx_ids)
            and any(file.kinds.translate(self.named("kind")))
            and any(file.states.translate(self.named("state")))
        )

    def _overlaps(self, column: str, there: tuple[int, int]) -> bool:
        """Whether anything from one number to another may be wanted."""
        lowest, highest = self.of(column)
        return (lowest is None or lowest <= there[1]) and (highest is None or highest >= there[0])
