"""Changes of a sealed log by a person who may write to all of its files, and has no key."""

from __future__ import annotations

import os
import shutil
import threading
import uuid
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from binlog.errors import SealError
from binlog.format.checksums import pack_text
from binlog.format.record import Ref
from binlog.format.seal.state import SealedFile
from binlog.seal import Rule, Sealer, SigningKey, begin_seal, hold, verify
from binlog.seal import prune as seal_prune
from binlog.seal.folder import SealFolder
from stress.tamper.sealed_log import Files, make_again
from tests.support.logs import read_all

KEY = SigningKey.generate("example.org/audit")
VKEY = str(KEY.verifier)
FILES: Files = [[b"%d.%d" % (number, place) for place in range(10)] for number in range(3)]


def _seal(log: Path) -> None:
    with Sealer(log, KEY) as sealer:
        sealer.seal()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A sealed log of three files with ten records each."""
    log = tmp_path / "log"
    with Writer(log) as writer:
        begin_seal(log, KEY)
        for number, records in enumerate(FILES):
            if number:
                writer.cutover()
            writer.append_many(records)
    _seal(log)
    assert _rules(log) == []
    return log


def _rules(log: Path) -> list[Rule]:
    return [finding.rule for finding in verify(log, VKEY).findings]


def _identity(log: Path) -> uuid.UUID:
    return uuid.UUID(str(binlog.stat(log).files[0].uuid))


def _list_files(log: Path, files: list[tuple[int, int]]) -> None:
    with SealFolder(log) as folder:
        folder.cut_files(0)
        folder.write_files(0, [SealedFile(*each) for each in files])


def test_records_of_the_last_file_that_occur_twice_are_found(log: Path) -> None:
    """The copy of the file is before it, and the table of files omits the copy."""
    make_again(log, _identity(log), [*FILES, FILES[2]])
    _list_files(log, [(1, 0), (2, 10), (4, 20)])
    assert len(read_all(log)) == 40
    assert Rule.CHANGED in _rules(log)


@pytest.mark.slow
def test_a_file_before_the_first_sealed_one_is_found(log: Path) -> None:
    seal_prune(log, KEY, before=Ref(2, 256))
    _seal(log)
    assert _rules(log) == []
    make_again(log, _identity(log), [[b"forged"], *FILES[1:]])
    assert Rule.CHANGED in _rules(log)
    _list_files(log, [(2, 10), (3, 20)])
    assert Rule.CHANGED in _rules(log)


@pytest.mark.slow
def test_a_file_before_the_beginning_of_the_seal_is_found(tmp_path: Path) -> None:
    make_again(tmp_path, uuid.uuid4(), FILES)
    identity = _identity(tmp_path)
    binlog.prune(tmp_path, before=Ref(2, 0))
    begin_seal(tmp_path, KEY)
    _seal(tmp_path)
    assert _rules(tmp_path) == []
    make_again(tmp_path, identity, [[b"forged"], *FILES[1:]])
    assert _rules(tmp_path) == [Rule.CHANGED]
    with Sealer(tmp_path, KEY) as sealer, pytest.raises(SealError, match="file 1 had no records"):
        sealer.run(threading.Event(), 0.05, scrub=1)


@pytest.mark.parametrize(("forged", "rules"), [(b"bad", [Rule.CHANGED]), (b"BIN", [])])
@pytest.mark.slow
def test_a_record_in_place_of_a_filler_is_found(log: Path, forged: bytes, rules: list[Rule]) -> None:
    path, identity = log / "00000002.dat", _identity(log)
    path.write_bytes(path.read_bytes().replace(b"1.5", b"?.5"))
    assert [each.action for each in binlog.repair(log)] == ["quarantined"]
    with Sealer(log, KEY, accept_loss="a bit flipped") as sealer:
        sealer.seal()
    assert _rules(log) == []
    repaired = read_all(log)[10:20]
    assert b"BIN" in repaired
    repaired[repaired.index(b"BIN")] = forged
    make_again(log, identity, [FILES[0], repaired, FILES[2]])
    assert _rules(log) == rules


@pytest.mark.parametrize(
    "removed", [["state"], ["state", "checkpoint"], ["state", "history"], ["state", "files", "checkpoint"]]
)
def test_a_sealer_does_not_begin_again_if_its_state_was_removed(log: Path, removed: list[str]) -> None:
    for name in removed:
        (log / "seal" / name).unlink()
    forged = [[b"forged" for _ in records] for records in FILES]
    make_again(log, _identity(log), forged)
    with pytest.raises(SealError):
        _seal(log)


def test_a_sealer_does_not_continue_from_an_older_state(log: Path) -> None:
    state = (log / "seal/state").read_bytes()
    with Writer(log) as writer:
        writer.append(b"more")
    _seal(log)
    (log / "seal/state").write_bytes(state)
    make_again(log, _identity(log), [*FILES[:2], [*FILES[2], b"other"]])
    with pytest.raises(SealError):
        _seal(log)


@pytest.mark.slow
def test_the_removal_of_the_hashes_before_the_compared_records_is_found(tmp_path: Path) -> None:
    """The signed root is that of hashes above, which are stored too."""
    records = [b"%d" % number for number in range(1 << 16)]
    with Writer(tmp_path, mode="flush") as writer:
        begin_seal(tmp_path, KEY)
        writer.append_many(records[:1000])
        writer.cutover()
        writer.append_many(records[1000:])
    _seal(tmp_path)
    seal_prune(tmp_path, KEY, before=Ref(2, 256))
    _seal(tmp_path)
    assert _rules(tmp_path) == []
    hashes = tmp_path / "seal/hashes"
    (hashes / "1.00000000").unlink()
    assert Rule.NOT_SEALED in _rules(tmp_path)


def test_retention_allows_no_more_than_its_files_have(log: Path) -> None:
    """The table of files says that the second file begins with a later record than it does."""
    _list_files(log, [(1, 0), (2, 20), (3, 20)])
    with pytest.raises(SealError):
        seal_prune(log, KEY, before=Ref(2, 256))
    _list_files(log, [(1, 0), (2, 10), (3, 20)])
    seal_prune(log, KEY, before=Ref(2, 256))
    assert _rules(log) == []


def test_a_hold_is_of_the_record_that_it_names(log: Path) -> None:
    _list_files(log, [(1, 0), (2, 20), (3, 20)])
    with pytest.raises(SealError):
        hold(log, KEY, "case 7", Ref(2, 256))
    _list_files(log, [(1, 0), (2, 10), (3, 20)])
    assert hold(log, KEY, "case 7", Ref(2, 256)).integer("leaf") == 10


def test_the_checkpoint_that_witnesses_signed_is_compared_too(log: Path) -> None:
    """The owner of the key made another history of what witnesses have signed."""
    cosigned = (log / "seal/checkpoint").read_bytes()
    identity = _identity(log)
    forged = [[b"forged" for _ in records] for records in FILES]
    shutil.rmtree(log / "seal")
    make_again(log, identity, forged)
    begin_seal(log, KEY)
    _seal(log)
    assert _rules(log) == []
    (log / "seal/cosigned").write_bytes(cosigned)
    assert Rule.FORK in _rules(log)


def test_a_list_of_files_as_large_as_a_disk_is_not_read_whole(log: Path) -> None:
    os.truncate(log / "seal/files", 1 << 40)
    assert _rules(log) == []
    _seal(log)


@pytest.mark.parametrize("name", ["anchored", "state"])
def test_deep_json_is_refused(log: Path, name: str) -> None:
    (log / "seal" / name).write_bytes(pack_text(b"[" * 100_000) if name == "state" else b"[" * 100_000)
    with pytest.raises(SealError):
        _seal(log)
