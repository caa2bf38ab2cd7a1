"""Findings about times in indexes, and about the witnesses that a policy demands."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from binlog.errors import SealError
from binlog.format.index_file import ENTRY_BYTES
from binlog.format.seal.note import WITNESS_KEY, Note
from binlog.seal import Finding, Rule, Sealer, SigningKey, begin_seal, prune, verify
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
@pytest.mark.parametrize("at_once", [3, 4096])
def test_times_after_the_checkpoint_that_covers_them_are_found(
    log: Path, number: int, which: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binlog.seal.verifying.index_times._ENTRIES_AT_ONCE", at_once)
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


def test_an_index_that_was_built_long_after_the_checkpoints_has_no_finding(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a power cut did not keep the index, and a writer recovers the file an hour later."""
    for path in log.glob("*.idx"):
        path.unlink()
    Writer(log).close()
    assert (log / "00000002.idx").exists()
    monkeypatch.setattr("binlog.seal.verifying.index_times._LATER_SECONDS", -3600)
    assert _findings(log) == []


def test_an_index_that_a_power_cut_tore_has_no_finding(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("binlog.seal.sealing.sealer.HISTORY_SECONDS", 0)
    with Writer(log) as writer, Sealer(log, KEY) as sealer:
        for number in range(5):
            writer.append(b"later %d" % number * 100)
            sealer.seal()
    index = log / "00000002.idx"
    data = index.read_bytes()
    index.write_bytes(data[:-ENTRY_BYTES] + bytes(ENTRY_BYTES))
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


@pytest.mark.slow
def test_a_later_run_compares_only_what_was_added(log: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    progress = tmp_path_factory.mktemp("outside") / "progress"
    assert verify(log, VKEY, progress=progress).verified == 40
    report = verify(log, VKEY, progress=progress)
    assert (report.verified, report.size, report.findings) == (0, 40, [])
    with Writer(log) as writer, Sealer(log, KEY) as sealer:
        for number in range(600):
            writer.append(b"later %d" % number, mode="flush")
            if number in (99, 400):
                writer.cutover()
        writer.sync()
        sealer.seal()
        writer.append(b"not sealed yet")
    report = verify(log, VKEY, progress=progress)
    assert (report.verified, report.size, report.unsealed, report.findings) == (600, 640, 1, [])
    # A change of an old record is found by a run without the file; a change after it by both.
    path = log / "00000003.dat"
    path.write_bytes(path.read_bytes().replace(b"later 300", b"later 3oo"))
    for index in log.glob("*.idx"):
        index.unlink()
    assert verify(log, VKEY, progress=progress).findings == []
    with Writer(log) as writer, Sealer(log, KEY) as sealer:
        writer.append(b"more")
        sealer.seal()
    assert [finding.leaf for finding in verify(log, VKEY).findings] == [340]
    path = log / "00000004.dat"
    path.write_bytes(path.read_bytes().replace(b"more", b"less"))
    for index in log.glob("*.idx"):
        index.unlink()
    kept = progress.read_bytes()
    assert [finding.leaf for finding in verify(log, VKEY, progress=progress).findings] == [641]
    assert progress.read_bytes() == kept
    progress.write_bytes(kept[:-3])
    with pytest.raises(SealError, match="not the progress"):
        verify(log, VKEY, progress=progress)


def test_a_log_that_was_put_back_is_found_by_the_progress(log: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    shutil.copytree(log, outside / "older")
    with Writer(log) as writer, Sealer(log, KEY) as sealer:
        writer.append(b"more")
        sealer.seal()
    assert verify(log, VKEY, progress=outside / "progress").findings == []
    found = verify(outside / "older", VKEY, progress=outside / "progress")
    assert [finding.rule for finding in found.findings] == [Rule.NOT_SEALED, Rule.CUT]
    with Writer(outside / "older") as writer, Sealer(outside / "older", KEY) as sealer:
        writer.append(b"else")
        sealer.seal()
    rules = [finding.rule for finding in verify(outside / "older", VKEY, progress=outside / "progress").findings]
    assert Rule.FORK in rules


def test_a_file_that_the_list_of_the_seal_does_not_name_is_found(log: Path) -> None:
    """Without it, times in the index of the file would not be compared."""
    path = log / "seal" / "files"
    data = bytearray(path.read_bytes())
    assert data[-16:-12] == (2).to_bytes(4, "big")
    data[-16:-12] = (9).to_bytes(4, "big")
    path.write_bytes(data)
    assert any("file 2, which the list" in finding.text for finding in _findings(log))
    path.write_bytes(data[:16])
    assert any("does not have file 2" in finding.text for finding in _findings(log))


def test_a_run_after_retention_continues_with_the_first_file_left(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The last run ended with the last record of the file that was removed since then."""
    progress = tmp_path_factory.mktemp("outside") / "progress"
    with Writer(tmp_path) as writer:
        begin_seal(tmp_path, KEY)
        writer.append_many([b"%d" % number for number in range(10)])
        with Sealer(tmp_path, KEY) as sealer:
            sealer.seal()
        assert verify(tmp_path, VKEY, progress=progress).findings == []
        writer.cutover()
        ref = writer.append(b"more")
    with Sealer(tmp_path, KEY) as sealer:
        sealer.seal()
    prune(tmp_path, KEY, before=ref)
    with Sealer(tmp_path, KEY) as sealer:
        sealer.seal()
    report = verify(tmp_path, VKEY, progress=progress)
    assert (report.findings, report.verified) == ([], 1)
