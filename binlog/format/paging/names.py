"""The names of paging's files, and the file with the address of a folder.

Each address has a folder, and its pages are named as in JBoss Messaging.  The first line of the address file is the
address, also as in JBoss Messaging.  Ours has a second line, `binlog-paging 1 <CRC-32C of the first line, eight
hexadecimal digits>`, which selects our page layout and detects a damaged address.
"""

from __future__ import annotations

import re
import uuid
from typing import NamedTuple

from binlog.errors import CorruptError, VersionError
from binlog.format.checksums import crc32c
from binlog.format.paging.page_file import PageLayout

LOCK_FILE = "paging.lock"
JOURNAL_FOLDER = "journal"
ADDRESS_FILE = "address.txt"
# In the folder of an address: a sync or write has failed since the files in it were written.
FAILED_FILE = "failed"
# Extension of a folder that is being created.
NEW_EXTENSION = ".new"
PAGE_EXTENSION = ".page"
ACKS_EXTENSION = ".acks"
DELIVERIES_EXTENSION = ".deliveries"
# Extension of a damaged page whose readable messages were delivered.
INVALID_EXTENSION = ".invalidPage"
# Extension of acknowledgements that do not belong to their page.
INVALID_ACKS_EXTENSION = ".invalidAcks"
PAGE_ID_MAX = 999_999_999

_NUMBERED = re.compile(r"(\d{9})(\.page|\.acks|\.deliveries)", re.ASCII)


def page_name(page_id: int) -> str:
    """Return the name of a page."""
    return f"{page_id:09d}{PAGE_EXTENSION}"


def acks_name(page_id: int) -> str:
    """Return the name of a page's file of acknowledgements."""
    return f"{page_id:09d}{ACKS_EXTENSION}"


def deliveries_name(page_id: int) -> str:
    """Return the name of a page's file of delivery counts."""
    return f"{page_id:09d}{DELIVERIES_EXTENSION}"


def invalid_name(page_id: int) -> str:
    """Return the quarantine name of a damaged page."""
    return f"{page_id:09d}{INVALID_EXTENSION}"


def invalid_acks_name(page_id: int) -> str:
    """Return the quarantine name of unreadable acknowledgements."""
    return f"{page_id:09d}{INVALID_ACKS_EXTENSION}"


def page_number(name: str, extension: str = PAGE_EXTENSION) -> int | None:
    """Return the page id in a file name with this extension, or None for any other name."""
    found = _NUMBERED.fullmatch(name)
    return int(found[1]) if found and found[2] == extension and int(found[1]) else None


def new_folder_name() -> str:
    """Return a name for the folder of a new address."""
    return str(uuid.uuid4())


def is_folder_name(name: str) -> bool:
    """Whether this is the name of an address's folder."""
    try:
        return str(uuid.UUID(name)) == name.lower()
    except ValueError:
        return False


ADDRESS_BYTES_MAX = 1024
ADDRESS_FILE_BYTES_MAX = 4096
_WORD = "binlog-paging"
_VERSION = 1


class AddressFile(NamedTuple):
    """The address of a folder, and the layout of its pages."""

    address: str
    layout: PageLayout

    def pack(self) -> bytes:
        """Return the bytes of the file."""
        line = self.address.encode()
        if self.layout is PageLayout.JBM:
            return line + b"\n"
        return line + f"\n{_WORD} {_VERSION} {crc32c(line):08x}\n".encode()


def check_address(address: str) -> None:
    """Raise ValueError for an address that a file cannot hold."""
    if not address or not address.isprintable() or len(address.encode(errors="replace")) > ADDRESS_BYTES_MAX:
        text = f"an address is 1 to {ADDRESS_BYTES_MAX} bytes of printable text, not {address!r}"
        raise ValueError(text)


def parse_address_file(data: bytes, path: str) -> AddressFile | None:
    """Parse an address file; return None if it is empty.  Raises: CorruptError; VersionError."""
    line, _, rest = data[:ADDRESS_FILE_BYTES_MAX].partition(b"\n")
    if not line.strip():
        return None
    try:
        address = line.rstrip(b"\r").decode()
        check_address(address)
    except ValueError:
        raise CorruptError(path, 0, "address", "the first line is not an address") from None
    words = rest.partition(b"\n")[0].split()
    if not words:
        return AddressFile(address, PageLayout.JBM)
    if words[0] != _WORD.encode() or len(words) != 3 or not words[1].isdigit():
        raise CorruptError(path, len(line) + 1, "address", "the second line is damaged")
    if int(words[1]) != _VERSION:
        text = f"{path}: version {int(words[1])}; this release reads version {_VERSION}"
        raise VersionError(text, found=int(words[1]), known=(_VERSION,))
    if words[2] != f"{crc32c(line):08x}".encode():
        raise CorruptError(path, 0, "address_crc", "the address is damaged")
    return AddressFile(address, PageLayout.NATIVE)
