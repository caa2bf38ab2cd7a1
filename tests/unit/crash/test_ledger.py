"""The ledger's judgement: whatever may be wrong with a log after a death is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from binlog import Entry, Mode, Reader, Ref, Writer
from binlog.errors import FullError, UnknownOutcomeError
from binlog.log.ingest import Ingest
from stress.crash.ledger import Fate, Ledger, record_bytes

ROOM = 100


def written(log: Path) -> tuple[Ledger, list[Entry]]:
    """Two writers, whose records take turns; the first has one that was refused at the end."""
    ledger = Ledger(2, ROOM)
    first, second = ledger.writers
    with Writer(log, record_bytes_max=2000) as writer:
        for _ in range(2):
            first.append(writer)
            second.append_many(writer, 2)
        first.append(writer, Mode.FLUSH)
        with pytest.raises(FullError):
            first.append(writer, size=3000)
    with Reader(log) as reader:
        return ledger, list(reader)


def test_a_sound_log_is_sound(log: Path) -> None:
    ledger, entries = written(log)
    assert len(entries) == 7
    assert ledger.judge(entries) == []
    assert ledger.told == 7


def _moved(entries: list[Entry]) -> list[Entry]:
    entries[0] = Entry(Ref(1, 999), entries[0].data)
    return entries


def _torn(entries: list[Entry]) -> list[Entry]:
    entries[0] = Entry(entries[0].ref, entries[0].data[:-1] + b"?")
    return entries


WRONG: dict[str, Callable[[list[Entry]], list[Entry]]] = {
    "is not there": lambda entries: entries[1:],
    "is there twice": lambda entries: [*entries, entries[0]],
    "comes after": lambda entries: [entries[3], *entries[:3], *entries[4:]],
    "lies at": _moved,
    "nobody appended": _torn,
    "was refused": lambda entries: [*entries, Entry(Ref(1, 9000), record_bytes(0, 3, 3000))],
    "never tried": lambda entries: [*entries, Entry(Ref(1, 9000), record_bytes(0, 4))],
    "one call's": lambda entries: entries[:2] + entries[3:],
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said(log: Path, what: str) -> None:
    ledger, entries = written(log)
    if what == "one call's":  # nobody was told of it
        for index, _, _, first in list(ledger.writers[1].entries()):
            ledger.writers[1]._put(index, 0, Fate.TRIED, first)
    assert any(what in line for line in ledger.judge(WRONG[what](entries)))


def test_what_was_not_synced_may_be_lost_with_the_disk_alone(log: Path) -> None:
    ledger, entries = written(log)
    assert ledger.judge(entries[:-1]) != []
    assert ledger.judge(entries[:-1], least=Fate.DURABLE) == []


def test_a_ledger_begins_anew(log: Path) -> None:
    ledger, _ = written(log)
    ledger.clear()
    assert ledger.told == 0
    assert ledger.judge([]) == []


def test_a_turn_as_drafts_lies_in_the_next_files_or_nowhere(log: Path) -> None:
    ledger = Ledger(1, ROOM)
    (own,) = ledger.writers
    with Writer(log) as writer:
        own.append(writer)
        own.append_drafts(writer, log / "aside", (1, 2))
        with Reader(log) as reader:
            entries = list(reader)
        assert [ref for _, ref, _, _ in own.entries()] == [entry.ref for entry in entries]
        assert [entry.ref.number for entry in entries] == [1, 2, 3, 3]
        own.append_drafts(writer, log / "aside", (1, 2), first=1)
    with Reader(log) as reader:
        assert list(reader) == entries
    assert ledger.judge(entries) == []
    assert ledger.judge(entries[:3]) == ["record 3 of writer 0, acknowledged, is not there"]
    assert any("is there twice" in line for line in ledger.judge([*entries, entries[1]]))


def test_drafts_with_an_unknown_outcome_are_owed(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(1, ROOM)
    (own,) = ledger.writers
    with Writer(log) as writer:
        begin = Ingest.begin

        def begun(self: Ingest, *arguments: object, **named: object) -> None:
            begin(self, *arguments, **named)  # type: ignore[arg-type]
            raise UnknownOutcomeError("no space for the next name")

        monkeypatch.setattr(Ingest, "begin", begun)
        with pytest.raises(UnknownOutcomeError):
            own.append_drafts(writer, log / "aside", (1, 2))
        assert own.decided == 1
        own.append(writer)
    with Reader(log) as reader:
        entries = list(reader)
    assert ledger.judge(entries, least=Fate.DURABLE) == []
    missing = [f"record {index} of writer 0 was to come into the log, and is not there" for index in range(3)]
    assert ledger.judge(entries[3:]) == missing
