"""The records of paging in the transactional store; their types are those of HornetQ, if it has them."""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

from binlog.errors import CorruptError
from binlog.format.layout import Field, Layout


class StoreRecord(enum.IntEnum):
    """The type of a record.

    PAGE_TRANSACTION: a transaction was committed.  LAST_PAGE: the last page of an address that was depaged.
    PAGE_COMPLETE: all messages of a page were acknowledged, and it is being removed.  COMMIT_MARKER: which transactions
    of a page were committed; it replaces their own records.
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
        Field("tx_id", "i64", "transaction"),
        Field("count", "i32", "number of its messages and acknowledgements that are still in pages"),
    ),
)
PAGE_REFERENCE = Layout(
    "page_reference",
    "The start of the body of a record of type 36 or 42; the address follows, in UTF-8",
    size=8,
    fields=(Field("page_id", "i64", "36: last page that was depaged; 42: page whose messages are all acknowledged"),),
)

COMMIT_MARKER = Layout(
    "commit_marker",
    "The start of the body of a record of type 43; the transaction ids follow, and the address, in UTF-8",
    size=12,
    fields=(
        Field("page_id", "i64", "page in which all transactions were committed, except for those listed"),
        Field("tx_count", "u32", "number of transaction ids"),
    ),
)
_TX_BYTES = 8


class PageReference(NamedTuple):
    """A reference to a page of an address.

    identity: distinguishes a page in the layout of JBoss Messaging from others with its number.  A zero byte separates
    it from the address, which never has one.
    """

    page_id: int
    address: str
    identity: bytes = b""

    def pack(self) -> bytes:
        """Return the body of the record."""
        body = PAGE_REFERENCE.pack({"page_id": self.page_id}) + self.address.encode()
        return body + b"\0" + self.identity if self.identity else body


def pack_page_transaction(tx_id: int, count: int) -> bytes:
    """Return the body of a record of type 35."""
    return PAGE_TRANSACTION.pack({"tx_id": tx_id, "count": count})


def parse_page_transaction(body: bytes, record_id: int) -> tuple[int, int]:
    """Parse a transaction and its count.  Raises: CorruptError."""
    if len(body) != PAGE_TRANSACTION.size:
        raise CorruptError(
            f"record {record_id}", 0, "page_transaction", f"{len(body)} bytes are not a transaction and its count"
        )
    found = PAGE_TRANSACTION.unpack(body)
    if found["count"] < 1:
        raise CorruptError(f"record {record_id}", 8, "page_transaction", f"the count is {found['count']}")
    return found["tx_id"], found["count"]


def parse_page_reference(body: bytes, record_id: int) -> PageReference:
    """Parse the page and its address.  Raises: CorruptError."""
    try:
        address, _, identity = body[PAGE_REFERENCE.size :].partition(b"\0")
        return PageReference(PAGE_REFERENCE.unpack(body)["page_id"], address.decode(), identity)
    except (struct.error, UnicodeDecodeError):
        raise CorruptError(
            f"record {record_id}", 0, "page_reference", "it does not name a page of an address"
        ) from None


class CommitMarker(NamedTuple):
    """The transactions of a page that were rolled back; all others in it were committed."""

    page_id: int
    address: str
    rolled_back: frozenset[int]

    def pack(self) -> bytes:
        """Return the body of the record."""
        head = COMMIT_MARKER.pack({"page_id": self.page_id, "tx_count": len(self.rolled_back)})
        return head + struct.pack(f">{len(self.rolled_back)}q", *sorted(self.rolled_back)) + self.address.encode()


def parse_commit_marker(body: bytes, record_id: int) -> CommitMarker:
    """Parse the commit marker of a page.  Raises: CorruptError."""
    try:
        head = COMMIT_MARKER.unpack(body)
        address_at = COMMIT_MARKER.size + head["tx_count"] * _TX_BYTES
        if address_at > len(body):
            raise ValueError
        ids = struct.unpack_from(f">{head['tx_count']}q", body, COMMIT_MARKER.size)
        return CommitMarker(head["page_id"], body[address_at:].decode(), frozenset(ids))
    except (struct.error, ValueError):
        raise CorruptError(f"record {record_id}", 0, "commit_marker", "it is not a commit marker") from None
