"""A sealed log shows each change of a record that was sealed, and nothing if nothing was changed."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import binlog
from binlog import Background, Reader, Ref, Writer
from binlog.errors import AccessError, BusyError, NotFoundError, SealError
from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.format.seal.state import SEALED_FILE, SealedFile
from binlog.format.seal.tree import leaf_hash, root_hash
from binlog.seal import Rule, Sealer, SigningKey, begin_seal, check_proof, parse_anchor, prove, verify
from binlog.seal.folder import SealFolder
from binlog.seal.sealing.scrubbing import Scrubber
from tests.support.logs import read_all
from tests.support.trees import nodes_of
from tests.support.waiting import until

KEY = SigningKey.generate("example.org/audit")
VKEY = str(KEY.verifier)


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A log of three files: closed, archived and open; 900 records, all sealed."""
    log = tmp_path / "log"
    with Writer(log, mode="flush") as writer:
        begin_seal(log, KEY)
        for number in range(900):
            writer.append(b"record %d" % number)
            if number in (299, 599):
                writer.cutover()
        writer.sync()
    binlog.archive(log, keep_last=1)
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    return log


def _rules(log: Path, **options: object) -> list[Rule]:
    return [finding.rule for finding in verify(log, VKEY, **options).findings]  # type: ignore[arg-type]


def _change(log: Path, number: int, record: bytes, changed: bytes) -> None:
    """Change a record of a file so that the log does not notice: it has no index any more."""
    path = log / f"{number:08d}.dat"
    data = path.read_bytes()
    assert data.count(record) == 1
    assert len(record) == len(changed)
    path.write_bytes(data.replace(record, changed))
    for index in log.glob("*.idx"):
        index.unlink()


def test_a_checkpoint_has_the_root_of_all_records(sealed: Path) -> None:
    with Sealer(sealed, KEY) as sealer:
        head = parse_checkpoint(sealer.seal().text)
    leaves = [leaf_hash(record) for record in read_all(sealed)]
    assert (head.origin, head.size) == ("example.org/audit", 900)
    assert head.root == root_hash(900, nodes_of(leaves))


def test_a_log_that_was_not_changed_has_no_finding(sealed: Path) -> None:
    report = verify(sealed, VKEY)
    assert (report.findings, report.size, report.verified, report.unsealed) == ([], 900, 900, 0)
    with Writer(sealed) as writer:
        writer.append(b"later")
    report = verify(sealed, VKEY)
    assert (report.findings, report.size, report.unsealed) == ([], 900, 1)


def test_sealing_ends_beside_a_writer_that_is_quicker(sealed: Path) -> None:
    class _BesideWriter(Sealer):
        def _add_some(self, *arguments: Any) -> Any:
            place = super()._add_some(*arguments)
            appended.append(writer.append(b"later"))
            assert len(appended) < 20
            return place

    appended = list[Ref]()

    with Writer(sealed) as writer, _BesideWriter(sealed, KEY) as sealer:
        sizes = [parse_checkpoint(sealer.seal().text).size for _ in range(3)]
    assert sizes[0] == 900
    assert sizes == sorted(set(sizes))


def test_a_changed_record_is_named_and_no_other(sealed: Path) -> None:
    _change(sealed, 3, b"record 777", b"record 7x7")
    assert binlog.check(sealed) == []
    [finding] = verify(sealed, VKEY).findings
    assert (finding.rule, finding.leaf) == (Rule.CHANGED, 777)
    assert finding.ref is not None
    with Reader(sealed, finding.ref) as reader:
        assert next(reader).data == b"record 7x7"


def test_a_changed_record_is_found_although_its_hash_was_changed_too(sealed: Path) -> None:
    _change(sealed, 3, b"record 650", b"record 6x0")
    path = sealed / "seal" / "hashes" / "0.00000000"
    data = path.read_bytes()
    path.write_bytes(data.replace(leaf_hash(b"record 650"), leaf_hash(b"record 6x0")))
    [finding] = verify(sealed, VKEY).findings
    assert finding.rule is Rule.CHANGED
    assert "512 to 767" in finding.text


