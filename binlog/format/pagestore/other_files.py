"""The other files of a page store: delivery counts, durable subscribers, swap files, and file names.

The file of delivery counts has a header, and one record for each delivery.  A record applies to the message with this
key in this queue, if it starts at this page.  The record with the largest count is valid.  No record crosses a sector.

A durable subscriber has a file of its own: a JSON object with a checksum.

A swap file has messages in SwiftMQ's layout: size, delivery count, and body.

The file names are those of SwiftMQ; the two maps of free pages are ours.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

from binlog.errors import CorruptError, VersionError
from binlog.format.checksums import crc32c
from binlog.format.layout import Field, Layout

VERSION = 1
_MAGIC = b"BINLOGPV"
SALT_BYTES = 8
COUNT_MAX = (1 << 31) - 1

PAGESTORE_DELIVERIES = Layout(
    "pagestore_deliveries",
    "The header of the file of delivery counts",
    size=32,
    fields=(
        Field("magic", "bytes:8", "`BINLOGPV`", const=_MAGIC),
        Field("version", "u32", "a reader refuses a version it does not know", const=VERSION),
        Field("reserved", "u64", "0", const=0),
        Field("salt", f"bytes:{SALT_BYTES}", "random bytes of this file; the CRC of each record includes them"),
        Field("crc", "u32", "CRC-32C of 0..27"),
    ),
)
PAGESTORE_DELIVERY = Layout(
    "pagestore_delivery",
    "A delivery of a message",
    size=32,
    fields=(
        Field("queue_page", "u32", "first page of the queue's index"),
        Field("message_page", "u32", "first page of the message"),
        Field("key", "i64", "key of the message in its queue"),
        Field("count", "u32", "how often it was delivered, including this time"),
        Field("reserved", "u64", "0", const=0),
        Field("crc", "u32", "CRC-32C of the file's salt, the offset of this record (u64), and the fields above"),
    ),
)
_SALT_AND_OFFSET = struct.Struct(f">{SALT_BYTES}sQ")
_RECORD = struct.Struct(">IIqIQ")
_CRC = struct.Struct(">I")


class DeliveryCount(NamedTuple):
    """A message, and how often it was delivered."""

    queue_page: int
    message_page: int
    key: int
    delivery_count: int


def pack_deliveries_start(salt: bytes) -> bytes:
    """Return the header of a file of delivery counts."""
    data = PAGESTORE_DELIVERIES.pack({"salt": salt, "crc": 0})[:-4]
    return data + _CRC.pack(crc32c(data))


def pack_delivery_count(delivery: DeliveryCount, salt: bytes, offset: int) -> bytes:
    """Return the bytes of a record at this offset."""
    data = _RECORD.pack(*delivery, 0)
    return data + _CRC.pack(crc32c(data, crc32c(_SALT_AND_OFFSET.pack(salt, offset))))


def parse_deliveries(data: bytes) -> Iterator[DeliveryCount]:
    """Yield the valid records in order; none if the header is not valid."""
    salt = data[PAGESTORE_DELIVERIES.offset("salt") : PAGESTORE_DELIVERIES.offset("crc")]
    if len(salt) != SALT_BYTES or data[: PAGESTORE_DELIVERIES.size] != pack_deliveries_start(salt):
        return
    size = PAGESTORE_DELIVERY.size
    for offset in range(PAGESTORE_DELIVERIES.size, len(data) - size + 1, size):
        *fields, _ = _RECORD.unpack_from(data, offset)
        delivery = DeliveryCount(*fields)
        if data[offset : offset + size] == pack_delivery_count(delivery, salt, offset):
            yield delivery


SUBSCRIBER_EXTENSION = ".durable"
_VERSION = 1
_DOT = ord(".")
_NAME_DIGITS = 40
# An escaped name never has this character, or a tilde.
_SEPARATOR = "$"
_NAME_CHARACTERS_MAX = 200
_PREFIX_CHARACTERS = 120
_UNESCAPED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")


class DurableSubscriber(NamedTuple):
    """A durable subscriber: it gets the messages of a topic, including those that are sent while it is not connected.

    client_id, name: identify it.  selector: selects the messages that it gets, None for all.
    no_local: exclude messages of its own connection.
    """

    client_id: str
    name: str
    topic: str
    selector: str | None = None
    no_local: bool = False

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return subscriber_file_name(self.client_id, self.name)

    def pack(self) -> bytes:
        """Return the bytes of its file."""
        values = {"version": _VERSION, **self._asdict()}
        return json.dumps({**values, "crc": _crc(values)}, indent=1).encode() + b"\n"


def subscriber_file_name(client_id: str, name: str) -> str:
    """Return the file name of a subscriber; no two subscribers have the same.

    It has both names, escaped; if they are too long, a prefix of them and a hash.
    """
    text = f"{_escaped(client_id)}{_SEPARATOR}{_escaped(name)}"
    if len(text) > _NAME_CHARACTERS_MAX:
        key = json.dumps([client_id, name]).encode()
        text = f"{text[:_PREFIX_CHARACTERS]}~{hashlib.sha256(key).hexdigest()[:_NAME_DIGITS]}"
    return text + SUBSCRIBER_EXTENSION


def _escaped(text: str) -> str:
    """Escape all characters that are not plain, and a leading dot, as %XX of their UTF-8 bytes."""
    data = text.encode("utf-8", "surrogatepass")
    return "".join(
        chr(byte) if byte in _UNESCAPED and (index or byte != _DOT) else f"%{byte:02X}"
        for index, byte in enumerate(data)
    )


def parse_subscriber(data: bytes, file_name: str, path: str) -> DurableSubscriber:
    """Parse the bytes of a subscriber's file.  Raises: CorruptError; VersionError."""
    try:
        values = json.loads(data)
        version = values.pop("version")
        if version != _VERSION:
            raise VersionError(
                f"{path}: version {version}; this release reads version {_VERSION}", found=version, known=(_VERSION,)
            )
        crc = values.pop("crc")
        found = DurableSubscriber(**values)
        is_right = crc == _crc({"version": version, **values}) and found.file_name == file_name
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptError(path, 0, "subscriber", f"the file has no subscriber: {error}") from None
    if not is_right:
        raise CorruptError(path, 0, "subscriber", "the file is damaged, or belongs to another subscriber")
    return found


