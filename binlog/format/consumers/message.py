"""The envelope of a message: a record that begins with one has a key, headers, a delay, an expiry or a producer.

A plain record is a message too, without any of these.  The CRC of the envelope, seeded with its length, tells the two
apart: no plain record passes for an envelope by chance.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from binlog.format.checksums import crc32c
from binlog.format.layout import Field, Layout

MAGIC = b"\xb1MSG"
VERSION = 1
ENVELOPE_BYTES_MAX = 0xFFFF
PRODUCER_BYTES = 16

MESSAGE_ENVELOPE = Layout(
    "message_envelope",
    "The envelope of a message",
    size=24,
    fields=(
        Field("magic", "bytes:4", "`B1 4D 53 47`", const=MAGIC),
        Field("version", "u8", "version of the layout", const=VERSION),
        Field(
            "flags", "u8", "which fields follow, in this order: 1 due, 2 expiry, 4 producer, 8 key, 16 headers, 32 acks"
        ),
        Field("envelope_bytes", "u16", "size of the envelope with all its fields; the body follows"),
        Field("produced_ns", "u64", "when the message was made: nanoseconds since 1970, by the wall clock"),
        Field("crc", "u32", "CRC-32C of the envelope's other bytes, seeded with its size (u16)"),
        Field("reserved", "u32", "zero", const=0),
    ),
)
MESSAGE_TIME = Layout(
    "message_time",
    "The due time, and the expiry",
    size=8,
    fields=(Field("time_ns", "u64", "nanoseconds since 1970, by the wall clock"),),
)
MESSAGE_PRODUCER = Layout(
    "message_producer",
    "The producer",
    size=24,
    fields=(
        Field("producer", f"bytes:{PRODUCER_BYTES}", "the first 16 bytes of the SHA-256 of its id"),
        Field("sequence", "u64", "number of the message; each producer counts from 0"),
    ),
)
MESSAGE_TEXT = Layout(
    "message_text",
    "The length before a key, and before the name and the value of a header",
    size=2,
    fields=(Field("text_bytes", "u16", "number of bytes that follow; before the headers, the number of headers"),),
)
MESSAGE_ACKS = Layout(
    "message_acks",
    "The deliveries that this message acknowledges, followed by their sequence numbers (u64)",
    size=22,
    fields=(
        Field("group", "bytes:16", "UUID of the group's log"),
        Field("epoch", "u32", "the group's epoch"),
        Field("ack_count", "u16", "number of sequence numbers that follow"),
    ),
)
MESSAGE_LAYOUTS = (MESSAGE_ENVELOPE, MESSAGE_TIME, MESSAGE_PRODUCER, MESSAGE_TEXT, MESSAGE_ACKS)

_DUE, _EXPIRY, _PRODUCER, _KEY, _HEADERS, _ACKS = 1, 2, 4, 8, 16, 32
_ENVELOPE = struct.Struct(MESSAGE_ENVELOPE.format)
_TIME = struct.Struct(MESSAGE_TIME.format)
_MADE_BY = struct.Struct(MESSAGE_PRODUCER.format)
_TEXT = struct.Struct(MESSAGE_TEXT.format)
_GROUP = struct.Struct(MESSAGE_ACKS.format)
_SEQUENCE = struct.Struct(">Q")
_CRC_AT = MESSAGE_ENVELOPE.offset("crc")


class Acks(NamedTuple):
    """Items of a group that are done once the message is in its log."""

    group: bytes
    epoch: int
    sequences: tuple[int, ...]


class MadeBy(NamedTuple):
    """An idempotent producer, by the hash of its id, and the message's number among its messages."""

    producer: bytes
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message: a body and, if it has an envelope, what the envelope says.

    key: messages with the same key may have an order.  headers: names and values of any bytes.
    produced_ns, due_ns, expiry_ns: nanoseconds since 1970, 0 for none.
    """

    body: bytes | memoryview
    key: bytes | None = None
    headers: Mapping[str, bytes] = field(default_factory=dict)
    produced_ns: int = 0
    due_ns: int = 0
    expiry_ns: int = 0
    made_by: MadeBy | None = None
    acks: Acks | None = None

    @classmethod
    def parse(cls, record: bytes | memoryview) -> Message:
        """Return the message in a record.  A record without a valid envelope is the body of a message without one."""
        return _parse(record) or cls(body=record)

    def pack(self) -> bytes:
        """Return the record, with an envelope.  Raises: ValueError if key and headers have more than 64 KiB."""
        flags, fields = 0, list[bytes]()
        for flag, time_ns in ((_DUE, self.due_ns), (_EXPIRY, self.expiry_ns)):
            if time_ns:
                flags |= flag
                fields.append(_TIME.pack(time_ns))
        if self.made_by is not None:
            flags |= _PRODUCER
            fields.append(_MADE_BY.pack(*self.made_by))
        if self.key is not None:
            flags |= _KEY
            fields.append(_text(self.key))
        if self.headers:
            flags |= _HEADERS
            fields.append(_TEXT.pack(len(self.headers)))
            fields += [_text(name.encode()) + _text(value) for name, value in self.headers.items()]
        if self.acks is not None:
            flags |= _ACKS
            fields.append(_GROUP.pack(self.acks.group, self.acks.epoch, len(self.acks.sequences)))
            fields += map(_SEQUENCE.pack, self.acks.sequences)
        rest = b"".join(fields)
        size = _ENVELOPE.size + len(rest)
        if size > ENVELOPE_BYTES_MAX:
            raise ValueError(
                f"an envelope of {size} bytes: key and headers are too large; the limit is {ENVELOPE_BYTES_MAX}"
            )
        head = _ENVELOPE.pack(MAGIC, VERSION, flags, size, self.produced_ns, 0, 0)
        envelope = bytearray(head + rest)
        envelope[_CRC_AT : _CRC_AT + 4] = _envelope_crc(envelope).to_bytes(4)
        return bytes(envelope) + self.body


def _text(data: bytes) -> bytes:
    if len(data) > ENVELOPE_BYTES_MAX:
        raise ValueError(f"a key or header of {len(data)} bytes; the limit of an envelope is {ENVELOPE_BYTES_MAX}")
    return _TEXT.pack(len(data)) + data


def _envelope_crc(envelope: bytes | bytearray | memoryview) -> int:
    seed = crc32c(len(envelope).to_bytes(2))
    return crc32c(bytes(envelope[_CRC_AT + 4 :]), crc32c(bytes(envelope[:_CRC_AT]), seed))


def _parse(record: bytes | memoryview) -> Message | None:
    if len(record) < _ENVELOPE.size or record[:4] != MAGIC:
        return None
    _, version, flags, size, produced_ns, crc, reserved = _ENVELOPE.unpack_from(record)
    if version != VERSION or reserved or not _ENVELOPE.size <= size <= len(record):
        return None
    envelope = bytes(record[:size])
    if crc != _envelope_crc(envelope):
        return None
    return _Fields(envelope, flags).message(record[size:], produced_ns)


class _Fields:
    """Reads the fields of an envelope whose CRC is correct."""

    def __init__(self, envelope: bytes, flags: int) -> None:
        self._data, self._flags, self._at = envelope, flags, _ENVELOPE.size

    def message(self, body: bytes | memoryview, produced_ns: int) -> Message | None:
        """Return the message, or None if the fields do not fill the envelope."""
        try:
            due_ns, expiry_ns = self._time(_DUE), self._time(_EXPIRY)
            made_by = MadeBy(*self._take(_MADE_BY)) if self._flags & _PRODUCER else None
            key = self._text() if self._flags & _KEY else None
            count = self._take(_TEXT)[0] if self._flags & _HEADERS else 0
            headers = {self._text().decode(): self._text() for _ in range(count)}
            acks = self._acks() if self._flags & _ACKS else None
        except (struct.error, UnicodeDecodeError):
            return None
        if self._at != len(self._data):
            return None
        return Message(
            body=body, key=key, headers=headers, produced_ns=produced_ns, due_ns=due_ns, expiry_ns=expiry_ns,
            made_by=made_by, acks=acks,
        )  # fmt: skip

    def _time(self, flag: int) -> int:
        return int(self._take(_TIME)[0]) if self._flags & flag else 0

    def _acks(self) -> Acks:
        group, epoch, count = self._take(_GROUP)
        return Acks(group, epoch, tuple(self._take(_SEQUENCE)[0] for _ in range(count)))

    def _text(self) -> bytes:
        (size,) = self._take(_TEXT)
        found = self._data[self._at : self._at + size]
        if len(found) != size:
            raise struct.error("the envelope is too short")
        self._at += size
        return found

    def _take(self, layout: struct.Struct) -> tuple[Any, ...]:
        values = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return values