@pytest.mark.slow
def test_a_cut_log_is_found_by_the_checkpoint_and_stops_the_sealer(sealed: Path, tmp_path: Path) -> None:
    older = tmp_path / "older"
    with Writer(older) as writer:
        writer.append_many([b"record %d" % number for number in range(10)])
    shutil.copytree(sealed, tmp_path / "copy")
    with Writer(sealed) as writer:
        writer.append_many([b"more"] * 5)
    with Sealer(sealed, KEY) as sealer:
        anchored = sealer.seal()
    # The log's files are put back from the copy, and the seal's are not.
    for path in sealed.glob("0*"):
        path.unlink()
    for path in (tmp_path / "copy").glob("0*"):
        shutil.copy(path, sealed)
    assert binlog.check(sealed) == []
    [finding] = verify(sealed, VKEY).findings
    assert (finding.rule, finding.text) == (Rule.CUT, "5 of 905 sealed records are missing at the end")
    with pytest.raises(SealError, match="differs from its seal"):
        Sealer(sealed, KEY)
    # All of it is put back: only a checkpoint from elsewhere shows it.
    shutil.rmtree(sealed)
    shutil.copytree(tmp_path / "copy", sealed)
    assert _rules(sealed) == []
    assert _rules(sealed, checkpoints=[anchored]) == [Rule.NOT_SEALED, Rule.CUT]


