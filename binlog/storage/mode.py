"""Mode: what an append waits for."""

from __future__ import annotations

import enum

from binlog.format.values import member
from binlog.storage.native import lib


class Mode(enum.IntEnum):
    """How safe a record is when the call that appends it returns; see docs/durability.md.

    A shorter time than half a second until a record is synced needs no new mode: Background(sync_seconds=0.01) does it.

    The places that decide by the mode, each of which a new mode must be added to:

    - native/binlog.h, `enum binlog_mode`, and native/log/fast_path.c, which takes BINLOG_STAGE for the last mode.
      `fast_append` passes on every mode but SYNC as FLUSH.  From `has_background` it knows that a thread syncs later,
      but it does not wake that thread.
    - native/log/group.c and native/log/staging_area.c ask only whether a record is to be synced, and whether it is
      staged.  They stay as they are if the new mode does neither in another way.
    - binlog/log/writer.py: what each method accepts and returns.  binlog/_native.pyi: the new constant.
    - binlog/log/append/background.py, and `Background` in binlog/log/options.py: what is synced later, and when.
    - `waits_for_sync` below, for the engines that accept only some of the modes.
    - binlog/cli/log/append.py: its option --mode.
    - stress/model/world.py, stress/crash/systems/log/system.py and stress/soak/roles.py: what may be lost.
    - docs/durability.md, and the end of the README.
    """

    SYNC = lib.BINLOG_SYNC  # on stable storage
    FLUSH = lib.BINLOG_FLUSH  # in the file, and visible to readers
    STAGE = lib.BINLOG_STAGE  # in shared memory: the record survives the process, but not the machine


def waits_for_sync(mode: Mode | str, kind: str) -> bool:
    """Return whether a change is synced before the call returns, for engines that have Mode.SYNC and Mode.FLUSH only.

    kind: names the engine in the error.  Raises: ValueError for any other mode.
    """
    mode = member(Mode, mode, "mode")
    if mode not in (Mode.SYNC, Mode.FLUSH):
        raise ValueError(f"a {kind} has Mode.SYNC and Mode.FLUSH, not {mode!r}")
    return mode is Mode.SYNC
