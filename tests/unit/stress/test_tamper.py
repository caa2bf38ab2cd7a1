"""The program that changes sealed logs finds each change, and notices if one is not found."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from binlog.seal import Rule, SigningKey
from stress.tamper import changes
from stress.tamper.__main__ import change_many, change_one, findings, unchanged
from stress.tamper.sealed_log import Life, SealedLog

KEY = SigningKey.generate("example.org/tampered")


@pytest.mark.slow
def test_changes_at_random_are_found(in_memory: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    for name, wrong in change_many(in_memory, KEY, random.Random(seed), 70):
        assert wrong is None, f"seed {seed}, {name}"


@pytest.mark.slow
@pytest.mark.parametrize("life", list(Life), ids=lambda life: life.name)
def test_a_log_that_is_not_changed_has_no_finding(in_memory: Path, life: Life) -> None:
    log = SealedLog(in_memory, KEY, random.Random(1), life)
    assert list(unchanged(log)) == []
    log.path.joinpath("seal", "statements").unlink()
    assert next(finding.rule for finding in findings(log)) is Rule.MISSING


@pytest.mark.slow
def test_a_change_that_is_not_found_is_reported(in_memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stress.tamper.__main__.tamper", lambda log, chance: ("nothing", frozenset(Rule)))
    name, wrong = change_one(SealedLog(in_memory, KEY, random.Random(1)), random.Random(1))
    assert (name, wrong is not None and wrong.startswith("found by []")) == ("nothing", True)


@pytest.mark.slow
@pytest.mark.parametrize("life", list(Life), ids=lambda life: life.name)
def test_each_change_of_files_is_found(in_memory: Path, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    (in_memory / "made").mkdir()
    log = SealedLog(in_memory / "made", KEY, random.Random(2), life)
    for change in changes.FILES if life is Life.NOTHING else changes.SEAL:
        monkeypatch.setattr(
            "stress.tamper.__main__.tamper", lambda log, chance, by=change: (by.__name__, by(log, chance))
        )
        found = change_one(log.copied(in_memory / change.__name__), random.Random(2))
        assert found == (change.__name__, None)
