"""Kill: a process dies at each call of its producer batches.  After a retry, each batch is in the log once."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Batch, ExternalFileWriter, Message, Mode, Producer, Writer
from stress.crash.preloaded.injector import Kind
from tests.support.logs import read_all
from tests.support.preloaded import kill_at_each_call, run_preloaded
from tests.support.turns import in_turn

pytestmark = pytest.mark.slow

# All records are alike, also those of other writers: their content does not say which batch they belong to.
SAME = b"the same for all"
BATCH_RECORDS = 3
BATCHES = 2

Work = Callable[[Path], None]


def _append_batches(log: Path) -> None:
    with Writer(log) as writer:
        for number in range(BATCHES):
            batches = [Batch.from_records([SAME]), Batch.from_records([SAME] * (BATCH_RECORDS - 1))]
            writer.append_idempotent(batches, producer="s", sequence=number)


def _ingest_files(log: Path) -> None:
    """Append the same batches, each as two external files."""
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


def _recover(log: Path) -> None:
    """Append without a thread, which would inspect the shared memory of every log on this machine, and be killed
    there."""
    with Writer(log) as writer:
        writer.append(SAME)


def _hold(log: Path, others: int) -> None:
    """Append `others` records from elsewhere, retry the batches, and check that the log has everything once."""
    assert binlog.check(log) == []
    for _ in range(others):
        _append(log)
    with Writer(log):
        pass  # opening finishes an ingest that was decided
    before = len(read_all(log))
    _append_batches(log)
    found = read_all(log)
    assert len(found) in (before, before + BATCH_RECORDS, before + 2 * BATCH_RECORDS)
    assert set(found) == {SAME}
    assert binlog.check(log) == []
    assert list(log.glob("*.next")) == []


@pytest.mark.parametrize("others", [0, BATCH_RECORDS])
@pytest.mark.parametrize("work", in_turn([_append_batches, _ingest_files]))
def test_a_producer_batch_killed_at_each_call_is_in_the_log_once(
    in_memory: Path, work: Work, others: int, figure: Callable[[str], None]
) -> None:
    """others: records alike that another writer appends before the batches are retried; as many as a batch has."""
    log, start = in_memory / "log", in_memory / "start"
    _append(start)
    died = 0
    # An ingest makes three times as many calls.
    for run in kill_at_each_call(work, start, log, step=1 if work is _append_batches else 2):
        _hold(log, others)
        assert len(read_all(log)) == 1 + BATCHES * BATCH_RECORDS + others, died
        died += run.killed
    assert died > 100
    figure(f"turns killed at each call ({work.__name__}), {others} alike appended between: {died} deaths")


def _kill_first_batch(moment: str, start: Path, log: Path) -> None:
    """Leave in `log` the state of `start` after one of these moments of the first batch.

    named: right after its file got its name.  slotted: at the commit's sync, with the slot written.
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
def test_a_writer_killed_at_each_call_while_it_resolves_a_batch_resolves_it_once(
    in_memory: Path, moment: str, figure: Callable[[str], None]
) -> None:
    log, start = in_memory / "log", in_memory / "killed"
    _append(in_memory / "start")
    _kill_first_batch(moment, in_memory / "start", start)
    there = moment == "slotted"
    died = 0
    for run in kill_at_each_call(_recover, start, log):
        _append(log)
        found = len(read_all(log)) - 1 - (BATCH_RECORDS if there else 0)
        assert found in (1, 2), died
        _hold(log, 0)
        assert len(read_all(log)) == 1 + BATCHES * BATCH_RECORDS + found, died
        died += run.killed
    assert died > 20
    figure(f"a turn killed when {moment}, and the writer that resolves it: {died} deaths")


MESSAGES = 4


def _append_messages(log: Path) -> None:
    with Producer(log, "till-7") as producer:
        while (number := 0 if producer.last is None else producer.last + 1) < MESSAGES:
            producer.append(b"%d" % number)


def test_a_producer_of_messages_killed_at_each_call_continues_without_gap_or_repeat(
    in_memory: Path, figure: Callable[[str], None]
) -> None:
    log, start = in_memory / "log", in_memory / "start"
    _append(start)
    died = 0
    for run in kill_at_each_call(_append_messages, start, log):
        assert binlog.check(log) == []
        _append(log)
        _append_messages(log)
        messages = [Message.parse(record) for record in read_all(log) if record != SAME]
        assert [bytes(message.body) for message in messages] == [b"%d" % number for number in range(MESSAGES)], died
        assert [message.made_by and message.made_by.sequence for message in messages] == list(range(MESSAGES)), died
        assert binlog.check(log) == []
        died += run.killed
    assert died > 100
    figure(f"a producer of messages killed at each call: {died} deaths")
