"""The judge of flipped bits finds what is wrong, and the table has every bit that it is to have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import binlog
from binlog.errors import CorruptError, InternalError
from binlog.format.log_header import LOG_HEADER
from stress.crash.flips import judge as judging
from stress.crash.flips.judge import judge
from stress.crash.flips.logs import Promise, Sound, sound_logs
from stress.crash.flips.sweep import all_flips, quick_flips

FILE = "00000001.dat"
IDENTITY = 8 * LOG_HEADER.offset("uuid")
BELL = 8 * LOG_HEADER.offset("doorbell")


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sound]:
    return {sound.name: sound for sound in sound_logs(tmp_path_factory.mktemp("sounds"))}


@pytest.mark.slow
def test_every_bit_is_in_the_table_once(sounds: dict[str, Sound]) -> None:
    flips = all_flips(list(sounds.values()))
    assert len({str(flip) for flip in flips}) == len(flips) > 80_000
    assert len(sounds["header 2 of 3"].bits()) == 2048
    index = sounds["index 2 of 3"]
    assert len(index.bits()) == 8 * len(index.files["00000002.idx"])
    targets = [name for sound in sounds.values() for name in sound.targets]
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
    assert {sound.name for sound in sounds.values()} >= {flip.sound.name for flip in quick_flips(list(sounds.values()))}


@pytest.mark.slow
def test_nothing_is_wrong_with_a_bit_that_means_nothing(sounds: dict[str, Sound], tmp_path: Path) -> None:
    assert judge(sounds["header 1 of 3"], FILE, BELL, tmp_path) == []


@pytest.mark.slow
def test_a_promise_that_is_not_kept_is_told(sounds: dict[str, Sound], tmp_path: Path) -> None:
    sound = replace(sounds["header 1 of 1"], promise=Promise.READ)
    wrong = "\n".join(judge(sound, FILE, IDENTITY, tmp_path))
    assert "reading first: " in wrong
    assert "writers are refused" in wrong


def test_a_lost_record_is_told(sounds: dict[str, Sound], tmp_path: Path) -> None:
    sound = sounds["header 1 of 3"]
    lost = replace(sound, records=[*sound.records, b"never appended"])
    wrong = "\n".join(judge(lost, FILE, BELL, tmp_path))
    assert "reading first: 12 records, no error" in wrong
    assert "without [b'never appended']" in wrong


def test_a_turn_that_is_told_wrong_is_told(sounds: dict[str, Sound], tmp_path: Path) -> None:
    sound = replace(sounds["turn written, header, 1"], turn=2)
    wrong = "\n".join(judge(sound, FILE, BELL, tmp_path))
    assert "the last turn is 1, without an error" in wrong


@pytest.mark.parametrize("error", [ValueError("none of ours"), InternalError("ours, and a fault")])
def test_an_error_that_is_not_of_the_tree_is_told(
    sounds: dict[str, Sound], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def check(path: Path) -> list[binlog.Problem]:
        raise error

    monkeypatch.setattr(judging.binlog, "check", check)
    assert str(error) in "\n".join(judge(sounds["header 1 of 1"], FILE, BELL, tmp_path))


def test_a_refusal_that_changes_something_is_told(
    sounds: dict[str, Sound], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def repair(path: Path, *, dry_run: bool = False) -> list[binlog.Repair]:
        (path / "00000001.idx").unlink()
        raise CorruptError(path, 0, "planted", "refused")

    monkeypatch.setattr(judging.binlog, "repair", repair)
    wrong = "\n".join(judge(sounds["header 1 of 1"], FILE, BELL, tmp_path))
    assert "repairing: CorruptError: " in wrong
    assert "yet it changed 00000001.idx (gone)" in wrong
