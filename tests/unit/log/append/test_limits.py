"""Limits on the open file's size and age: which writer cuts over, when, and that no append fails of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import binlog
from binlog import Mode, Reader, Ref, Writer
from tests.support.logs import jpos_file, read_all
from tests.unit.cli.run_command import wait_for

RECORD = b"x" * 96  # 100 bytes with its length


def _closed(log: Path) -> list[bool]:
    return [file.closed for file in binlog.stat(log).files]


@pytest.mark.parametrize("mode", [Mode.SYNC, Mode.FLUSH])
def test_the_append_that_brings_the_file_to_its_limit_closes_it(log: Path, mode: Mode) -> None:
    with Writer(log, mode=mode, cutover_bytes=256 + 300) as writer:
        refs = [writer.append(RECORD) for _ in range(7)]
    assert refs == [
        Ref(1, 256), Ref(1, 356), Ref(1, 456),
        Ref(2, 256), Ref(2, 356), Ref(2, 456),
        Ref(3, 256),
    ]  # fmt: skip
    assert [file.tail for file in binlog.stat(log).files] == [556, 556, 356]
    assert _closed(log) == [True, True, False]
    assert read_all(log) == [RECORD] * 7


def test_records_that_go_together_stay_together_beyond_the_limit(log: Path) -> None:
    with Writer(log, cutover_bytes=300) as writer:
        refs = writer.append_many([RECORD] * 5)
        assert writer.append(RECORD) == Ref(2, 256)
    assert {ref.number for ref in refs} == {1}


def test_a_record_too_large_for_the_fast_path_counts(log: Path) -> None:
    with Writer(log, cutover_bytes=100_000) as writer:
        writer.append(b"x" * 200_000)
        assert writer.append(RECORD) == Ref(2, 256)


@pytest.mark.slow
def test_a_staged_record_counts_after_its_flush(log: Path) -> None:
    with Writer(log, mode=Mode.STAGE, cutover_bytes=300) as writer:
        writer.append(RECORD)
        wait_for(lambda: log.joinpath("00000002.dat").exists())
        writer.append(RECORD)
    assert binlog.stat(log).files[1].record_count == 1


def test_a_file_that_others_fill_is_closed_by_the_writer_with_a_limit(log: Path) -> None:
    with Writer(log, cutover_bytes=500) as limited, Writer(log) as other:
        for _ in range(5):
            other.append(RECORD)
        wait_for(lambda: _closed(log)[0])
        # After the third record it may be closed at any time.
        assert other.append(RECORD).number == limited.append(RECORD).number == 2


def test_an_idle_file_is_closed_in_time(log: Path) -> None:
    with Writer(log, cutover_seconds=0.05) as writer:
        writer.append(RECORD)
        wait_for(lambda: _closed(log)[0])
        assert len(binlog.stat(log).files) == 2
        assert writer.append(RECORD).number == 2


def test_an_old_file_without_records_is_not_closed(log: Path) -> None:
    with Writer(log, cutover_seconds=0.01, cutover_bytes=1) as writer:
        session = writer._open_session()
        made_ns = binlog.stat(log).files[0].created_ns
        assert made_ns is not None
        session.keep_limits()
        wait_for(lambda: _age_ns(log) > 20_000_000)
        session.keep_limits()
    assert _closed(log) == [False]


def _age_ns(log: Path) -> int:
    return time.time_ns() - (binlog.stat(log).files[0].created_ns or 0)


@pytest.mark.slow
def test_a_writer_in_a_loop_meets_the_limit_of_age(log: Path) -> None:
    with Writer(log, mode=Mode.FLUSH, cutover_seconds=0.05) as writer:
        numbers = set()

        def appended() -> bool:
            numbers.add(writer.append(RECORD).number)
            return len(numbers) > 3

        wait_for(appended)


def test_an_append_does_not_fail_because_the_cutover_does(log: Path) -> None:
    with Writer(log, cutover_bytes=300, prepare_bytes=4096) as writer:
        # The next number is taken by a file of another log, which cannot follow this file.
        with Writer(log.parent / "other") as other:
            other.append(b"other")
            other.cutover()
        stranger = log / "00000002.dat"
        os.link(log.parent / "other" / "00000002.dat", stranger)
        assert [writer.append(RECORD) for _ in range(3)] == [Ref(1, 256), Ref(1, 356), Ref(1, 456)]
        stranger.unlink()
        wait_for(lambda: _closed(log)[0])
        assert writer.append(RECORD).number == 2


def test_a_file_of_another_program_is_closed_at_its_limit(log: Path) -> None:
    log.mkdir()
    jpos_file(log, [b"theirs"])
    with Writer(log, cutover_bytes=300, cutover_seconds=0.001) as writer:
        writer.append(b"ours")
        writer.append(RECORD)
        assert writer.append(b"ours") == Ref(2, 256)
    assert read_all(log) == [b"theirs", b"ours", RECORD, b"ours"]


def test_the_next_file_is_prepared_before_the_limit_is_reached(log: Path) -> None:
    with Writer(log, cutover_bytes=1000) as writer:
        writer.append(RECORD)
        writer._open_session().keep_limits()
        assert not list(log.glob(".*.new"))
        for _ in range(5):
            writer.append(RECORD)
        wait_for(lambda: bool(list(log.glob(".00000002.dat.*.new"))))
        prepared = os.stat(next(log.glob(".00000002.dat.*.new"))).st_ino
        for _ in range(3):
            writer.append(RECORD)
        assert os.stat(log / "00000002.dat").st_ino == prepared
    assert not list(log.glob(".*.new"))


@pytest.mark.slow
def test_a_forked_child_keeps_the_limits(log: Path) -> None:
    with Writer(log, cutover_seconds=0.05) as writer, Reader(log) as reader:
        child = os.fork()
        if child == 0:
            try:
                writer.append(RECORD)
                wait_for(lambda: _closed(log)[0])
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [entry.data for entry in reader] == [RECORD]


@pytest.mark.parametrize("limits", [{"cutover_bytes": 0}, {"cutover_seconds": 0.0}, {"cutover_seconds": float("nan")}])
def test_invalid_limits_are_refused(log: Path, limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="cutover"):
        Writer(log, **limits)  # type: ignore[call-overload]
    assert not log.exists()
