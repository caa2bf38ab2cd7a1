"""A host as a message names it: an address of IPv4 or IPv6 and a port."""

from __future__ import annotations

import ipaddress
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
