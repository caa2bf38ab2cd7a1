"""Records of a journal whose types have the numbers of JBoss Messaging of 2008, when they meant something else."""

from __future__ import annotations

from collections.abc import Iterable

from binlog.errors import CorruptError, VersionError
from binlog.format.paging.store_records import StoreRecord, parse_page_transaction
from binlog.paging.transaction_store import StoredRecord

# From September 2008 to January 2009 a page transaction was 34, and 35 the last page that was depaged.  After that 34
# is an update of a message, which says how often it was delivered.
_PAGE_TRANSACTION_OF_2008 = 34


def refuse_other_numbers(records: Iterable[StoredRecord]) -> None:
    """Refuse records that were numbered in 2008: their transactions would be taken for such as were never committed.

    records: each update of one comes behind it.
    Raises: VersionError.
    """
    added: set[int] = set()
    for record in records:
        is_added = record.record_id not in added
        added.add(record.record_id)
        is_transaction = _is_transaction(record)
        if is_added and (
            (record.user_type == _PAGE_TRANSACTION_OF_2008 and is_transaction)
            or (record.user_type == StoreRecord.PAGE_TRANSACTION and not is_transaction)
        ):
            text = f"record {record.record_id}, of type {record.user_type}, is one of paging as it was numbered in 2008"
            raise VersionError(f"{text}; nothing was changed", found=2008, known=(2009,))


def _is_transaction(record: StoredRecord) -> bool:
    try:
        parse_page_transaction(record.body, record.record_id)
    except CorruptError:
        return False
    return True
