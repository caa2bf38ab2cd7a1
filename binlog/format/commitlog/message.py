"""The layout of a message: a fixed part, then body, topic and properties, each preceded by its length.

The fixed part contains two hosts, each with an IPv4 or IPv6 address.  The length of the topic takes one byte, or two in
version 2.  Two CRCs validate a message: one of the body, and one of everything before it.  The latter is a property of
20 bytes, always the last one; this engine writes it by default, RocketMQ if `enabledAppendPropCRC` is set.  Both CRCs
lack the highest bit, because RocketMQ keeps them in a Java int.
"""

from __future__ import annotations

import itertools
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from binlog.errors import CorruptError
from binlog.format.commitlog.message_parts import Host, message_id
from binlog.format.layout import Field, Layout

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
BLANK_MAGIC = 0xCBD43194

TOPIC_BYTES_V1_MAX = 127
TOPIC_BYTES_MAX = 2**15 - 1
PROPERTIES_BYTES_MAX = 2**15 - 1
MESSAGE_BYTES_MAX = 2**31 - 1
QUEUE_ID_MAX = 2**31 - 1
CRC_MASK = 0x7FFFFFFF

# Bits of the system flag.
COMPRESSED = 1
MULTIPLE_TAGS = 1 << 1
TRANSACTION = 3 << 2
PREPARED = 1 << 2
COMMIT = 2 << 2
ROLLBACK = 3 << 2
BORN_HOST_V6 = 1 << 4
STORE_HOST_V6 = 1 << 5

# If one of these rules is broken, a message starts here but is damaged; otherwise no message starts here.
DAMAGED_CONTENT = frozenset({"body_crc", "record_crc"})

_ADDRESS_BYTES = (4, 16)


def _message(born: int, store: int) -> Layout:
    """Return the layout of the fixed part, for two sizes of addresses."""
    return Layout(
        "message",
        "A message",
        size=80 + born + store,
        fields=(
            Field("message_bytes", "u32", "TOTALSIZE: size of the whole message, this word included"),
            Field("magic", "u32", "MAGICCODE: version 1 is 0xDAA320A7, version 2 is 0xDAA320AB"),
            Field("body_crc", "u32", "BODYCRC: CRC-32 of the body, without its highest bit"),
            Field("queue_id", "i32", "QUEUEID"),
            Field("flag", "i32", "FLAG: the user's own value"),
            Field("queue_offset", "i64", "QUEUEOFFSET: number of the message in its queue, from 0"),
            Field("offset", "i64", "PHYSICALOFFSET: offset of the message in the commit log"),
            Field(
                "system_flag",
                "i32",
                "SYSFLAG: 1 compressed, 2 several tags, 4 prepared, 8 commit, 12 rollback, 16 IPv6 born host, "
                "32 IPv6 store host",
            ),
            Field("born_ms", "i64", "BORNTIMESTAMP: when it was created, milliseconds since 1970 UTC"),
            Field("born_address", f"bytes:{born}", "BORNHOST: the host that created it; 16 bytes for IPv6"),
            Field("born_port", "i32", ""),
            Field("store_ms", "i64", "STORETIMESTAMP: when it was appended"),
            Field("store_address", f"bytes:{store}", "STOREHOSTADDRESS: the host that stores it; 16 bytes for IPv6"),
            Field("store_port", "i32", ""),
            Field("reconsume_count", "i32", "RECONSUMETIMES: number of redeliveries to a consumer"),
            Field("prepared_offset", "i64", "of a commit or rollback: the offset of the half message; otherwise 0"),
            Field("body_bytes", "i32", "BODYLENGTH; the body follows, and then topic and properties"),
        ),
    )


MESSAGE = _message(*_ADDRESS_BYTES[:1] * 2)
_BY_HOSTS = {sizes: _message(*sizes) for sizes in itertools.product(_ADDRESS_BYTES, repeat=2)}

BLANK = Layout(
    "blank",
    "The blank that ends a file",
    size=8,
    fields=(
        Field("rest_bytes", "u32", "size of the rest of the file, this word included; its contents are ignored"),
        Field("magic", "u32", "0xCBD43194", const=BLANK_MAGIC),
    ),
)

# The length and the system flag; the bytes between are skipped.
_HEAD = struct.Struct(f">I{MESSAGE.offset('system_flag') - 4}xI")
_STORE_MS = struct.Struct(">q")
_STORE_MS_AT = tuple(_BY_HOSTS[born, _ADDRESS_BYTES[0]].offset("store_ms") for born in _ADDRESS_BYTES)

_PROPERTIES_LENGTH = struct.Struct(">H")
_TOPIC_LENGTH = {MAGIC_V1: struct.Struct(">B"), MAGIC_V2: struct.Struct(">H")}

# The smallest message: hosts with IPv4; no body, topic or property.
MESSAGE_BYTES_MIN = MESSAGE.size + 1 + _PROPERTIES_LENGTH.size

