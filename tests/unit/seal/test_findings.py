"""Findings about times in indexes, and about the witnesses that a policy demands."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from binlog.format.seal.note import WITNESS_KEY, Note
from binlog.seal import Finding, Rule, Sealer, SigningKey, begin_seal, verify
from tests.support.indexes import date_entries

KEY = SigningKey.generate("example.org/audit")
VKEY = str(KEY.verifier)
WITNESSES = [SigningKey.generate(f"example.org/witness{number}", WITNESS_KEY) for number in range(3)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A sealed log of a closed and an open file, with an index entry for each of 40 records."""
    with Writer(tmp_path) as writer:
        begin_seal(tmp_path, KEY)
        for number in range(40):
            writer.append(b"record %d" % number * 100)
            if number == 19:
                writer.cutover()
    with Sealer(tmp_path, KEY) as sealer:
        sealer.seal()
    return tmp_path


def _findings(log: Path) -> list[Finding]:
    return verify(log, VKEY).findings


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("which", ["all", "last"])
def test_times_after_the_checkpoint_that_covers_them_are_found(log: Path, number: int, which: str) -> None:
    assert _findings(log) == []
    now = time.time()
    date_entries(log, number, lambda place, count: now + (7200 if which == "all" or place == count - 1 else 0))
    [finding] = _findings(log)
    assert (finding.rule, finding.ref is not None and finding.ref.number) == (Rule.INDEX_TIME, number)


def test_times_long_before_a_checkpoint_that_does_not_cover_them_are_found(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records were added after a checkpoint was signed, so they are not as old as the index says."""
    monkeypatch.setattr("binlog.seal.sealing.sealer.HISTORY_SECONDS", 0)
    with Writer(log) as writer, Sealer(log, KEY) as sealer:
        for number in range(5):
            writer.append(b"later %d" % number * 100)
            sealer.seal()
    assert _findings(log) == []
    now = time.time()
    date_entries(log, 2, lambda place, count: now - 86400 if place == count - 1 else now - 2 * 86400)
    found = [finding for finding in _findings(log) if finding.rule is Rule.INDEX_TIME]
    assert len(found) == 1
    assert found[0].leaf == 40


def test_an_index_that_was_built_again_has_no_finding(log: Path) -> None:
    for path in log.glob("*.idx"):
        path.unlink()
    with Writer(log) as writer:
        writer.append(b"more")
    assert binlog.check(log) == []
    assert _findings(log) == []


@pytest.mark.parametrize(("signing", "is_enough"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_policy_demands_witnesses(log: Path, signing: int, is_enough: bool) -> None:
    lines = [f"log {KEY.verifier}", *(f"witness {key.verifier.name} {key.verifier}" for key in WITNESSES)]
    names = " ".join(key.verifier.name for key in WITNESSES)
    policy = "\n".join([*lines, f"group two 2 {names}", "quorum two", ""])
    with Sealer(log, KEY) as sealer:
        note = sealer.seal()
    cosigned = Note(note.text, (*note.signatures, *(key.sign(note.text, 1) for key in WITNESSES[:signing])))
    rules = [finding.rule for finding in verify(log, policy=policy, checkpoints=[cosigned]).findings]
    assert rules == ([] if is_enough else [Rule.KEY])
    (log / "seal" / "cosigned").write_text(str(cosigned))
    assert [finding.rule for finding in verify(log, policy=policy).findings] == rules
    with pytest.raises(ValueError, match="either vkey or policy"):
        verify(log, VKEY, policy=policy)
