"""The size of a log, as the file system itself has it."""

from __future__ import annotations

import os
from pathlib import Path

import binlog
from binlog import Background, Mode, Writer
from tests.support.logs import jpos_file

_NEVER = Background(flush_seconds=1e6, sync_seconds=1e6)


def test_space_prepared_after_the_tail_is_shown_and_released_by_the_cutover(log: Path) -> None:
    with Writer(log, prepare_bytes=1 << 20) as writer:
        writer.append(bytes(10_000))
        status = os.stat(log / "00000001.dat")
        file = binlog.stat(log).files[0]
        assert (file.file_bytes, file.disk_bytes) == (status.st_size, 512 * status.st_blocks)
        # The tail, 10,260, is in the third page of 4 KiB.
        assert file.prepared_bytes == file.disk_bytes - 3 * 4096 > 1_000_000
        writer.cutover()
        file = binlog.stat(log).files[0]
        assert (file.file_bytes, file.disk_bytes, file.prepared_bytes) == (10_260, 3 * 4096, 0)


def test_flushed_and_staged_bytes_are_shown(log: Path) -> None:
    with Writer(log, background=_NEVER) as writer:
        writer.append(b"durable")
        durable = binlog.stat(log)
        assert (durable.files[0].durable_end, durable.unsynced_bytes, durable.staged_bytes) == (267, 0, 0)
        writer.append(b"flushed", mode=Mode.FLUSH)
        writer.append(b"staged", mode=Mode.STAGE)
        told = binlog.stat(log)
        assert (told.files[0].tail, told.files[0].durable_end, told.unsynced_bytes) == (278, 267, 11)
        assert told.staged_bytes == 64  # 10, up to a multiple of 32, after an entry of 32
        assert told.memory_bytes is not None
        assert told.memory_bytes > told.staged_bytes
        writer.sync()
        told = binlog.stat(log)
        assert (told.files[0].durable_end, told.unsynced_bytes, told.staged_bytes) == (288, 0, 0)
    assert binlog.stat(log).memory_bytes is None


def test_stat_does_not_change_shared_memory(log: Path) -> None:
    with Writer(log, background=_NEVER) as writer:
        writer.append(b"flushed", mode=Mode.FLUSH)
        before = binlog.stat(log)
        for _ in range(100):
            assert binlog.stat(log) == before
        writer.append(b"staged", mode=Mode.STAGE)
        assert binlog.stat(log).staged_bytes == 64


def test_a_foreign_file_has_no_durable_end(log: Path) -> None:
    log.mkdir()
    jpos_file(log, [b"theirs"])
    told = binlog.stat(log)
    assert (told.files[0].durable_end, told.unsynced_bytes, told.memory_bytes) == (None, None, None)
    assert told.used_bytes == told.files[0].tail


def test_files_being_prepared_are_shown(log: Path) -> None:
    with Writer(log, cutover_bytes=1000) as writer:
        writer.append(bytes(900 - 256))
        writer._open_session().keep_limits()
        told = binlog.stat(log)
        assert told.new_bytes == 1 << 20
        assert told.disk_bytes == told.files[0].disk_bytes + told.index_bytes + told.new_bytes
