"""The history of checkpoints: it does not end long before the newest checkpoint."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from binlog import Writer
from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.format.seal.note import NOTE_SEPARATOR, Note, parse_notes
from binlog.seal import Rule, Sealer, SigningKey, begin_seal, verify

KEY = SigningKey.generate("example.org/audit")
HOUR = 3600


def _seal(log: Path, record: bytes) -> None:
    with Writer(log) as writer:
        writer.append(record)
    with Sealer(log, KEY) as sealer:
        sealer.seal()


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of which three checkpoints were signed, each an hour after the one before."""
    log, now = tmp_path / "log", time.time()
    for hours in (-2, -1, 0):
        monkeypatch.setattr("time.time", lambda hours=hours: now + hours * HOUR)
        if hours == -2:
            Writer(log).close()
            begin_seal(log, KEY)
        _seal(log, b"%d" % hours)
    return log


def _rules(log: Path) -> list[Rule]:
    return [finding.rule for finding in verify(log, str(KEY.verifier)).findings if finding.rule is not Rule.INDEX_TIME]


def _history(log: Path) -> list[Note]:
    return list(parse_notes((log / "seal" / "history").read_bytes()))


@pytest.mark.parametrize("left", [0, 1, 2])
def test_the_end_of_the_history_is_missed(log: Path, left: int) -> None:
    notes = _history(log)
    assert [parse_checkpoint(note.text).size for note in notes] == [1, 2, 3]
    assert _rules(log) == []
    (log / "seal" / "history").write_bytes(b"".join(NOTE_SEPARATOR + str(note).encode() for note in notes[:left]))
    assert _rules(log) == [Rule.MISSING]
    (log / "seal" / "history").unlink()
    assert _rules(log) == [Rule.MISSING]


@pytest.mark.slow
def test_a_sealer_killed_after_it_wrote_its_state_is_continued(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = time.time() + HOUR
    monkeypatch.setattr("time.time", lambda: later)
    for name in ("history", "checkpoint"):
        shutil.copy(log / "seal" / name, tmp_path)
    _seal(log, b"more")
    for name in ("history", "checkpoint"):
        shutil.copy(tmp_path / name, log / "seal")
    assert _rules(log) == []
    _seal(log, b"still more")
    assert [parse_checkpoint(note.text).size for note in _history(log)] == [1, 2, 3, 4]
    assert verify(log, str(KEY.verifier)).size == 5
    assert _rules(log) == []
