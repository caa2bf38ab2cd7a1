"""Mode: what an append waits for."""

from __future__ import annotations

import enum

from binlog.format.values import member
from binlog.storage.native import lib


class Mode(enum.IntEnum):
    """How safe a record is when the call that appends it returns; see docs/durability.md.

    Another time than half a second until a writer's records are synced needs no new mode: Background(sync_seconds=0.01)
    does it.
    """

    # The places that decide by the mode.  Every new mode changes these:
    #
    # - native/binlog.h: `enum binlog_mode`.  Below: the new member.  binlog/_native.pyi: the new constant.  If an
    #   append in the new mode may wait for the lock, its number is below that of STAGE, because `Sink._modes_of` in
    #   binlog/logging/sink.py takes the larger one of two modes for the one that waits less.  If STAGE gets another
    #   number, raise the last number in `layout_signature` in native/log/staging_area_file.c: staged records have it.
    # - binlog/log/writer.py: the overloads.  It and `commit` in native/log/fast_path.c pass every mode but SYNC to the
    #   group commit as FLUSH (fast_path.c stages a record of STAGE first), so the group commit need not know the mode.
    # - binlog/log/append/writer_stat.py: the two counters of the mode.
    # - binlog/cli/log/append.py: the help of --mode; its choices come from this class.
    # - docs/durability.md, docs/operations.md (when a writer starts its thread), docs/logging.md, the end of README.md,
    #   and CHANGELOG.md.
    #
    # If the new mode differs from FLUSH, it also changes these:
    #
    # - If its records are synced at another time: binlog/log/append/background.py, and `Background` in
    #   binlog/log/options.py.  The thread knows only how many bytes of the file are unsynced, of all writers and modes
    #   (`Session.pending_bytes`), and no append wakes it.  The counts of `FastPath.appended(mode)` tell it which modes
    #   its own writer used since the last sync; each append of that writer that returned is in them, with the mode of
    #   its caller (`append_many`: FLUSH for STAGE).  It cannot tell the modes of other writers, so decide how long
    #   their bytes may wait.
    # - If `append` returns no ref: `append` and `_append_slowly` in writer.py, and --json in cli/log/append.py.
    # - If it syncs or stages in a new way: native/log/group.c and native/log/staging_area.c.
    # - If more or less may be lost than in FLUSH, apart from the time until the sync: `LogActor._append` in
    #   stress/crash/systems/log/actor.py, and stress/model/world.py.  Both treat all modes but SYNC alike.
    #
    # The metrics, the tests and the crash test's workload "modes" take the modes from this class;
    # stress/sanitize/threads.c takes the first three, and test_writer_stat.py names the counters.  Tests for the new
    # mode belong in tests/unit/log/append/test_modes.py.  The processes in stress/crash/systems/log/system.py and
    # stress/soak/roles.py have modes of their own.  The other engines refuse all modes but SYNC and FLUSH: see
    # `waits_for_sync`.

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
