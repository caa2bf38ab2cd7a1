"""The file of acknowledgements beside a page: a header, and records of 24 bytes.

Its CRCs include the page's salt, so an acknowledgement never counts for another page.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from binlog.format.checksums import crc32c
from binlog.format.layout import Field, Layout
from binlog.format.paging.page_file import SALT_BYTES
from binlog.format.paging.page_record import NO_TRANSACTION
from binlog.format.problem import Problem

VERSION = 1
_MAGIC = b"BINLOGPA"
_MARKER = ord("(")
# A disk writes a sector whole or not at all.
SECTOR_BYTES = 512

ACKS_HEADER = Layout(
    "acks_header",
    "The header of a file of acknowledgements",
    size=32,
    fields=(
        Field("magic", "bytes:8", "`BINLOGPA`", const=_MAGIC),
        Field("version", "u32", "a reader refuses a version it does not know", const=VERSION),
        Field("page_id", "u64", "the page whose messages are acknowledged"),
        Field("salt", f"bytes:{SALT_BYTES}", "the salt of that page; for a page of `jbm`, see below"),
        Field("crc", "u32", "CRC-32C of 0..27"),
    ),
)
ACK_RECORD = Layout(
    "ack_record",
    "An acknowledgement",
    size=24,
    fields=(
        Field("marker", "u8", "`(`", const=_MARKER),
        Field("reserved", "bytes:3", "zeros", const=bytes(3)),
        Field("first", "u32", "number of the first acknowledged message; 0 is the page's first"),
        Field("message_count", "u32", "number of consecutive messages"),
        Field(
            "tx_id",
            "i64",
            f"the record counts only if this transaction was committed; {NO_TRANSACTION} for none (always counts)",
        ),
        Field("crc", "u32", "CRC-32C of the page's salt, this record's offset (u64), and the fields above"),
    ),
)
_CRC_OFFSET = ACK_RECORD.offset("crc")
_SALT_AND_OFFSET = struct.Struct(">8sQ")


class Ack(NamedTuple):
    """An acknowledgement of consecutive messages of a page.

    With a `tx_id` it counts only if that transaction was committed.
    """

    first: int
    message_count: int
    tx_id: int = NO_TRANSACTION


class FoundAcks(NamedTuple):
    """The contents of a file of acknowledgements.

    end: the offset of the next record, or 0 if the file has no header of the page.  problems: damage that was found.
    """

    acks: list[Ack]
    end: int
    problems: list[Problem]


def pack_acks_header(page_id: int, salt: bytes) -> bytes:
    """Return the header of the acknowledgements of a page."""
    data = ACKS_HEADER.pack({"page_id": page_id, "salt": salt, "crc": 0})[:-4]
    return data + crc32c(data).to_bytes(4, "big")


def pack_ack(ack: Ack, salt: bytes, offset: int) -> bytes:
    """Return the bytes of an acknowledgement at this offset."""
    data = ACK_RECORD.pack({**ack._asdict(), "crc": 0})[:_CRC_OFFSET]
    return data + crc32c(data, crc32c(_SALT_AND_OFFSET.pack(salt, offset))).to_bytes(4, "big")


def parse_acks(data: bytes, page_id: int, salt: bytes, path: str) -> FoundAcks:
    """Parse the bytes of a file of acknowledgements.

    Records after a damaged one count: the CRC of each covers its page's salt and its offset.
    """
    problem = _header_problem(data, pack_acks_header(page_id, salt), path)
    if problem is not None:
        return FoundAcks([], 0, [problem])
    if len(data) < ACKS_HEADER.size or not any(data):
        return FoundAcks([], 0, [])
    acks: list[Ack] = []
    problems: list[Problem] = []
    end = ACKS_HEADER.size
    for offset in range(end, len(data) - ACK_RECORD.size + 1, ACK_RECORD.size):
        found = ACK_RECORD.unpack(data, offset)
        ack = Ack(found["first"], found["message_count"], found["tx_id"])
        if data[offset : offset + ACK_RECORD.size] == pack_ack(ack, salt, offset):
            acks.append(ack)
        elif _is_left_by_crash(data, offset):
            continue
        else:
            _add_damage(problems, path, offset)
        end = offset + ACK_RECORD.size
    return FoundAcks(acks, end, problems)


def _header_problem(data: bytes, wanted: bytes, path: str) -> Problem | None:
    header = data[: ACKS_HEADER.size]
    if header == wanted or len(data) < ACKS_HEADER.size or not any(data):
        return None
    found = ACKS_HEADER.unpack(header)
    if found["magic"] == _MAGIC and found["version"] != VERSION and found["crc"] == crc32c(header[:-4]):
        return Problem(path, 0, "version", f"version {found['version']}; this release reads version {VERSION}")
    return Problem(path, 0, "acks_header", "these are not the acknowledgements of this page")


def _is_left_by_crash(data: bytes, offset: int) -> bool:
    """Whether a crash has left this record: zeros to the end of a sector whose last write never reached the disk."""
    next_at = offset - offset % SECTOR_BYTES + SECTOR_BYTES
    if not any(data[offset:next_at]):
        return True
    return offset + ACK_RECORD.size > next_at and not any(data[next_at : next_at + SECTOR_BYTES])


def _add_damage(problems: list[Problem], path: str, offset: int) -> None:
    end = offset + ACK_RECORD.size
    if problems and problems[-1].end == offset:
        problems[-1] = problems[-1]._replace(end=end)
    else:
        problems.append(Problem(path, offset, "ack_record", "an acknowledgement is damaged", end))
