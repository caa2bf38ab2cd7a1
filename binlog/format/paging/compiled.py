"""Messages of pages by the compiled functions; page_record.py is the plain way to say it."""

from __future__ import annotations

import enum
import sys
from typing import NamedTuple

from binlog._codec import scan_page


class ScanStop(enum.IntEnum):
    """Why a scan ended."""

    SHORT = 0  # the data end, or end within a record
    END = 1  # what ends a page
    INVALID = 2  # this is no record
    ENOUGH = 3  # so many were asked for


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


def scan(data: bytes, at: int, salt: bytes, *, skip: int = 0, count_max: int = sys.maxsize) -> PageScan:
    """The messages in `data`, which lie at the offset `at` of a page; a few of them where told so."""
    return PageScan(*scan_page(data, at, salt, skip, count_max))
