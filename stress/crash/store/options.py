"""How the stores are kept that are to break: in files so small that a run of some messages goes through several."""

from __future__ import annotations

import dataclasses

from binlog.commitlog.flush_services import Pace
from binlog.commitlog.options import Flush, StoreOptions
from binlog.commitlog.retention import Retention
from binlog.format.commitlog.key_index import KeyIndexSize

_QUICK = Pace(0.002, 1, 0.008)

OPTIONS = StoreOptions(
    file_bytes=1 << 13,
    units_in_file=26,  # 520 bytes, so that a unit lies across the end of a sector
    key_index=KeyIndexSize(slots=7, entries=40),
    flush_pace=_QUICK,
    commit_pace=_QUICK,
    queues_pace=_QUICK,
    # Whatever the disk of whoever runs this has left.
    retention=Retention(expire_ratio=2.0, force_ratio=2.0, full_ratio=2.0),
)

REMOVING = dataclasses.replace(
    OPTIONS, retention=dataclasses.replace(OPTIONS.retention, hours=-1.0, at_hour=None, pause_seconds=0.0)
)
"""With which files go at once: when they are told to, and when the store is closed."""


def options(flush: Flush) -> StoreOptions:
    """The same, with a way of flushing."""
    return dataclasses.replace(OPTIONS, flush=flush)
