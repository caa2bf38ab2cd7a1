"""Retention of a sealed log: only as far as a statement allows, and nothing under a hold or too young."""

from __future__ import annotations

from pathlib import Path

import pytest

import binlog
from binlog import Writer
from binlog.errors import NotFoundError, SealError
from binlog.seal import Rule, Sealer, SigningKey, begin_seal, hold, prune, release, verify
from binlog.seal.leaf_reader import BatchPart
from binlog.seal.verifying.comparison import Comparison

KEY = SigningKey.generate("example.org/audit")
VKEY = str(KEY.verifier)


def _fill(log: Path, *, keep_seconds: float = 0) -> None:
    """Make a sealed log of five files with 300 records each."""
    with Writer(log) as writer:
        begin_seal(log, KEY, keep_seconds=keep_seconds)
        for number in range(5):
            writer.append_many([b"%d %d" % (number, place) for place in range(300)])
            if number < 4:
                writer.cutover()
    with Sealer(log, KEY) as sealer:
        sealer.seal()


def _rules(log: Path) -> list[Rule]:
    return [finding.rule for finding in verify(log, VKEY).findings]


def _numbers(log: Path) -> list[int]:
    return [file.number for file in binlog.stat(log).files]


def _remove(log: Path, number: int) -> None:
    """Remove a file as any person may with write access."""
    for path in log.glob(f"{number:08d}.*"):
        path.unlink()


def test_without_a_statement_no_file_is_removed(tmp_path: Path) -> None:
    _fill(tmp_path)
    assert binlog.prune(tmp_path, keep_bytes=0) == []
    assert len(binlog.prune(tmp_path, keep_bytes=0, ignore_seal=True)) == 4
    assert _rules(tmp_path) == [Rule.MISSING]


def test_a_seal_that_was_not_begun_protects_nothing(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.append(b"one")
        writer.cutover()
    (tmp_path / "seal" / "hashes").mkdir(parents=True)  # as a crash of `begin_seal` leaves it
    assert [file.number for file in binlog.prune(tmp_path, keep_bytes=0)] == [1]


def test_what_a_statement_allows_is_no_finding_and_one_file_more_is(tmp_path: Path) -> None:
    _fill(tmp_path)
    done = prune(tmp_path, KEY, before="3:256", why="two years old")
    assert [file.number for file in done.pruned] == [1, 2]
    assert done.statement is not None
    assert (done.statement.integer("leaf"), done.statement.values["why"]) == (600, "two years old")
    report = verify(tmp_path, VKEY)
    assert (report.findings, report.verified) == ([], 900)
    assert prune(tmp_path, KEY, before="3:256").statement is None
    with Sealer(tmp_path, KEY) as sealer, Writer(tmp_path) as writer:
        writer.append(b"more")
        sealer.seal()
    assert _rules(tmp_path) == []
    _remove(tmp_path, 3)
    [finding] = verify(tmp_path, VKEY).findings
    assert finding.rule is Rule.MISSING
    assert "after the 600 that were allowed to go, 300 records are missing" in finding.text


def test_a_statement_lets_another_user_remove_the_files(tmp_path: Path) -> None:
    _fill(tmp_path)
    done = prune(tmp_path, KEY, before="4:256", remove=False)
    assert done.pruned == []
    assert _numbers(tmp_path) == [1, 2, 3, 4, 5]
    assert len(binlog.prune(tmp_path, before="3:256")) == 2
    assert _rules(tmp_path) == []
    assert len(binlog.prune(tmp_path, keep_bytes=0)) == 1
    assert _rules(tmp_path) == []


@pytest.mark.slow
def test_nothing_under_a_hold_is_removed(tmp_path: Path) -> None:
    _fill(tmp_path)
    hold(tmp_path, KEY, "case 7", "3:256", why="a court asks for it")
    with pytest.raises(SealError, match="a hold with the name"):
        hold(tmp_path, KEY, "case 7")
    with pytest.raises(SealError, match="under the hold case 7"):
        prune(tmp_path, KEY, before="4:256")
    assert len(prune(tmp_path, KEY, before="3:256").pruned) == 2
    assert _rules(tmp_path) == []
    release(tmp_path, KEY, "case 7")
    with pytest.raises(NotFoundError):
        release(tmp_path, KEY, "case 7")
    prune(tmp_path, KEY, before="4:256", remove=False)
    hold(tmp_path, KEY, "case 8")
    assert binlog.prune(tmp_path, keep_bytes=0) == []
    assert _rules(tmp_path) == []
    _remove(tmp_path, 3)
    [finding] = verify(tmp_path, VKEY).findings
    assert (finding.rule, "under the hold case 8" in finding.text) == (Rule.MISSING, True)


def test_records_younger_than_the_seal_demands_stay(tmp_path: Path) -> None:
    _fill(tmp_path, keep_seconds=3600)
    with pytest.raises(SealError, match="must keep them for 0"):
        prune(tmp_path, KEY, before="3:256")
    assert _numbers(tmp_path) == [1, 2, 3, 4, 5]
    # A person with the key makes the statement anyway.
    with Sealer(tmp_path, KEY) as sealer:
        from binlog.format.seal.statement import Kind

        sealer.add_statement(Kind.PRUNE, leaf=600, ref="3:256")
        sealer.seal()
    assert _rules(tmp_path) == []
    binlog.prune(tmp_path, before="3:256")
    [finding] = verify(tmp_path, VKEY).findings
    assert (finding.rule, "younger than the 3600 s" in finding.text) == (Rule.MISSING, True)


def test_only_files_that_are_sealed_whole_are_removed(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        begin_seal(tmp_path, KEY)
        writer.append(b"one")
        with Sealer(tmp_path, KEY) as sealer:
            sealer.seal()
        writer.append(b"two")
        writer.cutover()
        writer.append(b"three")
    with pytest.raises(SealError, match="not sealed whole"):
        prune(tmp_path, KEY, keep_bytes=0)
    assert _numbers(tmp_path) == [1, 2]


def test_proofs_of_what_is_left_stay_the_same(tmp_path: Path) -> None:
    from binlog.seal import prove

    _fill(tmp_path)
    before = prove(tmp_path, "4:256")
    prune(tmp_path, KEY, before="3:256")
    assert prove(tmp_path, "4:256") == before
    binlog.archive(tmp_path, keep_last=1)
    assert prove(tmp_path, "4:256") == before


@pytest.mark.parametrize("leaves", [600, 1200])
def test_files_that_retention_removes_during_a_verification_are_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: int
) -> None:
    _fill(tmp_path)
    compare = Comparison._compare

    def pruned_meanwhile(self: Comparison, part: BatchPart, leaf: int) -> None:
        if leaf == 0:
            assert prune(tmp_path, KEY, before=f"{leaves // 300 + 1}:256").statement is not None
        compare(self, part, leaf)

    monkeypatch.setattr(Comparison, "_compare", pruned_meanwhile)
    report = verify(tmp_path, VKEY)
    assert (report.findings, report.verified) == ([], 300 + 1500 - leaves)


def test_files_that_a_person_removes_during_a_verification_are_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(tmp_path)
    compare = Comparison._compare

    def removed_meanwhile(self: Comparison, part: BatchPart, leaf: int) -> None:
        for number in (1, 2, 3) if leaf == 0 else ():
            _remove(tmp_path, number)
        compare(self, part, leaf)

    monkeypatch.setattr(Comparison, "_compare", removed_meanwhile)
    [finding] = verify(tmp_path, VKEY).findings
    assert (finding.rule, "the first 900 records are missing" in finding.text) == (Rule.MISSING, True)