_CRC_NAME = b"__CRC32#\x01"
_CRC_DIGITS = 10
CRC_PROPERTY_BYTES = len(_CRC_NAME) + _CRC_DIGITS + 1
# What a power cut may leave of the CRC property: some of its bytes, and zeros.
_CRC_LEFT = re.compile(
    b"".join(b"[\\x00%s]" % re.escape(bytes([each])) for each in _CRC_NAME) + b"[\\x000-9]{10}[\\x00\\x02]"
)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it was read; each field has the value in the file.

    offset: in the commit log.  message_bytes: its size there.
    properties: packed, without the CRC; see `parse_properties`.
    record_crc: whether it has a CRC of the whole message, which was valid.
    """

    topic: str
    body: bytes
    properties: bytes
    queue_id: int
    flag: int
    queue_offset: int
    offset: int
    system_flag: int
    born_ms: int
    born_host: Host
    store_ms: int
    store_host: Host
    reconsume_count: int
    prepared_offset: int
    message_bytes: int
    record_crc: bool

    @property
    def transaction(self) -> int:
        """Return 0, PREPARED, COMMIT or ROLLBACK."""
        return self.system_flag & TRANSACTION

    @property
    def id(self) -> str:
        """Return the id by which the message can be found: see `message_id`."""
        return message_id(self.store_host, self.offset)


class Head(NamedTuple):
    """The fields of a message that lead to the next one.

    at: its position in the given bytes.
    """

    at: int
    message_bytes: int
    store_ms: int


def crc(data: bytes | memoryview) -> int:
    """Return the CRC-32 (ISO 3309), as RocketMQ keeps it."""
    return zlib.crc32(data) & CRC_MASK


def crc_property(value: int) -> bytes:
    """Return the property with the CRC of a whole message: its decimal digits in reverse order."""
    return _CRC_NAME + f"{value:0{_CRC_DIGITS}d}"[::-1].encode() + b"\x02"


def pack_message(message: StoredMessage) -> bytes:
    """Pack a message, with new sizes and CRCs.  Raises: ValueError if a part is too long."""
    topic = message.topic.encode()
    magic = MAGIC_V1 if len(topic) <= TOPIC_BYTES_V1_MAX else MAGIC_V2
    reserved = CRC_PROPERTY_BYTES if message.record_crc else 0
    properties_bytes = len(message.properties) + reserved
    if len(topic) > TOPIC_BYTES_MAX or properties_bytes > PROPERTIES_BYTES_MAX:
        raise ValueError(f"the topic ({len(topic)} bytes) or the properties ({properties_bytes} bytes) are too long")
    layout = _BY_HOSTS[len(message.born_host.address), len(message.store_host.address)]
    length = _TOPIC_LENGTH[magic]
    size = layout.size + len(message.body) + length.size + len(topic) + _PROPERTIES_LENGTH.size + properties_bytes
    fixed = layout.pack(
        {
            "message_bytes": size,
            "magic": magic,
            "body_crc": crc(message.body),
            "queue_id": message.queue_id,
            "flag": message.flag,
            "queue_offset": message.queue_offset,
            "offset": message.offset,
            "system_flag": message.system_flag,
            "born_ms": message.born_ms,
            "born_address": message.born_host.address,
            "born_port": message.born_host.port,
            "store_ms": message.store_ms,
            "store_address": message.store_host.address,
            "store_port": message.store_host.port,
            "reconsume_count": message.reconsume_count,
            "prepared_offset": message.prepared_offset,
            "body_bytes": len(message.body),
        }
    )
    parts = (fixed, message.body, length.pack(len(topic)), topic, _PROPERTIES_LENGTH.pack(properties_bytes))
    data = b"".join((*parts, message.properties))
    return data + crc_property(crc(data)) if message.record_crc else data


def parse_message(data: bytes | memoryview, path: str, at: int) -> StoredMessage:
    """Parse the message at the start of `data`, and compare both CRCs.

    path, at: its place, for error messages.
    Raises: CorruptError, also if `data` ends before the message does.
    """
    layout = _layout(data, path, at)
    fixed = layout.unpack(data)
    view = memoryview(data)[: fixed["message_bytes"]]
    body = bytes(view[layout.size : layout.size + max(fixed["body_bytes"], 0)])
    if len(body) != fixed["body_bytes"]:
        raise CorruptError(path, at, "length", f"a body of {fixed['body_bytes']} bytes does not fit in the message")
    if crc(body) != fixed["body_crc"]:
        raise CorruptError(path, at, "body_crc", "the body is not what was written")
    topic, start = _part(view, layout.size + len(body), _TOPIC_LENGTH[fixed["magic"]], path, at)
    properties, end = _part(view, start, _PROPERTIES_LENGTH, path, at)
    if end != len(view):
        raise CorruptError(path, at, "length", f"its parts take {end} bytes of {len(view)}")
    properties, record_crc = _without_crc(view, properties, path, at)
    try:
        name = topic.decode()
    except UnicodeDecodeError as error:
        raise CorruptError(path, at, "topic", "the topic is not UTF-8") from error
    return StoredMessage(
        name,
        body,
        properties,
        fixed["queue_id"],
        fixed["flag"],
        fixed["queue_offset"],
        fixed["offset"],
        fixed["system_flag"],
        fixed["born_ms"],
        Host(fixed["born_address"], fixed["born_port"]),
        fixed["store_ms"],
        Host(fixed["store_address"], fixed["store_port"]),
        fixed["reconsume_count"],
        fixed["prepared_offset"],
        len(view),
        record_crc,
    )


def ends_file(data: bytes | memoryview, rest_bytes: int) -> bool:
    """Return whether `data` starts with the blank for the last `rest_bytes` of a file."""
    return bytes(data[: BLANK.size]) == BLANK.pack({"rest_bytes": rest_bytes})


def parse_message_at(data: bytes | memoryview, offset: int, path: str, at: int) -> StoredMessage:
    """Parse the message at an offset of the commit log; the message must contain that offset.

    Remnants of an earlier use of the file contain another one.  Raises: CorruptError, as parse_message.
    """
    message = parse_message(data, path, at)
    if message.offset != offset:
        raise CorruptError(path, at, "offset", f"the message contains the offset {message.offset} instead")
    return message


# The bytes of a message that `parse_store_ms` needs.
HEAD_BYTES = _BY_HOSTS[_ADDRESS_BYTES[1], _ADDRESS_BYTES[1]].size


def parse_store_ms(data: bytes, offset: int, path: str, at: int) -> int:
    """Return the store time of the message at an offset of the commit log, which starts with `data`.

    No CRC is compared, because the rest is missing.  Raises: CorruptError if the message does not contain that offset.
    """
    layout = _BY_HOSTS[_ADDRESS_BYTES[bool(len(data) >= MESSAGE.size and _is_wide(data))], _ADDRESS_BYTES[0]]
    if len(data) < layout.size:
        raise CorruptError(path, at, "length", f"only {len(data)} bytes are left, less than a message")
    found = layout.unpack(data)
    if found["magic"] not in _TOPIC_LENGTH or found["offset"] != offset:
        raise CorruptError(path, at, "offset", "there is no message that contains this offset")
    return int(found["store_ms"])


def _is_wide(data: bytes) -> bool:
    return bool(_HEAD.unpack_from(data)[1] & BORN_HOST_V6)


def heads(data: bytes | memoryview) -> Iterator[Head]:
    """Yield the head of each message in `data`: whole messages, whose lengths were validated."""
    at = 0
    while at < len(data):
        message_bytes, flag = _HEAD.unpack_from(data, at)
        (store_ms,) = _STORE_MS.unpack_from(data, at + _STORE_MS_AT[bool(flag & BORN_HOST_V6)])
        yield Head(at, message_bytes, store_ms)
        at += message_bytes


def _layout(data: bytes | memoryview, path: str, at: int) -> Layout:
    """Return the layout of the fixed part, after validating the sizes."""
    if len(data) < MESSAGE_BYTES_MIN:
        raise CorruptError(path, at, "length", f"only {len(data)} bytes are left, less than a message")
    head = MESSAGE.unpack(data)
    if head["magic"] not in _TOPIC_LENGTH:
        raise CorruptError(path, at, "magic", f"0x{head['magic']:08X} is not the magic of a message")
    flag = head["system_flag"]
    layout = _BY_HOSTS[_ADDRESS_BYTES[bool(flag & BORN_HOST_V6)], _ADDRESS_BYTES[bool(flag & STORE_HOST_V6)]]
    size = head["message_bytes"]
    if not layout.size < size <= len(data):
        raise CorruptError(path, at, "length", f"a message of {size} bytes, but only {len(data)} are left")
    return layout


def _part(view: memoryview, start: int, length: struct.Struct, path: str, at: int) -> tuple[bytes, int]:
    """Return the part that follows its length, and its end."""
    if len(view) - start < length.size:
        raise CorruptError(path, at, "length", "a length does not fit in the message")
    (size,) = length.unpack_from(view, start)
    start += length.size
    if len(view) - start < size:
        raise CorruptError(path, at, "length", f"a part of {size} bytes does not fit in the message")
    return bytes(view[start : start + size]), start + size


def _without_crc(view: memoryview, properties: bytes, path: str, at: int) -> tuple[bytes, bool]:
    """Return the properties without the CRC, which is compared, and whether there was one."""
    kept = properties[:-CRC_PROPERTY_BYTES]
    found = properties[len(kept) :]
    if len(found) < CRC_PROPERTY_BYTES or not found.startswith(_CRC_NAME):
        if _CRC_LEFT.fullmatch(found) and 0 in found:
            raise CorruptError(path, at, "record_crc", "the CRC of the message is incomplete")
        return properties, False
    if found != crc_property(crc(view[:-CRC_PROPERTY_BYTES])):
        raise CorruptError(path, at, "record_crc", "the message is not what was written")
    return kept, True
