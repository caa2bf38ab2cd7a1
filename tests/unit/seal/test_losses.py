"""Lost and repaired records of a sealed log: told by a statement, and sealed on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from binlog.errors import CorruptError, SealError
from binlog.format.log_header import LOG_HEADER, parse_log_header
from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.format.seal.statement import Kind
from binlog.seal import Rule, Sealer, SigningKey, begin_seal, check_proof, prove, read_statements, verify
from tests.support.logs import read_all

KEY = SigningKey.generate("example.org/audit")
VKEY = str(KEY.verifier)
_COPIED = (100, 300, 500, 600, 700, 800)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A sealed log of three files with 300 records each; and copies of it as it was before, in folders beside it."""
    log = tmp_path / "log"
    Writer(log).close()
    begin_seal(log, KEY)
    for number in range(900):
        if number in _COPIED:
            shutil.copytree(log, tmp_path / str(number), ignore=shutil.ignore_patterns("seal"))
        if number % 100 == 0:
            with Writer(log) as writer:
                if number in (300, 600):
                    writer.cutover()
                writer.append_many([b"%d" % place for place in range(number, number + 100)])
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    return log


def _rules(log: Path) -> list[Rule]:
    return [finding.rule for finding in verify(log, VKEY).findings]


def _put_back(log: Path, records: int) -> None:
    """Put the log's files back as they were before its last records, as if the disk had not synced them."""
    for path in log.glob("0*"):
        path.unlink()
    for path in (log.parent / str(records)).glob("0*"):
        shutil.copy2(path, log)


@pytest.mark.parametrize("records", _COPIED)
@pytest.mark.slow
def test_lost_records_are_told_and_the_log_is_sealed_on(log: Path, records: int) -> None:
    _put_back(log, records)
    assert _rules(log) == [Rule.CUT]
    with pytest.raises(SealError, match="differs from its seal"):
        Sealer(log, KEY)
    with Writer(log) as writer:
        writer.append(b"added after the loss")
    with pytest.raises(SealError, match="differs from its seal"):
        Sealer(log, KEY)
    with Sealer(log, KEY, accept_loss="the disk lied") as sealer:
        assert parse_checkpoint(sealer.seal().text).size == 901
    [statement] = read_statements(log, VKEY)
    assert (statement.kind, statement.integer("leaf"), statement.integer("end")) == (Kind.LOSS, records, 900)
    assert statement.values["why"] == "the disk lied"
    report = verify(log, VKEY)
    assert (report.findings, report.verified, report.size) == ([], records + 1, 901)
    with Writer(log) as writer:
        writer.append_many([b"more %d" % number for number in range(600)])
        writer.cutover()
        last = writer.append(b"last")
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    with Sealer(log, KEY, accept_loss="again, without a loss") as sealer:
        assert parse_checkpoint(sealer.seal().text).size == 1502
    assert len(read_statements(log, VKEY)) == 1
    assert verify(log, VKEY).findings == []
    proof = prove(log, last)
    assert proof.leaf_index == 1501
    check_proof(str(proof), b"last", vkey=VKEY)
    with binlog.Reader(log) as reader:
        added = next(entry for entry in reader if entry.data == b"added after the loss")
    assert prove(log, added.ref).leaf_index == 900
    check_proof(str(prove(log, added.ref)), added.data, vkey=VKEY)


@pytest.mark.parametrize(("number", "record"), [(2, b"400"), (3, b"850"), (3, b"899")])
@pytest.mark.slow
def test_fillers_in_place_of_damaged_records_are_told(log: Path, number: int, record: bytes) -> None:
    path = log / f"{number:08d}.dat"
    at = path.read_bytes().index(record)
    with open(path, "r+b") as file:
        os.pwrite(file.fileno(), b"?", at)
    assert Rule.CHANGED in _rules(log)
    assert [each.action for each in binlog.repair(log)] == ["quarantined"]
    fillers = [place for place, record in enumerate(read_all(log)) if record == b"BIN"]
    assert Rule.CHANGED in _rules(log)
    with Sealer(log, KEY, accept_loss="a bit flipped") as sealer:
        sealer.seal()
    statements = read_statements(log, VKEY)
    assert [each.kind for each in statements] == [Kind.REPAIR]
    assert (statements[0].integer("leaf"), statements[0].integer("end")) == (fillers[0], fillers[-1] + 1)
    assert _rules(log) == []
    with Writer(log) as writer:
        writer.append(b"more")
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    assert _rules(log) == []


