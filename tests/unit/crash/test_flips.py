"""The checks of flipped bits find each violation, and the table has every bit that it should."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import binlog
from binlog.errors import CorruptError, InternalError
from binlog.format.log_header import LOG_HEADER
from stress.crash.flips import checker
from stress.crash.flips.checker import check_bit
from stress.crash.flips.logs import IntactLog, Promise, make_intact_logs
from stress.crash.flips.sweep import all_flips, quick_flips

FILE = "00000001.dat"
IDENTITY = 8 * LOG_HEADER.offset("uuid")
BELL = 8 * LOG_HEADER.offset("doorbell")


@pytest.fixture(scope="module")
def intact_logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, IntactLog]:
    return {intact.name: intact for intact in make_intact_logs(tmp_path_factory.mktemp("logs"))}


@pytest.mark.slow
def test_every_bit_is_in_the_table_once(intact_logs: dict[str, IntactLog]) -> None:
    flips = all_flips(list(intact_logs.values()))
    assert len({str(flip) for flip in flips}) == len(flips) > 80_000
    assert len(intact_logs["header 2 of 3"].bits()) == 2048
    index = intact_logs["index 2 of 3"]
    assert len(index.bits()) == 8 * len(index.files["00000002.idx"])
    targets = [name for intact in intact_logs.values() for name in intact.targets]
    for kind in (
        ".dat",
        ".idx",
        ".zst",
        ".producer",
        ".producer.pending",
        ".ingest",
        ".ingest.new",
        ".damaged",
        ".new",
    ):
        assert any(name.endswith(kind) for name in targets), kind
    assert {intact.name for intact in intact_logs.values()} >= {
        flip.intact.name for flip in quick_flips(list(intact_logs.values()))
    }


@pytest.mark.slow
def test_a_bit_without_meaning_causes_no_violation(intact_logs: dict[str, IntactLog], tmp_path: Path) -> None:
    assert check_bit(intact_logs["header 1 of 3"], FILE, BELL, tmp_path) == []


@pytest.mark.slow
def test_a_broken_promise_is_found(intact_logs: dict[str, IntactLog], tmp_path: Path) -> None:
    intact = replace(intact_logs["header 1 of 1"], promise=Promise.READ)
    wrong = "\n".join(check_bit(intact, FILE, IDENTITY, tmp_path))
    assert "reading first: " in wrong
    assert "writers are refused" in wrong


@pytest.mark.slow
def test_a_lost_record_is_found(intact_logs: dict[str, IntactLog], tmp_path: Path) -> None:
    intact = intact_logs["header 1 of 3"]
    lost = replace(intact, records=[*intact.records, b"never appended"])
    wrong = "\n".join(check_bit(lost, FILE, BELL, tmp_path))
    assert "reading first: 12 records, no error" in wrong
    assert "without [b'never appended']" in wrong


@pytest.mark.slow
def test_a_wrong_last_producer_batch_is_found(intact_logs: dict[str, IntactLog], tmp_path: Path) -> None:
    intact = replace(intact_logs["turn written, header, 1"], sequence=2)
    wrong = "\n".join(check_bit(intact, FILE, BELL, tmp_path))
    assert "the last producer batch is 1, without an error" in wrong


@pytest.mark.parametrize("error", [ValueError("not one of ours"), InternalError("ours, and a fault")])
@pytest.mark.slow
def test_an_error_that_is_not_one_of_binlogs_is_found(
    intact_logs: dict[str, IntactLog], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def check(path: Path) -> list[binlog.Problem]:
        raise error

    monkeypatch.setattr(checker.binlog, "check", check)
    assert str(error) in "\n".join(check_bit(intact_logs["header 1 of 1"], FILE, BELL, tmp_path))


@pytest.mark.slow
def test_a_refusal_that_changes_something_is_found(
    intact_logs: dict[str, IntactLog], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def repair(path: Path, *, dry_run: bool = False) -> list[binlog.Repair]:
        (path / "00000001.idx").unlink()
        raise CorruptError(path, 0, "test", "refused")

    monkeypatch.setattr(checker.binlog, "repair", repair)
    wrong = "\n".join(check_bit(intact_logs["header 1 of 1"], FILE, BELL, tmp_path))
    assert "repairing: CorruptError: " in wrong
    assert "yet it changed 00000001.idx (gone)" in wrong
