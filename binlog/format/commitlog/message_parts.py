"""The parts of a message: hosts, ids, properties and the hash of tags and keys.

A host is an IPv4 or IPv6 address and a port.  The id of a message is RocketMQ's: the host that stores it and its
offset, in hexadecimal digits.

A property is a name, a byte 1, a value and a byte 2; the last byte 2 may be missing.  As in RocketMQ the first byte 1
ends the name, and the value may contain more of them.  Names with a meaning for RocketMQ are constants here.

RocketMQ finds keys and compares tags by Java's hash of a string (String.hashCode).
"""

from __future__ import annotations

import array
import ipaddress
import re
import sys
from collections.abc import Mapping
from typing import NamedTuple

_PORT_MAX = 2**16 - 1


class Host(NamedTuple):
    """An address of 4 or 16 bytes, and a port, which takes 32 bits with a sign in the file."""

    address: bytes
    port: int

    @classmethod
    def parse(cls, text: str) -> Host:
        """Parse the result of `str()`: `127.0.0.1:10911` or `[::1]:10911`.

        Raises: ValueError for anything else.
        """
        address, _, port = text.rpartition(":")
        brackets = address.startswith("[") and address.endswith("]")
        parsed = ipaddress.ip_address(address[1:-1] if brackets else address)
        if brackets != (parsed.version == 6) or not (port.isascii() and port.isdigit()) or int(port) > _PORT_MAX:
            raise ValueError(f"not a host like 127.0.0.1:10911 or [::1]:10911: {text!r}")
        return cls(parsed.packed, int(port))

    @property
    def v6(self) -> bool:
        """Return whether the address is IPv6."""
        return len(self.address) == 16

    def __str__(self) -> str:
        text = str(ipaddress.ip_address(self.address))
        return f"[{text}]:{self.port}" if self.v6 else f"{text}:{self.port}"


def pack_host(host: Host) -> bytes:
    """Pack the address and the port, as a message id contains them."""
    return host.address + host.port.to_bytes(4, "big", signed=True)


def unpack_host(data: bytes) -> Host:
    """Unpack the result of pack_host."""
    return Host(data[:-4], int.from_bytes(data[-4:], "big", signed=True))


_OFFSET_BYTES = 8
# With a host of IPv4 or of IPv6.
_ID = re.compile(r"(?:[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56})", re.ASCII)


def message_id(store_host: Host, offset: int) -> str:
    """Return the id of the message at an offset of the commit log: 32 digits, or 56 if the host is IPv6."""
    return (pack_host(store_host) + offset.to_bytes(_OFFSET_BYTES, "big")).hex().upper()


def parse_message_id(text: str) -> tuple[Host, int]:
    """Return the host and the offset of an id.  Raises: ValueError if it is not an id."""
    if _ID.fullmatch(text) is None:
        raise ValueError(f"not a message id of 32 or 56 hexadecimal digits: {text!r}")
    data = bytes.fromhex(text)
    return unpack_host(data[:-_OFFSET_BYTES]), int.from_bytes(data[-_OFFSET_BYTES:], "big")


KEYS = "KEYS"
TAGS = "TAGS"
_OTHER_QUEUES = "INNER_MULTI_DISPATCH"
_OTHER_QUEUE_OFFSETS = "INNER_MULTI_QUEUE_OFFSET"
DELAY = "DELAY"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
TRANSACTION_PREPARED = "TRAN_MSG"
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
UNIQUE_KEY = "UNIQ_KEY"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_ID = "ORIGIN_MESSAGE_ID"
# Our own: in a delivered message, the offset of the parked message in the commit log.
PARKED_AT = "WAITED_AT"
# Our own: in an end record of a half message, the number of the first half message that may still be pending.
LOWEST_HALF = "LOWEST_HALF"

# Of an i64, the widest number in any file.
_DIGITS_MAX = 19

_NAME_END = "\x01"
_VALUE_END = "\x02"


def pack_properties(properties: Mapping[str, str]) -> bytes:
    """Pack properties.  Raises: ValueError if a name has a byte 1 or 2, or a value a byte 2."""
    for name, value in properties.items():
        if _NAME_END in name or _VALUE_END in name or _VALUE_END in value:
            raise ValueError(f"a property must not contain the bytes that end its name or value: {name!r}: {value!r}")
    text = "".join(f"{name}{_NAME_END}{value}{_VALUE_END}" for name, value in properties.items())
    return text.encode("utf-8", "surrogateescape")


def parse_properties(data: bytes) -> dict[str, str]:
    """Return the values by name; of a repeated name, the last one.  As in RocketMQ, parts without a byte 1 are skipped.

    Bytes that are not UTF-8 become lone surrogates, which packing turns back into these bytes (PEP 383).
    """
    text = data.decode("utf-8", "surrogateescape")
    pairs = (item.partition(_NAME_END) for item in text.split(_VALUE_END))
    return {name: value for name, end, value in pairs if end}


def other_queues(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the light queues to which RocketMQ added a message as well, and its queue offset in each, as text."""
    names, offsets = (properties.get(name, "").split(",") for name in (_OTHER_QUEUES, _OTHER_QUEUE_OFFSETS))
    return dict(zip(names, offsets, strict=False))


def parse_count(text: str) -> int | None:
    """Return the number in a property, in decimal digits; None for anything else, also if it is too long."""
    return int(text) if len(text) <= _DIGITS_MAX and text.isascii() and text.isdigit() else None


def java_hash(text: str) -> int:
    """Return Java's hash: the sum of the UTF-16 units, each times 31 to the power of the number of units after it."""
    units = array.array("H", text.encode("utf-16-le", "surrogatepass"))
    if sys.byteorder == "big":
        units.byteswap()
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
