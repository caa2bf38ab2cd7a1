"""Records of a journal by the compiled functions: see binlog/format/journal/record.py for the plain way to say it."""

from __future__ import annotations

import struct

from binlog.format.journal.block import DATA_BYTES_MAX, HEAD_BYTES
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind, pack_record, unpack_counts
from binlog.storage.native import join_fragments, pack_journal

__all__ = ["join_fragments", "pack_journal", "pack_old", "record_room"]

# Of the longest head of a record, and of its check.
_ROOM = 64


def record_room(size: int) -> int:
    """How much room `pack_journal` wants for a record of `size` bytes, which may be without the heads of fragments."""
    return size + _ROOM + HEAD_BYTES * (size // DATA_BYTES_MAX + 4)


def pack_old(
    buffer: bytearray, place: int, file_id: int, salt: bytes, at: int, kind: int,
    tx_id: int, record_id: int, user_type: int, body: bytes, counts: bytes,
) -> int:  # fmt: skip
    """As `pack_journal`, in the layout that JBoss Messaging had until September 2008."""
    del salt
    header = FileHeader(JournalLayout.JBM_2008_07, file_id)
    try:
        record = JournalRecord(Kind(kind), tx_id, record_id, user_type, body, tuple(unpack_counts(counts)))
        data = pack_record(record, header, at)
    except struct.error as error:
        raise OverflowError(str(error)) from error
    buffer[place : place + len(data)] = data
    return place + len(data)
