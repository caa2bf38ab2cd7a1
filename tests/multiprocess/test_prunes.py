"""Retention by several processes, during appends, cutovers and reads."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from tests.support.logs import job, jobs_by_writer, read_all
from tests.support.workers import append_within, follow_or_start_again, prune_until, run_all


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_prunes_writers_and_readers_at_once(log: Path, method: str) -> None:
    writers, count, cutover_bytes, record_bytes = 4, 300, 5000, 44
    files = writers * count * record_bytes // (cutover_bytes + 2 * writers * record_bytes)
    last = job(99, 0)
    with Writer(log) as writer:
        writer.append(job(98, 0))
    results = run_all(
        method,
        [(prune_until, (log, files - 3)) for _ in range(3)]
        + [(append_within, (log, writer, count, cutover_bytes)) for writer in range(writers)]
        + [(_last_after, (log, last, 1 + writers * count)), (follow_or_start_again, (log, last))],
    )
    removed = sorted(chain.from_iterable(results[:3]))
    assert removed == list(range(1, len(removed) + 1)), "each file was removed once, none before an older one"
    assert binlog.stat(log).files[0].number == len(removed) + 1
    refs = list(chain.from_iterable(results[3 : 3 + writers]))
    assert len(refs) == writers * count
    kept = jobs_by_writer(read_all(log)[:-1])
    for writer in range(writers):
        own = kept.get(writer, [])
        assert own == list(range(count - len(own), count))
    followed = results[-1]
    assert followed[-1] == last
    assert set(read_all(log)) <= set(followed)


def _last_after(log: Path, last: bytes, records: int) -> None:
    """Append the last record, once n others are in the log."""
    with Writer(log) as writer:
        while True:
            newest = binlog.stat(log).files[-1]
            if (newest.first_sequence or 0) + (newest.record_count or 0) >= records:
                break
        writer.append(last)
