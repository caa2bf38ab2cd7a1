"""What paging records in the transactional store beside it, by the types of HornetQ where that has one."""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

from binlog.errors import CorruptError
from binlog.format.layout import Field, Layout


class StoreRecord(enum.IntEnum):
    """The user's type of a record.

    PAGE_TRANSACTION: a transaction was committed.  LAST_PAGE: up to which page an address was depaged.
    PAGE_COMPLETE: all messages of a page were acknowledged, and it is being removed.
    """

    PAGE_TRANSACTION = 35
    LAST_PAGE = 36
    PAGE_COMPLETE = 42


PAGE_TRANSACTION = Layout(
    "page_transaction",
    "The body of a record of type 35: a transaction was committed",
    size=12,
    fields=(
        Field("tx_id", "i64", "the transaction"),
        Field("count", "i32", "so many messages and acknowledgements of it are left in pages"),
    ),
)
PAGE_PLACE = Layout(
    "page_place",
    "What the body of a record of type 36 or 42 begins with: the address follows, UTF-8",
    size=8,
    fields=(Field("page_id", "i64", "36: the last page that was depaged; 42: a page that is complete"),),
)


class PagePlace(NamedTuple):
    """A page of an address."""

    page_id: int
    address: str

    def pack(self) -> bytes:
        """The body of its record."""
        return PAGE_PLACE.pack({"page_id": self.page_id}) + self.address.encode()


def pack_page_transaction(tx_id: int, count: int) -> bytes:
    """The body of a record of type 35."""
    return PAGE_TRANSACTION.pack({"tx_id": tx_id, "count": count})


def parse_page_transaction(body: bytes, record_id: int) -> tuple[int, int]:
    """The transaction and its count.  Raises: CorruptError."""
    if len(body) != PAGE_TRANSACTION.size:
        raise CorruptError(f"record {record_id}", 0, "page_transaction", f"{len(body)} bytes for a transaction's count")
    found = PAGE_TRANSACTION.unpack(body)
    if found["count"] < 1:
        raise CorruptError(f"record {record_id}", 8, "page_transaction", f"a count of {found['count']}")
    return found["tx_id"], found["count"]


def parse_page_place(body: bytes, record_id: int) -> PagePlace:
    """The page and its address.  Raises: CorruptError."""
    try:
        return PagePlace(PAGE_PLACE.unpack(body)["page_id"], body[PAGE_PLACE.size :].decode())
    except (struct.error, UnicodeDecodeError):
        raise CorruptError(f"record {record_id}", 0, "page_place", "it names no page of an address") from None
