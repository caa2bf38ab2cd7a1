"""The names of what paging keeps: a folder for each address, and in it pages, as JBoss Messaging names them.

The file that says whose pages a folder has: the address is its first line, as in JBoss Messaging's.

Ours has a second line, `binlog-paging 1 <CRC-32C of the first line, eight hexadecimal digits>`, by which the layout of
the folder's pages is known, and an address that was damaged.
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
# In the folder of an address: a sync, or a write, has failed since the files in it were written.
FAILED_FILE = "failed"
# Of a folder that is being made.
NEW_END = ".new"
PAGE_END = ".page"
ACKS_END = ".acks"
DELIVERIES_END = ".deliveries"
# Of a page in which something is damaged, and of which all that can be read was used.
INVALID_END = ".invalidPage"
# Of acknowledgements that are none of their page's.
INVALID_ACKS_END = ".invalidAcks"
PAGE_ID_MAX = 999_999_999

_NUMBERED = re.compile(r"(\d{9})(\.page|\.acks|\.deliveries)", re.ASCII)


def page_name(page_id: int) -> str:
    """The name of a page."""
    return f"{page_id:09d}{PAGE_END}"


def acks_name(page_id: int) -> str:
    """The name of the file with what was acknowledged of a page."""
    return f"{page_id:09d}{ACKS_END}"


def deliveries_name(page_id: int) -> str:
    """The name of the file that says how often messages of a page were given."""
    return f"{page_id:09d}{DELIVERIES_END}"


def invalid_name(page_id: int) -> str:
    """What a damaged page is named once it was used."""
    return f"{page_id:09d}{INVALID_END}"


def invalid_acks_name(page_id: int) -> str:
    """What acknowledgements are named that cannot be read."""
    return f"{page_id:09d}{INVALID_ACKS_END}"


def page_number(name: str, end: str = PAGE_END) -> int | None:
    """The id of the page that has this name, or of which it is the acknowledgements; None for another name."""
    found = _NUMBERED.fullmatch(name)
    return int(found[1]) if found and found[2] == end and int(found[1]) else None


def new_folder_name() -> str:
    """A name for the folder of a new address."""
    return str(uuid.uuid4())


def is_folder_name(name: str) -> bool:
    """Whether it is one of a folder of an address."""
    try:
        return str(uuid.UUID(name)) == name.lower()
    except ValueError:
        return False


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
