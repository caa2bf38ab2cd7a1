"""Mode: what an append waits for."""

from __future__ import annotations

import enum

from binlog.storage.native import lib


class Mode(enum.IntEnum):
    """How safe a record is when the call that appends it returns; see docs/durability.md.

    These places decide by the mode, and a new one must be added to each:

    - native/binlog.h, `enum binlog_mode`, and native/log/fast_path.c: which modes exist, and what a direct append does.
    - native/log/group.c and native/log/staging_area.c: whether a group is synced, and whether a staged record may be
      staged again after a failed write.
    - binlog/log/writer.py: what each method accepts and returns.
    - binlog/log/append/background.py: what is synced later.
    - binlog/queue/queue.py and binlog/pagestore/options.py: the engines that accept only some of the modes.
    - docs/durability.md, and the end of the README.
    """

    SYNC = lib.BINLOG_SYNC  # on stable storage
    FLUSH = lib.BINLOG_FLUSH  # in the file, and visible to readers
    STAGE = lib.BINLOG_STAGE  # in shared memory: the record survives the process, but not the machine
