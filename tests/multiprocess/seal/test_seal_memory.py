"""Sealing a log and verifying it take little memory, however large the log is."""

from __future__ import annotations

from pathlib import Path

import pytest

from stress.seal_memory import MEMORY_BYTES_MAX, SealedLog

_MEGABYTE = 1_000_000
# Less than the hashes of the records that are appended between the measurements.
_GROWTH_BYTES_MAX = 8 << 20


@pytest.mark.turn(0)
def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    log = SealedLog(tmp_path)
    log.append(100 * _MEGABYTE, 500)
    before = log.seal(), log.verify()
    log.append(300 * _MEGABYTE, 500)
    after = log.seal(), log.verify()
    assert max(after) < MEMORY_BYTES_MAX
    assert all(later < earlier + _GROWTH_BYTES_MAX for earlier, later in zip(before, after, strict=True))