@pytest.mark.slow
def test_records_that_replace_others_are_a_fork(sealed: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(sealed, copy)
    for log, record in ((sealed, b"ours"), (copy, b"else")):
        with Writer(log) as writer:
            writer.append(record)
        with Sealer(log, KEY) as sealer:
            note = sealer.seal()
    assert _rules(sealed, checkpoints=[note])[0] == Rule.FORK


def test_a_missing_seal_is_a_finding(sealed: Path) -> None:
    (sealed / "seal" / "hashes" / "0.00000000").unlink()
    assert Rule.NOT_SEALED in _rules(sealed)
    (sealed / "seal" / "checkpoint").unlink()
    assert _rules(sealed)[-1] == Rule.NOT_SEALED
    shutil.rmtree(sealed / "seal")
    assert _rules(sealed) == [Rule.NOT_SEALED]


def test_another_key_verifies_nothing_and_seals_nothing(sealed: Path) -> None:
    other = SigningKey.generate("example.org/audit")
    assert [finding.rule for finding in verify(sealed, str(other.verifier)).findings][:2] == [Rule.KEY, Rule.KEY]
    with pytest.raises(SealError, match="another key"):
        Sealer(sealed, other)
    with pytest.raises(SealError, match="a seal already"):
        begin_seal(sealed, other)
    with Sealer(sealed, KEY) as sealer, pytest.raises(SealError, match="not signed by"):
        verify(sealed, str(other.verifier), checkpoints=[sealer.seal()])


def test_removed_files_are_missing(sealed: Path) -> None:
    for path in [*sealed.glob("00000001.*"), *sealed.glob("00000002.*")]:
        path.unlink()
    report = verify(sealed, VKEY)
    assert [finding.rule for finding in report.findings] == [Rule.MISSING]
    assert report.verified == 300
    with Sealer(sealed, KEY) as sealer, Writer(sealed) as writer:
        writer.append(b"more")
        assert parse_checkpoint(sealer.seal().text).size == 901


def test_files_that_changed_places_are_named(sealed: Path) -> None:
    with Writer(sealed) as writer:
        writer.append(b"x")
    second, third = sealed / "00000002.dat", sealed / "00000003.dat"
    data = second.read_bytes()
    second.write_bytes(third.read_bytes())
    third.write_bytes(data)
    assert _rules(sealed) == [Rule.DAMAGED]


def test_the_scrubber_says_that_it_cannot_read(sealed: Path) -> None:
    def unreadable() -> tuple[int, tuple[SealedFile, ...]]:
        raise AccessError("the disk does not answer")

    messages: list[str] = []
    with SealFolder(sealed) as folder:
        scrubber = Scrubber(folder, KEY, unreadable, 1.0, messages.append)
        thread = threading.Thread(target=scrubber.run)
        thread.start()
        until(lambda: bool(messages))
        scrubber.stop()
        thread.join()
    assert messages == ["old records cannot be compared: the disk does not answer"]
    assert scrubber.failures == []


def test_only_one_sealer_works_at_a_time(sealed: Path) -> None:
    with Sealer(sealed, KEY), pytest.raises(BusyError):
        Sealer(sealed, KEY)
    Sealer(sealed, KEY).close()


def test_only_synced_records_are_sealed(tmp_path: Path) -> None:
    with Writer(tmp_path, mode="flush", background=Background(sync_seconds=3600)) as writer:
        writer.append(b"synced")
        writer.sync()
        begin_seal(tmp_path, KEY)
        with Sealer(tmp_path, KEY) as sealer:
            writer.append(b"only flushed")
            assert parse_checkpoint(sealer.seal().text).size == 1
            writer.sync()
            assert parse_checkpoint(sealer.seal().text).size == 2


def test_a_log_without_a_seal_has_no_sealer(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        begin_seal(tmp_path, KEY)
    Writer(tmp_path).close()
    with pytest.raises(NotFoundError, match="has no seal"):
        Sealer(tmp_path, KEY)


@pytest.mark.slow
def test_a_proof_of_each_record_is_accepted_without_the_log(sealed: Path) -> None:
    with Reader(sealed) as reader:
        entries = list(reader)
    for number in (0, 255, 256, 299, 300, 899):
        entry = entries[number]
        proof = prove(sealed, entry.ref)
        assert proof.leaf_index == number
        assert check_proof(str(proof), entry.data, vkey=VKEY).size == 900
        with pytest.raises(SealError, match="does not show"):
            check_proof(str(proof), entry.data + b"x", vkey=VKEY)
        with pytest.raises(SealError, match="no trusted log"):
            check_proof(str(proof), entry.data, vkey=str(SigningKey.generate("example.org/audit").verifier))
    with Writer(sealed) as writer:
        ref = writer.append(b"not sealed yet")
    with pytest.raises(SealError, match="covers 900 records"):
        prove(sealed, ref)


def test_a_key_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    KEY.save(key_file)
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert SigningKey.load(key_file).verifier == KEY.verifier
    assert "PRIVATE" not in repr(SigningKey.load(key_file))
    os.chmod(key_file, 0o640)
    with pytest.raises(binlog.AccessError, match="chmod 600"):
        SigningKey.load(key_file)
    with pytest.raises(binlog.AccessError):
        KEY.save(key_file)


@pytest.mark.slow
def test_a_checkpoint_whose_state_could_not_be_written_is_not_handed_over(sealed: Path, tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    anchor.mkdir()
    with Sealer(sealed, KEY, anchors=[parse_anchor(f"dir:{anchor}")]) as sealer:
        before = sealer.checkpoint
        with Writer(sealed) as writer:
            writer.append(b"later")
        (sealed / "seal" / ".state").mkdir()  # no file can be written there
        with pytest.raises(binlog.AccessError):
            sealer.seal()
        assert sealer.checkpoint == before
        sealer.anchor()
    with Sealer(sealed, KEY, anchors=[parse_anchor(f"dir:{anchor}")]) as sealer:
        (sealed / "seal" / ".state").rmdir()
        assert parse_checkpoint(sealer.seal().text).size == 901
        assert sealer.anchor() == {f"dir:{anchor}": None}
    with Sealer(sealed, KEY, anchors=[parse_anchor(f"dir:{anchor}")]) as sealer:
        assert sealer.checkpoint == sealer.seal()


def test_an_entry_for_a_log_file_that_a_power_cut_left_as_zeros_means_nothing(sealed: Path) -> None:
    with open(sealed / "seal" / "files", "ab") as file:
        file.write(bytes(SEALED_FILE.size))
    assert verify(sealed, VKEY).findings == []
    with Writer(sealed) as writer:
        writer.cutover()
        writer.append(b"in the next file")
    with Sealer(sealed, KEY) as sealer:
        sealer.seal()
    report = verify(sealed, VKEY)
    assert (report.findings, report.verified) == ([], 901)
