"""Mode: what an append waits for."""

from __future__ import annotations

import enum

from binlog.storage.native import lib


class Mode(enum.IntEnum):
    """How safe a record is when the call that appends it returns; see docs/durability.md."""

    SYNC = lib.BINLOG_SYNC  # on stable storage
    FLUSH = lib.BINLOG_FLUSH  # in the file, and visible to readers
    STAGE = lib.BINLOG_STAGE  # in shared memory: it survives the process
