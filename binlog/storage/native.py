"""The compiled module, made ready for forks."""

from __future__ import annotations

import sys
from typing import Any

if not sys.platform.startswith("linux"):
    raise ImportError("binlog needs Linux: it stands on futex(2) and open-file-description locks")

try:
    from binlog._native import ffi, lib
    from binlog._native_records import (
        AckWriter,
        BatchIterator,
        CommitGroup,
        Guard,
        PageWriter,
        QuickSession,
        QuickWriter,
        connect,
        connect_brief,
        connect_mapped,
        connect_pages,
        crc32c,
        fork_generation,
        frame_records,
        gather_bodies,
        gather_records,
        join_fragments,
        journal_states,
        look_and_read,
        message_columns,
        pack_journal,
        pack_messages,
        pack_transaction,
        part_of_records,
        pick_messages,
        read_cached,
        read_records,
        scan_journal_columns,
        scan_page,
        spread_records,
        stamp_messages,
        store_mapped,
        wait_and_read,
        walk_messages,
        write_brief,
        write_delivery,
    )
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("binlog."):
        raise  # a package that the compiled module needs, which its own name tells best
    raise ImportError("binlog's compiled module is missing: install the package (pip install .)") from error

__all__ = [
    "AckWriter",
    "BatchIterator",
    "CommitGroup",
    "Guard",
    "PageWriter",
    "QuickSession",
    "QuickWriter",
    "address",
    "crc32c",
    "ffi",
    "fork_generation",
    "frame_records",
    "gather_bodies",
    "gather_records",
    "join_fragments",
    "journal_states",
    "lib",
    "look_and_read",
    "message_columns",
    "pack_journal",
    "pack_messages",
    "pack_transaction",
    "part_of_records",
    "pick_messages",
    "read_cached",
    "read_records",
    "scan_journal_columns",
    "scan_page",
    "spread_records",
    "stamp_messages",
    "store_mapped",
    "wait_and_read",
    "walk_messages",
    "write_brief",
    "write_delivery",
]

_result = lib.binlog_fork_setup()
if _result != 0:
    raise OSError(-_result, "binlog cannot set up its fork handlers")


def address(value: Any) -> int:
    """The address that a pointer of `ffi` holds."""
    return int(ffi.cast("uintptr_t", value))


# What makes Python objects is a module of its own, and must not have a second copy of what these know of forks.
def _addresses(*names: str) -> list[int]:
    return [address(ffi.addressof(lib, f"binlog_{name}")) for name in names]


connect(*_addresses("fork_generation", "stage_record", "append_record", "abandon"))
connect_mapped(*_addresses("fork_generation", "mapped_write"))
connect_brief(*_addresses("fork_generation"))
connect_pages(*_addresses("fork_generation"))
