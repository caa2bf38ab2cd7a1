"""Options of a page store."""

from __future__ import annotations

from dataclasses import dataclass

from binlog.format.pagestore.index import NAME_BYTES_MAX
from binlog.format.pagestore.page import PAGE_BYTES_MAX, PAGE_BYTES_MIN, is_page_size
from binlog.format.pagestore.prepared import PREPARED_QUEUE
from binlog.format.values import coerce_options
from binlog.storage.mode import Mode

CACHE_PAGES_MIN = 8
LOG_BYTES_MIN = 4096
LOG_BYTES_MAX = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStoreOptions:
    """Options of a page store.

    page_bytes: of a new store, 2,048 or a multiple of that up to 32,768.  None: 2,048 for a new store, any size for an
    existing one.
    cache_pages: how many pages are kept in memory; pages with changes that are not on the disk yet may exceed it.
    log_bytes: the log size that triggers a checkpoint.  mode: the default mode of a commit, Mode.SYNC or Mode.FLUSH.
    deliveries_max: a message that was delivered this often, and not removed, goes to the queue `dead_letters`, which is
    created when it is needed; None for no limit.
    """

    page_bytes: int | None = None
    cache_pages: int = 16_384
    log_bytes: int = 32 << 20
    mode: Mode = Mode.SYNC
    deliveries_max: int | None = None
    dead_letters: str = "dead-letters"

    def __post_init__(self) -> None:
        """Convert words for modes and sizes, and check all values.  Raises: TypeError, ValueError."""
        coerce_options(self)
        wrong = {
            "page_bytes": self.page_bytes is not None and not is_page_size(self.page_bytes),
            "cache_pages": self.cache_pages < CACHE_PAGES_MIN,
            "log_bytes": not LOG_BYTES_MIN <= self.log_bytes <= LOG_BYTES_MAX,
            "deliveries_max": self.deliveries_max is not None and self.deliveries_max < 1,
            "dead_letters": not 1 <= len(self.dead_letters.encode()) <= NAME_BYTES_MAX
            or self.dead_letters == PREPARED_QUEUE,
            "mode": self.mode not in (Mode.SYNC, Mode.FLUSH),
        }
        if bad := [f"{name}={getattr(self, name)!r}" for name, is_bad in wrong.items() if is_bad]:
            text = f"page_bytes is a multiple of {PAGE_BYTES_MIN} up to {PAGE_BYTES_MAX}"
            raise ValueError(f"invalid page store options: {', '.join(bad)}; {text}")
