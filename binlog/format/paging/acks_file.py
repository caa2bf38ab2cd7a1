"""The file beside a page that says which of its messages were acknowledged: a header, and records of 24 bytes.

Its CRCs go over the page's salt, so that no acknowledgement counts for another page.
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
# So much reaches the disk as a whole, or not at all.
SECTOR_BYTES = 512

ACKS_HEADER = Layout(
    "acks_header",
    "The header of a file of acknowledgements",
    size=32,
    fields=(
        Field("magic", "bytes:8", "`BINLOGPA`", const=_MAGIC),
        Field("version", "u32", "a reader refuses a version it does not know", const=VERSION),
        Field("page_id", "u64", "of the page whose messages are acknowledged"),
        Field("salt", f"bytes:{SALT_BYTES}", "of that page; see below for a page of `jbm`"),
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
        Field("first", "u32", "the first message of those that follow one another: 0 is the page's first"),
        Field("message_count", "u32", "so many messages"),
        Field("tx_id", "i64", f"it counts where this transaction was committed; {NO_TRANSACTION} for none, and always"),
        Field(
            "crc", "u32", "CRC-32C of the page's salt, of this record's offset (u64), and of what stands here before"
        ),
    ),
)
_CRC_OFFSET = ACK_RECORD.offset("crc")
_SALT_AND_OFFSET = struct.Struct(">8sQ")


class Ack(NamedTuple):
    """That messages of a page that follow one another were acknowledged, if `tx_id` was committed."""

    first: int
    message_count: int
    tx_id: int = NO_TRANSACTION


class FoundAcks(NamedTuple):
    """What is in a file of acknowledgements.

    end: where the next one goes, 0 where there is no header of the page.  problems: told of what is damaged.
    """

    acks: list[Ack]
    end: int
    problems: list[Problem]


def pack_acks_header(page_id: int, salt: bytes) -> bytes:
    """The header of the acknowledgements of a page."""
    data = ACKS_HEADER.pack({"page_id": page_id, "salt": salt, "crc": 0})[:-4]
    return data + crc32c(data).to_bytes(4, "big")


def pack_ack(ack: Ack, salt: bytes, offset: int) -> bytes:
    """The acknowledgement as it lies at the offset `at`."""
    data = ACK_RECORD.pack({**ack._asdict(), "crc": 0})[:_CRC_OFFSET]
    return data + crc32c(data, crc32c(_SALT_AND_OFFSET.pack(salt, offset))).to_bytes(4, "big")


def parse_acks(data: bytes, page_id: int, salt: bytes, path: str) -> FoundAcks:
    """What is in a file of acknowledgements of a page, whose bytes are `data`.

    Behind one that is damaged the others count: each says by itself of which page it is, and where it lies.
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
        return Problem(path, 0, "version", f"version {found['version']}; {VERSION} is known")
    return Problem(path, 0, "acks_header", "these are no acknowledgements of the page")


def _is_left_by_crash(data: bytes, offset: int) -> bool:
    """Whether a sector with some of it never reached the disk as it was written last: zeros are there up to its end."""
    next_at = offset - offset % SECTOR_BYTES + SECTOR_BYTES
    if not any(data[offset:next_at]):
        return True
    return offset + ACK_RECORD.size > next_at and not any(data[next_at : next_at + SECTOR_BYTES])


def _add_damage(problems: list[Problem], path: str, offset: int) -> None:
    end = offset + ACK_RECORD.size
    if problems and problems[-1].end == offset:
        problems[-1] = problems[-1]._replace(end=end)
    else:
        problems.append(Problem(path, offset, "ack_record", "an acknowledgement is not what was written", end))
