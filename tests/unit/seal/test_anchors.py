"""A cut log, or one that was put back from a copy, is found by each kind of anchor."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binlog import Writer
from binlog.errors import AccessError, SealError
from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.format.seal.note import parse_note
from binlog.format.seal.policy import Policy
from binlog.seal import (
    Anchor,
    Rule,
    Sealer,
    SigningKey,
    Witness,
    begin_seal,
    check_proof,
    make_witness,
    parse_anchor,
    prove,
    verify,
)
from binlog.seal.folder import SealFolder
from binlog.seal.keys import verified_keys
from binlog.seal.sealing.anchoring import read_anchored
from tests.support.checkout import ROOT
from tests.support.waiting import until

# Most start a witness in a process of its own.
pytestmark = pytest.mark.slow

KEY = SigningKey.generate("example.org/audit")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    with Writer(path) as writer:
        writer.append_many([b"record %d" % number for number in range(300)])
    begin_seal(path, KEY)
    return path


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    """The directory of a witness that knows the log."""
    path = tmp_path / "witness"
    make_witness(path, "example.org/witness")
    with Witness(path) as opened:
        opened.trust(str(KEY.verifier))
    return path


@contextmanager
def _served(witness: Path) -> Iterator[str]:
    """Serve a witness over HTTP, and yield its URL."""
    command = [sys.executable, "-m", "binlog", "witness", "serve", str(witness), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.fixture(params=["dir", "exec", "witness", "witness-exec"])
def anchor(request: pytest.FixtureRequest, tmp_path: Path, witness: Path) -> Iterator[Anchor]:
    """Each kind of anchor, which knows nothing yet."""
    kept = tmp_path / "anchor"
    kept.mkdir()
    accept = shlex.join([sys.executable, "-m", "binlog", "witness", "accept", str(witness)])
    match request.param:
        case "dir":
            yield parse_anchor(f"dir:{kept}")
        case "exec":
            yield parse_anchor(f"exec:cat > {shlex.quote(str(kept))}/note")
        case "witness-exec":
            yield parse_anchor(f"witness-exec:cd {shlex.quote(str(ROOT))} && {accept}")
        case _:
            with _served(witness) as url:
                yield parse_anchor(f"witness:{url}")


def _seal_and_anchor(log: Path, anchor: Anchor) -> None:
    with Sealer(log, KEY, anchors=[anchor]) as sealer:
        sealer.seal()
        sealer.anchor()


def _append(log: Path, *records: bytes) -> None:
    with Writer(log) as writer:
        writer.append_many(records)


def test_a_log_that_was_put_back_from_a_copy_does_not_get_past_the_anchor(
    log: Path, anchor: Anchor, tmp_path: Path
) -> None:
    with Sealer(log, KEY, anchors=[anchor]) as sealer:
        sealer.seal()
        assert sealer.anchor() == {anchor.name: None}
        shutil.copytree(log, tmp_path / "copy")
        _append(log, b"one", b"two")
        newest = sealer.seal()
        assert sealer.anchor() == {anchor.name: None}
    shutil.rmtree(log)
    shutil.copytree(tmp_path / "copy", log)
    assert verify(log, str(KEY.verifier)).findings == []
    assert [str(each.rule) for each in verify(log, str(KEY.verifier), checkpoints=[newest]).findings][-1] == "cut"
    if anchor.name.startswith("exec"):
        assert parse_note((tmp_path / "anchor" / "note").read_bytes()) == newest
        return
    # It lives on, with other records.
    _append(log, b"three", b"four", b"five")
    with pytest.raises(SealError, match=r"has a checkpoint of 302|has signed"):
        _seal_and_anchor(log, parse_anchor(anchor.name))


def test_a_checkpoint_that_a_power_cut_tore_at_the_anchor_is_skipped(log: Path, tmp_path: Path) -> None:
    (tmp_path / "anchor").mkdir()
    anchor = parse_anchor(f"dir:{tmp_path / 'anchor'}")
    _seal_and_anchor(log, anchor)
    whole = anchor.latest("example.org/audit")
    assert whole is not None
    (kept,) = (tmp_path / "anchor").iterdir()
    for torn in (str(whole).encode()[:40], bytes(100)):
        with kept.open("ab") as file:
            file.write(torn)
        assert anchor.latest("example.org/audit") == whole
        _append(log, b"more")
        _seal_and_anchor(log, anchor)
        later = anchor.latest("example.org/audit")
        assert later is not None
        assert parse_checkpoint(later.text).size == parse_checkpoint(whole.text).size + 1
        whole = later


def test_a_proof_with_the_signature_of_a_witness_meets_a_policy(log: Path, witness: Path) -> None:
    with Witness(witness) as opened:
        verifier = opened.verifier
    policy = Policy([KEY.verifier], {"w": verifier}, quorum="w")
    with _served(witness) as url, Sealer(log, KEY, anchors=[parse_anchor(f"witness:{url}", (verifier,))]) as sealer:
        sealer.seal()
        sealer.anchor()
        _append(log, b"later")
        sealer.seal()
    proof = prove(log, "1:256", cosigned=True)
    assert check_proof(str(proof), b"record 0", policy=policy).size == 300
    with pytest.raises(SealError, match="quorum 'w' has not signed"):
        check_proof(str(prove(log, "1:256")), b"record 0", policy=policy)


def test_a_witness_that_signs_with_another_key_is_an_error(log: Path, witness: Path) -> None:
    other = SigningKey.generate("example.org/witness", 4).verifier
    with _served(witness) as url, Sealer(log, KEY, anchors=[parse_anchor(f"witness:{url}", (other,))]) as sealer:
        sealer.seal()
        [error] = sealer.anchor().values()
    assert isinstance(error, AccessError)
    assert "did not sign with the key" in str(error)


def test_an_anchor_that_cannot_be_reached_holds_up_nothing(log: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    places = [f"dir:{kept}", "exec:exit 3", "witness:http://127.0.0.1:9"]
    messages: list[str] = []
    stop = threading.Event()
    with Sealer(log, KEY, anchors=[parse_anchor(place) for place in places]) as sealer:
        sealer.seal()
        errors = sealer.anchor()
        assert None not in errors.values()
        assert list(errors) == places
        thread = threading.Thread(target=sealer.run, args=(stop, 0.01, messages.append))
        thread.start()
        _append(log, b"more")
        until(lambda: verify(log, str(KEY.verifier)).size == 301)
        kept.mkdir()
        until(lambda: _anchored(log).get(places[0]) == 301)
        stop.set()
        thread.join()
    assert any("exited with 3" in message for message in messages)


def _anchored(log: Path) -> dict[str, int]:
    with SealFolder(log) as folder:
        return {name: each.size for name, each in read_anchored(folder).items()}


def test_a_sealer_learns_of_another_history_while_it_runs(log: Path, witness: Path, tmp_path: Path) -> None:
    """Two copies of a directory, both sealed: the witness signs for one of them."""
    copy = tmp_path / "copy"
    shutil.copytree(log, copy)
    with _served(witness) as url:
        for path in (log, copy):
            _append(path, str(path).encode())
        with Sealer(log, KEY, anchors=[parse_anchor(f"witness:{url}")]) as sealer:
            ours = sealer.seal()
            sealer.anchor()
        with Sealer(copy, KEY, anchors=[parse_anchor(f"witness:{url}")]) as sealer:
            with pytest.raises(SealError, match="another root for 301 records"):
                sealer.run(threading.Event(), 0.01)
            theirs = sealer.checkpoint
    assert theirs is not None
    findings = verify(log, str(KEY.verifier), checkpoints=[ours, theirs]).findings
    assert findings[0].rule is Rule.FORK
    assert parse_checkpoint(ours.text).size == parse_checkpoint(theirs.text).size


def test_the_file_of_a_directory_anchor_may_be_append_only(log: Path, tmp_path: Path) -> None:
    """Root can set the attribute `a` of chattr(1), which forbids all other writes; another user only appends."""
    (tmp_path / "anchor").mkdir()
    anchor = parse_anchor(f"dir:{tmp_path / 'anchor'}")
    _seal_and_anchor(log, anchor)
    (kept,) = (tmp_path / "anchor").iterdir()
    is_set = os.geteuid() == 0 and _has_attributes(tmp_path)
    if is_set:
        subprocess.run(["chattr", "+a", kept], check=True)
    try:
        _append(log, b"more")
        _seal_and_anchor(log, anchor)
        if is_set:
            with pytest.raises(PermissionError):
                kept.write_bytes(b"")
    finally:
        if is_set:
            subprocess.run(["chattr", "-a", kept], check=True)
    note = anchor.latest("example.org/audit")
    assert note is not None
    assert parse_checkpoint(note.text).size == 301


def _has_attributes(folder: Path) -> bool:
    """Return whether the file system keeps the attributes of chattr(1)."""
    if shutil.which("lsattr") is None:
        return False
    return subprocess.run(["lsattr", "-d", folder], check=False, capture_output=True).returncode == 0


def test_an_anchor_is_told_if_the_log_differs_from_its_seal(log: Path, tmp_path: Path) -> None:
    (tmp_path / "anchor").mkdir()
    anchor = parse_anchor(f"dir:{tmp_path / 'anchor'}")
    _seal_and_anchor(log, anchor)
    (log / "seal" / "statements").write_bytes(b"\n\n\nnot a statement")
    _seal_and_anchor(log, anchor)  # a torn statement is none
    path = next(log.glob("*.dat"))
    path.write_bytes(path.read_bytes().replace(b"record 29", b"record x9"))
    for index in log.glob("*.idx"):
        index.unlink()
    with pytest.raises(SealError, match="differs from its seal"):
        Sealer(log, KEY, anchors=[anchor])
    note = parse_note((tmp_path / "anchor" / "example.org_audit.broken").read_bytes().strip() + b"\n")
    assert verified_keys(note, [KEY.verifier]) == {KEY.verifier}
    assert "differs from its seal" in note.text
    assert anchor.latest("example.org/audit") is not None


@pytest.mark.parametrize("text", ["", "dir:", "exec:", "witness:host", "witness-exec:", "syslog:x", "tsa:http://x"])
def test_a_text_that_names_no_anchor_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not dir:PATH"):
        parse_anchor(text)
