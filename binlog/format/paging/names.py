"""The names of what paging keeps: a folder for each address, and in it pages, as JBoss Messaging names them."""

from __future__ import annotations

import re
import uuid

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
