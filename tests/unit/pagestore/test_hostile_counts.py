"""Counts and numbers that a store's files contradict: they are refused at once, with little memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog.errors import CorruptError
from binlog.format.pagestore.log import LOG_RECORD, RECORDS_AT, ActionKind, pack_actions, pack_record, parse_log_start
from binlog.format.pagestore.other_files import LOG_FILE
from binlog.pagestore import PageStore, check_page_store, stat_page_store

_BYTES_MAX = 20 << 20
_SECONDS_MAX = 10.0


def _make_store(path: Path) -> Path:
    with PageStore(path) as store:
        store.create_queue("q")
        with store.transaction() as transaction:
            transaction.put("q", b"body")
    return path


def _assert_refused(path: Path, rule: str) -> None:
    before = {each.name: each.read_bytes() for each in path.iterdir() if each.is_file()}
    calls: tuple[Callable[[], object], ...] = (lambda: PageStore(path), lambda: stat_page_store(path))
    tracemalloc.start()
    began = time.monotonic()
    try:
        for call in calls:
            with pytest.raises(CorruptError) as caught:
                call()
            assert caught.value.rule == rule
        assert [problem.rule for problem in check_page_store(path)] == [rule]
        assert tracemalloc.get_traced_memory()[1] < _BYTES_MAX
    finally:
        tracemalloc.stop()
    assert time.monotonic() - began < _SECONDS_MAX
    assert {each.name: each.read_bytes() for each in path.iterdir() if each.is_file()} == before


@pytest.mark.parametrize("kind", [ActionKind.INSERT, ActionKind.UPDATE, ActionKind.DELETE])
def test_a_page_far_after_the_last_one_is_refused(tmp_path: Path, kind: ActionKind) -> None:
    path = _make_store(tmp_path / "s")
    log = bytearray((path / LOG_FILE).read_bytes())
    start = parse_log_start(bytes(log), "log")
    record = pack_record(9, RECORDS_AT, 1, pack_actions([(kind, 300_000_000, 0, b"")]), start.salt, RECORDS_AT)
    log[RECORDS_AT : RECORDS_AT + len(record)] = record
    (path / LOG_FILE).write_bytes(log)
    _assert_refused(path, "page")


def test_endless_false_record_starts_do_not_slow_recovery(tmp_path: Path) -> None:
    path = _make_store(tmp_path / "s")
    log = bytearray((path / LOG_FILE).read_bytes())
    start = parse_log_start(bytes(log), "log")
    size = 1 << 20
    head = bytearray(pack_record(9, RECORDS_AT, 0, b"", start.salt, RECORDS_AT)[: LOG_RECORD.size])
    head[LOG_RECORD.offset("action_bytes") : LOG_RECORD.offset("action_bytes") + 4] = (size // 2).to_bytes(4)
    log[RECORDS_AT:] = bytes(head) * (size // len(head))
    (path / LOG_FILE).write_bytes(log)
    _assert_refused(path, "check")
