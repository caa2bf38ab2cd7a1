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
    PAGE_COMPLETE: all messages of a page were acknowledged, and it is being removed.  COMMIT_MARKER: which transactions
    of a page were committed, in place of their own records.
    """

    PAGE_TRANSACTION = 35
    LAST_PAGE = 36
    PAGE_COMPLETE = 42
    COMMIT_MARKER = 43


PAGE_TRANSACTION = Layout(
    "page_transaction",
    "The body of a record of type 35: a transaction was committed",
    size=12,
    fields=(
        Field("tx_id", "i64", "the transaction"),
        Field("count", "i32", "so many messages and acknowledgements of it are left in pages"),
    ),
)
PAGE_REFERENCE = Layout(
    "page_reference",
    "What the body of a record of type 36 or 42 begins with: the address follows, UTF-8",
    size=8,
    fields=(Field("page_id", "i64", "36: the last page that was depaged; 42: a page that is complete"),),
)

COMMIT_MARKER = Layout(
    "commit_marker",
    "What the body of a record of type 43 begins with: the ids of so many transactions follow, and the address, UTF-8",
    size=12,
    fields=(
        Field("page_id", "i64", "a page of which all transactions were committed but these"),
        Field("tx_count", "u32", "so many"),
    ),
)
_TX_BYTES = 8


class PageReference(NamedTuple):
    """A page of an address.

    identity: of a page of JBoss Messaging's layout, what tells it from others of its number; no address has a zero.
    """

    page_id: int
    address: str
    identity: bytes = b""

    def pack(self) -> bytes:
        """The body of its record."""
        body = PAGE_REFERENCE.pack({"page_id": self.page_id}) + self.address.encode()
        return body + b"\0" + self.identity if self.identity else body


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


def parse_page_reference(body: bytes, record_id: int) -> PageReference:
    """The page and its address.  Raises: CorruptError."""
    try:
        address, _, identity = body[PAGE_REFERENCE.size :].partition(b"\0")
        return PageReference(PAGE_REFERENCE.unpack(body)["page_id"], address.decode(), identity)
    except (struct.error, UnicodeDecodeError):
        raise CorruptError(f"record {record_id}", 0, "page_reference", "it names no page of an address") from None


class CommitMarker(NamedTuple):
    """A page of an address whose transactions have ended.  rolled_back: those that were not committed."""

    page_id: int
    address: str
    rolled_back: frozenset[int]

    def pack(self) -> bytes:
        """The body of its record."""
        head = COMMIT_MARKER.pack({"page_id": self.page_id, "tx_count": len(self.rolled_back)})
        return head + struct.pack(f">{len(self.rolled_back)}q", *sorted(self.rolled_back)) + self.address.encode()


def parse_commit_marker(body: bytes, record_id: int) -> CommitMarker:
    """What a page says of its transactions.  Raises: CorruptError."""
    try:
        head = COMMIT_MARKER.unpack(body)
        address_at = COMMIT_MARKER.size + head["tx_count"] * _TX_BYTES
        if address_at > len(body):
            raise ValueError
        ids = struct.unpack_from(f">{head['tx_count']}q", body, COMMIT_MARKER.size)
        return CommitMarker(head["page_id"], body[address_at:].decode(), frozenset(ids))
    except (struct.error, ValueError):
        raise CorruptError(
            f"record {record_id}", 0, "commit_marker", "it says nothing of a page's transactions"
        ) from None
