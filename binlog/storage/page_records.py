"""Messages of pages by the compiled code: see binlog/format/paging/page_record.py for the plain way to say it."""

from __future__ import annotations

import enum
import sys
from typing import NamedTuple

from binlog.storage.native import AckWriter, PageWriter, scan_page

__all__ = ["AckWriter", "Mark", "Refusal", "PageScan", "PageWriter", "ScanStop", "WriterState", "scan"]


class ScanStop(enum.IntEnum):
    """Why a scan ended."""

    SHORT = 0  # the data end, or end within a record
    END = 1  # what ends a page
    INVALID = 2  # this is no record
    ENOUGH = 3  # so many were asked for


class Mark(enum.IntEnum):
    """What an AckWriter knows of a message.  PENDING: a transaction that has not ended acknowledged it."""

    NONE = 0
    DONE = 1
    PENDING = 2


class Refusal(enum.IntEnum):
    """Why an AckWriter appended nothing.

    TWICE: a message was acknowledged before.  LIMIT: the page has fewer messages, as far as is known.
    FAILURE: there is no file, or a write failed.
    """

    TWICE = -1
    LIMIT = -2
    FAILURE = -3


class PageScan(NamedTuple):
    """Messages that follow one another.

    tx_ids: as many ids of transactions, or None where no message has one.  consumed: bytes that the messages take, and
    those that were skipped.
    """

    messages: list[bytes]
    tx_ids: list[int] | None
    consumed: int
    stop: int
    skipped: int


class WriterState(NamedTuple):
    """How a PageWriter is.

    at: where the last message ends.  message_bytes: of the messages alone.  failure: errno of a write that failed, 0.
    """

    at: int
    message_count: int
    message_bytes: int
    closed: int
    failure: int


def scan(data: bytes, at: int, salt: bytes, *, skip: int = 0, count_max: int = sys.maxsize) -> PageScan:
    """The messages in `data`, which lie at the offset `at` of a page; a few of them where told so."""
    return PageScan(*scan_page(data, at, salt, skip, count_max))
