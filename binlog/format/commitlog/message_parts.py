"""A host as a message names it: an address of IPv4 or IPv6 and a port.

The id of a message: who stores it and where it lies, in hexadecimal digits, as RocketMQ writes it.

A message's properties: each a name, a byte 1, a value and a byte 2; the last byte 2 may be missing.

The first byte 1 ends the name, as in RocketMQ: a value may have more of them.

Names that RocketMQ gives a meaning stand here as constants.

Java's hash of a string (String.hashCode), by which RocketMQ finds keys and compares tags.
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
    """An address of 4 or 16 bytes, and a port: 32 bits with a sign in the file, whatever TCP allows."""

    address: bytes
    port: int

    @classmethod
    def parse(cls, text: str) -> Host:
        """Read what `str()` wrote: `127.0.0.1:10911`, `[::1]:10911`.

        Raises: ValueError where it is not that.
        """
        address, _, port = text.rpartition(":")
        brackets = address.startswith("[") and address.endswith("]")
        parsed = ipaddress.ip_address(address[1:-1] if brackets else address)
        if brackets != (parsed.version == 6) or not (port.isascii() and port.isdigit()) or int(port) > _PORT_MAX:
            raise ValueError(f"not a host, which is written as 127.0.0.1:10911 or [::1]:10911: {text!r}")
        return cls(parsed.packed, int(port))

    @property
    def v6(self) -> bool:
        """Whether its address is of IPv6."""
        return len(self.address) == 16

    def __str__(self) -> str:
        text = str(ipaddress.ip_address(self.address))
        return f"[{text}]:{self.port}" if self.v6 else f"{text}:{self.port}"


def pack_host(host: Host) -> bytes:
    """Address and port, as a message id holds them."""
    return host.address + host.port.to_bytes(4, "big", signed=True)


def unpack_host(data: bytes) -> Host:
    """The reverse of pack_host."""
    return Host(data[:-4], int.from_bytes(data[-4:], "big", signed=True))


_OFFSET_BYTES = 8
# Hosts of IPv4 and of IPv6.
_ID = re.compile(r"(?:[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56})", re.ASCII)


def message_id(store_host: Host, offset: int) -> str:
    """The id of the message at an offset of the commit log: 32 digits, or 56 where the host is of IPv6."""
    return (pack_host(store_host) + offset.to_bytes(_OFFSET_BYTES, "big")).hex().upper()


def parse_message_id(text: str) -> tuple[Host, int]:
    """The host and the offset.  Raises: ValueError for what is no id."""
    if _ID.fullmatch(text) is None:
        raise ValueError(f"not the id of a message, which has 32 or 56 hexadecimal digits: {text!r}")
    data = bytes.fromhex(text)
    return unpack_host(data[:-_OFFSET_BYTES]), int.from_bytes(data[-_OFFSET_BYTES:], "big")


KEYS = "KEYS"
TAGS = "TAGS"
DELAY = "DELAY"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
TRANSACTION_PREPARED = "TRAN_MSG"
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
UNIQUE_KEY = "UNIQ_KEY"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_ID = "ORIGIN_MESSAGE_ID"
# Ours: of a message that waited in another topic, where in the commit log it did.
WAITED_AT = "WAITED_AT"
# Ours: of a message that tells that half messages were ended, which one is the first that was not.
LOWEST_HALF = "LOWEST_HALF"

# Of an i64, which is as far as anything is counted.
_DIGITS_MAX = 19

_NAME_END = "\x01"
_VALUE_END = "\x02"


def pack_properties(properties: Mapping[str, str]) -> bytes:
    """As they lie in a message.  Raises: ValueError where a name has a byte 1 or 2, or a value a byte 2."""
    for name, value in properties.items():
        if _NAME_END in name or _VALUE_END in name or _VALUE_END in value:
            raise ValueError(f"a property with a byte in it that ends its name or value: {name!r}: {value!r}")
    text = "".join(f"{name}{_NAME_END}{value}{_VALUE_END}" for name, value in properties.items())
    return text.encode("utf-8", "surrogateescape")


def parse_properties(data: bytes) -> dict[str, str]:
    """By name, the last one of a name counting; what has no byte 1 in it is left out, as RocketMQ does.

    Bytes that are no UTF-8 become lone surrogates, and bytes again when packed (PEP 383).
    """
    text = data.decode("utf-8", "surrogateescape")
    pairs = (item.partition(_NAME_END) for item in text.split(_VALUE_END))
    return {name: value for name, end, value in pairs if end}


def parse_count(text: str) -> int | None:
    """A number as a property says it, in decimal digits; None for anything else, and for one that is too long."""
    return int(text) if len(text) <= _DIGITS_MAX and text.isascii() and text.isdigit() else None


def java_hash(text: str) -> int:
    """The sum of UTF-16 units, each times 31 to the power of how many follow it: an int of 32 bits with a sign."""
    units = array.array("H", text.encode("utf-16-le", "surrogatepass"))
    if sys.byteorder == "big":
        units.byteswap()
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
