"""The log's checks find each violation that they are made for."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Mode, Reader, Ref, Writer
from binlog.errors import FullError, UnknownOutcomeError
from binlog.log.ingest.ingestion import Ingestion
from stress.crash.failure_modes.case import round_robin
from stress.crash.marks import Ledger, values_of
from stress.crash.records import identity_of, record_bytes
from stress.crash.system import Crash, ProcessContext
from stress.crash.systems.log.actor import (
    How,
    LogActor,
    Mark,
    MarkKind,
    ProducerCall,
    append_producer_batch,
    mark_of,
    producer_calls,
)
from stress.crash.systems.log.expectation import Entries, Expectation, Observation, compare
from stress.crash.systems.log.system import LogSystem
from tests.support.crash_harness import Marks, verdict

SOURCE = 5
NOWHERE = Ref(0, 0)


def wrong_with(log: Path, *marks: Mark) -> list[str]:
    return verdict(LogSystem(), log, marks, Crash.POWER)


def written(log: Path, *records: bytes) -> list[Ref]:
    with Writer(log, prepare_bytes=4096) as writer:
        return [writer.append(record) for record in records]


def tried(writer: int, first: int, count: int = 1, how: How = How.PLAIN) -> Mark:
    return Mark(MarkKind.TRIED, writer, first, count, how)


def told(writer: int, first: int, ref: Ref = NOWHERE, count: int = 1, kind: MarkKind = MarkKind.DURABLE) -> Mark:
    return Mark(kind, writer, first, count, ref=ref)


rec = record_bytes
TRIED = [tried(0, 0), tried(0, 1, 2), tried(1, 0)]


def test_an_intact_log_has_no_violation(tmp_path: Path) -> None:
    one, two, three, _ = written(tmp_path / "log", rec(0, 0), rec(1, 0), rec(0, 1), rec(0, 2))
    assert wrong_with(tmp_path / "log", *TRIED, told(0, 0, one), told(1, 0, two), told(0, 1, three, 2)) == []


def test_no_log_has_no_violation_if_nothing_was_acknowledged(tmp_path: Path) -> None:
    assert wrong_with(tmp_path / "log", *TRIED) == []
    assert next(binlog.Reader(tmp_path / "log")).ref == Ref(1, 256)


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([], "record 0 of writer 0 was acknowledged, but is missing"),
        ([rec(0, 0), rec(0, 0)], "record 0 of writer 0 is in the log twice"),
        ([rec(0, 0), rec(0, 2), rec(0, 1)], "follows its record 2"),
        (
            [rec(0, 0), rec(0, 1)],
            "record 2 of writer 0 and record 1 belong to one call, but only one of them is in the log",
        ),
        ([rec(0, 0), rec(0, 1)[:-1] + b"\0"], "was never appended"),
        ([rec(0, 0), rec(3, 0)], "record 0 of writer 3, at 1:294, was not tried"),
        ([rec(1, 0), rec(0, 0)], "was acknowledged at 1:256, but is at"),
    ],
    ids=["lost", "twice", "out of order", "half a call", "torn", "another writer's", "elsewhere"],
)
def test_each_violation_is_found(tmp_path: Path, records: list[bytes], text: str) -> None:
    written(tmp_path / "log", *records)
    assert any(text in line for line in wrong_with(tmp_path / "log", *TRIED, told(0, 0, Ref(1, 256))))


def test_a_lost_cutover_is_found(tmp_path: Path) -> None:
    written(tmp_path / "log", rec(0, 0))
    cut_over = Mark(MarkKind.CUT_OVER, 0, ref=Ref(2, 0))
    assert wrong_with(tmp_path / "log", *TRIED, cut_over) == ["the log continues in file 1, but was cut over to 2"]


@pytest.mark.parametrize(("at", "text"), [(0, "CorruptError"), (79, "check before opening"), (124, "live-crc")])
def test_a_log_that_cannot_be_opened_is_found(tmp_path: Path, at: int, text: str) -> None:
    written(tmp_path / "log", rec(0, 0))
    path = tmp_path / "log" / "00000001.dat"
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert any(text in line for line in wrong_with(tmp_path / "log", *TRIED))


@pytest.mark.parametrize("mark", [tried(3, 4, 5, How.FILES), told(1, 2, Ref(3, 1 << 39)), told(1, 2, count=7)])
def test_marks_survive_the_trace_and_the_ledger(mark: Mark) -> None:
    ledger = Ledger()
    for _ in range(2):
        ledger.mark(mark)
    assert [mark_of(values) for values in ledger.marks()] == [mark, mark]
    ledger.clear()
    assert ledger.count == 0
    ledger.close()


@pytest.mark.parametrize("how", [How.BATCH, How.FILES])
@pytest.mark.parametrize("taken", [0, 1, 2])
def test_retried_producer_batches_are_in_the_log_once(tmp_path: Path, how: How, taken: int) -> None:
    """taken: the number of batches that are in the log before."""
    log = tmp_path / "log"
    calls = [ProducerCall(SOURCE, 0, 3, how), ProducerCall(SOURCE, 3, 1, how)]
    marks = [Mark(MarkKind.TRIED, *each) for each in calls]
    with Writer(log, prepare_bytes=4096) as writer:
        for each in calls[:taken]:
            first = each.first
            for count, ref in append_producer_batch(writer, log, each):
                marks.append(told(SOURCE, first, ref, count))
                first += count
    assert producer_calls(Marks(marks)) == calls
    assert wrong_with(log, *marks) == []


@pytest.mark.parametrize(
    ("how", "there", "is_told"),
    [
        (How.BATCH, [rec(SOURCE, 0)], True),
        # A reader may see the first file of an ingest, which has one record, before a writer has finished it.
        (How.FILES, [rec(SOURCE, 0)], False),
        (How.FILES, [rec(SOURCE, 0), rec(SOURCE, 1)], True),
        (How.FILES, [rec(SOURCE, 0), rec(0, 0)], True),  # an appending writer finishes it first
    ],
)
def test_half_of_a_retried_producer_batch_is_found(tmp_path: Path, how: How, there: list[bytes], is_told: bool) -> None:
    log = tmp_path / "log"
    written(log, *there)
    wrong = wrong_with(log, tried(SOURCE, 0, 3, how), tried(0, 0))
    assert any("a reader saw half a call" in line for line in wrong) == is_told
    assert any("was retried, but the log has" in line for line in wrong)


def _lived(log: Path) -> tuple[Marks, Entries]:
    """Let two writers append alternately; the last append of the first one is refused."""
    marks = Marks()
    first, second = (
        LogActor(log, ProcessContext(marks, number, random.Random(1)), record_bytes_max=2000) for number in (0, 1)
    )
    for _ in range(2):
        first.append()
        second.append_many(2)
    first.append(Mode.FLUSH)
    with pytest.raises(FullError):
        first.append(size=3000)
    first.close()
    second.close()
    with Reader(log) as reader:
        return marks, [(entry.ref, identity_of(entry.data) or (-1, 0)) for entry in reader]


def _judged(marks: Marks, entries: Entries, *, died: bool = True) -> list[str]:
    expected = LogSystem().expect(marks)
    if died:
        expected.died()
    sizes = {identity: len(record_bytes(*identity)) for _, identity in entries}
    seen = Observation(before=entries, after=entries, sizes=sizes, number=1)
    return compare(seen, expected, expected, in_order=True)


WRONG: dict[str, Callable[[Entries], Entries]] = {
    "but is missing": lambda entries: entries[1:],
    "in the log twice": lambda entries: [*entries, entries[0]],
    "follows its record": lambda entries: [entries[3], *entries[:3], *entries[4:]],
    "but is at": lambda entries: [(Ref(1, 999), entries[0][1]), *entries[1:]],
    "was refused": lambda entries: [*entries, (Ref(1, 9000), (0, 3))],
    "was not tried": lambda entries: [*entries, (Ref(1, 9000), (0, 4))],
    "belong to one call": lambda entries: entries[:2] + entries[3:],
}


@pytest.mark.parametrize("what", WRONG)
def test_each_violation_after_a_death_is_found(log: Path, what: str) -> None:
    marks, entries = _lived(log)
    assert len(entries) == 7
    assert _judged(marks, entries) == []
    assert any(what in line for line in _judged(marks, WRONG[what](entries)))


def test_unsynced_records_may_be_lost_only_in_a_power_cut_and_only_at_the_end(log: Path) -> None:
    marks, entries = _lived(log)
    assert _judged(marks, entries[:-1]) != []
    assert _judged(marks, entries[:-1], died=False) == []
    marks += Marks([tried(0, 4)])
    assert _judged(marks, [*entries[:-1], (Ref(1, 9000), (0, 4))], died=False) == [
        "record 2 of writer 0 is missing, but a later one is in the log"
    ]
    marks += Marks([Mark(MarkKind.SYNCED, 0)])
    assert _judged(marks, entries[:-1], died=False) == ["record 2 of writer 0 was acknowledged, but is missing"]


def test_external_files_are_the_next_files_and_are_promised_despite_an_unknown_outcome(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = Marks()
    actor = LogActor(log, ProcessContext(marks, 1, random.Random(1)))
    actor.append()
    actor.produce(3, How.FILES)
    begin = Ingestion.begin

    def begun(self: Ingestion, *arguments: object, **named: object) -> None:
        begin(self, *arguments, **named)  # type: ignore[arg-type]
        raise UnknownOutcomeError("no space for the next name")

    monkeypatch.setattr(Ingestion, "begin", begun)
    with pytest.raises(UnknownOutcomeError):
        actor.produce(3, How.FILES)
    monkeypatch.undo()
    actor.append()
    actor.close()
    with Reader(log) as reader:
        entries = [(entry.ref, identity_of(entry.data) or (-1, 0)) for entry in reader]
    assert [ref.number for ref, _ in entries][:4] == [1, 2, 3, 3]
    assert _judged(marks, entries) == []
    expected = LogSystem().expect(marks)
    assert expected.decided_count == 1
    missing = [f"record {index} of writer 1 was promised to join the log, but is missing" for index in (4, 5, 6)]
    assert _judged(marks, [each for each in entries if each[1][1] not in (4, 5, 6)]) == missing


def test_one_case_of_each_kind_comes_before_the_second_of_any() -> None:
    assert round_robin(["a1", "a2", "b1", "a3", "c1", "b2"], lambda case: case[0]) == [
        "a1",
        "b1",
        "c1",
        "a2",
        "b2",
        "a3",
    ]
    assert round_robin([], str) == []


def test_a_record_that_was_not_tried_until_then_is_found() -> None:
    most, least = Expectation(), LogSystem().expect([values_of(tried(0, 0))])
    seen = Observation(before=[(Ref(1, 256), (0, 0))], after=[(Ref(1, 256), (0, 0))])
    assert compare(seen, least, least, in_order=True) == []
    assert compare(seen, least, most, in_order=True) == ["record 0 of writer 0, at 1:256, was not tried"]
