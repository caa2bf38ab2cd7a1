"""`binlog seal`: from the first key to a proof that is checked without the log."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from binlog import Writer
from binlog.cli.main import main
from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.format.seal.note import parse_note, parse_verifier_key
from binlog.seal import SigningKey, verify
from binlog.seal.keys import verified_keys
from tests.support.checkout import ROOT
from tests.support.waiting import until


@pytest.fixture
def sealed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    """The directory of a sealed log of three records; the key is beside it in `key`, and the public key in `vkey`."""
    log = tmp_path / "log"
    with Writer(log) as writer:
        writer.append_many([b"one", b"two", b"three"])
    assert main(["seal", "init", str(log), "--name", "example.org/audit", "--key", str(tmp_path / "key")]) == 0
    (tmp_path / "vkey").write_text(capfd.readouterr().out)
    assert main(["seal", "once", str(log), "--key", str(tmp_path / "key")]) == 0
    return log


def _run(capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    capfd.readouterr()
    code = main(["seal", *map(str, words)])
    return code, *capfd.readouterr()


def test_a_checkpoint_is_printed_and_verified(sealed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = sealed.parent
    key = parse_verifier_key((folder / "vkey").read_text())
    code, out, _ = _run(capfd, "once", sealed, "--key", folder / "key")
    note = parse_note(out.encode())
    assert (code, verified_keys(note, [key])) == (0, {key})
    assert parse_checkpoint(note.text).size == 3
    (folder / "note").write_text(out)
    words = ("verify", sealed, "--vkey", folder / "vkey", "--checkpoint", folder / "note")
    assert _run(capfd, *words) == (0, "3 records of 3 compared, 0 not sealed yet; 0 findings\n", "")
    code, out, _ = _run(capfd, *words, "--json")
    counts = {"size": 3, "verified": 3, "unsealed": 0}
    assert json.loads(out) == {"origin": "example.org/audit", **counts, "statements": [], "findings": []}


@pytest.mark.slow
def test_the_file_of_an_anchor_is_a_checkpoint_for_verify(sealed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = sealed.parent
    copy = folder / "copy"
    shutil.copytree(sealed, copy)
    (folder / "anchor").mkdir()
    for record in (b"four", b"five"):
        with Writer(sealed) as writer:
            writer.append(record)
        code, _, _ = _run(capfd, "once", sealed, "--key", folder / "key", "--anchor", f"dir:{folder / 'anchor'}")
        assert code == 0
    [notes] = (folder / "anchor").iterdir()
    words = ("--vkey", folder / "vkey", "--checkpoint", notes)
    assert _run(capfd, "verify", sealed, *words) == (0, "5 records of 5 compared, 0 not sealed yet; 0 findings\n", "")
    code, out, _ = _run(capfd, "verify", copy, *words)
    assert (code, "cut: 2 of 5 sealed records are missing at the end" in out.splitlines()) == (1, True)


def test_a_changed_record_ends_verify_with_1(sealed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = sealed / "00000001.dat"
    path.write_bytes(path.read_bytes().replace(b"two", b"2wo"))
    key = (sealed.parent / "vkey").read_text().strip()
    code, out, _ = _run(capfd, "verify", sealed, "--vkey", key)
    assert (code, out.splitlines()[0]) == (1, "changed: 1:263 (leaf 1): 1 record is not as sealed")
    code, out, _ = _run(capfd, "verify", sealed, "--vkey", key, "--json")
    [finding] = json.loads(out)["findings"]
    assert finding == {"rule": "changed", "ref": "1:263", "leaf": 1, "text": "1 record is not as sealed"}
    code, _, err = _run(capfd, "once", sealed, "--key", sealed.parent / "key")
    assert (code, "differs from its seal" in err) == (1, True)


def test_a_proof_is_checked_without_the_log(sealed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = sealed.parent
    code, out, _ = _run(capfd, "prove", sealed, "1:263")
    assert code == 0
    (folder / "x.tlog-proof").write_text(out)
    (folder / "record").write_bytes(b"two")
    (folder / "other").write_bytes(b"three")
    (folder / "policy").write_text(f"log {(folder / 'vkey').read_text()}quorum none\n")
    for trust in (("--vkey", folder / "vkey"), ("--policy", folder / "policy")):
        words = ("check-proof", folder / "x.tlog-proof", *trust, "--record")
        code, out, _ = _run(capfd, *words, folder / "record")
        assert (code, out) == (0, "the record is in example.org/audit, according to a checkpoint of 3 records\n")
        code, _, err = _run(capfd, *words, folder / "other")
        assert (code, "does not show" in err) == (1, True)
    assert _run(capfd, "check-proof", folder / "x.tlog-proof", "--record", folder / "record")[0] == 2


def test_status_says_how_far_the_seal_has_come(sealed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Writer(sealed) as writer:
        writer.append(b"four")
    code, out, _ = _run(capfd, "status", sealed)
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert (code, lines["origin"], lines["sealed"]) == (0, "example.org/audit", "3 records, up to 1:279")
    assert lines["unsealed"] == "8 B"
    code, out, _ = _run(capfd, "status", sealed, "--json")
    assert json.loads(out)["unsealed_bytes"] == 8
    assert json.loads(out)["anchors"] == []
    place = f"dir:{sealed.parent}"
    assert _run(capfd, "once", sealed, "--key", sealed.parent / "key", "--anchor", place)[0] == 0
    code, out, _ = _run(capfd, "status", sealed)
    assert out.splitlines()[-1].startswith(f"anchor    {place}: 4 records, ")
    code, out, _ = _run(capfd, "status", sealed, "--json")
    [anchor] = json.loads(out)["anchors"]
    assert (anchor["name"], anchor["size"]) == (place, 4)


def test_init_makes_no_second_seal_and_takes_a_key_that_exists(sealed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = sealed.parent
    words = ("--name", "example.org/audit", "--key", folder / "key")
    code, _, err = _run(capfd, "init", sealed, *words)
    assert (code, "has a seal already" in err) == (3, True)
    other = folder / "other-log"
    Writer(other).close()
    code, out, _ = _run(capfd, "init", other, *words)
    assert (code, out) == (0, (folder / "vkey").read_text())
    assert _run(capfd, "init", other, "--name", "example.org/else", "--key", folder / "key")[0] == 2


def _is_sealed(log: Path, key: SigningKey, size: int) -> bool:
    return verify(log, str(key.verifier)).size == size


@pytest.mark.slow
def test_run_seals_until_sigterm(sealed: Path) -> None:
    key = SigningKey.load(sealed.parent / "key")
    command = [sys.executable, "-m", "binlog", "seal", "run", str(sealed), "--key", str(sealed.parent / "key")]
    with subprocess.Popen([*command, "--every", "0.02s"], cwd=ROOT) as process, Writer(sealed) as writer:
        for number in range(5):
            writer.append(b"%d" % number)
            until(partial(_is_sealed, sealed, key, 4 + number))
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    report = verify(sealed, str(key.verifier))
    assert (report.findings, report.verified, report.unsealed) == ([], 8, 0)
