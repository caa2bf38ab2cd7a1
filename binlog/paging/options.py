"""How paging is kept."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from binlog.format.paging.page_file import PageLayout
from binlog.format.values import coerce_options

PAGE_BYTES_MIN = 1024
PAGE_BYTES_MAX = 1 << 30


class Policy(enum.Enum):
    """What becomes of a message for which there is no room.

    PAGE: it goes to a page.  BLOCK: whoever brings it waits until there is room.  FAIL: FullError.
    DROP: it is dropped, and counted.
    """

    PAGE = "page"
    BLOCK = "block"
    FAIL = "fail"
    DROP = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class PagingOptions:
    """How paging is kept; what JBoss Messaging does unless told.

    page_bytes: a page is no larger, but for one message that is.  page_count_max: an address has no more pages, None
    for as many as the disk holds; full_policy: what becomes of a message then: BLOCK, FAIL or DROP.
    address_bytes_max, memory_bytes_max: messages in memory, of one address and of all; policy: what becomes of those
    beyond.  resume_ratio: pages are read again once an address has no more than this part of its limit in memory.
    layout: of the folder of a new address.  depaging_threads: so many addresses are depaged at once.
    unsynced_pages_max: so many full pages may wait to be synced, before who goes on to the next one does it.
    settle_above: where more transactions than so many have messages in pages, full pages are settled: one record for
    each says which were committed.
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
    settle_above: int = 4096

    def __post_init__(self) -> None:
        """Take words for a policy, a layout and sizes too.  Raises: TypeError, ValueError."""
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
            "settle_above": self.settle_above < 0,
        }
        if bad := [f"{name}={getattr(self, name)!r}" for name, is_bad in wrong.items() if is_bad]:
            raise ValueError(f"no paging can be kept so: {', '.join(bad)}")
