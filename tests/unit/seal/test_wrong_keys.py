"""Keys that are not the one of the log, or no longer, are refused everywhere, with a message that says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from binlog import Writer
from binlog.cli.main import main
from binlog.errors import SealError
from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.format.seal.note import Note
from binlog.seal import (
    Rule,
    Sealer,
    SigningKey,
    Trust,
    begin_seal,
    branch,
    check_proof,
    end_log,
    hold,
    prove,
    prune,
    read_statements,
    release,
    verify,
)
from binlog.seal.keys import signed_note

KEY = SigningKey.generate("example.org/audit")
RECORDS = [b"record %d" % number for number in range(300)]

KEYS = {
    "another key with the name of the log": SigningKey.generate("example.org/audit"),
    "the key of another log": SigningKey.generate("example.org/other"),
}

SIGNING: dict[str, Callable[[Path, SigningKey], object]] = {
    "seal": Sealer,
    "accept a loss": lambda log, key: Sealer(log, key, accept_loss="nothing is lost"),
    "prune": lambda log, key: prune(log, key, keep_bytes=0),
    "hold": lambda log, key: hold(log, key, "inquiry"),
    "release": lambda log, key: release(log, key, "known"),
    "end": end_log,
    "branch": lambda log, key: branch(log, key, SigningKey.generate("example.org/copy")),
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A sealed log with a hold."""
    with Writer(tmp_path / "log") as writer:
        writer.append_many(RECORDS)
        writer.cutover()
        writer.append(b"last")
    begin_seal(tmp_path / "log", KEY)
    with Sealer(tmp_path / "log", KEY) as sealer:
        sealer.seal()
    hold(tmp_path / "log", KEY, "known", "2:256")
    return tmp_path / "log"


def _files(log: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in log.rglob("*") if path.is_file() and path.name != "lock"}


@pytest.mark.parametrize("key", KEYS.values(), ids=list(KEYS))
@pytest.mark.parametrize("action", SIGNING.values(), ids=list(SIGNING))
def test_another_key_signs_nothing(log: Path, key: SigningKey, action: Callable[[Path, SigningKey], object]) -> None:
    before = _files(log)
    with pytest.raises(SealError, match=r"another key than|not signed by the key|no checkpoint that .* signed"):
        action(log, key)
    assert _files(log) == before
    assert verify(log, str(KEY.verifier)).findings == []


@pytest.mark.parametrize("key", KEYS.values(), ids=list(KEYS))
def test_another_key_verifies_nothing(log: Path, key: SigningKey) -> None:
    vkey = str(key.verifier)
    assert {finding.rule for finding in verify(log, vkey).findings} == {Rule.KEY, Rule.NOT_SEALED}
    with Sealer(log, KEY) as sealer:
        note = sealer.seal()
    with pytest.raises(SealError, match=f"a checkpoint is not signed by {key.verifier.name}"):
        verify(log, vkey, checkpoints=[note])
    with pytest.raises(SealError, match="not signed by the key"):
        read_statements(log, vkey)
    with pytest.raises(SealError, match="no trusted log has signed"):
        check_proof(str(prove(log, "1:256")), RECORDS[0], vkey=vkey)
    with pytest.raises(SealError, match="is not signed by"):
        Trust(log, vkey, log.parent / "seen").check()


@pytest.mark.slow
def test_after_a_branch_each_key_is_good_for_its_own_checkpoints_alone(log: Path, tmp_path: Path) -> None:
    new_key = SigningKey.generate("example.org/copy")
    old_proof = prove(log, "1:256")
    branch(log, KEY, new_key)
    with Writer(log) as writer:
        writer.append(b"only in the branch")
    with Sealer(log, new_key) as sealer:
        new = sealer.seal()
    old = next(each for each in read_statements(log, str(new_key.verifier))).values["checkpoint"]
    old_vkey, new_vkey = str(KEY.verifier), str(new_key.verifier)
    assert verify(log, new_vkey, checkpoints=[new]).findings == []
    # The old key makes nothing in the new log.
    for name, action in SIGNING.items():
        if name != "release":
            with pytest.raises(SealError, match=r"another key than|not signed by the key|no checkpoint that"):
                action(log, KEY)
    assert {finding.rule for finding in verify(log, old_vkey).findings} == {Rule.KEY, Rule.NOT_SEALED}
    with pytest.raises(SealError, match=r"a checkpoint is not signed by example.org/audit"):
        verify(log, old_vkey, checkpoints=[new])
    # The new key vouches for no older checkpoint, not even if it signs one again.
    with pytest.raises(SealError, match=r"a checkpoint is not signed by example.org/copy"):
        verify(log, new_vkey, checkpoints=[str(old)])
    text = str(old).split("\n\n")[0] + "\n"
    with pytest.raises(SealError, match=r"a checkpoint is of example.org/audit, not of example.org/copy"):
        verify(log, new_vkey, checkpoints=[signed_note(text, [new_key])])
    for vkey in (new_vkey, old_vkey):
        with pytest.raises(SealError, match="no trusted log has signed"):
            check_proof(str(old_proof if vkey == new_vkey else prove(log, "1:256")), RECORDS[0], vkey=vkey)
    assert check_proof(str(old_proof), RECORDS[0], vkey=old_vkey).size == 301


def test_a_checkpoint_with_the_signature_of_another_one_is_refused(log: Path) -> None:
    with Sealer(log, KEY) as sealer:
        note = sealer.seal()
    head = parse_checkpoint(note.text)
    forged = Note(head._replace(size=head.size + 1).text(), note.signatures)
    with pytest.raises(SealError, match=r"a signature that names example.org/audit is not of its key"):
        verify(log, str(KEY.verifier), checkpoints=[forged])


@pytest.mark.parametrize("key", KEYS.values(), ids=list(KEYS))
def test_the_command_line_says_that_the_key_is_another_one(
    log: Path, key: SigningKey, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    key.save(tmp_path / "key")
    assert main(["seal", "once", str(log), "--key", str(tmp_path / "key")]) != 0
    assert b"began with another key" in capfdbinary.readouterr().err
    assert main(["seal", "verify", str(log), "--vkey", str(key.verifier)]) == 1
    assert b"key: the beginning of the seal is not signed by the key" in capfdbinary.readouterr().out
