"""The id of a message: who stores it and where it lies, in hexadecimal digits, as RocketMQ writes it."""

from __future__ import annotations

import re

from binlog.format.commitlog.host import Host, pack_host, unpack_host

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
