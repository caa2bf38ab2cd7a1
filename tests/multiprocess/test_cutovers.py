"""Cutovers by many while others append: none lost, none twice, no dead end."""

from __future__ import annotations

from pathlib import Path

import pytest

import binlog
from tests.support.logs import all_raw_records, job, jobs_by_writer, read_all
from tests.support.workers import append_and_cut_over, append_jobs, append_within, cut_over, follow_until, run_all


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_storm_of_cutovers_gives_one_each(log: Path, method: str) -> None:
    stormers, cutovers, writers, count = 4, 25, 4, 200
    results = run_all(
        method,
        [(cut_over, (log, cutovers, False)) for _ in range(stormers)]
        + [(append_jobs, (log, writer, count)) for writer in range(writers)],
    )
    numbers = [number for own in results[:stormers] for number in own]
    assert sorted(numbers) == list(range(2, 2 + stormers * cutovers))
    assert jobs_by_writer(all_raw_records(log)) == {writer: list(range(count)) for writer in range(writers)}
    assert [file.number for file in binlog.stat(log).files] == list(range(1, 2 + stormers * cutovers))
    assert jobs_by_writer(read_all(log)) == jobs_by_writer(all_raw_records(log))


def test_those_that_expect_a_number_cut_it_over_once(log: Path) -> None:
    results = run_all("fork", [(cut_over, (log, 20, True)) for _ in range(6)])
    last = max(number for own in results for number in own)
    assert binlog.stat(log).files[-1].number == last
    assert 21 <= last <= 1 + 6 * 20


def test_followers_see_every_record_through_the_storm(log: Path) -> None:
    writers, count = 4, 150
    log.mkdir()
    last = job(99, 0)
    with binlog.Writer(log) as writer:
        writer.append(job(98, 0))
    results = run_all(
        "fork",
        [(_appends_then_last, (log, writers, count, last))] + [(follow_until, (log, last)) for _ in range(3)],
    )
    for found in results[1:]:
        assert found == all_raw_records(log)


def _appends_then_last(log: Path, writers: int, count: int, last: bytes) -> None:
    run_all("fork", [(append_and_cut_over, (log, writer, count, 10)) for writer in range(writers)])
    with binlog.Writer(log) as writer:
        writer.append(last)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_eight_with_a_limit_cut_over_once_a_file(log: Path, method: str) -> None:
    writers, count, cutover_bytes, record_bytes = 8, 150, 5000, 44
    results = run_all(method, [(append_within, (log, writer, count, cutover_bytes)) for writer in range(writers)])
    assert all(refs == sorted(refs) for refs in results)
    assert jobs_by_writer(all_raw_records(log)) == {writer: list(range(count)) for writer in range(writers)}
    *closed, last = binlog.stat(log).files
    assert len(closed) > 3
    # No file is closed before it has reached the limit, which a file closed twice over would not have.
    assert all(cutover_bytes <= file.tail < cutover_bytes + 2 * writers * record_bytes for file in closed)
    assert last.tail < cutover_bytes + 2 * writers * record_bytes