def _crc(values: dict[str, object]) -> int:
    return crc32c(json.dumps(values, sort_keys=True).encode())


SWAP_EXTENSION = ".swap"
_NAME_BYTES_MAX = 200

SWAP_RECORD = Layout(
    "swap_record",
    "The head of a message in a swap file",
    size=8,
    fields=(
        Field("message_bytes", "u32", "size of the message, which follows"),
        Field("delivery_count", "i32", "how often it was delivered and returned"),
    ),
)


def swap_name(queue: str, number: int) -> str:
    """Return the name of a queue's swap file, such as `orders-7.swap`; special characters are URL-escaped.

    A long queue name is truncated.  Several queues may then have the same prefix; their numbers differ.
    """
    return f"{quote(queue, safe=' ,;=@$&+!()')[:_NAME_BYTES_MAX].lstrip('.') or '_'}-{number}{SWAP_EXTENSION}"


def is_swap_name(name: str) -> bool:
    """Whether this is the name of a swap file."""
    return re.fullmatch(r".+-\d+\.swap", name, re.ASCII | re.DOTALL) is not None


PAGE_FILE = "page.db"
LOG_FILE = "transaction.log"
LOCK_FILE = "pagestore.lock"
DELIVERIES_FILE = "messages.given"
# Extension of a file that is being written; it is renamed when it is complete.
NEW_EXTENSION = ".new"
# Extension of the pages of an unfinished backup.
BACKUP_EXTENSION = ".backup"
# For even generations, and for odd ones.
MAP_FILES = ("pages-0.free", "pages-1.free")


def map_name(generation: int) -> str:
    """Return the name of the map at the start of a generation."""
    return MAP_FILES[generation % len(MAP_FILES)]