def test_a_changed_record_is_not_a_loss(log: Path) -> None:
    path = log / "00000002.dat"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"400", b"4oo"))
    for index in log.glob("*.idx"):
        index.unlink()
    with pytest.raises(SealError, match="were changed; that is not a loss"):
        Sealer(log, KEY, accept_loss="nothing to see here")
    assert _rules(log) == [Rule.CHANGED]


@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("is_continued", [True, False], ids=["continued before", "accepted first"])
def test_a_power_cut_after_which_the_last_commit_is_damaged_is_told(
    tmp_path: Path, has_index: bool, is_continued: bool
) -> None:
    """Row 14 of the recovery table: a disk did not keep what it acknowledged; `repair` closes the file before it."""
    log, groups = tmp_path, 4
    with Writer(log) as writer:
        begin_seal(log, KEY)
        for number in range(groups):
            writer.append_many([b"%d %d" % (number, place) for place in range(100)])
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    _damage_last_commit(log / "00000001.dat", b"3 50")
    if not has_index:
        (log / "00000001.idx").unlink()
    with pytest.raises(CorruptError, match="recovery-14"):
        Writer(log)
    assert _rules(log) == [Rule.DAMAGED]
    assert [each.action for each in binlog.repair(log)] == ["shortened"]
    left = 300 if has_index else 200  # without an index, only the other commit slot proves records
    assert len(read_all(log)) == left
    assert _rules(log) == [Rule.CUT]
    if is_continued:
        with Writer(log) as writer:
            writer.append(b"the first one after")
    with pytest.raises(SealError, match="differs from its seal"):
        Sealer(log, KEY)
    with Sealer(log, KEY, accept_loss="power cut") as sealer:
        sealer.seal()
    if not is_continued:
        with Writer(log) as writer:
            writer.append(b"the first one after")
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    [statement] = read_statements(log, VKEY)
    assert (statement.kind, statement.integer("leaf"), statement.integer("end")) == (Kind.LOSS, left, 400)
    report = verify(log, VKEY)
    assert (report.findings, report.verified, report.size) == ([], left + 1, 401)
    proof = prove(log, "2:256")
    assert proof.leaf_index == 400
    check_proof(str(proof), b"the first one after", vkey=VKEY)


def _damage_last_commit(path: Path, record: bytes) -> None:
    """Change a byte of the last commit, and let the file be one of an earlier boot."""
    data = path.read_bytes()
    header = parse_log_header(data[:256], path=str(path))
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), header._replace(boot_id=os.urandom(16)).pack(), 0)
        os.pwrite(file.fileno(), b"?", data.index(record))


def test_commit_slots_that_repair_writes_again_are_no_loss(log: Path) -> None:
    path = log / "00000003.dat"
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), b"?", LOG_HEADER.offset("slot_0") + 5)
    assert binlog.check(log) != []
    assert [each.action for each in binlog.repair(log)] == ["header"]
    with Sealer(log, KEY, accept_loss="nothing is lost") as sealer:
        sealer.seal()
    assert (list(read_statements(log, VKEY)), _rules(log)) == ([], [])


@pytest.mark.slow
def test_a_run_after_a_loss_compares_the_records_in_its_place(
    log: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The last run ended after the lost records, where another record is now."""
    progress = tmp_path_factory.mktemp("outside") / "progress"
    assert verify(log, VKEY, progress=progress).findings == []
    _put_back(log, 800)
    with Sealer(log, KEY, accept_loss="the disk lied") as sealer:
        sealer.seal()
    with Writer(log) as writer:
        writer.append_many([b"other %d" % number for number in range(100)])
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    assert verify(log, VKEY, progress=progress).findings == []


def test_a_first_file_that_was_lost_is_told(log: Path) -> None:
    for path in log.glob("00000001.*"):
        path.unlink()
    assert _rules(log) == [Rule.MISSING]
    with Sealer(log, KEY, accept_loss="the disk died") as sealer:
        sealer.seal()
    [statement] = read_statements(log, VKEY)
    assert (statement.kind, statement.integer("leaf"), statement.integer("end")) == (Kind.LOSS, 0, 300)
    assert _rules(log) == []
