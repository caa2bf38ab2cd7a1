"""The program that changes sealed logs finds each change, and notices if one is not found."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from binlog.seal import Rule, SigningKey
from stress.tamper import changes
from stress.tamper.__main__ import change_one
from stress.tamper.sealed_log import SealedLog

KEY = SigningKey.generate("example.org/tampered")


@pytest.mark.slow
def test_changes_at_random_are_found(in_memory: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    for number in range(50):
        folder = in_memory / str(number)
        folder.mkdir()
        name, wrong = change_one(folder, KEY, chance)
        assert wrong is None, f"seed {seed}, {name}"


@pytest.mark.slow
def test_a_change_that_is_not_found_is_reported(in_memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stress.tamper.__main__.tamper", lambda log, chance: ("nothing", frozenset(Rule)))
    name, wrong = change_one(in_memory, KEY, random.Random(1))
    assert (name, wrong is not None and wrong.startswith("found by []")) == ("nothing", True)


@pytest.mark.slow
@pytest.mark.parametrize("change", changes.FILES, ids=lambda change: change.__name__)
def test_each_change_of_files_is_found(in_memory: Path, change: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def by(log: SealedLog, chance: random.Random) -> tuple[str, frozenset[Rule]]:
        assert callable(change)
        return "it", change(log, chance)

    monkeypatch.setattr("stress.tamper.__main__.tamper", by)
    assert change_one(in_memory, KEY, random.Random(2)) == ("it", None)
