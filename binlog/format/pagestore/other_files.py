"""The file that says which messages of a page store were given: a header, and a record each time one is.

A record counts for the message that its queue has under its key, in the page that it says, and says how often that was
given then; the largest count is right.  No record lies in two sectors.

A durable subscriber, as it lies in a file of its own: an object of JSON, with a check.

A message in a swap file, as SwiftMQ lays it out: how long it is, how often it was delivered, and it.

The names of a page store's files: those of SwiftMQ's, and the two maps that ours has.
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
    "The header of the file of deliveries",
    size=32,
    fields=(
        Field("magic", "bytes:8", "`BINLOGPV`", const=_MAGIC),
        Field("version", "u32", "a reader refuses a version it does not know", const=VERSION),
        Field("reserved", "u64", "0", const=0),
        Field("salt", f"bytes:{SALT_BYTES}", "of this file, at random; goes into the CRCs of its records"),
        Field("crc", "u32", "CRC-32C of 0..27"),
    ),
)
PAGESTORE_DELIVERY = Layout(
    "pagestore_delivery",
    "That a message was given",
    size=32,
    fields=(
        Field("queue_page", "u32", "the first page of the queue's index"),
        Field("message_page", "u32", "the first page of the message"),
        Field("key", "i64", "of the message in its queue"),
        Field("count", "u32", "how often it was given, this time too"),
        Field("reserved", "u64", "0", const=0),
        Field("crc", "u32", "CRC-32C of the file's salt, of this offset (u64), and of what stands here before"),
    ),
)
_SALT_AND_OFFSET = struct.Struct(f">{SALT_BYTES}sQ")
_RECORD = struct.Struct(">IIqIQ")
_CRC = struct.Struct(">I")


class DeliveryCount(NamedTuple):
    """A message that was given so often."""

    queue_page: int
    message_page: int
    key: int
    delivery_count: int


def pack_deliveries_start(salt: bytes) -> bytes:
    """The header of a file."""
    data = PAGESTORE_DELIVERIES.pack({"salt": salt, "crc": 0})[:-4]
    return data + _CRC.pack(crc32c(data))


def pack_delivery_count(delivery: DeliveryCount, salt: bytes, offset: int) -> bytes:
    """A record as it lies at the offset `at`."""
    data = _RECORD.pack(*delivery, 0)
    return data + _CRC.pack(crc32c(data, crc32c(_SALT_AND_OFFSET.pack(salt, offset))))


def parse_deliveries(data: bytes) -> Iterator[DeliveryCount]:
    """The records that are whole, in their order; none if the header is not."""
    salt = data[PAGESTORE_DELIVERIES.offset("salt") : PAGESTORE_DELIVERIES.offset("crc")]
    if len(salt) != SALT_BYTES or data[: PAGESTORE_DELIVERIES.size] != pack_deliveries_start(salt):
        return
    size = PAGESTORE_DELIVERY.size
    for offset in range(PAGESTORE_DELIVERIES.size, len(data) - size + 1, size):
        *fields, _ = _RECORD.unpack_from(data, offset)
        delivery = DeliveryCount(*fields)
        if data[offset : offset + size] == pack_delivery_count(delivery, salt, offset):
            yield delivery


SUBSCRIBER_END = ".durable"
_VERSION = 1
_DOT = ord(".")
_NAME_DIGITS = 40
# Nothing that is escaped has this, or a tilde.
_SEPARATOR = "$"
_NAME_CHARACTERS_MAX = 200
_PREFIX_CHARACTERS = 120
_UNESCAPED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")


class DurableSubscriber(NamedTuple):
    """Who wants the messages of a topic, also of the time while nobody is there.

    client_id, name: by which it is known.  selector: of the messages that it wants, None for all.
    no_local: it does not want those of its own connection.
    """

    client_id: str
    name: str
    topic: str
    selector: str | None = None
    no_local: bool = False

    @property
    def file_name(self) -> str:
        """Of its file."""
        return subscriber_file_name(self.client_id, self.name)

    def pack(self) -> bytes:
        """As it lies in its file."""
        values = {"version": _VERSION, **self._asdict()}
        return json.dumps({**values, "crc": _crc(values)}, indent=1).encode() + b"\n"


def subscriber_file_name(client_id: str, name: str) -> str:
    """Both, escaped, so that no two pairs give one name; the beginning of that and a hash, if it is too long."""
    text = f"{_escaped(client_id)}{_SEPARATOR}{_escaped(name)}"
    if len(text) > _NAME_CHARACTERS_MAX:
        key = json.dumps([client_id, name]).encode()
        text = f"{text[:_PREFIX_CHARACTERS]}~{hashlib.sha256(key).hexdigest()[:_NAME_DIGITS]}"
    return text + SUBSCRIBER_END


def _escaped(text: str) -> str:
    """Letters and digits of ASCII, and some others, as they are; the rest, and a first dot, as %XX of their UTF-8."""
    data = text.encode("utf-8", "surrogatepass")
    return "".join(
        chr(byte) if byte in _UNESCAPED and (index or byte != _DOT) else f"%{byte:02X}"
        for index, byte in enumerate(data)
    )


def parse_subscriber(data: bytes, file_name: str, path: str) -> DurableSubscriber:
    """The subscriber that a file has.  Raises: CorruptError; VersionError."""
    try:
        values = json.loads(data)
        version = values.pop("version")
        if version != _VERSION:
            raise VersionError(f"{path}: version {version}; {_VERSION} is known", found=version, known=(_VERSION,))
        crc = values.pop("crc")
        found = DurableSubscriber(**values)
        is_right = crc == _crc({"version": version, **values}) and found.file_name == file_name
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptError(path, 0, "subscriber", f"it holds no subscriber: {error}") from None
    if not is_right:
        raise CorruptError(path, 0, "subscriber", "it is not what was written, or another one's file")
    return found


def _crc(values: dict[str, object]) -> int:
    return crc32c(json.dumps(values, sort_keys=True).encode())


SWAP_END = ".swap"
_NAME_BYTES_MAX = 200

SWAP_RECORD = Layout(
    "swap_record",
    "What comes before a message in a swap file",
    size=8,
    fields=(
        Field("message_bytes", "u32", "of the message, which follows"),
        Field("delivery_count", "i32", "so often it was given, and came back"),
    ),
)


def swap_name(queue: str, number: int) -> str:
    """The name of a queue's swap file: `orders-7.swap`; what no file name has of the queue's is as in a URL.

    Of a name that is too long the first part stands for it, which several queues may have: their numbers differ.
    """
    return f"{quote(queue, safe=' ,;=@$&+!()')[:_NAME_BYTES_MAX].lstrip('.') or '_'}-{number}{SWAP_END}"


def is_swap_name(name: str) -> bool:
    """Whether it is one of a swap file."""
    return re.fullmatch(r".+-\d+\.swap", name, re.ASCII | re.DOTALL) is not None


PAGE_FILE = "page.db"
LOG_FILE = "transaction.log"
LOCK_FILE = "pagestore.lock"
DELIVERIES_FILE = "messages.given"
# Of a file that is being made; it is renamed once it is whole.
NEW_END = ".new"
# Of the pages of a backup that is being made.
BACKUP_END = ".backup"
# Of the generations with even numbers, and of the others.
MAP_FILES = ("pages-0.free", "pages-1.free")


def map_name(generation: int) -> str:
    """The name of the map of free pages that a generation of the log begins with."""
    return MAP_FILES[generation % len(MAP_FILES)]
