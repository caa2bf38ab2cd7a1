"""Options of paging."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from binlog.format.paging.page_file import PageLayout
from binlog.format.values import coerce_options

PAGE_BYTES_MIN = 1024
PAGE_BYTES_MAX = 1 << 30


class Policy(enum.Enum):
    """The policy for a message that has no room.

    PAGE: put it into a page.  BLOCK: make its producer wait until there is room.  FAIL: raise FullError.
    DROP: drop it, and count it.
    """

    PAGE = "page"
    BLOCK = "block"
    FAIL = "fail"
    DROP = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class PagingOptions:
    """Options of paging; the defaults are those of JBoss Messaging.

    page_bytes: maximum size of a page, unless a single message is larger.  page_count_max: maximum number of pages of
    an address, or None if only the disk limits it.  full_policy: policy for a message if all pages are full: BLOCK,
    FAIL or DROP.
    address_bytes_max, memory_bytes_max: limits on messages in memory, for one address and for all.
    policy: policy for a message beyond them.  resume_ratio: an address reads its pages again if at most this fraction
    of its limit is in use.
    layout: the page layout of a new address.  depaging_threads: how many addresses are depaged at a time.
    unsynced_pages_max: how many full pages may wait for their sync; beyond that, the thread that opens the next page
    syncs.
    commit_markers_above: if more transactions than this have messages in pages, each full page gets a commit marker:
    one record that replaces the records of its transactions.
    """

    page_bytes: int = 10 << 20
    page_count_max: int | None = None
    full_policy: Policy = Policy.FAIL
    address_bytes_max: int | None = None
    memory_bytes_max: int | None = None
    policy: Policy = Policy.PAGE
    resume_ratio: float = 0.5
    layout: PageLayout = PageLayout.NATIVE
    depaging_threads: int = 2
    unsynced_pages_max: int = 4
    commit_markers_above: int = 4096

    def __post_init__(self) -> None:
        """Convert words for policies, layouts and sizes, and check all values.  Raises: TypeError, ValueError."""
        coerce_options(self)
        wrong = {
            "page_bytes": not PAGE_BYTES_MIN <= self.page_bytes <= PAGE_BYTES_MAX,
            "page_count_max": self.page_count_max is not None and self.page_count_max < 1,
            "full_policy": self.full_policy is Policy.PAGE,
            "address_bytes_max": self.address_bytes_max is not None and self.address_bytes_max < 0,
            "memory_bytes_max": self.memory_bytes_max is not None and self.memory_bytes_max < 0,
            "resume_ratio": not 0 <= self.resume_ratio <= 1,
            "depaging_threads": self.depaging_threads < 1,
            "unsynced_pages_max": self.unsynced_pages_max < 1,
            "commit_markers_above": self.commit_markers_above < 0,
        }
        if bad := [f"{name}={getattr(self, name)!r}" for name, is_bad in wrong.items() if is_bad]:
            raise ValueError(f"invalid paging options: {', '.join(bad)}")
