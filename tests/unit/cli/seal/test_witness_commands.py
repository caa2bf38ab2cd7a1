"""`binlog witness`: made, told of a log, and asked on standard input as ssh would."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from binlog import Writer
from binlog.cli.main import main
from binlog.format.seal.checkpoint import Submission
from binlog.seal import Sealer, SigningKey, begin_seal

KEY = SigningKey.generate("example.org/audit")


def test_a_witness_is_made_trusts_a_log_and_answers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    witness, log = str(tmp_path / "witness"), tmp_path / "log"
    with Writer(log) as writer:
        writer.append(b"one")
    begin_seal(log, KEY)
    with Sealer(log, KEY) as sealer:
        note = sealer.seal()
    assert main(["witness", "init", witness, "--name", "example.org/witness"]) == 0
    assert capfd.readouterr().out.startswith("example.org/witness+")
    assert main(["witness", "init", witness, "--name", "example.org/witness"]) == 3
    assert main(["witness", "trust", witness, str(KEY.verifier)]) == 0
    assert main(["witness", "trust", witness, "no key"]) == 3
    capfd.readouterr()
    assert main(["witness", "list", witness]) == 0
    assert capfd.readouterr().out == f"0 {KEY.verifier}\n"

    def accept(data: str) -> list[str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data.encode())))
        assert main(["witness", "accept", witness]) == 0
        return capfd.readouterr().out.splitlines()

    status, line = accept(str(Submission(0, (), note)))
    assert (status, line.split()[1]) == ("200", "example.org/witness")
    assert accept(str(Submission(0, (), note))) == ["409", "1"]
    assert accept("nothing")[0] == "400"
    assert main(["witness", "list", witness]) == 0
    assert capfd.readouterr().out == f"1 {KEY.verifier}\n"


@pytest.mark.parametrize("place", ["nowhere", "host:x", "127.0.0.1:99999"])
def test_a_place_to_listen_is_checked(place: str, tmp_path: Path) -> None:
    assert main(["witness", "serve", str(tmp_path), "--listen", place]) == 2
