"""Failing ingests: the error matches the outcome."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import binlog
from binlog import Batch, Writer
from binlog.errors import AccessError, BusyError, FullError, UnknownOutcomeError
from binlog.format.names import INGEST_FILE
from binlog.log.ingest import ingestion as ingest
from binlog.log.ingest.ingestion import IngestedFile, Ingestion
from binlog.storage.locking.locks import lock
from tests.support.external_files import external_file, external_files
from tests.support.logs import read_all

FULL = FullError("no space", limit=0)


def fail(*_arguments: object, **_named: object) -> None:
    raise FULL


def test_an_append_after_an_ingest_whose_batch_could_not_be_recorded_was_an_internal_error(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Writer(log) as writer, Writer(log) as other:
        other.append(b"before")
        monkeypatch.setattr(Ingestion, "_end", fail)
        batch = writer.ingest(external_files(log, [b"1"], [b"2"]), producer="s", sequence=3)
        writer.append(b"after")
        other.append(b"beside")
        with Writer(log) as third:
            third.append(b"and a third")
            assert third.last_producer_batch("s") == batch
        assert (log / INGEST_FILE).exists()
        monkeypatch.undo()
        writer.cutover()
        assert not (log / INGEST_FILE).exists()
        assert writer.last_producer_batch("s") == batch
    assert read_all(log) == [b"before", b"1", b"2", b"after", b"beside", b"and a third"]
    assert binlog.check(log) == []


def test_a_batch_that_could_not_be_recorded_hides_no_later_one(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(log) as writer:
        monkeypatch.setattr(Ingestion, "_end", fail)
        writer.ingest(external_files(log, [b"1"]), producer="s", sequence=3)
        later = [Batch.from_records([b"2"])]
        batch = writer.append_idempotent(later, producer="s", sequence=4)
        assert batch is not None
        assert writer.append_idempotent(later, producer="s", sequence=4) is None
        assert writer.last_producer_batch("s") == batch
        monkeypatch.undo()
        assert writer.append_idempotent(later, producer="s", sequence=4) is None
        assert writer.last_producer_batch("s") == batch
    assert read_all(log) == [b"1", b"2"]


def test_a_decided_ingest_was_reported_as_not_appended_if_the_lock_was_busy(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Ingestion.begin
    held: list[int] = []

    def begun(self: Ingestion, *arguments: object, **named: object) -> object:
        found = begin(self, *arguments, **named)  # type: ignore[arg-type]
        held.append(os.open(log / "00000002.dat", os.O_RDWR))
        lock(held[0], "the next file")
        return found

    with Writer(log, lock_timeout=0.05) as writer:
        writer.append(b"before")
        monkeypatch.setattr(Ingestion, "begin", begun)
        with pytest.raises(UnknownOutcomeError, match="as soon as a writer can resume the ingest") as told:
            writer.ingest(external_files(log, [b"1"], [b"2"]), producer="s", sequence=0)
        assert isinstance(told.value.__cause__, BusyError)
        os.close(held[0])
        monkeypatch.undo()
        writer.append(b"after")
    assert read_all(log) == [b"before", b"1", b"2", b"after"]


def test_copied_external_files_had_an_unknown_outcome_if_a_later_step_failed(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No later step matters: the copied records are in the log, durably."""
    resume = Ingestion.resume
    calls = []

    def once(self: Ingestion, *arguments: object) -> object:
        calls.append(self)
        if len(calls) > 1:
            raise FULL
        return resume(self, *arguments)  # type: ignore[arg-type]

    with Writer(log) as writer:
        writer.append(b"before")
        monkeypatch.setattr(Ingestion, "resume", once)
        made = external_file(log / "aside", "small", [b"1"], durable_from=100)
        assert writer.ingest([made], producer="s", sequence=0) is not None
        monkeypatch.undo()
    assert read_all(log) == [b"before", b"1"]


@pytest.mark.parametrize("decided", [False, True])
def test_an_ingest_that_could_not_be_cancelled_was_reported_as_not_appended(
    log: Path, monkeypatch: pytest.MonkeyPatch, decided: bool
) -> None:
    """If the record cannot be removed, it decides.  If it never existed, nothing is decided."""

    def broken(*_arguments: object) -> None:
        raise AccessError("removing failed", errno=errno.EIO, path="")

    with Writer(log) as writer:
        writer.append(b"before")
        monkeypatch.setattr(ingest, "remove_ingest", broken)
        if decided:
            monkeypatch.setattr(IngestedFile, "give_name", fail)
        else:
            monkeypatch.setattr(ingest, "write_ingest", fail)
        with pytest.raises(UnknownOutcomeError if decided else FullError):
            writer.ingest(external_files(log, [b"1"], [b"2"]), producer="s", sequence=0)
        monkeypatch.undo()
        writer.append(b"after")
    assert read_all(log) == [b"before", *([b"1", b"2"] if decided else []), b"after"]
    assert sorted(log.glob(".ingest*")) == []
    assert binlog.check(log) == []
