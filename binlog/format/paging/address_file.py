"""The file that says whose pages a folder has: the address is its first line, as in JBoss Messaging's.

Ours has a second line, `binlog-paging 1 <CRC-32C of the first line, eight hexadecimal digits>`, by which the layout of
the folder's pages is known, and an address that was damaged.
"""

from __future__ import annotations

from typing import NamedTuple

from binlog.errors import CorruptError, VersionError
from binlog.format.crc import crc32c
from binlog.format.paging.page_file import PageLayout

ADDRESS_BYTES_MAX = 1024
ADDRESS_FILE_BYTES_MAX = 4096
_WORD = "binlog-paging"
_VERSION = 1


class AddressFile(NamedTuple):
    """Whose pages a folder has, and how they are laid out."""

    address: str
    layout: PageLayout

    def pack(self) -> bytes:
        """The file's bytes."""
        line = self.address.encode()
        if self.layout is PageLayout.JBM:
            return line + b"\n"
        return line + f"\n{_WORD} {_VERSION} {crc32c(line):08x}\n".encode()


def check_address(address: str) -> None:
    """Raises: ValueError for an address that no file can hold."""
    if not address or not address.isprintable() or len(address.encode(errors="replace")) > ADDRESS_BYTES_MAX:
        text = f"an address has 1 to {ADDRESS_BYTES_MAX} bytes, all of them to be printed, not {address!r}"
        raise ValueError(text)


def parse_address_file(data: bytes, path: str) -> AddressFile | None:
    """What a file says; None for an empty one.  Raises: CorruptError; VersionError."""
    line, _, rest = data[:ADDRESS_FILE_BYTES_MAX].partition(b"\n")
    if not line.strip():
        return None
    try:
        address = line.rstrip(b"\r").decode()
        check_address(address)
    except ValueError:
        raise CorruptError(path, 0, "address", "the first line is no address") from None
    words = rest.partition(b"\n")[0].split()
    if not words:
        return AddressFile(address, PageLayout.JBM)
    if words[0] != _WORD.encode() or len(words) != 3 or not words[1].isdigit():
        raise CorruptError(path, len(line) + 1, "address", "the second line is not what was written")
    if int(words[1]) != _VERSION:
        text = f"{path}: version {int(words[1])}; {_VERSION} is known"
        raise VersionError(text, found=int(words[1]), known=(_VERSION,))
    if words[2] != f"{crc32c(line):08x}".encode():
        raise CorruptError(path, 0, "address_crc", "the address is not what was written")
    return AddressFile(address, PageLayout.NATIVE)
