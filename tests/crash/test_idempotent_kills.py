"""Kill: a process dies at each call of its producer batches; after a retry each is in the log once, and whole."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Batch, ExternalFileWriter, Mode, Writer
from stress.crash.striker import Kind
from tests.support.logs import read_all
from tests.support.preloaded import kill_at_each_call, run_preloaded

pytestmark = pytest.mark.slow

# All records of all batches and writers are equal, so no content identifies a batch.
SAME = b"the same for all"
BATCH_RECORDS = 3
BATCHES = 2

Work = Callable[[Path], None]


def _append_batches(log: Path) -> None:
    with Writer(log) as writer:
        for number in range(BATCHES):
            batches = [Batch.from_records([SAME]), Batch.from_records([SAME] * (BATCH_RECORDS - 1))]
            writer.append_idempotent(batches, producer="s", sequence=number)


def _ingest(log: Path) -> None:
    """The same batches, each as two external files."""
    folder = log / "aside"
    folder.mkdir(exist_ok=True)
    with Writer(log) as writer:
        for number in range(BATCHES):
            files = []
            for count in (1, BATCH_RECORDS - 1):
                with ExternalFileWriter(folder / os.urandom(8).hex()) as external:
                    external.append(Batch.from_records([SAME] * count))
                    files.append(external.finish())
            writer.ingest(files, producer="s", sequence=number)


def _append(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(SAME, mode=Mode.FLUSH)


def _resolve(log: Path) -> None:
    """Without a background thread, which would inspect the shared memory of every log on this machine, and be killed
    there.
    """
    with Writer(log) as writer:
        writer.append(SAME)


def _hold(log: Path, others: int) -> None:
    """Append as another writer does meanwhile, retry the batches, and check that everything is in the log once."""
    assert binlog.check(log) == []
    for _ in range(others):
        _append(log)
    with Writer(log):
        pass  # which finishes a decided ingest
    before = len(read_all(log))
    _append_batches(log)
    found = read_all(log)
    assert len(found) in (before, before + BATCH_RECORDS, before + 2 * BATCH_RECORDS)
    assert set(found) == {SAME}
    assert binlog.check(log) == []
    assert list(log.glob("*.next")) == []


@pytest.mark.parametrize("others", [0, BATCH_RECORDS])
@pytest.mark.parametrize("work", [_append_batches, _ingest])
def test_a_batch_killed_at_each_call_is_in_the_log_once(
    in_memory: Path, work: Work, others: int, figure: Callable[[str], None]
) -> None:
    """others: how many such records another writer appends before the batches are retried; as many as a batch has."""
    log, start = in_memory / "log", in_memory / "start"
    _append(start)
    died = 0
    # Ingests make three times as many calls.
    for run in kill_at_each_call(work, start, log, step=1 if work is _append_batches else 2):
        _hold(log, others)
        assert len(read_all(log)) == 1 + BATCHES * BATCH_RECORDS + others, died
        died += run.killed
    assert died > 100
    figure(f"batches killed at each call ({work.__name__}), {others} equal records appended between: {died} deaths")


def _kill_first_batch(moment: str, start: Path, log: Path) -> None:
    """Leave in `log` the files of `start` as they are at this moment of the first batch.

    named: right after its file has its name.  slotted: at the commit's sync, with the slot written.
    """
    run = functools.partial(run_preloaded, kinds=(Kind.LINK, Kind.SYNC, Kind.DATA_SYNC), shared_memory=False)
    calls = run(_append_batches, shutil.copytree(start, log)).calls
    # Each batch's file gets its name, and then another one.
    names = [at for at, call in enumerate(calls) if call is Kind.LINK]
    assert len(names) == 2 * BATCHES
    slotted = max(at for at in range(names[1]) if calls[at] is Kind.DATA_SYNC)
    kill_at = names[0] + 1 if moment == "named" else slotted
    shutil.rmtree(log)
    shutil.copytree(start, log)
    assert run(_append_batches, log, kill_at=kill_at).calls == calls[: kill_at + 1]


@pytest.mark.parametrize("moment", ["named", "slotted"])
def test_a_writer_killed_while_it_resolves_a_killed_batch_resolves_it_once(
    in_memory: Path, moment: str, figure: Callable[[str], None]
) -> None:
    log, start = in_memory / "log", in_memory / "killed"
    _append(in_memory / "start")
    _kill_first_batch(moment, in_memory / "start", start)
    there = moment == "slotted"
    died = 0
    for run in kill_at_each_call(_resolve, start, log):
        _append(log)
        found = len(read_all(log)) - 1 - (BATCH_RECORDS if there else 0)
        assert found in (1, 2), died
        _hold(log, 0)
        assert len(read_all(log)) == 1 + BATCHES * BATCH_RECORDS + found, died
        died += run.killed
    assert died > 20
    figure(f"a batch killed when {moment}, and the writer that resolves it: {died} deaths")
