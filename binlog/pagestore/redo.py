"""What a log's records make of pages.

The first action of a generation on a page has all of it, so that no page is read for this: one that was torn while it
was written at a checkpoint is made from the log alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from binlog.errors import CorruptError
from binlog.format.pagestore.log import Action, ActionKind, LogRecord
from binlog.format.pagestore.page import FREE_CONTENT, page_content_bytes
from binlog.pagestore.free_pages import FreePages


class Redo:
    """Pages by their numbers, as they are behind the last record; of a free one its content says so.

    pages: zeros may lack at the end of each.
    record_count: of those that were redone.  tx_id_max: the largest of their transactions.
    """

    def __init__(self, page_bytes: int, path: str) -> None:
        self.pages: dict[int, bytes | bytearray] = {}
        self.record_count = 0
        self.tx_id_max = 0
        self._content_bytes = page_content_bytes(page_bytes)
        self._path = path

    def add(self, records: Iterable[LogRecord]) -> None:
        """Redo them, which follow those that were redone.  Raises: CorruptError."""
        for record in records:
            for action in record.actions:
                self._do(action)
            self.record_count += 1
            self.tx_id_max = max(self.tx_id_max, record.tx_id)

    def is_free(self, number: int) -> bool:
        """Whether the page is free behind them."""
        return self.pages[number] is FREE_CONTENT

    def content(self, number: int) -> bytes | bytearray | None:
        """What a page holds behind them, with all its zeros unless it is free; None where they say nothing of it."""
        content = self.pages.get(number)
        if content is None or content is FREE_CONTENT:
            return content
        return content.ljust(self._content_bytes, b"\0")

    def mark(self, free: FreePages) -> None:
        """Have what is free be so.  Raises: CorruptError for a page that no store of these pages has; FullError.

        The lowest free page is used first, so that each page behind the map's last one has its own action in the log.
        """
        beyond = [number for number in self.pages if number >= free.page_count]
        if beyond and max(beyond) >= free.page_count + len(beyond):
            text = f"page {max(beyond)} changes, and the store has {free.page_count} and {len(beyond)} new ones"
            raise CorruptError(self._path, 0, "page", text)
        for number in sorted(self.pages):
            while number >= free.page_count:
                free.give(free.take_behind())
            if free.is_free(number) != self.is_free(number):
                if self.is_free(number):
                    free.give(number)
                else:
                    free.take_this(number)

    def _do(self, action: Action) -> None:
        kind, number, offset, data = action
        if kind == ActionKind.DELETE:
            self.pages[number] = FREE_CONTENT
        elif kind != ActionKind.PORTION:
            self.pages[number] = data
        else:
            content = self.pages.get(number, FREE_CONTENT)
            if content is FREE_CONTENT:
                text = f"a part of page {number} changes, and the log does not have the page"
                raise CorruptError(self._path, 0, "first_action", text)
            if not isinstance(content, bytearray):  # most pages are messages, of which no part changes
                content = self.pages[number] = bytearray(content.ljust(self._content_bytes, b"\0"))
            content[offset : offset + len(data)] = data
